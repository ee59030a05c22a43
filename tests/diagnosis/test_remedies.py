"""What to do, with the run's own numbers and what a model expects of a change."""

import re

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.diagnosis.advice import Swings, left_text, setting_text, swings_of
from bayes_grpo.diagnosis.gather import gather
from bayes_grpo.diagnosis.groups import ALIKE, concentration_of, implied_share, share_at
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.modes.advantage_degeneracy import MODE as DEGENERACY
from bayes_grpo.diagnosis.modes.advantage_degeneracy import constant_since
from bayes_grpo.diagnosis.modes.dynamical_instability import MODE as INSTABILITY
from bayes_grpo.diagnosis.modes.plateaued import MODE as PLATEAUED
from bayes_grpo.diagnosis.modes.policy_concentration import MODE as CONCENTRATION
from bayes_grpo.dynamics.reduction import oscillator_coefficients
from bayes_grpo.dynamics.thresholds import critical_gain
from bayes_grpo.logs.run import Provenance, Run, Setting
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import make_run, steps
from tests.helpers.trends import there, trends_of


def noise(seed, size=0.02):
    return size * np.random.default_rng(seed).standard_normal(ROWS)


def advice(run: Run, mode: Mode = DEGENERACY) -> tuple[str, ...]:
    """What a mode advises, whether it is under way or not."""
    found = there(gather(run))
    return mode.remedies(found.trends, found.evidence.get(mode.name, found.evidence["progress"]), None)


@pytest.mark.parametrize("spread", [0.3, 1.0, 4.0])
def test_the_share_at_another_group_size_is_that_of_the_same_prompts(spread):
    p = np.array([0.1, 0.5, 0.8])
    now = implied_share(p, 8, spread)
    np.testing.assert_allclose(concentration_of(now, p, 8), spread, rtol=1e-6)
    np.testing.assert_allclose(share_at(now, p, 8, 16), implied_share(p, 16, spread), rtol=1e-6)


def test_prompts_that_are_all_alike():
    p = np.array([0.1, 0.5])
    np.testing.assert_allclose(implied_share(p, 8, ALIKE), p**8 + (1 - p) ** 8, rtol=1e-3)


def test_a_setting_says_whether_it_was_assumed():
    assert setting_text("G", Setting(8, Provenance.CONFIG)) == "G = 8"
    assert setting_text("G", Setting(8, Provenance.ASSUMED)) == "G = 8 (assumed)"
    assert setting_text("G", Setting()) == ""


def test_larger_groups_with_the_share_that_the_log_shows():
    level, spread = 0.3, 0.6
    share = float(implied_share(np.array(level), 4, spread))
    run = make_run(
        steps(ROWS),
        level + noise(1),
        signals={"frac_reward_zero_std": share + noise(2, 0.01)},
        group_size=4,
        prompts_per_step=32,
    )
    lines = advice(run)
    expected = float(implied_share(np.array(level), 8, spread))
    assert lines[0].startswith("a larger group than G = 4: at 30% of the reward's range")
    said_share = float(lines[0].split("is expected to be ")[1].split("%")[0]) / 100.0
    assert said_share == pytest.approx(expected, abs=0.02)
    assert "B = 32" in lines[-1]


def test_larger_groups_where_no_share_is_logged():
    run = make_run(steps(ROWS), 0.3 + noise(1), signals={"reward_std": np.where(noise(3) > 0, 0.0, 0.4)}, group_size=8)
    line = advice(run)[0]
    uneven, alike = ([float(implied_share(np.array(0.3), g, spread)) for g in (8, 16, 32)] for spread in (1.0, ALIKE))
    found = [float(x) / 100.0 for x in re.findall(r"(\d+)%", line)]
    assert found[0] == 0.3
    assert found[1:4] == pytest.approx(uneven, abs=0.02)
    assert found[4:] == pytest.approx(alike, abs=0.01)


def test_solved_and_hopeless_prompts_get_other_advice():
    def lines(level):
        signals = {"frac_reward_zero_std": 0.75 + noise(2, 0.02)}
        return " | ".join(advice(make_run(steps(ROWS), level + noise(1, 0.005), signals=signals, group_size=8)))

    solved, easy, hopeless, middle = map(lines, (0.97, 0.87, 0.06, 0.5))
    assert "stop, or take harder prompts" in solved
    assert "larger group" not in solved
    assert "harder prompts" in easy
    assert "easier prompts" in hopeless
    assert "supervised start" in hopeless
    assert "a larger group than G = 8" in hopeless
    assert "always or never solved" in middle
    assert "verifier" not in solved + easy + hopeless


