"""The model from which P(fails) is learned: against sums written out, and on families with known thresholds."""

import math

import jax
import numpy as np
import pytest

from bayes_grpo.risk.failure import LearnedFailures
from bayes_grpo.risk.threshold import THRESHOLD_NODES, Change, failure_probability, prior_weight, thresholds_at
from benchmarks.lab.failing_model import (
    EFFECTIVE_PAIRS,
    MOVED,
    WEIGHTS,
    View,
    composite_log_likelihood,
    log_density,
    moved,
    pairs_of,
    sample_failing,
)


def simulated(rng: np.random.Generator, families: int, runs: int = 8) -> list:
    """Families whose runs fail above a border of their own, at learning rates of both sides."""
    out = []
    for gap in np.exp(0.5 + 0.4 * rng.standard_normal(families)):
        at = np.concatenate([[0.0], rng.uniform(-1.0, 4.0, runs - 1)])
        failed = rng.random(runs) < failure_probability(gap, at, 0.2, 0.01)
        failed[0] = False
        views = []
        for i in np.flatnonzero(~failed):
            others = np.arange(runs) != i
            changes = np.zeros((runs - 1, len(Change._fields)))
            changes[:, 0] = at[others] - at[i]
            views.append(View(changes, failed[others].astype(float)))
        out.append(views)
    return out


@pytest.fixture(scope="module")
def relearned() -> LearnedFailures:
    """What the model learns from families with a known border."""
    found = sample_failing(pairs_of(simulated(np.random.default_rng(1), 25)), chains=1, draws=200)
    draws = {name: x.reshape(-1) for name, x in found.items()}
    none = np.zeros((0, len(Change._fields)))
    return LearnedFailures(draws, none, np.zeros(0), np.zeros(0), np.zeros(0, str), {})


def test_the_laboratory_moves_by_its_own_discrepancy_alone():
    draws = {
        name: np.full(3, 0.5) for name in ("centre", "unscaled", "spread", "sharpness", "looseness", "base", *WEIGHTS)
    }
    away = np.zeros((3, len(MOVED)))
    away[:, MOVED.index("centre")], away[:, MOVED.index("spread")] = 1.0, math.log(2.0)
    there = moved(draws | {"scale": np.full(3, -10.0)}, away)
    assert there["centre"].tolist() == [1.5] * 3
    np.testing.assert_allclose(there["spread"], 1.0)
    np.testing.assert_allclose(there["epochs"], 0.5)
    assert there["scale"].tolist() == [-10.0] * 3


def test_pairs_that_are_alike_are_counted_once_and_a_family_has_one_voice():
    view = View(np.zeros((2, len(Change._fields))), np.array([1.0, 0.0]), math.log(1e-5))
    pairs = pairs_of([[view, view, view._replace(rate=math.log(2e-5))]])
    assert pairs.share.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert pairs.failed.tolist() == pairs.held.tolist() == [1.0, 1.0]
    assert np.exp(pairs.rate).tolist() == pytest.approx([1e-5, 2e-5])


def test_siblings_share_the_border_of_the_run_that_worked():
    """Against sums written out, for a run whose rate says where its border lies and one whose rate does not."""
    q = dict.fromkeys((*WEIGHTS, "unscaled", "sharpness", "looseness", "scatter"), 0.5)
    q |= {"centre": 0.4, "spread": 0.6, "base": 0.01, "scale": math.log(4e-5), "full": 1.0}
    changes = np.zeros((3, len(Change._fields)))
    changes[:, 0], changes[2, Change._fields.index("group_size")] = [0.7, 1.5, 1.5], 1.0
    failed = np.array([0.0, 1.0, 0.0])
    pairs = pairs_of([[View(changes, failed, math.log(1e-5), 0.0), View(changes, failed)]])
    with jax.enable_x64(True):
        found = np.asarray(log_density(q, pairs))
    gap = np.exp(0.4 + 0.6 * THRESHOLD_NODES)
    for told, rate, full in zip(found, pairs.rate, pairs.full, strict=True):
        weight = prior_weight(gap, rate, q["scale"] + (1.0 - full) * q["full"], q["scatter"])
        together = np.ones(len(gap))
        for x, y in zip(changes, failed, strict=True):
            part = 0.5 * x[Change._fields.index("group_size")]
            p = failure_probability(gap, x[0] - part, np.hypot(0.5, 0.5 * part), 0.01)
            together *= p if y else 1.0 - p
        assert told == pytest.approx(math.log(np.average(together, weights=weight)), rel=1e-9)


def test_each_pair_of_the_laboratory_counts_by_itself_and_all_the_same():
    """Against sums written out: two families of different size, each pair's border integrated out alone."""
    q = dict.fromkeys((*WEIGHTS, "unscaled", "sharpness", "looseness", "scatter"), 0.5)
    q |= {"centre": 0.4, "spread": 0.6, "base": 0.01, "scale": math.log(4e-3), "full": 1.0}
    changes = np.zeros((3, len(Change._fields)))
    changes[:, 0] = [0.7, 1.5, 2.5]
    views = [View(changes, np.array([0.0, 1.0, 1.0]), math.log(1e-3)), View(changes[:1], np.array([0.0]))]
    with jax.enable_x64(True):
        found = float(composite_log_likelihood(q, pairs_of([[views[0]], [views[1]]])))
    gap, total, count = np.exp(0.4 + 0.6 * THRESHOLD_NODES), 0.0, 0
    for view in views:
        weight = prior_weight(gap, view.rate, q["scale"], q["scatter"])
        for x, y in zip(view.changes[:, 0], view.failed, strict=True):
            p = np.average(failure_probability(gap, x, 0.5, 0.01), weights=weight)
            total, count = total + math.log(p if y else 1.0 - p), count + 1
    assert found == pytest.approx(EFFECTIVE_PAIRS * 2 * total / count, rel=1e-9)


@pytest.mark.slow
def test_the_share_that_fails_is_found_again(relearned):
    """Siblings of a run drawn from those that worked, which is what the model is asked about."""
    rng, rows = np.random.default_rng(2), []
    for views in simulated(rng, 600):
        changes, failed, *_ = views[rng.integers(len(views))]
        rows += [(x[0], y) for x, y in zip(changes, failed, strict=True)]
    at, failed = np.array(rows).T
    for low, high in ((-2.0, 0.0), (0.3, 1.0), (1.0, 2.0), (2.0, 3.0)):
        inside = (at >= low) & (at < high)
        q = relearned.posterior
        v = at[inside]
        gap = thresholds_at(q["centre"], q["spread"])
        told = np.mean(
            [
                failure_probability(gap, x, q["sharpness"][:, None], q["base"][:, None]).mean()
                for x in v[:: max(len(v) // 40, 1)]
            ]
        )
        assert told == pytest.approx(failed[inside].mean(), abs=0.1), (low, high)
    assert len(THRESHOLD_NODES) == 24
