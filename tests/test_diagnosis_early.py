"""The measures of early warning: thresholds of a false-alarm rate, the area under a curve, plain statistics."""

import numpy as np
import pytest

from benchmarks.diagnosis_early import FALSE, LEAST, SIGNS, auc, cuts_of, half_lost, statistics, thresholds
from tests.helpers.runs import evaluated, make_run, steps

ROWS = 60


def test_thresholds_let_few_runs_raise_an_alarm():
    values = np.random.default_rng(0).normal(size=(400, 4))
    alarms = (values > thresholds(values)).any(axis=1).mean()
    assert FALSE / 2 < alarms <= FALSE


def test_auc_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(1)
    score, happened = np.round(rng.normal(size=80), 1), rng.random(80) < 0.3
    pairs = score[happened][:, None] - score[~happened][None, :]
    assert auc(score, happened) == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)))


def test_cuts_see_more_and_more_up_to_the_end():
    cuts = cuts_of(make_run(steps(ROWS), np.zeros(ROWS)))
    assert cuts[0] == LEAST
    assert cuts[-1] == ROWS
    assert (np.diff(cuts) > 0).all()


def test_plain_statistics_rise_with_what_they_stand_for():
    """Hacking, degeneracy, concentration, instability: each on a run that shows it, and on none."""
    line = np.linspace(0.0, 1.0, ROWS)
    flat = np.full(ROWS, 0.5)
    at = steps(ROWS)[5::6]
    calm = statistics(
        make_run(steps(ROWS), flat, signals={"frac_reward_zero_std": 0.1, "entropy": 1.0}, evals=evaluated(at, at * 0))
    )
    shown = [
        make_run(steps(ROWS), line, evals=evaluated(at, at * 0)),
        make_run(steps(ROWS), flat, signals={"frac_reward_zero_std": 0.9}),
        make_run(steps(ROWS), flat, signals={"entropy": np.exp(-5.0 * line)}),
        make_run(steps(ROWS), 1.0 - line),
    ]
    for k, run in enumerate(shown):
        assert statistics(run)[k] > calm[k] + 0.5


def test_signs_compare_late_rows_with_early_ones():
    x = np.arange(ROWS, dtype=float)
    columns = dict.fromkeys(("entropy", "kl", "clip_ratio", "learning_rate"), np.full(ROWS, 0.1))
    columns |= {"reward": np.sin(x) * (1.0 + x), "grad_norm": np.exp(0.05 * x), "interval": np.array([4.0])}
    found = {name: of(columns) for name, of in SIGNS.items()}
    assert found["variance of the reward"] > 0.5
    assert found["gradient norm"] == pytest.approx(0.05 * 40, abs=0.05)
    assert found["entropy"] == pytest.approx(0.0, abs=1e-9)
    assert found["updates of a rollout"] == pytest.approx(np.log(4.0))


def test_half_lost_is_dated_and_what_comes_back_is_none():
    line = np.minimum(np.arange(ROWS) / 20.0, 1.0)
    fallen = np.where(np.arange(ROWS) < 40, line, 0.3)
    assert half_lost(make_run(steps(ROWS), fallen)) == pytest.approx(41, abs=1)
    assert half_lost(make_run(steps(ROWS), np.where(np.arange(ROWS) < 50, fallen, 0.9))) is None
    high = np.where(np.arange(ROWS) < 30, 0.9, 0.1)
    assert half_lost(make_run(steps(ROWS), high)) == pytest.approx(31, abs=1)