@pytest.mark.parametrize(("value", "word"), [(0.0, "right answer"), (0.4, "right answer"), (1.0, "wrong answer")])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_reward_that_never_differs_is_the_verifiers(value, word, at_once):
    reward = np.full(ROWS, value)
    if not at_once:
        reward[:2] = 0.5 * value + 0.2, 0.7 * value + 0.1
    lines = advice(make_run(steps(ROWS), reward, signals={"frac_reward_zero_std": 1.0}))
    assert "look at the verifier before all else" in lines[0]
    assert f"from step {1 if at_once else 3} on" in lines[0]
    assert word in lines[0]


def test_a_reward_that_came_to_rest_later_is_not_called_constant():
    reward = np.concatenate([np.linspace(0.5, 0.1, 10), np.zeros(ROWS - 10)])
    assert constant_since(trends_of(make_run(steps(ROWS), reward))) is None
    assert constant_since(trends_of(make_run(steps(ROWS), 0.3 + noise(1)))) is None
    assert constant_since(trends_of(make_run(steps(3), np.zeros(3)))) is None


def test_groups_of_copies():
    run = make_run(steps(ROWS), 0.5 + noise(1), signals={"frac_reward_zero_std": 1.0}, group_size=8)
    assert "copies" in advice(run)[0]


def swinging(gain, momentum, rows=160, seed=0):
    """x[t+1] = x[t] + μ (x[t] − x[t−1]) − g x[t] + noise: a run of known gain."""
    rng, x = np.random.default_rng(seed), [0.3, 0.3]
    for _ in range(rows - 2):
        x.append(x[-1] + momentum * (x[-1] - x[-2]) - gain * x[-1] + 0.02 * rng.standard_normal())
    return make_run(
        steps(rows),
        np.array(x) + 0.5,
        signals={"learning_rate": 2e-5},
        momentum=momentum,
        refresh_interval=1,
        reward_low=0.0,
        reward_high=1.0,
    )


@pytest.mark.parametrize("gain", [0.02, 0.05, 0.1])
def test_gain_and_damping_of_a_swinging_run_are_read_off_its_course(gain):
    momentum = 0.97
    told = there(swings_of(there(gather(swinging(gain, momentum))).trends))
    posterior = interval(told.gain)
    assert posterior.low / 1.5 < gain < 1.5 * posterior.high
    # Without a lag only the momentum undamps: ζ = (1 − μ) / (2 √(m g)), and √2 of it at half of the gain.
    zeta = (1.0 - momentum) / (2.0 * np.sqrt(0.5 * (1.0 + momentum) * gain))
    assert np.median(told.damping_ratio) == pytest.approx(zeta, abs=0.1)
    assert np.median(told.damping_at(1.0)) == pytest.approx(min(np.median(told.damping_ratio), 1.0), abs=0.1)
    half = interval(told.damping_at(0.5))
    assert half.low - 0.05 < np.sqrt(2.0) * zeta < half.high + 0.05
    lines = " | ".join(advice(swinging(gain, momentum), INSTABILITY))
    assert "from 2e-05 to 1e-05 first: with momentum = 0.97 and refresh interval = 1 and a damping ratio of" in lines


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_another_learning_rate_changes_the_gain_and_leaves_the_lag(factor):
    """The law's own coefficients at the other rate, and its border where they are not damped."""
    draws = np.array([0.01, 0.02])
    told = Swings(np.full(2, 0.1), draws, np.array([3.0, 2.0]), 0.9)
    law = oscillator_coefficients(factor * draws, 1.0, 0.9, 0.0)
    damping = 0.1 - factor * draws * told.lag
    np.testing.assert_allclose(told.damping_at(factor), damping / (2.0 * np.sqrt(law.mass * law.stiffness)))
    np.testing.assert_allclose(told.border, 0.1 / (draws * told.lag))
    for i, border in enumerate(told.border):
        assert told.damping_at(float(border))[i] == pytest.approx(0.0, abs=1e-12)


