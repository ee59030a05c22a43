"""Each mode on one made log where it holds, and on one where it does not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.logs.run import Run
from tests.helpers.paths import not_none, view_of
from tests.helpers.runs import evaluated, make_run, steps

N = 60
UNIT: dict[str, Any] = {"reward_low": 0.0, "reward_high": 1.0}
NOISE = np.random.default_rng(0).standard_normal(N)
RISING = 0.8 - 0.6 * np.exp(-steps(N) / 15.0) + 0.02 * NOISE
LINE = 0.2 + 0.01 * steps(N) + 0.01 * NOISE
FLAT = 0.2 + 0.02 * NOISE
LOST = np.where(steps(N) <= 40, RISING, 0.05 + 0.01 * NOISE)
AT = np.arange(4.0, N + 1, 4)


def run(reward, evals=None, **more) -> Run:
    scores = None if evals is None else evaluated(AT, evals)
    return make_run(steps(N), reward, evals=scores, **{**UNIT, **more})


def signal(name: str, value: Any, reward=RISING, **more) -> Run:
    return run(reward, signals={name: value}, **more)


def defined(name: str, values: Any, word: str) -> Run:
    """A run with a signal of a definition."""
    return replace(signal(name, values), definitions={name: word})


def parts(form, task) -> Run:
    made = {"format_reward": np.asarray(form), "correctness_reward": np.asarray(task)}
    return run(sum(made.values()), components=made, reward_high=2.0)


MOSTLY = np.where(steps(N) % 3 > 0, 1.0, 0.3)
CASES: dict[str, tuple[Run, Run]] = {
    "reward_hacking": (run(RISING, 0.0 * AT), run(RISING, 0.7 - 0.5 * np.exp(-AT / 15.0))),
    "dynamical_instability": (run(LOST), run(RISING)),
    "policy_concentration": (
        signal("entropy", np.geomspace(1.0, 0.01, N), FLAT),
        signal("entropy", np.geomspace(1.0, 0.01, N), FLAT + 0.7),
    ),
    "advantage_degeneracy": (
        signal("frac_reward_zero_std", 0.9, FLAT),
        signal("frac_reward_zero_std", 0.9, LINE),
    ),
    "apparent_gain": (parts(RISING, FLAT), parts(FLAT, RISING)),
    "engine_gap": (signal("engine_mismatch", np.geomspace(0.01, 0.08, N)), signal("engine_mismatch", 0.01)),
    "form_without_task": (parts(0.9 + 0.01 * NOISE, np.zeros(N)), parts(0.9 + 0.01 * NOISE, FLAT + 0.3)),
    "growing": (run(LINE), run(FLAT)),
    "idle_steps": (signal("frac_reward_zero_std", MOSTLY), signal("frac_reward_zero_std", 0.3)),
    "length_collapse": (
        signal("completion_length", np.geomspace(500.0, 5.0, N)),
        signal("completion_length", np.geomspace(500.0, 200.0, N)),
    ),
    "lost_gradient": (
        run(RISING, signals={"grad_norm": 0.0, "reward_std": 0.3}),
        run(RISING, signals={"grad_norm": 0.5, "reward_std": 0.3}),
    ),
    "lost_values": (
        signal("loss", np.where(steps(N) > 50, np.nan, 0.1), written=["loss"]),
        signal("loss", np.where(abs(steps(N) - 20) < 2, np.nan, 0.1), written=["loss"]),
    ),
    "one_sided_groups": (
        signal("frac_reward_zero_std", 0.8, FLAT + 0.65, group_size=8),
        signal("frac_reward_zero_std", 0.3, FLAT + 0.65, group_size=8),
    ),
    "plateaued": (run(0.5 + 0.01 * NOISE), run(LINE)),
    "truncated_completions": (
        signal("completions_clipped_ratio", 0.9),
        signal("completions_clipped_ratio", 0.2),
    ),
}


@pytest.mark.parametrize("mode", all_modes(), ids=lambda m: m.name)
def test_a_mode_holds_where_it_should_and_nowhere_else(mode):
    shares = []
    for made in CASES[mode.name]:
        view = view_of(made)
        holds = not_none(mode.holds(view))
        assert holds.shape == view.reward.draws.shape
        assert holds.dtype == bool
        shares.append(float(holds[:, -1].mean()))
    assert shares[0] > 0.9 > 0.1 > shares[1]


@pytest.mark.parametrize("mode", all_modes(), ids=lambda m: m.name)
def test_a_share_of_draws_becomes_a_probability(mode):
    known = mode.chances
    found = known.at(np.array([0.0, 0.5, 1.0]))
    assert found[0] == known.least
    assert found[1] == pytest.approx(0.5 * (known.least + known.most))
    assert found[2] == pytest.approx(known.most)
    assert 0.0 <= known.least < 0.5 < known.most < 1.0


def test_an_episode_without_rows_of_its_signal_has_no_severity():
    seen = view_of(signal("completions_clipped_ratio", np.where(steps(N) % 20 == 0, 0.9, np.nan)))
    truncated = next(mode for mode in all_modes() if mode.name == "truncated_completions")
    assert truncated.text(seen, 21.0, 39.0) == ""
    assert truncated.text(seen, 20.0, 40.0) == "90% of the completions hit the length limit"


def test_a_mode_without_its_signal_has_the_rate_of_such_logs():
    found = diagnose(run(RISING))
    for mode in all_modes():
        if mode.name in found.probability and not not_none(found.timeline).modes[mode.name].seen:
            assert found.probability[mode.name] == mode.chances.unseen
    assert "engine_gap" not in found.probability
    updates = defined("importance_ess", 0.1, "after to before the update")
    assert "engine_gap" not in diagnose(updates).probability


@pytest.mark.parametrize(
    ("name", "word", "level", "holds"),
    [
        ("engine_mismatch", "k3", 0.01, True),
        ("engine_mismatch", "k3", 0.001, False),
        ("engine_mismatch", "k2", 0.005, False),
        ("engine_mismatch", "absolute probability difference", 0.05, True),
        ("engine_mismatch", "absolute log-probability difference", 0.05, False),
        ("engine_mismatch", "unknown", 5.0, False),
        ("importance_ess", "trainer to sampler", 0.1, True),
    ],
)
def test_a_mismatch_of_engines_is_judged_by_its_definition(name, word, level, holds):
    made = defined(name, level * (1.0 + 0.05 * NOISE), word)
    assert (diagnose(made).probability["engine_gap"] > 0.5) == holds


@pytest.mark.parametrize(
    ("level", "word", "explained"),
    [
        (0.1, "k1", True),
        (-0.1, "k1", False),
        (-0.1, "log-probability difference", True),
        (3.0, "absolute log-probability difference", False),
        (0.1, "k3", False),
    ],
)
def test_a_constant_offset_as_of_top_p_sampling_is_explained(level, word, explained):
    made = defined("engine_mismatch", level * (1.0 + 0.02 * NOISE), word)
    assert ("can come from top-p or top-k sampling" in diagnose(made).evidence["engine_gap"]) is explained


@pytest.mark.parametrize(
    ("name", "values", "word", "says"),
    [
        (
            "staleness",
            np.tile([1.0, 3.0], N // 2),
            "standard",
            "trained on 2 updates after they were sampled (at most 3)",
        ),
        ("dropped", np.tile([0.0, 4.0], N // 2), "groups a step", "2 groups a step are thrown away, too old or failed"),
        ("dropped", 5.0 * steps(N), "completions since the start", "5 completions a step are thrown away"),
        ("dropped", np.zeros(N), "groups a step", None),
    ],
)
def test_old_and_dropped_completions_have_their_sentence(name, values, word, says):
    found = diagnose(defined(name, values, word)).evidence
    assert ("freshness" in found) is (says is not None)
    assert says is None or says in found["freshness"]
