"""Rollouts laid on a log: at the same step, shifted, in windows, by versions, of another run."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo.common.errors import FitError
from bayes_grpo.rollouts.join import join
from tests.helpers.made_rollouts import Course, with_gates
from tests.helpers.runs import make_run

ROLLOUTS = with_gates(np.random.default_rng(0), Course())
MEANS = np.bincount(ROLLOUTS.step, ROLLOUTS.reward)[1:] / np.bincount(ROLLOUTS.step)[1:]
STEP = np.arange(1.0, 41.0)


@pytest.mark.parametrize("shift", [0, 1, -1, 3, -8])
def test_a_shift_is_found(shift):
    found = join(
        make_run(step=STEP + shift + 10, reward=np.round(MEANS, 4)), replace(ROLLOUTS, step=ROLLOUTS.step + 10)
    )
    assert found.matches
    assert (found.shift, found.equal) == (shift, 1.0)
    assert ("at the same step" in found.sentence) == (shift == 0)
    assert ("earlier in the log" in found.sentence) == (shift < 0)


def test_rows_may_average_several_steps():
    run = make_run(step=STEP[4::5], reward=MEANS.reshape(-1, 5).mean(1), window=5.0)
    found = join(run, ROLLOUTS)
    assert (found.shift, found.window, found.equal) == (0, 5, 1.0)
    assert "5 steps averaged into a row" in found.sentence


def test_versions_count_where_steps_do_not():
    """An asynchronous trainer: completions of several versions in a step, the log by version."""
    rng = np.random.default_rng(2)
    stale = replace(
        ROLLOUTS,
        policy_version=(ROLLOUTS.step - 1).astype(np.int32),
        step=np.sort(rng.integers(1, 41, ROLLOUTS.size)).astype(np.int32),
    )
    found = join(make_run(step=STEP, reward=MEANS), stale)
    assert (found.axis, found.shift, found.equal) == ("policy_version", 1, 1.0)
    assert "1 version later in the log" in found.sentence


def test_another_run_does_not_match():
    other = with_gates(np.random.default_rng(5), Course())
    reward = np.bincount(other.step, other.reward)[1:] / np.bincount(other.step)[1:]
    found = join(make_run(step=STEP, reward=reward), ROLLOUTS)
    assert not found.matches
    assert "of another run or reward" in found.sentence
    assert found.to_dict()["matches"] is False
    with pytest.raises(FitError, match="expected at least 4 rows of made with rollouts"):
        join(make_run(step=STEP + 1000, reward=reward), ROLLOUTS.until(3))
