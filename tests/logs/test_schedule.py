"""The learning rate that a setting names is the one that fits and forecasts follow."""

import numpy as np
import pytest

from bayes_grpo.logs import Provenance, read_log
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import schedule_of
from tests.logs.log_samples import trl_row, trl_state

LAST = 50


def rows(**more):
    """TRL's rows of steps 10 to 50 without a learning rate."""
    made = (trl_row(s, 0.1 + 0.005 * s, **more) for s in range(10, LAST + 1, 10))
    return [{k: v for k, v in r.items() if k != "learning_rate"} for r in made]


def ahead(run, **given):
    """Learning rate on the rows, and the one to come."""
    table = rows_of(run)
    return table.rate, schedule_of(table, dict(run.settings.items()), **given)


def constant(run):
    rate, to_come = ahead(run)
    return bool(np.all(rate == 1.0)) and to_come.shape == "constant" and to_come.rate_now == 1.0


def test_a_default_decay_of_unknown_length_is_not_followed(write):
    run = read_log(write("history.json", rows()))
    s = run.settings.schedule
    assert (s.value, s.provenance) == ("constant", Provenance.ASSUMED)
    assert s.note == "TRL's documented default is linear decay, but total_steps is not known"
    assert constant(run)


def test_a_default_decay_of_known_length_is(write):
    run = read_log(write("trainer_state.json", trl_state(rows(), max_steps=100)))
    assert (run.settings.schedule.value, run.settings.schedule.provenance) == ("linear", Provenance.ASSUMED)
    assert (run.settings.total_steps.value, run.settings.total_steps.provenance) == (100, Provenance.LOGGED)
    rate, to_come = ahead(run)
    assert rate[-1] < 0.6
    assert (to_come.shape, to_come.total_steps) == ("linear", 100)
    assert "default" in to_come.assumed


def test_a_length_that_the_user_states_lets_the_default_be_followed(write):
    run = read_log(write("history.json", rows()), settings={"total_steps": 100})
    assert run.settings.schedule.value == "linear"
    assert ahead(run)[1].shape == "linear"


def test_a_length_that_the_log_has_passed_was_not_the_plan(write):
    run = read_log(write("trainer_state.json", trl_state(rows(), max_steps=30)))
    s = run.settings.schedule
    assert (s.value, s.provenance) == ("constant", Provenance.ASSUMED)
    assert "passed the 30 steps" in s.note
    assert constant(run)


def test_nobody_said_anything(write):
    run = read_log(write("log.jsonl", [{"step": s, "reward": 0.1 * s} for s in range(1, 7)]))
    s = run.settings.schedule
    assert (s.value, s.provenance) == ("constant", Provenance.ASSUMED)
    assert "no schedule and no learning rate are logged" in s.note
    assert constant(run)


@pytest.mark.parametrize(
    ("stated", "why"), [("cosine", "total_steps is not known"), ("logged", "no learning rate is logged")]
)
def test_what_was_stated_stays_and_says_what_is_used(write, stated, why):
    run = read_log(write("history.json", rows()), settings={"schedule": stated})
    s = run.settings.schedule
    assert (s.value, s.provenance) == (stated, Provenance.USER)
    assert s.note == f"taken as constant: {why}"
    assert constant(run)


def test_a_logged_rate_is_followed_whatever_the_default(write):
    run = read_log(
        write("trainer_state.json", trl_state([trl_row(s, 0.01 * s) for s in range(10, 60, 10)], max_steps=0))
    )
    assert (run.settings.schedule.value, run.settings.schedule.provenance) == ("logged", Provenance.LOGGED)
    assert ahead(run)[1].shape == "linear"


def test_a_length_given_to_a_forecast_alone_is_not_passed_over_in_silence(write):
    run = read_log(write("history.json", rows()))
    _, to_come = ahead(run, total_steps=100)
    assert to_come.shape == "constant"
    assert "total_steps states no decay by itself" in to_come.assumed
    assert ahead(run, total_steps=100, schedule="linear")[1].shape == "linear"
