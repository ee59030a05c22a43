"""Each mode's evidence on logs whose trouble is known."""

import re
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.diagnosis.damping import damping_of
from bayes_grpo.diagnosis.gather import gather
from bayes_grpo.diagnosis.groups import implied_share
from bayes_grpo.diagnosis.mode import followed_modes
from bayes_grpo.diagnosis.modes.advantage_degeneracy import MODE as DEGENERACY
from bayes_grpo.diagnosis.modes.advantage_degeneracy import dead_rows
from bayes_grpo.diagnosis.modes.dynamical_instability import MODE as INSTABILITY
from bayes_grpo.diagnosis.modes.policy_concentration import MODE as CONCENTRATION
from bayes_grpo.diagnosis.modes.reward_hacking import MODE as HACKING
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.collapse import collapsed, declined
from bayes_grpo.events.coupling import uncoupled
from bayes_grpo.events.entropy import spent
from bayes_grpo.events.growth import grew
from bayes_grpo.events.waste import Waste, waste_log_odds, wasted
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import make_run, steps
from tests.helpers.trends import fit_trend, there, trends_of


def named(evidence, name):
    return next(q.posterior for q in evidence.quantities if q.name == name)


def noise(seed, size=ROWS):
    return np.random.default_rng(seed).standard_normal(size)


def test_coupling_tells_a_hacked_run_from_an_honest_one(hacked, honest):
    bad, good = (HACKING.evidence(trends_of(run)) for run in (hacked, honest))
    assert named(bad, "coupling").high < 0.25
    assert bad.probability > 0.9
    assert named(good, "coupling").low > 0.6
    assert good.probability < 0.05
    assert named(bad, "turnover").low > 0.1
    assert "eval_reward" in bad.used


def test_gold_reward_counts_as_held_out(rising):
    run = make_run(steps(ROWS), rising, signals={"gold_reward": 0.1 + 0.01 * noise(3)})
    found = HACKING.evidence(trends_of(run))
    assert "gold_reward" in found.used
    assert found.probability > 0.9


def test_without_a_held_out_signal_hacking_is_not_judged(rising):
    found = HACKING.evidence(trends_of(make_run(steps(ROWS), rising, signals={"kl": np.linspace(0, 1, ROWS)})))
    assert np.isnan(found.probability)
    assert "look alike" in found.sentence
    assert np.isnan(HACKING.course(trends_of(make_run(steps(ROWS), rising)))).all()
    assert "second half is 0.33 above the reward's" in found.sentence


def test_the_curves_of_a_hacked_run_part_where_the_held_out_reward_turns(hacked):
    """At step 20; what speaks for it changes its sign there, and not before the rise was shared."""
    trends = trends_of(hacked)
    parted = trends.reward.step[HACKING.course(trends)[:, 0] > 0.0]
    assert 5 < parted[0] < 35
    assert len(parted) == np.sum(trends.reward.step >= parted[0])


@pytest.mark.parametrize("group_size", [2, 8, 16])
def test_implied_share_is_the_mean_over_the_beta_law(group_size):
    p = np.random.default_rng(0).beta(0.3, 0.7, 400_000)
    expected = np.mean(p**group_size + (1 - p) ** group_size)
    assert implied_share(np.array(0.3), group_size, 1.0) == pytest.approx(expected, abs=0.005)


def test_share_without_spread_and_its_excess():
    reward = 0.5 + 0.02 * noise(0)
    run = make_run(
        steps(ROWS), reward, signals={"frac_reward_zero_std": 0.8 + 0.03 * noise(1)}, group_size=8, prompts_per_step=16
    )
    found = DEGENERACY.evidence(trends_of(run))
    share, excess = named(found, "zero_share"), named(found, "zero_excess")
    assert share.low < 0.8 < share.high
    assert excess.median == pytest.approx(0.8 - float(implied_share(np.array(0.5), 8)), abs=0.03)
    assert named(found, "usable_groups").median == pytest.approx(0.2 * 16, abs=0.3)
    assert found.probability > 0.95


def test_a_solved_task_has_many_such_groups_but_no_excess():
    run = make_run(
        steps(ROWS),
        np.full(ROWS, 0.99) - 0.005 * np.abs(noise(0)),
        signals={"frac_reward_zero_std": 0.93 + 0.01 * noise(1)},
    )
    found = DEGENERACY.evidence(trends_of(run))
    assert named(found, "zero_excess").median < 0.1
    assert "too easy" in found.sentence


