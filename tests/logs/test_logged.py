"""What was logged as NaN is told from what was not logged, from the bytes on."""

import math

import pandas as pd
import pytest

from bayes_grpo.diagnosis.plausibility import share_without_spread_of
from bayes_grpo.logs import read_log
from bayes_grpo.logs.assembling import run_of
from tests.helpers.paths import not_none

NAN = math.nan
ROWS = [
    {"step": 1, "reward": 0.1, "loss": 0.2},
    {"step": 2, "reward": 0.2},
    {"step": 3, "reward": 0.3, "loss": NAN},
    {"step": 4, "reward": NAN, "loss": NAN},
]


def _is_told(run):
    assert run.step.tolist() == [1, 2, 3, 4]
    assert run.not_finite("loss").tolist() == [False, False, True, True]
    assert run.not_finite("reward").tolist() == [False, False, False, True]
    assert run.logged["loss"].tolist() == [True, False, True, True]


def test_rows_handed_over_are_read_alike():
    _is_told(run_of(ROWS))
    _is_told(read_log(ROWS))
    _is_told(read_log({k: [row.get(k) for row in ROWS] for k in ("step", "reward", "loss")}))


def test_nan_in_a_frame_is_missing_unless_none_stands_beside_it():
    columns = {"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3], "loss": [0.1, NAN, 0.2]}
    assert not read_log(pd.DataFrame(columns)).not_finite("loss").any()
    mixed = pd.DataFrame({**columns, "loss": pd.Series([0.2, NAN, None], dtype=object)})
    assert read_log(mixed).not_finite("loss").tolist() == [False, True, False]


def test_a_step_is_said_with_both_counters():
    rows = [{"step": i + 1, "grpo_step": 1 + i // 4, "reward": 0.1 + 0.01 * (i // 4)} for i in range(40)]
    run = read_log(rows)
    assert run.step_counter == "optimizer step"
    assert str(run.step_name(21)) == "step 21 (grpo_step 6)"
    second = not_none(run.until(20).second_counter)
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
    assert share_without_spread_of(read_log(rows, settings=settings)).partition(",")[0] == expected
