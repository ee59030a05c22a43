"""What a step costs, read from the log."""

import dataclasses

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.price import ROWS, priced
from bayes_grpo.decision.question import Question
from tests.helpers.runs import rising_run


def run_with(**signals):
    run = rising_run(80)
    arrays = {k: np.broadcast_to(np.asarray(v, float), run.step.shape) for k, v in signals.items()}
    return dataclasses.replace(
        run, signals={**run.signals, **arrays}, keys={**run.keys, **{k: f"my/{k}" for k in signals}}
    )


def test_the_time_of_a_step_on_so_many_gpus():
    times = np.where(np.arange(80) < 80 - ROWS, 1000.0, 36.0)
    asked = Question(gpus=8, price_per_gpu_hour=2.0, value_per_reward=100.0)
    found = priced(asked, run_with(step_time=times))
    assert found.gpu_hours_per_step == pytest.approx(0.08)
    assert found.cost == pytest.approx(0.16)
    assert "36 s a step" in found.cost_told
    assert "my/step_time" in found.cost_told
    assert "on 8 GPUs" in found.cost_told


def test_an_interrupted_step_is_no_price():
    times = np.full(80, 36.0)
    times[70] = 7200.0  # somebody restarted the run
    times[60] = 90.0  # an evaluation is part of what a step costs
    found = priced(Question(gpus=1, value_per_reward=1.0), run_with(step_time=times))
    assert found.gpu_hours_per_step == pytest.approx((48 * 36.0 + 90.0) / 49 / 3600.0)


def test_money_of_a_step_and_money_since_the_start():
    asked = Question(value_per_reward=100.0)
    assert priced(asked, run_with(step_cost=0.25)).cost == pytest.approx(0.25)
    total = 3.0 + 0.5 * rising_run(80).step
    total[::7] = np.nan
    found = priced(asked, run_with(total_cost=total, step_time=5.0))
    assert found.cost == pytest.approx(0.5)
    assert found.unit == ""
    assert found.has_net_value


def test_what_is_stated_wins_and_no_question_needs_no_price():
    run = run_with(step_cost=0.25, step_time=36.0)
    stated = Question(cost_per_step=1.0, value_per_reward=100.0)
    assert priced(stated, run) == stated
    assert priced(Question(), run) == Question()
    assert priced(Question(gain=0.1), run).cost is None


@pytest.mark.parametrize(
    ("asked", "signals", "said"),
    [
        ({"gpus": 8, "gain": 0.1}, {"step_time": np.nan}, "no time of a step in the log"),
        ({"gpus": 8, "gain": 0.1}, {"step_time": 0.0}, "no time of a step in the log"),
        ({"value_per_reward": 1.0}, {}, "without a cost"),
        ({"value_per_reward": 1.0}, {"step_time": 3.0}, "or --gpus: the log has the time"),
        ({"value_per_reward": 1.0}, {"total_cost": 7.0}, "without a cost"),
    ],
)
def test_logs_that_tell_no_price(asked, signals, said):
    with pytest.raises(SettingError, match=said):
        priced(Question(**asked), run_with(**signals))


def test_gpus_beside_a_stated_cost_are_refused():
    with pytest.raises(SettingError, match="--gpus or the cost"):
        Question(gpus=8, cost_per_step=1.0, value_per_reward=1.0)
    with pytest.raises(SettingError, match="a cost without a value"):
        Question(gpus=8)