def test_rows_without_spread_where_the_share_is_not_logged():
    reward = np.where(np.arange(ROWS) % 4 == 0, 0.5, 0.0)
    trends = trends_of(make_run(steps(ROWS), reward))
    assert there(dead_rows(trends)).mean() == pytest.approx(0.75)
    found = DEGENERACY.evidence(trends)
    assert found.probability > 0.9
    assert "frac_reward_zero_std" in found.missing
    # A loss that is always 0 is that of a surrogate without penalty, not a sign of anything.
    assert not there(
        dead_rows(trends_of(make_run(steps(ROWS), 0.3 + 0.1 * noise(0) ** 2, signals={"loss": 0.0})))
    ).any()


def test_low_entropy_at_high_reward_is_health():
    entropy = 0.8 * np.exp(-np.arange(ROWS) / 15.0) + 0.002
    solved = make_run(
        steps(ROWS),
        0.7 + 0.3 * (1 - np.exp(-np.arange(ROWS) / 15.0)) - 0.005 * np.abs(noise(1)),
        signals={"entropy": entropy},
    )
    stuck = make_run(
        steps(ROWS), 0.2 + 0.1 * (1 - np.exp(-np.arange(ROWS) / 15.0)) + 0.005 * noise(1), signals={"entropy": entropy}
    )
    assert CONCENTRATION.evidence(trends_of(solved)).probability < 0.05
    found = CONCENTRATION.evidence(trends_of(stuck))
    assert found.probability > 0.95
    assert named(found, "entropy_ratio").median < 0.05


def test_headroom_of_the_entropy_law():
    entropy = np.linspace(1.5, 0.5, ROWS)
    run = make_run(steps(ROWS), 1.2 - 0.2 * np.exp(entropy) + 0.003 * noise(0), signals={"entropy": entropy})
    found = named(CONCENTRATION.evidence(trends_of(run)), "entropy_headroom")
    # At zero entropy the law gives 1.2 - 0.2 = 1; the run stands at 1.2 - 0.2 e^0.5.
    assert found.median == pytest.approx(1.0 - (1.2 - 0.2 * np.exp(0.5)), abs=0.03)


def test_damping_of_a_swing_and_of_a_creep():
    x = np.arange(ROWS, dtype=float)
    swing = damping_of(fit_trend(x, 0.5 + 0.3 * np.cos(x / 4.0) + 0.02 * noise(0)))
    creep = damping_of(fit_trend(x, 0.5 - 0.4 * np.exp(-x / 15.0) + 0.02 * noise(0)))
    growing = damping_of(fit_trend(x, 0.5 + 0.01 * np.exp(x / 20.0) * np.cos(x / 4.0) + 0.005 * noise(0)))
    assert swing.oscillates > 0.9
    assert creep.oscillates < 0.05
    assert growing.unstable > 0.5 > creep.unstable
    assert creep.weight.sum() == pytest.approx(1.0)


def test_fall_after_a_rise(rising):
    fallen = np.concatenate([rising[:50], np.linspace(rising[50], 0.2, ROWS - 50)])
    trends = trends_of(make_run(steps(ROWS), fallen))
    found = INSTABILITY.evidence(trends)
    assert found.probability > 0.9
    assert named(found, "fall").low > 0.3
    # Half of the gain is lost at step 65, and the checkpoint to go back to is one from before the fall.
    assert begun(make_run(steps(ROWS), fallen)).median == pytest.approx(65, abs=5)
    advised = diagnose(make_run(steps(ROWS), fallen)).remedies["dynamical_instability"][0]
    assert 30 < float(re.findall(r"checkpoint of about step (\d+), when", advised)[0]) < 62
    assert INSTABILITY.evidence(trends_of(make_run(steps(ROWS), rising))).probability < 0.1


def begun(run):
    """When the instability that goes on began."""
    return there(there(diagnose(run).timeline).last("dynamical_instability")).onset


def test_a_collapse_is_dated_where_the_reward_is_lost_and_swings_with_their_first_row():
    """A best that is held for long and then lost is not dated by when it was first reached."""
    x = np.arange(ROWS)
    held = np.minimum(0.2 + 0.05 * x, 0.7)
    lost = np.where(x < 60, held, np.maximum(0.7 - 0.2 * (x - 60), 0.0))
    run = make_run(steps(ROWS), lost + 0.02 * noise(14))
    assert 52 < begun(run).median < 66
    assert "falls" in there(there(diagnose(run).timeline).last("dynamical_instability")).depth
    swinging = make_run(steps(ROWS), 0.5 + 0.3 * np.sin(2.0 * np.pi * x / 20.0) + 0.02 * noise(15))
    assert begun(swinging).median < 20


