"""P(fails | changed settings): monotone, never sure, wide beyond public changes, right where the threshold is known."""

import json
import math

import numpy as np
import pytest

from bayes_grpo.risk.failure import failure_risk, learned_failures, shared_rate
from bayes_grpo.risk.threshold import SIGNS, Change, change, prior_weight


def faster(factor: float) -> Change:
    return Change(learning_rate=math.log(factor))


@pytest.mark.parametrize("rate", [None, 1e-6])
def test_a_higher_rate_never_fails_less_and_no_answer_is_sure(rate):
    p = [failure_risk(faster(f), rate=rate).p for f in np.geomspace(1e-3, 1e5, 60)]
    assert (np.diff(p) >= -1e-12).all()
    assert 0.0 < p[0] < 0.05
    assert 0.9 < p[-1] < 1.0


@pytest.mark.parametrize("name", ["refresh_interval", "epochs", "group_size", "prompts_per_step", "unguarded"])
def test_what_makes_runs_fail_does_so_the_more_the_farther(name):
    p = [failure_risk(Change(**{name: getattr(SIGNS, name) * x})).p for x in (0.0, 0.5, 1.0, 2.0)]
    assert (np.diff(p) > 0.0).all()


def test_three_and_ten_times_the_rate_are_not_called_safe():
    """At three and ten times a rate that worked, public reference runs failed far more often than one in a hundred."""
    three, ten = failure_risk(faster(3.0)), failure_risk(faster(10.0))
    assert three.p > 0.15
    assert ten.p > 0.35
    assert three.interval.low < three.p < three.interval.high
    assert three.near > 10
    assert three.near_failed > 0
    assert three.repositories > 1


def test_beyond_public_changes_it_says_so_and_is_wide():
    far = failure_risk(Change(group_size=-math.log(512.0)))
    near = failure_risk(Change(group_size=-math.log(2.0)))
    assert not far.tried
    assert "no public run changed the group size this far" in far.evidence
    assert near.tried
    assert far.interval.high - far.interval.low > 2.0 * (near.interval.high - near.interval.low)
    assert far.interval.high > 0.8


def test_near_a_run_that_failed_lower_rates_are_safer_and_none_is_safe():
    p = [failure_risk(faster(f), failed=True).p for f in (0.05, 0.2, 0.5, 1.0, 2.0)]
    assert (np.diff(p) > 0.0).all()
    assert p[0] > failure_risk(faster(0.05)).p
    assert p[3] > 0.5
    assert "from public runs that failed" in failure_risk(faster(0.5), failed=True).evidence


def test_a_measured_curvature_replaces_the_learned_threshold():
    far, short = (failure_risk(faster(3.0), margin=np.full(50, x)) for x in (20.0, 0.3))
    assert far.measured
    assert far.p < 0.06
    assert short.p > 0.9
    assert "measured" in far.evidence


def test_a_rate_far_below_the_thresholds_of_others_may_be_raised_farther():
    """Ten times 1e-6 held for those who tried, and ten times 3e-5 failed; without the rate both are one case."""
    low, high, blind = (failure_risk(faster(10.0), rate=rate).p for rate in (1e-6, 3e-5, None))
    assert low < blind < high
    assert "began to fail" in failure_risk(faster(2.0), rate=1e-6).evidence
    assert "began to fail" not in failure_risk(faster(2.0)).evidence
    assert failure_risk(faster(0.5), rate=1e-5, failed=True).p < failure_risk(faster(1.0), rate=1e-5, failed=True).p


def test_a_rate_far_above_all_language_models_has_a_scale_of_its_own():
    assert failure_risk(faster(2.0), rate=0.3).p == pytest.approx(failure_risk(faster(2.0)).p, abs=0.03)
    assert shared_rate(1e-6, "ema") == shared_rate(1e-6, None) == 1e-6
    assert shared_rate(1e-6, "heavy_ball") is shared_rate(None, "ema") is shared_rate(math.nan, "ema") is None


def test_weights_of_thresholds_are_a_density_and_a_flat_one():
    at = np.linspace(-10.0, 10.0, 2001)
    np.testing.assert_allclose(prior_weight(at, -11.0, -10.0, 0.7).sum() * 0.01, 1.0, atol=0.01)
    assert (prior_weight(at, math.nan, -10.0, 0.7) == 1.0).all()


def test_a_change_of_settings_is_one_of_logarithms_and_unknown_ones_count_as_unchanged():
    assert change({"learning_rate": 1e-6}, {"group_size": 8}) == Change()
    assert change({"learning_rate": 1e-6, "group_size": None}, {"learning_rate": 2e-6, "group_size": 4}) == faster(2.0)
    off = change({"kl_weight": 0.04}, {"kl_weight": 0.0})
    assert off.kl_weight == pytest.approx(-math.log(5.0))
    assert failure_risk(off).p > failure_risk(Change()).p
    moved = change({"refresh_interval": 1.0}, {"refresh_interval": 4.0})  # half of the updates count as new passes
    assert (moved.refresh_interval, moved.epochs) == pytest.approx((math.log(4.0), 0.5 * math.log(4.0)))
    assert change({"refresh_interval": 1.0, "epochs": 1.0}, {"refresh_interval": 4.0, "epochs": 1.0}).epochs == 0.0
    again = change({"epochs": 1.0, "refresh_interval": 1.0}, {"epochs": 3.0})
    assert again.refresh_interval == again.epochs == pytest.approx(math.log(3.0))


def test_what_is_shipped_is_what_the_table_says():
    kept = learned_failures()
    assert {len(x) for x in kept.posterior.values()} == {len(kept.posterior["base"])}
    assert kept.pairs.sum() == sum(r["pairs"] for r in kept.about["repositories"].values())
    assert kept.failed.sum() == sum(r["failed"] for r in kept.about["repositories"].values())
    assert json.loads(json.dumps(failure_risk(faster(2.0)).to_dict(), allow_nan=False))["tried"]


def test_reference_runs_that_failed_bound_the_threshold_from_above_and_others_from_below():
    def p(factor, worked=(), failed=()):
        one, two = ([*map(faster, x)] for x in (worked, failed))
        return failure_risk(faster(factor), worked_changes=one, failed_changes=two).p

    assert p(2.0, worked=[3.0]) < p(2.0) < p(2.0, failed=[3.0])
    assert p(4.0, worked=[4.0]) < 0.5 * p(4.0)
    assert p(2.0, failed=[30.0]) < p(2.0, failed=[3.0])
    assert p(2.0, failed=[2.0, 2.0]) > p(2.0, failed=[2.0])
