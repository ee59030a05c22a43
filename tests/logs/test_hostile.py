"""Whatever a file holds, reading it gives a valid run or an error of this package, nothing else."""

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs import SIGNALS, Run, read_log
from bayes_grpo.logs.picking import all_readers
from bayes_grpo.logs.readers.console_dict import parse_dict
from tests.helpers.selection import examples

FORMATS = [None, *all_readers()]
NAMES = (
    "step reward loss kl eval_reward train_runtime reward_std rewards/a/mean epoch critic/score/mean "
    "val-core/x/acc/mean@1 train/agg/all/m/reward/mean log_history data global_step/max_steps learning_rate "
    "entropy frac_reward_zero_std config group_size max_steps logging_steps step_log reward_trace grpo_step "
    "rollout/step train/step rollout/raw_reward iteration metrics split type run_id"
)
KEYS = st.sampled_from(NAMES.split()) | st.text(max_size=6)
NUMBERS = st.one_of(
    st.integers(-5, 60), st.floats(), st.booleans(), st.integers(), st.sampled_from([10**400, -0.0, 1e308])
)
SCALARS = st.one_of(
    NUMBERS, st.none(), st.text(max_size=8), st.sampled_from(["NaN", "Infinity", "0.5", "5%", "1/9", "np.float64(2)"])
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=6)
ANY_ROWS = st.lists(st.dictionaries(KEYS, VALUES, max_size=6), max_size=8)
LIKELY_ROWS = st.lists(
    st.builds(
        lambda step, reward, rest: {**rest, "step": step, "reward": reward},
        st.one_of(st.integers(0, 20), SCALARS),
        st.one_of(st.floats(0, 1), SCALARS),
        st.dictionaries(KEYS.filter(lambda k: k not in ("log_history", "data", "config")), SCALARS, max_size=4),
    ),
    min_size=3,
    max_size=12,
)
ROWS = ANY_ROWS | LIKELY_ROWS
PIECES = """step:3 - critic/score/mean:0.5
{'reward': 0.1}
{'reward': '
}
{
1/9 | reward=0.1 | acc=50%
Step 3: reward 0.4, loss 1
step,reward
1,2
"
'
\\
 10%|██ | 1/9 [00:01<00:02]
(TaskRunner pid=1)  
a - b__MIN
Name,State,Created"""
TEXT_PIECES = st.lists(
    st.sampled_from(["\r", "\n", "\n", "\x1b[31m", "[" * 30, "{'a':" * 12, *PIECES.split("\n")]) | st.text(max_size=12),
    max_size=30,
)
MANY = examples(2.5, quick=1.0)
"""Examples over all formats; `benchmarks/runs/attacks.py` has more."""


def check(path, **options) -> None:
    try:
        run = read_log(path, **options)
    except BayesGrpoError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 5_000
        return
    assert isinstance(run, Run)
    assert np.isfinite(run.step).all()
    assert np.all(np.diff(run.step) > 0)
    assert np.all(run.window > 0)
    assert np.isfinite(run.eval_reward).all()
    assert not np.isinf(run.reward).any()
    assert set(run.signals) <= set(SIGNALS)
    assert run.has_reward or run.has_eval


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "file"


@MANY
@given(data=st.binary(max_size=200), format=st.sampled_from(FORMATS))
def test_bytes(path, format, data):
    path.write_bytes(data)
    check(path, format=format)


@MANY
@given(pieces=TEXT_PIECES, format=st.sampled_from(FORMATS))
def test_text(path, format, pieces):
    path.write_text("".join(pieces), encoding="utf-8", errors="replace")
    check(path, format=format)


@MANY
@given(
    rows=ROWS,
    shape=st.sampled_from(["list", "lines", "state", "repr", "wrapped"]),
    reward=st.none() | KEYS,
    format=st.sampled_from([None, "json", "jsonl", "trl_trainer_state", "console_dict"]),
)
def test_rows(path, format, rows, shape, reward):
    text = {
        "list": lambda: json.dumps(rows),
        "lines": lambda: "\n".join(json.dumps(row) for row in rows),
        "state": lambda: json.dumps(
            {"log_history": rows, "max_steps": rows and rows[0].get("step"), "logging_steps": 1}
        ),
        "repr": lambda: "\n".join(repr(row) for row in rows),
        "wrapped": lambda: "\n".join(json.dumps({"step": row.get("step"), "data": row}) for row in rows),
    }[shape]()
    path.write_text(text, encoding="utf-8", errors="replace")
    check(path, format=format, columns=None if reward is None else {"reward": reward})


@given(
    rows=st.lists(st.dictionaries(KEYS, SCALARS, max_size=5), max_size=8),
    separator=st.sampled_from(",;\t"),
    format=st.sampled_from(["csv", "wandb_csv", None]),
)
def test_tables(path, format, rows, separator):
    out = io.StringIO()
    pd.DataFrame(rows, dtype=object).to_csv(out, index=False, sep=separator)
    path.write_text(out.getvalue(), encoding="utf-8", errors="replace")
    check(path, format=format)


@given(
    values=st.dictionaries(
        st.sampled_from(["group_size", "momentum", "schedule", "reward_low", "total_steps"]) | st.text(max_size=5),
        VALUES,
        max_size=4,
    )
)
def test_settings_of_users(path, values):
    path.write_text("step,reward\n1,0.1\n2,0.2\n")
    check(path, settings=values)


@pytest.mark.parametrize(
    "text",
    [
        "{'a': " + "[" * 9_000 + "}",
        "{'a': " + "-" * 9_000 + "1}",
        "{'a': " + "+".join("1" * 4_000) + "}",
        "{'a': " + "9" * 9_000 + "}",
        "{'a': " + "(" * 5_000 + ")" * 5_000 + "}",
        "{'a': 'x' 'y'" * 900,
        "{'a': {1, 2}, [1]: 2}",
        "{'a': 1j, 'b': b'x', None: 1}",
        "{'a': '\ud800\udfff', 'b\x00': 1}",
    ],
)
def test_dicts_that_strain_the_parser(text):
    row = parse_dict(text)
    assert all(isinstance(key, str) for key in row)
    assert not any(isinstance(v, float) and math.isinf(v) for v in row.values())
