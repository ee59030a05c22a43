"""What the benchmarks of plans count: regret, failures, and what was told before."""

import math

import numpy as np
import pytest

pytest.importorskip("equinox")

from benchmarks.lab_plans import RULES, summary
from benchmarks.plan_before import fails_before


def test_before_a_slow_curve_was_called_stable_whatever_its_rate():
    slow = np.full(400, 1e-3)
    assert fails_before(slow, {"learning_rate": math.log(30.0)}, 0.9, 1.0) < 0.01
    assert fails_before(slow, {"learning_rate": math.log(1e5)}, 0.9, 1.0) > 0.5
    assert fails_before(np.zeros(10), {"learning_rate": 5.0}, 0.9, 16.0) == 0.0
    held = [fails_before(np.full(400, 0.3), {}, 0.9, k) for k in (1.0, 64.0)]
    assert held[0] < held[1]


def test_regret_is_of_the_best_rung_and_failures_of_the_chosen():
    told = {"p_fails": 0.2, "before": 0.0, "p_better": 0.5, "low": 0.0, "high": 0.55}
    one = {
        "present": 0,
        "verdict": "change",
        "reward": [0.4, 0.6, 0.1],
        "failed": [False, False, True],
        "rungs": {str(i): told for i in range(3)},
        "chosen": dict.fromkeys(RULES, 0) | {"plan": 1, "before": 2},
    }
    found = summary([one, one])
    assert found["plan"]["regret"] == 0.0
    assert found["keep"]["regret"] == pytest.approx(0.2)
    assert found["before"] == {"regret": pytest.approx(0.5), "error": 0.0, "failed": 1.0}
    assert found["fails_now"]["of_failed"] == pytest.approx(0.2)
    assert found["coverage"] == {"runs": 2, "one_run": 0.0}
