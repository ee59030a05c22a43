"""Rates of events, learned from what came."""

import numpy as np
import pytest

from bayes_grpo.forecasting.events import COLLAPSE
from benchmarks.lab.learners.hazard import judged, learn_hazard, nested, stated
from benchmarks.lab.learners.hazard_cases import MOST_ROWS, Case, hazard_cases_of
from tests.helpers.runs import make_run, steps


def case(repo, came, ahead=1.0):
    return Case(repo, f"{repo} log", 0.5, ahead, (COLLAPSE,), COLLAPSE if came else "", 0.5 if came else np.nan)


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
def test_what_was_said_of_events_is_as_frequent_as_it_was_said():
    cases = many(0.1, 3000)
    found = judged(cases, nested(cases))[COLLAPSE]
    assert found["forecasts"] == 3000
    assert found["stated"] == pytest.approx(found["frequency"], rel=0.1)
    surer = judged(cases, [{COLLAPSE: 3.0 * p[COLLAPSE]} for p in nested(cases)])[COLLAPSE]
    assert surer["log_score"] < found["log_score"]


def test_a_repository_is_judged_by_the_others():
    cases = many(0.05) + [case("loud", True) for _ in range(15)]
    probability = nested(cases)
    assert probability[-1][COLLAPSE] == pytest.approx(stated(learn_hazard(cases[:-15]), cases[-1])[COLLAPSE])
