"""P(fails | what changed): monotone, never sure, wide where nobody has been, and right where the border is known."""

import json
import math

import jax
import numpy as np
import pytest

from bayes_grpo.risk.border import BORDER_NODES, borders, failure_probability, prior_weight
from bayes_grpo.risk.change import Change, change
from bayes_grpo.risk.failing import LearnedFailures, learned_failures, p_fails, shared_rate
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


def faster(factor: float) -> Change:
    return Change(learning_rate=math.log(factor))


def test_a_higher_rate_never_fails_less():
    p = [p_fails(faster(f)).p for f in np.geomspace(1e-3, 1e5, 60)]
    assert (np.diff(p) >= -1e-12).all()
    assert 0.0 < p[0] < 0.05
    assert 0.9 < p[-1] < 1.0


@pytest.mark.parametrize(
    ("name", "sign"),
    [("refresh_interval", 1), ("epochs", 1), ("group_size", -1), ("prompts_per_step", -1), ("unguarded", 1)],
)
def test_what_makes_runs_fail_does_so_the_more_the_farther(name, sign):
    p = [p_fails(Change(**{name: sign * x})).p for x in (0.0, 0.5, 1.0, 2.0)]
    assert (np.diff(p) > 0.0).all()


def test_three_and_ten_times_the_rate_are_not_called_safe():
    """At three and ten times a rate that worked, public siblings failed far more often than one in a hundred."""
    three, ten = p_fails(faster(3.0)), p_fails(faster(10.0))
    assert three.p > 0.15
    assert ten.p > 0.35
    assert three.interval.low < three.p < three.interval.high
    assert three.near > 10
    assert three.near_failed > 0
    assert three.repositories > 1


def test_beyond_what_anybody_tried_it_says_so_and_is_wide():
    far = p_fails(Change(group_size=-math.log(512.0)))
    near = p_fails(Change(group_size=-math.log(2.0)))
    assert not far.tried
    assert "none of them moved the group size this far" in far.rests
    assert near.tried
    assert far.interval.high - far.interval.low > 2.0 * (near.interval.high - near.interval.low)
    assert far.interval.high > 0.8


def test_a_run_that_worked_farther_up_makes_its_neighbours_safer():
    assert p_fails(faster(4.0), worked=[faster(2.0)]).p < p_fails(faster(4.0)).p
    assert p_fails(faster(4.0), worked=[faster(4.0)]).p < 0.5 * p_fails(faster(4.0)).p


def test_beside_a_run_that_failed_lower_rates_are_safer_and_none_is_safe():
    p = [p_fails(faster(f), failed=True).p for f in (0.05, 0.2, 0.5, 1.0, 2.0)]
    assert (np.diff(p) > 0.0).all()
    assert p[0] > p_fails(faster(0.05)).p
    assert p[3] > 0.5
    assert "from public runs that failed" in p_fails(faster(0.5), failed=True).rests


def test_a_measured_curvature_takes_the_place_of_the_guess():
    far, short = (p_fails(faster(3.0), margin=np.full(50, x)) for x in (20.0, 0.3))
    assert far.measured
    assert far.p < 0.06
    assert short.p > 0.9
    assert "measured" in far.rests


def test_a_rate_far_below_the_borders_of_others_may_be_raised_farther():
    """Ten times 1e-6 held for those who tried, and ten times 3e-5 failed; without the rate both are one case."""
    low, high, blind = (p_fails(faster(10.0), rate=rate).p for rate in (1e-6, 3e-5, None))
    assert low < blind < high
    p = [p_fails(faster(f), rate=1e-6).p for f in np.geomspace(0.1, 1e4, 40)]
    assert (np.diff(p) >= -1e-12).all()
    assert p_fails(faster(0.5), rate=1e-5, failed=True).p < p_fails(faster(1.0), rate=1e-5, failed=True).p


