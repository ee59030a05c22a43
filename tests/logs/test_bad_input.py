"""Logs that cannot be read: each refusal says what was expected, what was found and what mends it."""

import re
import sqlite3

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log, to_frame
from bayes_grpo.logs.picking import all_readers

GOOD = "step,reward\n1,0.1\n2,0.2\n"


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.bin", b"\x00\x01\x02" * 99, "binary data"),
        ("a.csv.gz", b"\x1f\x8b\x08" + bytes(20), "gzip data"),
        ("a.zip", b"PK\x03\x04" + bytes(20), "zip data"),
        ("a.pt", b"\x80\x02}q\x00.", "a Python pickle"),
        ("a.wandb", b":W&B\xe1\xbe\x00" + bytes(20), ".wandb file"),
        ("a.json", '[{"a":' * 100_000, "values that cannot be parsed"),
        ("a.json", '[{"reward": ' + "9" * 5000 + "}]", "values that cannot be parsed"),
    ],
)
def test_each_bad_file_is_named_with_what_was_found(write, name, content, found):
    with pytest.raises(LogReadError, match=re.escape(found)) as error:
        read_log(write(name, content))
    message = str(error.value)
    assert name in message
    assert "expected" in message
    assert "\n" not in message


def test_a_database_of_another_program_and_no_path(tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as db:
        db.execute("create table metrics (x)")
    for path, words in ((tmp_path / "runs.db", "SQLite"), ([], "empty list")):
        with pytest.raises(LogReadError, match=words):
            read_log(path)
    for name in ("missing.csv", "a\0b", "x" * 5000, "/dev/zero"):
        with pytest.raises(LogReadError, match="expected a"):
            read_log(name)


def test_directories(write, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogReadError, match=r"empty: expected trainer_state\.json.*found nothing"):
        read_log(tmp_path / "empty")
    write("one/log.csv", GOOD)
    write("one/notes.txt", "x")
    assert read_log(tmp_path / "one").name == "one"
    write("two/a.csv", GOOD)
    write("two/b.csv", GOOD)
    with pytest.raises(LogReadError, match=r"expected one log in the directory, found a\.csv, b\.csv"):
        read_log(tmp_path / "two")


def test_formats_can_be_forced(write):
    path = write("a.log", GOOD)
    assert read_log(path, format="csv").format == "csv"
    with pytest.raises(LogReadError, match=r"a\.log: expected a format among .*csv.*found 'tsv'"):
        read_log(path, format="tsv")
    for name in set(all_readers()) - {
        "csv",
        "marked_table",
        "named_numbers",
    }:  # which find the same numbers in the text
        with pytest.raises(LogReadError, match=r"a\.log: expected (?!rows of metrics, found none; pass)"):
            read_log(path, format=name)


def test_control_characters_stay_out_of_messages_and_keys_are_counted(write):
    with pytest.raises(LogReadError) as error:
        read_log(write("a.csv", "step,\x1b[31mloss\x07\u202e\n1,0.1\n2,0.2\n"))
    assert not re.search(r"[\x00-\x1f\u202e]", str(error.value))
    with pytest.raises(LogReadError, match=r"a\.jsonl: expected a metrics log with at most 5000 distinct keys"):
        read_log(write("a.jsonl", [{f"k{i}": 1.0} for i in range(6000)]))


def test_frame(write):
    run = read_log(write("a.csv", "step,reward,kl,eval_reward\n1,0.1,1,\n2,0.2,2,\n3,,,0.5\n"))
    frame = to_frame(run)
    assert list(frame) == ["step", "reward", "kl", "eval_reward"]
    np.testing.assert_array_equal(
        frame.to_numpy(), [[1, 0.1, 1, np.nan], [2, 0.2, 2, np.nan], [3, np.nan, np.nan, 0.5]]
    )


SLIME = {"rollout/response_len/mean": 2773.7, "rollout/zero_std/count_0": 12, "rollout/truncated_ratio": 0.465}


def test_rows_of_a_trainer_without_a_reward_say_what_they_show_and_where_it_is(write):
    holds = r"1 row of slime .*completion length 2774, completions clipped ratio 0.465, filtered groups 12; slime"
    where = "logs its reward as rollout/raw_reward on the rows of its rollouts: pass that part of the log too"
    with pytest.raises(LogReadError, match=f"{holds} {where}"):
        read_log(write("run.log", f"(RolloutManager pid=1) rollout.py:1193 - perf 0: {SLIME}\n"))
    late = "\n".join([*[f"perf {i}: {SLIME}" for i in range(400)], *[f"{{'reward': 0.{i}}}" for i in range(1, 9)]])
    assert len(read_log(write("late.log", late)).reward) >= 8
    with pytest.raises(LogReadError, match="no reader knows"):
        read_log(write("other.log", "the config {'epoch': 3, 'lr': 0.1} was fine\n"))


def test_bytes_are_never_shown_as_text(write):
    data = bytes(x for x in range(1, 256)) * 8
    with pytest.raises(LogReadError, match=r"expected a log as text, .* found binary data; export") as error:
        read_log(write("log.bin", data))
    assert "seen:" not in str(error.value)
