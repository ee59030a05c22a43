"""What was logged as NaN is told from what was not logged, from the bytes on."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import bayes_grpo as bg
from bayes_grpo.diagnosis.plausibility import share_without_spread_of
from bayes_grpo.logs.assembling import run_of

NAN = math.nan
ROWS = [
    {"step": 1, "reward": 0.1, "loss": 0.2},
    {"step": 2, "reward": 0.2},
    {"step": 3, "reward": 0.3, "loss": NAN},
    {"step": 4, "reward": NAN, "loss": NAN},
]


def _dicts(rows):
    return "\n".join(str(row) for row in rows)


WRITERS = {
    "log.jsonl": lambda rows: "\n".join(json.dumps(row) for row in rows),
    "log.json": json.dumps,
    "log.csv": lambda rows: "\n".join(
        ["step,reward,loss", *(f"{r['step']},{r['reward']},{r.get('loss', '')}" for r in rows)]
    ),
    "log.txt": _dicts,
}


def _is_told(run):
    assert run.step.tolist() == [1, 2, 3, 4]
    assert run.not_finite("loss").tolist() == [False, False, True, True]
    assert run.not_finite("reward").tolist() == [False, False, False, True]
    assert run.logged["loss"].tolist() == [True, False, True, True]


@pytest.mark.parametrize("name", WRITERS)
def test_a_logged_nan_is_no_missing_value(tmp_path, name):
    path = tmp_path / name
    path.write_text(WRITERS[name](ROWS))
    _is_told(bg.read_log(path))


def test_rows_handed_over_are_read_alike():
    _is_told(run_of(ROWS))
    _is_told(bg.read_log(ROWS))
    _is_told(bg.read_log({k: [row.get(k) for row in ROWS] for k in ("step", "reward", "loss")}))


def test_nan_in_a_frame_is_missing_unless_none_stands_beside_it():
    columns = {"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3], "loss": [0.1, NAN, 0.2]}
    assert not bg.read_log(pd.DataFrame(columns)).not_finite("loss").any()
    mixed = pd.DataFrame({**columns, "loss": pd.Series([None, NAN, 0.2], dtype=object)})
    assert bg.read_log(mixed).not_finite("loss").tolist() == [False, True, False]


def test_a_word_that_fills_the_rows_of_another_kind_is_missing(tmp_path):
    path = tmp_path / "log.csv"
    lines = [f"{i},{0.1 * i:.1f},{0.5 if i % 4 == 0 else 'nan'}" for i in range(1, 13)]
    path.write_text("\n".join(["step,reward,accuracy", *lines]))
    assert not bg.read_log(path).not_finite("accuracy").any()


def test_a_signal_that_never_was_a_number_is_known_by_its_mask():
    run = bg.read_log([{"step": i, "reward": 0.1 * i, "grad_norm": NAN} for i in range(4)])
    assert "grad_norm" not in run.signals
    assert run.not_finite("grad_norm").all()


def test_a_step_is_said_with_both_counters():
    rows = [{"step": i + 1, "grpo_step": 1 + i // 4, "reward": 0.1 + 0.01 * (i // 4)} for i in range(40)]
    run = bg.read_log(rows)
    assert run.step_counter == "optimizer step"
    assert run.step_text(21) == "step 21 (grpo_step 6)"
    second = run.until(20).second_counter
    assert second is not None
    assert second[1].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("share", "settings", "expected"),
    [
        (0.25, {}, ""),
        (0.0, {"advantage_scaling": "batch"}, "the whole batch"),
        (0.0, {"advantage_scaling": "gdpo"}, "the whole batch"),
        (0.0, {"advantage_scaling": "group"}, ""),
        (0.0, {"advantage_scaling": "group", "group_filter": "after"}, "the groups that a filter left"),
        (0.0, {"advantage_scaling": "group", "group_filter": "before"}, ""),
        (0.25, {"group_filter": "after"}, ""),
        (0.0, {"group_size": 4}, "the whole batch"),
        (0.0, {"group_size": 64}, ""),
    ],
)
def test_what_a_share_of_groups_is_of(share, settings, expected):
    rows = [{"step": i, "reward": 0.3 + 0.01 * i, "frac_reward_zero_std": share} for i in range(10)]
    assert share_without_spread_of(bg.read_log(rows, settings=settings)).partition(",")[0] == expected


def test_environments_stand_beside_their_mean():
    rows = [{"step": i, "reward": 0.5, "reward/math/mean": 0.4 + 0.01 * i, "reward/code/mean": 0.6} for i in range(6)]
    run = bg.read_log(rows)
    assert np.allclose(run.reward, 0.5)
    assert set(run.environments) == {"math", "code"}
    assert np.allclose(run.environments["code"], 0.6)


def test_a_total_beside_its_parts_is_the_reward():
    rows = [{"step": i, "reward": {"correct": 0.1 * i, "format": 1.0, "total": 0.1 * i + 0.5}} for i in range(6)]
    run = bg.read_log(rows)
    assert np.allclose(run.reward, [0.1 * i + 0.5 for i in range(6)])
    assert set(run.components) == {"correct", "format"}
