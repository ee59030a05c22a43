"""One analysis for every command: the same numbers as the functions themselves, and a failed part costs no other."""

from contextvars import ContextVar

import numpy as np
import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import interval
from bayes_grpo.watching.result import Watching
from bayes_grpo.watching.watch import update_of
from tests.helpers.paths import not_none
from tests.helpers.runs import FEW, make_run, rising_run, steps
from tests.helpers.selection import few

REGIMES = ("flat", "exponential")


@pytest.fixture(scope="module")
def fallen():
    rng = np.random.default_rng(1)
    reward = np.concatenate([np.linspace(0.2, 0.8, 40), np.full(20, 0.02)]) + 0.02 * rng.standard_normal(60)
    return make_run(steps(60), reward)


@pytest.fixture(scope="module")
def found(fallen):
    return bg.analyze(fallen, ("diagnosis", "forecast"), settings=bg.AnalysisSettings(horizon=90.0, paths=300))


@pytest.fixture(scope="module")
def page(fallen):
    settings = bg.AnalysisSettings(horizon=90.0, paths=300)
    return bg.report_run(fallen, settings=settings, without=("check", "fit", "stability"))


@pytest.fixture(scope="module")
def look(fallen):
    return update_of(fallen, Watching(horizon=90.0))[0]


def test_parts_are_what_the_functions_give(fallen):
    asked = bg.AnalysisSettings(horizon=90.0, paths=300, regimes=REGIMES)
    found = bg.analyze(fallen, ("diagnosis", "forecast"), settings=asked)
    assert found.diagnosis.required.probability == bg.diagnose(fallen).probability
    alone = bg.forecast(fallen, 90.0, draws=300, regimes=REGIMES)
    np.testing.assert_allclose(found.forecast.required.forecast.latent, alone.latent)
    assert found.fit.value is None


@pytest.mark.thorough
def test_now_is_one_number_everywhere(fallen, found, page, look):
    """Diagnosis, fit, forecast, watch and the page state the level of one path."""
    diagnosed = bg.diagnose(fallen)
    now = interval(not_none(diagnosed.paths).reward.now)
    fitted = bg.fit(fallen, "flat", rows="all", sampler=FEW)
    stated = {
        "diagnosis": diagnosed.status.finding.numbers["now"],
        "forecast": found.forecast.required.summary.now.median,
        "watch": look.outlook.now.median,
        "page": page.results["forecast"]["now"]["median"],
        "fit": bg.summarize(fitted).now.median,
    }
    assert stated == dict.fromkeys(stated, pytest.approx(now.median, abs=1e-9))


def test_counted_successes_are_at_one_level_in_diagnosis_and_forecast():
    reward = np.zeros(40)
    reward[[4, 11, 17, 24, 31, 38]] = 1.0
    run = make_run(steps(40), reward)
    now = float(np.median(not_none(bg.diagnose(run).paths).reward.now))
    ahead = bg.analyze(run, ("forecast",), settings=bg.AnalysisSettings(paths=300, regimes=REGIMES))
    assert ahead.forecast.required.summary.now.median == pytest.approx(now)


@pytest.mark.parametrize("ends", few([{}, {"reward_low": -1.0, "reward_high": 3.0}], {}))
def test_a_fit_begins_where_the_diagnosis_does(ends):
    """The curve of the regime begins at the first update, below the first rows; a sentence names the level of these."""
    rng = np.random.default_rng(3)
    reward = (2.0 if ends else 0.9) - 0.5 * np.exp(-steps(40) / 4.0) + 0.03 * rng.standard_normal(40)
    run = make_run(steps(40), np.minimum(reward, 0.99 + 2.0 * bool(ends)), **ends)
    paths = not_none(bg.diagnose(run).paths)
    fitted = bg.fit(run, "exponential", sampler=FEW)
    summary = bg.summarize(fitted)
    assert summary.levels == paths.reward.display_levels
    assert summary.now.median == pytest.approx(float(np.median(paths.reward.now)))
    assert abs(summary.levels.first - np.median(fitted.draws("initial_reward"))) > 0.05


def test_a_part_that_fails_is_a_reason_and_costs_no_other():
    short = make_run(steps(5), np.array([0.1, 0.2, 0.1, 0.3, 0.2]))
    found = bg.analyze(short, ("diagnosis", "fit", "check"), settings=bg.AnalysisSettings(sampler=FEW))
    assert found.diagnosis.required
    assert "needs at least 8 rows" in found.fit.reason
    assert found.check.reason.startswith("Rests on the fit, and there is none.")
    with pytest.raises(FitError):
        _ = found.fit.required


def test_a_question_without_an_answer_costs_no_forecast(monkeypatch):
    def refused(*_, **__):
        raise SettingError("no step to stop at")

    monkeypatch.setattr("bayes_grpo.decision.decide.decide", refused)
    costs = bg.StoppingCosts(cost_per_step=1.0, value_per_reward=1.0)
    asked = bg.AnalysisSettings(paths=300, regimes=REGIMES, costs=costs)
    ahead = bg.analyze(rising_run(40), ("forecast",), settings=asked).forecast.required
    assert (ahead.decision, ahead.undecided) == (None, "no step to stop at")


def test_an_unknown_part_is_refused():
    with pytest.raises(SettingError, match="parts: expected some of fit, regimes"):
        bg.analyze(rising_run(40), ("regimes", "everything"))


def test_a_part_is_computed_in_the_context_of_the_call(monkeypatch):
    """The command line keeps there whether progress is shown."""
    quiet, seen = ContextVar("quiet", default=False), []

    def asked(*_, **__):
        seen.append(quiet.get())
        raise FitError("seen")

    monkeypatch.setattr("bayes_grpo.diagnosis.diagnose.diagnose", asked)
    token = quiet.set(True)
    bg.analyze(rising_run(40), ("diagnosis",))
    quiet.reset(token)
    assert seen == [True]
