"""The top line: every status on a run that has it, and the one thing to do."""

from typing import Any

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.diagnosis.status import MEANING
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Watching
from tests.helpers.cases import CASES
from tests.helpers.runs import make_run, rising_run, steps

UNIT: dict[str, Any] = {"reward_low": 0.0, "reward_high": 1.0}


def solved():
    noise = 0.005 * np.random.default_rng(0).standard_normal(40)
    signals = {"frac_reward_zero_std": np.full(40, 0.97)}
    return make_run(steps(40), np.minimum(0.98 + noise, 1.0), signals=signals, **UNIT)


def ended_low():
    rate = {"learning_rate": 1e-5 * np.clip(1.0 - steps(60) / 50.0, 0.0, 1.0)}
    run = never_rose()
    return make_run(run.step, run.reward, signals=rate, schedule="logged", **UNIT)


def at_its_ceiling():
    """A reward of unknown range that repeats its highest value: its end, and no failure of the groups."""
    rng = np.random.default_rng(2)
    reward = np.minimum(0.2 + np.arange(60) / 25.0 + 0.02 * rng.standard_normal(60), 1.3)
    return make_run(steps(60), reward, signals={"reward_std": np.where(reward < 1.3, 0.2, 0.0)})


def never_rose():
    return make_run(steps(60), 0.3 + 0.02 * np.random.default_rng(1).standard_normal(60), **UNIT)


@pytest.mark.parametrize(
    ("make", "status", "action"),
    [
        (lambda: rising_run(40, **UNIT), "fine", "go on."),
        (CASES["truncated_throughout"], "watch", "raise the limit on completions (mean length 512)"),
        (never_rose, "watch", "raise the learning rate"),
        (CASES["dipped_then_collapsed"], "failed", "stop, and go back to the checkpoint of about step 25,"),
        (CASES["ran_into_the_cap"], "failed", "stop, and go back to the checkpoint of about step"),
        (CASES["rate_ended"], "done", "stop, and take the checkpoint with the best held-out score."),
        (CASES["at_rest"], "done", "stop if that is what you need"),
        (lambda: rising_run(40, total_steps=40, **UNIT), "done", "take the checkpoint with the best held-out score;"),
        (lambda: rising_run(40, total_steps=80, **UNIT), "fine", "go on."),
        (ended_low, "done", "stop; another run needs a higher learning rate"),
        (solved, "done", "stop, and take the checkpoint with the best held-out score, or go on with"),
        (at_its_ceiling, "done", "stop, and take the checkpoint with the best held-out score, or go on with"),
        (lambda: make_run(steps(2), [0.1, 0.2]), "unclear", "look again when it has twenty."),
        (
            lambda: make_run(steps(4), [0.1, 0.2, 0.3, 0.4]),
            "unclear",
            "go on, and look again when the log has 20 rows.",
        ),
    ],
)
def test_a_run_is_called_what_it_is(make, status, action):
    found = diagnose(make())
    assert found.top.status == status
    assert found.top.action.startswith(action)
    assert found.to_dict()["top"]["meaning"] == MEANING[status]
    assert 0.0 < found.top.probability <= 1.0


def test_a_solved_task_sounds_no_alarm_and_a_fall_marks_the_answer_that_leads():
    ceiling, fallen = at_its_ceiling(), CASES["ran_into_the_cap"]()
    found = diagnose(ceiling)
    assert found.own["advantage_degeneracy"] > 0.9
    assert alarms_of(ceiling, found, Watching(alarm=0.5)) == ()
    assert found.sentence.startswith("A solved task leaves this: advantage degeneracy")
    lost = diagnose(fallen)
    assert (lost.leads, lost.top.finding) == ("dynamical_instability",) * 2
    assert lost.top.headline.split("since")[1].split("[")[0] in lost.sentence.split("since")[1]


def test_a_hacked_run_is_failing_and_the_verdict_begins_with_the_same(hacked, honest):
    bad, good = diagnose(hacked), diagnose(honest)
    assert (bad.top.status, bad.top.finding) == ("failing", "reward_hacking")
    assert bad.top.alarming
    assert bad.sentence.startswith("Reward hacking")
    assert bad.top.action.startswith("go back to the checkpoint of about step")
    assert not good.top.alarming


def test_nothing_louder_is_asked_of_a_run_that_may_be_unstable():
    for make in CASES.values():
        lines = [line for lines in diagnose(make()).remedies.values() for line in lines]
        both = [any(line.startswith(f"{way} the learning rate") for line in lines) for way in ("raise", "lower")]
        assert not all(both)