def test_bursts_are_strain(rising):
    calm = np.exp(0.1 * noise(4))
    wild = calm.copy()
    wild[60] = 40.0

    def strain(norm):
        return INSTABILITY.course(trends_of(make_run(steps(ROWS), rising, signals={"grad_norm": norm})))[:, -1]

    at = trends_of(make_run(steps(ROWS), rising)).reward.step
    assert not strain(calm).any()
    assert strain(wild).max() == pytest.approx(np.log(40.0 / np.median(calm) / 8.0), abs=0.05)
    burst = at[strain(wild) > 0.0]
    assert 60 <= burst[0] <= burst[-1] <= 61 + (ROWS - 1) / 12 + 1
    assert np.isnan(INSTABILITY.course(trends_of(make_run(steps(ROWS), rising)))[:, -1]).all()
    # Rows without a gradient are no calm ones beside which the others would be bursts.
    assert not strain(np.where(np.arange(ROWS) % 4 == 0, calm, 0.0)).any()
    assert np.isnan(strain(np.zeros(ROWS))).all()
    unmoved = make_run(steps(ROWS), rising, signals={"grad_norm": np.zeros(ROWS)})
    assert "grad_norm" not in INSTABILITY.evidence(trends_of(unmoved)).missing  # it is logged, if 0


def test_events_on_either_side_of_their_borders():
    """A collapse loses half of its gain; one that comes back, or loses a third, is none."""
    x = np.arange(ROWS)
    up = np.minimum(0.2 + 0.6 * x / 30, 0.8)
    rows = {
        "collapse": np.where(x > 50, np.maximum(0.8 - 0.05 * (x - 50), 0.3), up),
        "third": np.where(x > 50, np.maximum(0.8 - 0.05 * (x - 50), 0.6), up),
        "back": np.where((x > 35) & (x < 50), 0.3, up),
        "high": np.where(x > 50, 0.05, 0.9),
        "at once": np.where(x < 2, 0.5, 0.06),
    }
    found = {}
    for name, values in rows.items():
        trends = trends_of(make_run(steps(ROWS), values + 0.02 * noise(5)))
        found[name] = float(collapsed(trends.reward, trends.span, trends.low).mean())
    assert found["collapse"] > 0.95
    assert found["high"] > 0.95
    assert found["at once"] > 0.95
    assert found["third"] < 0.05
    assert found["back"] < 0.05
    falling = trends_of(make_run(steps(ROWS), -1.0 - 0.05 * x + 0.1 * noise(6)))
    assert declined(falling.reward, falling.span).mean() > 0.95
    assert grew(falling.reward).mean() < 0.05


@pytest.mark.parametrize("kind", ["rising", "fallen", "spent", "dead", "hacked", "swinging"])
def test_the_probability_of_evidence_is_that_of_its_event(kind, rising, hacked):
    """The borders of `events` and no others: each probability is counted again from the events themselves."""
    x = np.arange(ROWS)
    run = {
        "rising": make_run(steps(ROWS), rising),
        "fallen": make_run(steps(ROWS), np.where(x < 50, rising, rising - 0.012 * (x - 50))),
        "spent": make_run(steps(ROWS), 0.3 + 0.05 * noise(1), signals={"entropy": np.exp(-x / 40.0)}),
        "dead": make_run(steps(ROWS), rising, signals={"frac_reward_zero_std": 0.55 + 0.1 * noise(2)}, group_size=8),
        "hacked": hacked,
        "swinging": make_run(steps(ROWS), 0.5 + 0.25 * np.sin(x / 5.0) + 0.05 * noise(3)),
    }[kind]
    found = there(gather(run))
    trends, evidence = found.trends, found.evidence
    reach, trend = trends.span, trends.reward
    fell = collapsed(trend, reach, trends.low) | declined(trend, reach)
    unstable = 1.0 - (1.0 - fell.mean()) * (1.0 - trends.swinging)
    assert evidence["dynamical_instability"].probability == pytest.approx(unstable)
    assert evidence["progress"].probability == pytest.approx(grew(trend).mean())
    if "entropy" in trends.signals:
        assert evidence["policy_concentration"].probability == pytest.approx(spent(trends).mean())
    if kind == "dead":
        assert evidence["advantage_degeneracy"].probability == pytest.approx(0.5, abs=0.45)
    held = trends.held_out
    if held is not None:
        apart = uncoupled(trends, held, held.step[0], held.step[-1])
        assert evidence["reward_hacking"].probability == pytest.approx(apart.mean())
    expected = {"fallen": "dynamical_instability", "swinging": "dynamical_instability", "hacked": "reward_hacking"}
    if kind in expected:
        assert evidence[expected[kind]].probability > 0.5


