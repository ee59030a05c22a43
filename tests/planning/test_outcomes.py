import math

import numpy as np
import pytest

from bayes_grpo.planning.outcomes import reference_outcomes
from bayes_grpo.risk.threshold import Change
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import make_run

STEP = np.arange(1.0, 61.0)


def other(name, rate, failed=False, seed=0):
    y = 0.7 - 0.4 * np.exp(-STEP / 15.0) + 0.02 * np.random.default_rng(seed).standard_normal(60)
    y = np.where((STEP > 30) & failed, 0.01 + 0.01 * np.sin(STEP), y)
    return make_run(STEP, y, name=name, signals={} if rate is None else {"learning_rate": np.full(60, rate)})


def test_reference_runs_count_at_their_settings_as_failed_or_not():
    run = other("now", 1e-5)
    others = [
        other("same", 1e-5, seed=1),
        other("twice", 2e-5, seed=2),
        other("failed", 2e-5, failed=True, seed=3),
        other("four", 4e-5, failed=True, seed=4),
        other("unknown", None, failed=True, seed=5),
    ]
    present = {"learning_rate": 1e-5, "group_size": 8.0}
    found = reference_outcomes(run, rows_of(run), present, True, others)
    assert np.array(found.worked_changes) == pytest.approx(np.array([Change(), Change(learning_rate=math.log(2.0))]))
    assert len(found.failed_changes) == 2
    assert [x.name for x in found.left_out] == ["unknown"]
    assert (
        found.sentence == "reference runs: 2 of 4 failed, at learning rates from 2e-05 on (same, twice, failed, four)"
    )
    nothing = reference_outcomes(run, rows_of(run), present, False, others)
    assert not nothing.runs
    assert "does not state the learning rate" in nothing.sentence
