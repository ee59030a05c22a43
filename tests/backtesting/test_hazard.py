"""Rates of events, learned from what came."""

import numpy as np
import pytest

from bayes_grpo.forecasting.events import COLLAPSE
from benchmarks.lab.learners.hazard import learn_hazard, learn_rates, nested, stated
from benchmarks.lab.learners.hazard_cases import HAZARD_SIGNS, MOST_ROWS, Case, hazard_cases_of
from benchmarks.lab.learners.hazard_scores import compared, reliability, reliability_text
from tests.helpers.runs import make_run, steps


def case(repo, came, ahead=1.0, **signs):
    known = dict.fromkeys(HAZARD_SIGNS, np.nan) | signs
    return Case(repo, f"{repo} log", 0.5, ahead, known, (COLLAPSE,), COLLAPSE if came else "", 0.5 if came else np.nan)


def many(rate, size=600, repos=60, seed=0):
    rng = np.random.default_rng(seed)
    ahead = rng.uniform(0.3, 2.0, size)
    came = rng.random(size) < 1.0 - np.exp(-rate * ahead)
    return [case(f"repo {i % repos}", c, a) for i, (c, a) in enumerate(zip(came, ahead, strict=True))]


def test_a_log_that_collapses_is_a_case_of_it_at_the_origins_before():
    rise = np.concatenate([np.linspace(0.1, 0.8, 50), np.full(20, 0.8), np.full(30, 0.1)])
    noise = 0.01 * np.random.default_rng(0).standard_normal(100)
    found = hazard_cases_of("repo", "log", make_run(steps(100), rise + noise))
    assert [c.event for c in found] == [COLLAPSE] * 3
    assert [c.ahead for c in found] == pytest.approx([7 / 3, 1.0, 3 / 7])
    assert np.isnan(found[1].signs["entropy_change"])
    before = hazard_cases_of("repo", "log", make_run(steps(70), (rise + noise)[:70]))
    assert {c.event for c in before} == {""}


def test_a_rate_is_learned_from_how_often_events_came():
    assert learn_hazard(many(0.2)).rates[COLLAPSE].rate == pytest.approx(0.2, rel=0.25)
    assert learn_hazard(many(0.02)).rates[COLLAPSE].rate == pytest.approx(0.02, rel=0.6)


def test_a_repository_of_many_forecasts_does_not_drown_the_others():
    quiet = many(0.02)
    loud = [case("loud", True) for _ in range(2000)]
    rates = [learn_hazard(x).rates[COLLAPSE].rate for x in (quiet, quiet + loud[: int(MOST_ROWS)], quiet + loud)]
    assert rates[0] < rates[1] == pytest.approx(rates[2], rel=1e-3)


@pytest.mark.thorough
def test_a_sign_is_learned_where_it_tells_and_a_missing_one_counts_as_average():
    rng = np.random.default_rng(1)
    signs = rng.standard_normal(800)
    came = rng.random(800) < 1.0 - np.exp(-0.1 * np.exp(signs))
    cases = [case(f"repo {i % 80}", c, 1.0, kl=s) for i, (c, s) in enumerate(zip(came, signs, strict=True))]
    rates = learn_rates(cases, ("kl", "entropy_change"))
    assert rates[COLLAPSE].weight == pytest.approx([1.0, 0.0], abs=0.25)
    told, missing = (stated(rates, case("a", False, kl=x))[COLLAPSE] for x in (signs.mean(), np.nan))
    assert told == pytest.approx(missing, rel=1e-3)
    both = [reliability_text(cases, nested(cases, x)) for x in (("kl",), ())]
    score = compared(*both)
    assert score["gain"] > 2.0 * score["se"] > 0.0
    lines = reliability(both[0])
    assert sum(x["cases"] for x in lines) == 800
    assert [x["frequency"] for x in lines[-2:]] == pytest.approx([x["stated"] for x in lines[-2:]], rel=0.3)


def test_a_repository_is_judged_by_the_others():
    cases = many(0.05) + [case("loud", True) for _ in range(15)]
    probability = nested(cases, ())
    assert probability[-1][COLLAPSE] == pytest.approx(stated(learn_rates(cases[:-15]), cases[-1])[COLLAPSE])