def test_waste_on_either_side_of_its_borders():
    draws = np.linspace(0.0, 1.0, 200)
    half = np.full(200, 0.5)
    alive = np.zeros(40, bool)

    def chance(**kind):
        given = {"share": None, "excess": None, "dead": None, "level": None} | kind
        return float(there(wasted(Waste(**given))).mean())

    assert chance(share=draws) == pytest.approx(1.0 - BORDERS.wasted, abs=0.01)
    assert chance(share=draws, excess=half, level=np.full(200, BORDERS.solved + 0.01)) == pytest.approx(
        1.0 - BORDERS.wasted, abs=0.01
    )
    assert chance(share=draws, excess=0.0 * half, level=np.full(200, BORDERS.solved + 0.01)) == 0.0
    assert chance(share=0.0 * draws, dead=alive, level=half) < 0.01
    assert chance(share=0.0 * draws, dead=~alive, level=half) > 0.99
    assert wasted(Waste(None, None, None, half)) is None
    # The number of a course changes its sign where the event does.
    for share in (BORDERS.wasted - 0.01, BORDERS.wasted + 0.01):
        waste = Waste(np.full(200, share), half, None, half)
        assert (waste_log_odds(waste) > 0.0) == there(wasted(waste)).all()


def test_an_unsolved_task_without_the_spread_that_its_level_implies_is_wasted():
    level, implied = np.full(200, 0.88), 0.74
    every, half = (waste_log_odds(Waste(np.full(200, s), np.full(200, s - implied), None, level)) for s in (1.0, 0.87))
    assert every > 2.0
    assert half < 0.5
    solved = Waste(np.full(200, 1.0), np.full(200, 0.01), None, np.full(200, 0.99))
    assert waste_log_odds(solved) < 0.0  # all of what little spread there is may be missing


def test_a_solved_task_wastes_nothing():
    solved = make_run(steps(ROWS), np.full(ROWS, 1.0), signals={"frac_reward_zero_std": 1.0, "reward_std": 0.0})
    stuck = make_run(steps(ROWS), np.full(ROWS, 0.4), signals={"frac_reward_zero_std": 1.0, "reward_std": 0.0})
    low, high = (DEGENERACY.course(trends_of(run))[:, 0] for run in (solved, stuck))
    assert low.max() < 0.0 < high.min()


@pytest.mark.parametrize("mode", [m for m in followed_modes() if m.predictors], ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", ["nothing else", "all signals", "three rows", "huge"])
def test_what_speaks_for_a_mode_is_a_few_units_at_each_row_of_the_reward(mode, kind, rising, hacked):
    """No log is more certain than the events at their bounds."""
    signals = {
        "entropy": np.geomspace(1.0, 1e-9, ROWS), "kl": np.geomspace(1e-3, 1e6, ROWS),
        "grad_norm": np.exp(20.0 * noise(1)), "completion_length": np.geomspace(1.0, 1e5, ROWS),
        "frac_reward_zero_std": np.linspace(0.0, 1.0, ROWS), "completions_clipped_ratio": np.linspace(0.0, 1.0, ROWS),
    }  # fmt: skip
    run = {
        "nothing else": make_run(steps(ROWS), rising),
        "all signals": replace(hacked, signals=signals),
        "three rows": make_run(steps(3), [0.9, 0.1, 0.5]),
        "huge": make_run(steps(ROWS), np.cumsum(1e6 * noise(2)), signals=signals),
    }[kind]
    trends = there(gather(run)).trends
    found = there(mode.course(trends))
    assert found.shape == (len(trends.reward.step), len(mode.predictors))
    assert np.nanmax(np.abs(found), initial=0.0) <= max(2.0 * BORDERS.log_odds_bound, BORDERS.strain_most)
    first = np.isfinite(found[:, 0])
    assert first.all() or not first.any()
