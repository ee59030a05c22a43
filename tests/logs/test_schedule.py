"""The learning rate that a setting names is the one that fits and forecasts follow."""

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import schedule_of
from tests.logs.log_samples import assert_read, trl_row, trl_state


def ahead(run, **given):
    """Learning rate on the rows, and the one to come."""
    table = rows_of(run)
    return table.rate, schedule_of(table, dict(run.settings.items()), **given)


RATED = [trl_row(s, 0.1 + 0.005 * s) for s in range(10, 60, 10)]
ROWS = [{k: v for k, v in row.items() if k != "learning_rate"} for row in RATED]
"""TRL's rows of steps 10 to 50 without a learning rate."""
PLAIN = [{"step": s, "reward": 0.1 * s} for s in range(1, 7)]
NOTHING = "no schedule and no learning rate are logged"


@pytest.mark.parametrize(
    ("rows", "given", "schedule", "note", "shape"),
    [
        (ROWS, {}, ("constant", "assumed"), "TRL's documented default is linear decay, but total_steps is not", None),
        (trl_state(ROWS, max_steps=100), {}, ("linear", "assumed"), "TRL's documented default", "linear"),
        (trl_state(ROWS, max_steps=30), {}, ("constant", "assumed"), "passed the 30 steps", None),
        (trl_state(RATED, max_steps=0), {}, ("logged", "logged"), "key 'learning_rate'", "linear"),
        (ROWS, {"total_steps": 100}, ("linear", "assumed"), "TRL's documented default", "linear"),
        (PLAIN, {}, ("constant", "assumed"), NOTHING, None),
        (ROWS, {"schedule": "cosine"}, ("cosine", "user"), "taken as constant: total_steps is not known", None),
        (ROWS, {"schedule": "logged"}, ("logged", "user"), "taken as constant: no learning rate is logged", None),
    ],
    ids=["unknown length", "known", "passed", "logged", "length given", "nothing", "cosine given", "logged given"],
)
def test_the_schedule_that_is_followed(write, rows, given, schedule, note, shape):
    run = read_log(write("trainer_state.json", rows), settings=given)
    assert_read(run, settings={"schedule": schedule})
    assert note in run.settings.schedule.note
    rate, to_come = ahead(run)
    assert to_come.shape == (shape or "constant")
    if shape is None:
        assert np.all(rate == 1.0)
        assert to_come.rate_now == 1.0
    elif schedule[0] == "linear":
        assert rate[-1] < 0.6
        assert to_come.total_steps == 100
        assert "default" in to_come.assumed


def test_a_length_given_to_a_forecast_alone_is_not_passed_over_in_silence(write):
    run = read_log(write("history.json", ROWS))
    _, to_come = ahead(run, total_steps=100)
    assert to_come.shape == "constant"
    assert "total_steps states no decay by itself" in to_come.assumed
    assert ahead(run, total_steps=100, schedule="linear")[1].shape == "linear"
