"""Tables: delimited text, charts of Weights & Biases, Parquet."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_grpo.common.errors import LogReadError, MissingExtraError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.formats import Source
from bayes_grpo.logs.readers import delimited
from bayes_grpo.logs.table import to_floats
from tests.helpers.command import printed_by
from tests.helpers.selection import examples
from tests.logs.log_samples import assert_read

CSV = "step,reward,kl,eval_reward\n" + "".join(f"{s},0.{s},0.01,{'0.5' if s == 3 else ''}\n" for s in range(1, 6))


_CELLS = st.one_of(
    st.integers(-(10**17), 10**17).map(str),
    st.floats(allow_nan=False, allow_infinity=True).map(repr),
    st.sampled_from(["", "NA", "-", "1e5", ".5", "5.", " 7", "7 ", "+3", "007", "True", "1,5", "0x10", "1_000"]),
)


@examples(2)
@given(
    st.lists(st.lists(_CELLS, min_size=2, max_size=2), min_size=1, max_size=4),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["a\tb", " a \tb"]),
)
def test_each_cell_of_a_table_is_read_as_a_value_by_itself(rows, end, head):
    text = end.join([head, *("\t".join(row) for row in rows)]) + end
    table = delimited.load_csv(Source(Path("a.tsv"), text.encode()), "\t").table
    for name, cells in zip("ab", zip(*rows, strict=True), strict=True):
        truths = {"True": 1.0, "": None, "NA": None, "-": None}
        whole = all(cell not in ("1,5", "0x10") for cell in cells)  # a column of texts has no truth values
        expected = to_floats([truths.get(cell, cell) if whole or cell != "True" else cell for cell in cells])
        np.testing.assert_array_equal(table.broken(name), np.isinf(expected))
        np.testing.assert_array_equal(table.column(name), np.where(np.isinf(expected), np.nan, expected))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_of_numbers_needs_no_pandas(write, end):
    program = "import sys; from bayes_grpo.logs import read_log; read_log(sys.argv[1]); print('pandas' in sys.modules)"
    assert printed_by(program, write("a.csv", CSV.replace("\n", end))) == "False"


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "log.md"])
def test_rows_of_an_evaluation_are_told_by_their_split(write, name):
    text = "step,Split,reward,kl\n" + "".join(
        f"{s},train,{0.1 * s},0.01\n" + (f"{s},eval,{0.5 + 0.1 * s},\n" if s % 2 else "") for s in range(6)
    )
    path = write("log.csv", text)
    pd.read_csv(path).to_parquet(path.with_name("log.parquet"))
    lines = [f"| {' | '.join(line.split(','))} |" for line in text.splitlines()]
    write("log.md", "\n".join([lines[0], "|---" * 4 + "|", *lines[1:]]))
    run = read_log(path.with_name(name))
    assert_read(run, reward=0.1 * np.arange(6), evals={1: 0.6, 3: 0.8, 5: 1.0}, keys={"eval_reward": "eval/reward"})


WANDB = (
    '"Step","sunny-7 - train/reward","sunny-7 - train/reward__MIN","sunny-7 - train/reward__MAX"\n'
    '"10","0.1","0.1","0.1"\n"20","0.2","0.2","0.2"\n"30","","",""\n"40","0.4","0.4","0.4"\n'
)


def test_wandb_chart_by_itself_over_another_axis_and_with_another(write):
    run = read_log(write("wandb_export.csv", WANDB))
    assert_read(run, step=[10, 20, 40], reward=[0.1, 0.2, 0.4], format="wandb_csv", without=("averaged",))
    text = WANDB.replace('"Step"', '"train/global_step"').replace('"0.4","0.4","0.4"', '"0.4","0.3","0.5"')
    assert_read(read_log(write("wandb_export.csv", text)), "averaged", step=[10, 20, 40])
    kl = write("kl.csv", WANDB.replace("train/reward", "train/kl").replace('"40"', '"50"'))
    run = read_log([write("reward.csv", WANDB), kl])
    kl = [0.1, 0.2, np.nan, 0.4]
    assert_read(run, step=[10, 20, 40, 50], reward=[0.1, 0.2, 0.4, np.nan], signals={"kl": kl})


def test_parquet(tmp_path):
    frame = pd.DataFrame({
        "step": [1, 2, 3],
        "reward": ["0.1", "0.2", "0.3"],
        "kl": pd.array([0.1, None, 0.3], dtype="Float64"),
        "grad_norm": [0.5, 0.5, np.nan],
        "more": [{"entropy": 0.5}] * 3,
        "lists": [[1.0]] * 3,
        "who": ["x" * 1000] * 3,
    })  # fmt: skip
    frame.to_parquet(tmp_path / "metrics.parquet")
    for path in (tmp_path / "metrics.parquet", tmp_path):
        assert_read(read_log(path), reward=[0.1, 0.2, 0.3], signals={"kl": [0.1, np.nan, 0.3]}, format="parquet")
    table = {"step": [1, 2, 3], "reward": [0.1, 0.2, 0.3], "loss": [0.5, float("nan"), None], "run": ["a", "a", None]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    assert read_log(tmp_path / "a.parquet").not_finite("loss").tolist() == [False, True, False]


def test_parquet_that_is_broken_too_large_or_without_pyarrow(tmp_path, monkeypatch):
    broken, large = tmp_path / "m.parquet", tmp_path / "a.parquet"
    broken.write_bytes(b"PAR1" + bytes(range(256)) + b"PAR1")
    with pytest.raises(LogReadError, match="expected a Parquet table of metrics, found one that cannot be read"):
        read_log(broken)
    pd.DataFrame({"step": range(60), "reward": range(60)}).to_parquet(large)
    monkeypatch.setattr("bayes_grpo.logs.readers.delimited._MAX_CELLS", 100)
    with pytest.raises(LogReadError, match="more than 100 cells"):
        read_log(large)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"bayes-grpo\[parquet\]"):
        read_log(broken)