def test_swings_that_grow_put_the_border_below_the_present_rate():
    rng, x = np.random.default_rng(1), [0.01, 0.012]
    for _ in range(158):
        late = x[max(len(x) - 4, 0)]
        x.append(x[-1] + 0.8 * (x[-1] - x[-2]) - 0.075 * late + 0.002 * rng.standard_normal())
    signals = {"learning_rate": 1e-5}
    run = make_run(steps(160), np.array(x), signals=signals, momentum=0.8, refresh_interval=4)
    told = there(swings_of(there(gather(run)).trends))
    assert np.median(told.border) < 1.05
    assert np.median(told.damping_at(0.5)) > np.median(told.damping_ratio)
    lines = " | ".join(advice(run, INSTABILITY))
    assert "the border of stability lies at about" in lines
    assert "refresh the sampling policy every step (refresh interval = 4)" in lines
    # Who swings is not told to raise the learning rate, whatever else is said.
    assert "raise" not in " | ".join(advice(run, PLATEAUED))


def test_a_run_that_does_not_swing_tells_no_gain(rising):
    run = make_run(steps(ROWS), rising, momentum=0.9, refresh_interval=8)
    assert swings_of(there(gather(run)).trends) is None
    lines = " | ".join(advice(run, INSTABILITY))
    factor = critical_gain(0.9, 1, "hold") / critical_gain(0.9, 8, "hold")
    assert f"refresh interval = 8): the border of stability moves up by a factor of {factor:.2g}" in lines
    assert "raise the learning rate" in " | ".join(advice(run, PLATEAUED))


def test_a_run_lost_at_once_starts_anew():
    lost = np.concatenate([[0.9, 0.7], np.full(ROWS - 2, 0.03)]) + noise(4, 0.005)
    lines = diagnose(make_run(steps(ROWS), lost)).remedies["dynamical_instability"]
    assert lines[0].startswith("start anew")


def test_gradients_are_clipped_where_they_burst(rising):
    calm = np.exp(noise(4, 0.1))
    wild, dead = calm.copy(), calm.copy()
    wild[60] = 40.0
    dead[20:] = 0.0  # most rows have no gradient, and none of those that have one bursts
    advised, told = {}, {}
    for name, norm in {"calm": calm, "wild": wild, "dead": dead, "none": np.zeros(ROWS)}.items():
        run = make_run(steps(ROWS), rising, signals={"grad_norm": norm})
        advised[name] = next(line for line in advice(run, INSTABILITY) if "gradient norm" in line)
        told[name] = INSTABILITY.evidence(trends_of(run)).sentence
    usual = np.median(calm)
    assert advised["wild"].startswith(f"clip the gradient norm at about {2.0 * usual:.2g}: its median is {usual:.2g}")
    assert advised["calm"].startswith("the gradient norm had no bursts")
    assert advised["dead"].startswith(f"the gradient norm had no bursts (its median is {np.median(calm[:20]):.2g}")
    assert advised["none"] == "log and clip the gradient norm"
    assert f"largest gradient norm {calm[:20].max() / np.median(calm[:20]):.3g} times the median" in told["dead"]
    assert "gradient norm" not in told["none"]


def test_the_entropys_half_life_and_the_learning_rate():
    signals = {"entropy": 1.2 * 0.5 ** (steps(ROWS) / 12.0), "learning_rate": 4e-6}
    lines = " | ".join(advice(make_run(steps(ROWS), 0.2 + noise(1), signals=signals), CONCENTRATION))
    assert "from 4e-06 to 2e-06: the entropy halves every 12" in lines


def test_a_kl_budget_is_the_kl_where_the_rewards_part(hacked):
    kl = np.linspace(0.0, 0.4, ROWS)
    run = make_run(
        hacked.step,
        hacked.reward,
        signals={"kl": kl},
        evals=dict(zip(hacked.eval_step.tolist(), hacked.eval_reward.tolist(), strict=True)),
    )
    result = diagnose(run)
    line = next(x for x in result.remedies["reward_hacking"] if "KL budget" in x)
    budget = float(line.split("KL budget of ")[1].split(" ")[0])
    assert budget == pytest.approx(np.interp(result.onsets["reward_hacking"].step.median, hacked.step, kl), abs=0.02)


def test_what_has_more_than_doubled_is_a_multiple():
    more, less = Interval(28.95, 20.0, 40.0, 0.9), Interval(0.34, 0.3, 0.37, 0.9)
    assert left_text("entropy", more) == "the entropy is 28.9 [20, 40] (90%) times its start"
    assert left_text("entropy", less) == "34% [30%, 37%] (90%) of the starting entropy is left"
