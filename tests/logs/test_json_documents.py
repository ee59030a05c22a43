"""JSON documents: lists of records, traces, columns, settings next to them."""

import json

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

STEPS = [{"step": s, "reward": 0.1 * s, "loss": -1.0, "zvf": 0.25} for s in range(1, 6)]
SETTINGS = {"tag": "x", "group_size": 16, "batch": 4, "lr": 1e-5, "steps": 5}
CONFIG = {"num_generations": 4, "adam_beta1": 0.95, "lr_scheduler_type": "cosine", "momentum": "high"}


@pytest.mark.parametrize(
    ("document", "reward", "settings"),
    [
        (
            SETTINGS | {"reward_trace": [9.0] * 5, "step_log": STEPS},
            [0.1, 0.2, 0.3, 0.4, 0.5],
            {"group_size": (16, "config"), "prompts_per_step": (4, "config"), "total_steps": (5, "config")},
        ),
        ({"tag": "x", "group": 2, "reward_trace": [0.0, 0.25, 0.5], "peak": 0.5}, [0, 0.25, 0.5], {"group_size": 2}),
        (
            {"config": CONFIG, "history": STEPS},
            [0.1, 0.2, 0.3, 0.4, 0.5],
            {"group_size": 4, "momentum": 0.95, "momentum_convention": "ema", "schedule": "cosine"},
        ),
        ({"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3], "names": ["a"]}, [0.1, 0.2, 0.3], {}),
        ({"log": {"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3]}}, [0.1, 0.2, 0.3], {}),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], {}),
        ({"samples": [{"text": "a"}] * 9, "train": {"curve": STEPS}}, [0.1, 0.2, 0.3, 0.4, 0.5], {}),
    ],
    ids=[
        "records next to settings",
        "trace",
        "config",
        "columns",
        "columns within",
        "numbers",
        "the list with rewards",
    ],
)
def test_a_document(write, document, reward, settings):
    run = read_log(write("r.json", document))
    assert_read(run, step=range(1, len(reward) + 1), reward=reward, settings=settings)
    if "zvf" in str(document):
        assert_read(run, "records read from", signals={"frac_reward_zero_std": 0.25})


def test_a_document_without_records_or_with_two_lists_of_them(write):
    with pytest.raises(LogReadError, match=r"expected one run, found 2: first, second; choose with run="):
        read_log(write("r.json", {"first": STEPS, "second": STEPS}))
    assert len(read_log(write("r.json", {"first": STEPS, "second": STEPS[:3]}), run="second").step) == 3
    with pytest.raises(LogReadError, match=r"r\.json: expected a list of records.*found the keys model, tags"):
        read_log(write("r.json", {"model": "m", "tags": ["a"]}))


def test_forward_filled_records_are_thinned_and_constant_or_coarse_ones_are_not(write):
    values = [0.1, 0.15, 0.12, 0.3, 0.25, 0.4, 0.35]
    rows = [{"step": 11 + i, "reward_mean": values[i // 10], "loss": 2 * values[i // 10]} for i in range(70)]
    run = read_log(write("r.json", rows))
    assert_read(run, "repeated 10 times", step=range(11, 80, 10), reward=values)
    assert run.window.tolist() == [10] * 7
    constant = [{"step": s, "reward": 0.0, "loss": 0.0} for s in range(1, 31)]
    pairs = [{"step": s, "reward": float((s // 2) % 2)} for s in range(30)]
    for kept in (constant, pairs):
        assert len(read_log(write("a.json", kept)).step) == 30


def test_columns_with_evaluations_at_steps_of_their_own(write):
    columns = {"steps": [1, 2, 3, 4], "train_reward": [0.1, 0.2, 0.3, 0.4]}
    nested = columns | {"dev_chrf": {"2": 30.5, "4": 31.5}}
    assert_read(read_log(write("a.json", json.dumps(nested))), reward=columns["train_reward"], evals={2: 30.5, 4: 31.5})
    lists = columns | {"eval_steps": [2, 4], "val_reward": [0.3, 0.5]}
    assert_read(read_log(write("b.json", json.dumps(lists))), evals={2: 0.3, 4: 0.5})
    without = columns | {"val_reward": [0.3, 0.5]}
    assert_read(read_log(write("c.json", json.dumps(without))), "val_reward (2 values)", evals={})
