"""`forecast` with the flags that ask when to stop, and of many logs."""

import json

import numpy as np
import pytest

from tests.helpers.command import call


def test_costs_say_what_to_do_where_the_diagnosis_has_something_else_to_look_at(tmp_path, write_trl_log):
    """A flat reward: more prompts by the diagnosis, and by the costs no step more."""
    reward = 0.4 + 0.03 * np.random.default_rng(0).standard_normal(60)
    log = write_trl_log(tmp_path / "trainer_state.json", reward)
    options = "--horizon 80 --regimes exponential,flat --set schedule=constant --draws 300"
    words = ("forecast", log, *options.split())
    by_cost = call(*words, "--cost-per-step", 1, "--value-per-reward", 1).out
    assert "Do now: stop: going on is not expected to pay" in " ".join(by_cost.split())
    assert "Do now: stop" not in call(*words).out


@pytest.mark.thorough
def test_a_backtest_of_many_logs_scores_each_as_alone(tmp_path, curve):
    logs = {name: tmp_path / f"{name}.csv" for name in ("one", "short", "other")}
    for name, shift in (("one", 0.0), ("short", 0.0), ("other", 0.01)):
        rows = [f"{s},{y + shift}\n" for s, y in enumerate(curve, 1)]
        logs[name].write_text("step,reward\n" + "".join(rows[: 8 if name == "short" else None]))
    words = ("forecast", "--backtest", "--json", "--regimes", "flat")
    found, alone = (json.loads(call(*words, *paths).out) for paths in (logs.values(), [logs["other"]]))
    assert {x["log"] for x in found["scores"]} == {"one", "other"}
    (refused,) = found["refused"]
    assert "at least 20 rows" in refused
    assert [x for x in found["scores"] if x["log"] == "other"] == alone["scores"]