def test_a_rate_that_no_language_model_bears_tells_of_a_scale_of_its_own():
    assert p_fails(faster(2.0), rate=0.3).p == pytest.approx(p_fails(faster(2.0)).p, abs=0.03)
    assert shared_rate(1e-6, "ema") == shared_rate(1e-6, None) == 1e-6
    assert shared_rate(1e-6, "heavy_ball") is shared_rate(None, "ema") is shared_rate(math.nan, "ema") is None


def test_weights_of_borders_are_a_density_beside_a_flat_one():
    at = np.linspace(-10.0, 10.0, 2001)
    np.testing.assert_allclose(prior_weight(at, -11.0, -10.0, 0.7).sum() * 0.01, 1.0, atol=0.01)
    assert (prior_weight(at, math.nan, -10.0, 0.7) == 1.0).all()


def test_what_it_rests_on_names_the_rates_at_which_others_failed():
    assert "began to fail" in p_fails(faster(2.0), rate=1e-6).rests
    assert "began to fail" not in p_fails(faster(2.0)).rests


def test_settings_that_are_unknown_count_as_unchanged():
    assert change({"learning_rate": 1e-6}, {"group_size": 8}) == Change()
    assert change({"learning_rate": 1e-6, "group_size": None}, {"learning_rate": 2e-6, "group_size": 4}) == faster(2.0)


def test_updates_that_nobody_counts_are_half_new_passes():
    moved = change({"refresh_interval": 1.0}, {"refresh_interval": 4.0})
    assert moved.refresh_interval == pytest.approx(math.log(4.0))
    assert moved.epochs == pytest.approx(0.5 * math.log(4.0))
    both = change({"refresh_interval": 1.0, "epochs": 1.0}, {"refresh_interval": 4.0, "epochs": 1.0})
    assert both.epochs == 0.0
    again = change({"epochs": 1.0, "refresh_interval": 1.0}, {"epochs": 3.0})
    assert again.refresh_interval == again.epochs == pytest.approx(math.log(3.0))


def test_a_kl_weight_of_none_has_a_place_on_the_scale():
    off = change({"kl_weight": 0.04}, {"kl_weight": 0.0})
    assert off.kl_weight == pytest.approx(-math.log(5.0))
    assert p_fails(off).p > p_fails(Change()).p


def test_what_is_shipped_is_what_the_table_says():
    told = learned_failures()
    assert {len(x) for x in told.posterior.values()} == {len(told.posterior["base"])}
    assert told.pairs.sum() == sum(r["pairs"] for r in told.about["repositories"].values())
    assert told.failed.sum() == sum(r["failed"] for r in told.about["repositories"].values())
    assert json.loads(json.dumps(p_fails(faster(2.0)).to_dict(), allow_nan=False))["tried"]


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
    gap = np.exp(0.4 + 0.6 * BORDER_NODES)
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
    gap, total, count = np.exp(0.4 + 0.6 * BORDER_NODES), 0.0, 0
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
        changes, failed = views[rng.integers(len(views))]
        rows += [(x[0], y) for x, y in zip(changes, failed, strict=True)]
    at, failed = np.array(rows).T
    for low, high in ((-2.0, 0.0), (0.3, 1.0), (1.0, 2.0), (2.0, 3.0)):
        inside = (at >= low) & (at < high)
        q = relearned.posterior
        v = at[inside]
        gap = borders(q["centre"], q["spread"])
        told = np.mean(
            [
                failure_probability(gap, x, q["sharpness"][:, None], q["base"][:, None]).mean()
                for x in v[:: max(len(v) // 40, 1)]
            ]
        )
        assert told == pytest.approx(failed[inside].mean(), abs=0.1), (low, high)
    assert len(BORDER_NODES) == 24


def test_siblings_that_failed_bound_the_border_from_above_and_those_that_held_from_below():
    alone = p_fails(faster(2.0)).p
    held, fell = p_fails(faster(2.0), worked=(faster(3.0),)).p, p_fails(faster(2.0), fell=(faster(3.0),)).p
    assert held < alone < fell
    assert p_fails(faster(2.0), fell=(faster(30.0),)).p < fell
    assert p_fails(faster(2.0), fell=(faster(2.0), faster(2.0))).p > p_fails(faster(2.0), fell=(faster(2.0),)).p
