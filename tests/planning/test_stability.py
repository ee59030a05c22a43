"""The stability calculator: verdicts, uncertainty, circularity."""

import json

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.reduction import critical_gain
from bayes_grpo.planning.stability import stability
from bayes_grpo.probing.course import pooled_probes
from bayes_grpo.probing.file import save_probes
from bayes_grpo.probing.predict import limits_of
from bayes_grpo.risk.failure import failure_risk
from bayes_grpo.risk.threshold import Change
from bayes_grpo.views.view import view
from tests.helpers.command import call
from tests.helpers.probes import noisy_probes
from tests.helpers.shown import text_of


def test_margins_of_a_single_curvature():
    report = stability(0.01, 0.9, "heavy_ball", 4, curvature=2.0)
    assert report.gain[:3] == pytest.approx((0.02, 0.02, 0.02))
    assert report.rule.margin.median == pytest.approx(0.1 / (0.02 * 4))
    assert report.hold.margin.median == pytest.approx(critical_gain(0.9, 4, "hold") / 0.02)
    assert "heavy-ball momentum 0.9" in view(report).about
    fraction = stability(0.01, 0.5, "heavy_ball", 2.5, curvature=1.0)  # the exact maps round it up
    assert fraction.hold.threshold == critical_gain(0.5, 3, "hold")
    assert fraction.rule.threshold == pytest.approx(0.5 / 2.5)
    for beta in (0.0, 0.5, 0.95):  # Adam's average leaves the rule as it is
        assert stability(0.05, beta, "ema", 4, curvature=1.0).rule.margin.median == pytest.approx(5.0)


def test_models_can_disagree():
    """The rule is the more careful one."""
    gain = 0.9 * critical_gain(0.9, 8, "hold")
    report = stability(1.0, 0.9, "heavy_ball", 8, curvature=gain)
    assert [v.probability_stable for v in (report.rule, report.hold)] == [0.0, 1.0]


def test_draws_give_an_interval_and_a_probability():
    draws = np.random.default_rng(0).lognormal(0.0, 0.5, 4000)
    report = stability(0.02, 0.9, "heavy_ball", 5, curvature=draws)
    margin = 0.1 / (0.02 * 5 * draws)
    assert report.rule.margin[:3] == pytest.approx(tuple(np.quantile(margin, [0.5, 0.05, 0.95])))
    assert report.rule.margin.level == 0.9
    assert report.rule.probability_stable == pytest.approx(np.mean(draws < 1.0))
    assert 0.0 < report.rule.probability_stable < 1.0


@pytest.mark.parametrize(("source", "interval"), [("same_run", 4), ("same_run", 1), ("low_lag_run", 4)])
def test_circular_only_with_the_same_lagged_curve(source, interval):
    report = stability(0.01, 0.9, "ema", interval, curvature=1.0, source=source)
    assert report.circular is ("circular" in report.sentence) is (source == "same_run" and interval > 1)


def test_report_is_strict_json_even_without_a_limit():
    report = stability(0.01, 0.9, "ema", 4, curvature=1.0, lag_exposure=0.0)
    content = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert content["rule"]["threshold"] is None
    assert content["rule"]["probability_stable"] == 1.0
    assert content["sentence"] == report.sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [("momentum", 1.0), ("refresh_interval", 0), ("learning_rate", 0.0), ("curvature", -1.0), ("source", "guess"),
     ("convention", "adam"), ("lag_exposure", -0.1)],
)  # fmt: skip
def test_bad_settings_are_named(name, value):
    good = {"learning_rate": 0.01, "momentum": 0.9, "convention": "ema", "refresh_interval": 4, "curvature": 1.0}
    with pytest.raises(SettingError, match=name.replace("_", " ")):
        stability(**(good | {name: value}))


def test_a_curvature_that_the_reward_shows_has_margins_and_no_probability():
    """A margin of ten by the reward is no sure thing: the stiffest direction may be hundreds of times stiffer."""
    draws = np.full(50, 10.0)
    fitted = stability(0.02, 0.9, "ema", 1, curvature=draws, source="low_lag_run")
    assert fitted.hold.margin.median == pytest.approx(fitted.hold.threshold / (0.02 * 0.1 * 10.0))
    assert np.isnan(fitted.hold.probability_stable)
    assert not fitted.failure_risk.measured
    assert "Stiffer directions limit stability" in fitted.sentence
    assert "unknown" in text_of(fitted, 200)
    assert "refresh every step," in view(fitted).about
    assert stability(0.02, 0.9, "ema", 1, curvature=draws).hold.probability_stable == 1.0


def test_the_learning_rate_of_the_run_it_starts_from_counts():
    tenfold = Change(learning_rate=np.log(10.0))
    slow, fast = (
        stability(10.0 * x, 0.9, "ema", 1, curvature=0.2, source="low_lag_run", changed=tenfold) for x in (1e-6, 3e-5)
    )
    assert slow.rate == pytest.approx(1e-6)
    assert slow.failure_risk.p < fast.failure_risk.p
    unlogged = stability(1.0, 0.9, "ema", 1, curvature=0.2, source="low_lag_run", changed=Change(), shared=False)
    assert unlogged.rate is None
    assert unlogged.failure_risk.p == failure_risk(Change()).p
    assert stability(1e-5, 0.9, "heavy_ball", 1, curvature=0.2, source="low_lag_run").rate is None


def test_measured_stiffness_on_the_command_line(tmp_path):
    found = noisy_probes(4)
    path = tmp_path / "probe.json"
    save_probes(found, path)
    words = ("stability", "--learning-rate", "0.01", "--refresh", "4", "--measured", str(path))
    content = json.loads(call(*words, "--json")[1])
    whole = pooled_probes(found)
    assert content["measured"]["stiffest"]["mean"] == pytest.approx(whole.stiffest.mean)
    assert content["limits"]["p_stable"] == pytest.approx(limits_of(whole, 0.01, 0.9, 4).p_stable)
    assert content["convention"] == "heavy_ball"
    assert "measured curvature of the stiffest direction" in content["sentence"]
    assert content["course"]["last"] == 75.0
    shown = call(*words)[1]
    assert "Stiffness" in shown
    assert call("stability", "--learning-rate", "0.01", "--measured", str(tmp_path / "none.json"))[0] == 3
