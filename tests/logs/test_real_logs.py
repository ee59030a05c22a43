"""Logs of real runs, read as they were written and compared with tables made from them by other means.

The folder is not part of the project; where it is absent nothing is collected.
"""

import os
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import SIGNALS, read_log, to_frame

DEFAULT = Path(__file__).parents[2].parent / "shared" / "runs"
RUNS = Path(os.environ.get("BAYES_GRPO_RUNS", DEFAULT))
MORE = RUNS / "more"
NAME = attrgetter("name")


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*")) if folder.is_dir() else []


PRINTED = [p for p in logs(RUNS / "raw") if p.name in ("rook_r0_kl_dominated.log", "rook_r5_G16_20.log")]
"""Logs in prose that print the rewards of each batch; their tables hold what was evaluated between the updates."""
PROSE = [p for p in logs(RUNS / "raw") if p.name.startswith("rook_") and p not in PRINTED]
"""The same, with batches so large that their printed lists leave rewards out."""
READABLE = [p for p in logs(RUNS / "raw") if p not in (*PRINTED, *PROSE)]
COUNTED_OTHERWISE = ("ning_", "leg_twophase", "cs285c_format")
"""Logs whose tables number the rows in another way: 20 steps a row, phases one after the other, from another key."""
PER_UPDATE = "shb_"
"""Logs with records of rollouts, updates and evaluations, the tables of which have a row a rollout."""


def expected(path: Path) -> pd.DataFrame:
    """The table with one row a step: the last finite value of each column; empty rows left out.

    Of an attempt that was given up for a restart from an earlier step only what comes up to that step stays.
    """
    table = pd.read_csv(path)
    step = table["step"].to_numpy()
    attempt = np.cumsum(np.diff(step, prepend=step[0]) < 0)
    stays = np.ones(len(step), dtype=bool)
    for number in range(1, attempt.max() + 1):
        again = step[attempt == number]
        if np.isin(again, step[attempt < number]).sum() > 1:
            stays &= (attempt >= number) | (step <= again[0]) | np.isin(step, again)
    table = table.loc[stays]
    kept = [c for c in ("reward", *SIGNALS, "eval_reward") if c in table]
    table = table.groupby("step", sort=True)[kept].last()
    return table.loc[table.notna().any(axis=1)]


TABLED = (
    "reward", "eval_reward", "reward_std", "frac_reward_zero_std", "entropy", "kl", "clip_ratio", "grad_norm",
    "completion_length", "learning_rate", "loss", "accuracy", "completions_clipped_ratio", "gold_reward",
)  # fmt: skip
"""Columns that the tables may hold."""
SAMPLER = "optim/kl_sample_train_v1"
"""What the tables call KL where they were made from the Tinker cookbook's logs, and is that of sampler to trainer."""


def compare(run, table: pd.DataFrame, whole: bool) -> None:
    """What a log and its table both have is equal; of whole ones that is everything."""
    frame = to_frame(run).set_index("step").dropna(axis=1, how="all")
    table = table.dropna(axis=1, how="all")
    if run.keys.get("engine_mismatch") == SAMPLER:
        frame = frame.drop(columns="kl", errors="ignore").rename(columns={"engine_mismatch": "kl"})
    steps = frame.index.intersection(table.index)
    assert len(steps) == len(table)
    if whole:
        np.testing.assert_array_equal(frame.index, table.index)
        zero = {"kl"} if "kl" in table and not np.any(table["kl"]) else set()  # in every row: not computed
        assert set(frame) & {*TABLED} == set(table) - zero
    both = sorted(set(frame) & set(table))
    assert both
    for column in both:
        values = (x.loc[steps, column] for x in (frame, table))
        np.testing.assert_allclose(*values, rtol=1e-6, atol=1e-12, err_msg=column)


if READABLE:

    @pytest.mark.thorough
    @pytest.mark.parametrize("path", [*READABLE, *logs(RUNS / "csv")], ids=NAME)
    def test_a_log_reads_like_its_table(path):
        run = read_log(path)
        assert path.suffix != ".csv" or run.format == "csv"
        compare(run, expected(RUNS / "csv" / f"{path.stem}.csv"), whole=True)

    @pytest.mark.parametrize("path", PRINTED, ids=NAME)
    def test_printed_rewards_of_a_batch_have_the_mean_that_the_log_prints_of_its_groups(path):
        groups = re.findall(r"📊 Average reward: ([-.\d]+)", path.read_text(encoding="utf-8"))
        reward = read_log(path).reward
        batches = np.reshape([float(x) for x in groups], (len(reward), -1))
        np.testing.assert_allclose(reward, batches.mean(axis=1), atol=5e-4)

    @pytest.mark.parametrize("path", PROSE, ids=NAME)
    def test_a_log_in_prose_is_refused_with_a_way_out(path):
        with pytest.raises(LogReadError, match=r"found a table without rewards of \d+ rows .*CSV.*step,reward"):
            read_log(path)

    @pytest.mark.thorough
    @pytest.mark.parametrize("path", logs(MORE / "raw"), ids=NAME)
    def test_another_raw_log_agrees_with_its_table(path):
        """Where every update has a row, the table counts rollouts; its evaluation reward may be another."""
        run = read_log(path)
        assert run.has_reward
        if path.name.startswith(COUNTED_OTHERWISE):
            return
        table = expected(MORE / "csv" / f"{path.stem}.csv")
        if path.name.startswith(PER_UPDATE) and path.suffix == ".jsonl":
            rewards = run.reward[np.isfinite(run.reward)]
            np.testing.assert_allclose(rewards, table["reward"].dropna(), rtol=1e-6)
            np.testing.assert_allclose(run.eval_reward, table["eval_reward"].dropna(), rtol=1e-6)
            run = read_log(path, columns={"step": "grpo_step"})
        if not run.has_eval:
            table = table.drop(columns="eval_reward", errors="ignore").dropna(how="all")
        compare(run, table, whole=False)
