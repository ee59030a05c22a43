"""What a log holds and nothing was made of is said; what can be told from it is."""

import json

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from tests.helpers.command import call
from tests.logs.log_samples import assert_read

STEPS = range(1, 41)


def row(step, **more):
    return {"step": step, "reward": round(0.01 * step, 4), **more}


@pytest.fixture
def read(tmp_path):
    def reading(rows, name="log.jsonl", **options):
        path = tmp_path / name
        path.write_text(rows if isinstance(rows, str) else "\n".join(map(json.dumps, rows)))
        return read_log(path, **options)

    return reading


def test_keys_that_are_not_used_are_listed_with_the_reason(read, tmp_path):
    rows = [
        row(s, mean_reward=2.0 * s, kl=0.1, approx_kl=0.2, model="m", gpu_mem=9, reward_max=1.0, epoch=0.1 * s)
        | {"eval/mean_length": 7.0, "bayes_grpo/p": 0.1, "rewards/check/mean": 0.1, "group_size": 8, "never": None}
        for s in STEPS
    ]
    run = read([x | {"completions/mean_length": 3.0} for x in rows])
    assert dict(run.unused) == {
        "mean_reward": "no known signal",
        "approx_kl": "no known signal",
        "model": "no number in it",
        "never": "no number in it",
        "gpu_mem": "no known signal",
        "reward_max": "no known signal",
        "epoch": "no known signal",
        "eval/mean_length": "of an evaluation, and not its mean reward",
        "bayes_grpo/p": "written by bayes-grpo",
    }
    done = call("inspect", tmp_path / "log.jsonl", "--details")
    assert "no known signal: mean_reward, approx_kl, gpu_mem" in done.out
    assert "no number in it: model, never" in done.out
    found = json.loads(call("inspect", tmp_path / "log.jsonl", "--json").out)
    assert found["unused"]["gpu_mem"] == "no known signal"


def console(rows=100, end="", first=False):
    at = [1, *range(2, rows + 1)] if first else range(1, rows + 1)
    return (
        "".join(f"{{'loss': 0.1, 'reward': {0.001 * i:.4f}, 'kl': 0.1, 'epoch': {0.01 * i:.2f}}}\n" for i in at) + end
    )


DONE = "Map: 100%|██████| 7473/7473 [00:01<00:00, 9000 examples/s]\n"


@pytest.mark.parametrize(
    ("text", "each", "last"),
    [
        (console(end="100%|██████████| 1000/1000 [10:00<00:00,  1.67it/s]\n"), 10, 1000),
        (console(101, "100%|██████████| 1000/1000 [10:00<00:00,  1.67s/it]\n", first=True), 10, 1000),
        (console(end=" 50%|█████     | 500/1000 [10:00<00:00,  1.67it/s]\n"), 5, 500),
        (DONE + console(end="100%|██████████| 100/100 [10:00<00:00,  1.67it/s]\n"), 1, 100),
    ],
)
def test_rows_without_a_step_are_placed_by_the_last_progress_bar(read, text, each, last):
    run = read(text + "{'train_runtime': 9.0, 'train_loss': 0.1}\n", "train.log")
    settings = {"logging_window": each, "total_steps": 1000 if last != 100 else 100}
    assert_read(run, f"a row covers {each} steps", settings=settings)
    assert (run.step[-1], np.median(np.diff(run.step))) == (last, each)


def test_a_bar_that_the_rows_do_not_fit_asks_for_the_window(read):
    text = console(end="100%|██████████| 1024/1024 [10:00<00:00,  1.67it/s]\n")
    run = read(text, "train.log")
    assert_read(run, "1024 of 1024; if a row covers several steps: --set logging_window=N")
    assert run.step[-1] == 100
    assert read(text, "train.log", settings={"logging_window": 10}).step[-1] == 1000
    assert_read(read(console() + DONE, "train.log"), without=("logging_window",))


def test_a_reward_in_one_of_eight_rows_asks_what_that_means(read):
    rows = [{"step": s, "loss": 0.1 * s} | ({"reward": 0.01 * s} if s % 8 == 0 else {}) for s in range(1, 161)]
    assert any("a reward in one of 8 rows only" in n and "--set refresh_interval=8" in n for n in read(rows).notes)
    assert_read(read(rows, settings={"refresh_interval": 8}), without=("one of 8 rows",))


@pytest.mark.parametrize(("bad", "known"), [(0.0, False), (0.1, True)])
def test_shares_of_tinker_that_are_0_throughout_say_nothing(read, bad, known):
    group = "env/all/by_group/frac_"
    shares = {f"{group}all_good": 0.0, f"{group}all_bad": bad, f"{group}mixed": 1.0 - bad}
    rows = [{"step": s, "progress/batch": s, "env/all/reward/total": 0.01 * s} | shares for s in STEPS]
    run = read(rows)
    assert ("frac_reward_zero_std" in run.signals) is known
    assert sum("frac_reward_zero_std is unknown" in note for note in run.notes) == (not known)
