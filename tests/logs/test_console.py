"""Console text: dictionaries, lines of pairs, headings, progress bars."""

import warnings

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.readers.console_dict import parse_dict
from tests.logs.log_samples import assert_read, trl_row


def shown(row: dict) -> str:
    """A row as transformers 5 prints it: floats are text of four digits, no step."""
    return str({k: f"{v:.4g}" for k, v in row.items() if k != "step"})


TENS = np.arange(10, 60, 10)
ROWS = [trl_row(s, 0.1 + 0.01 * s) for s in TENS.tolist()]


def test_nothing_in_a_log_is_executed(write, tmp_path):
    mark = tmp_path / "mark"
    evil = f"{{'reward': __import__('pathlib').Path({str(mark)!r}).touch()}}"
    assert len(read_log(write("out.log", "\n".join([evil, *map(shown, ROWS), evil]))).step) == 5
    assert not mark.exists()


def test_a_training_may_come_after_much_other_output_and_prose_is_refused(write):
    before = "".join(f"[12:00:{s % 60:02}] loading shard {s} of the reward model into memory\n" for s in range(2000))
    rows = "".join(f"step {s}/500  mean_reward=0.{s}  kl=-0.5\n" for s in TENS)
    assert_read(read_log(write("out.log", before + rows)), step=TENS, reward=0.01 * TENS)
    with pytest.raises(LogReadError, match=r"no reader knows; seen: .*loading shard 0"):
        read_log(write("prose.log", before))
    words = "PHASE 9: PERFORMANCE (step {0})\n  Average reward: 0.2{0}\n  Gen 1: Reward= 0.6 | M: a\n"
    with pytest.raises(LogReadError, match=r"no reader knows; seen: 'PHASE 9.*CSV.*step,reward.*format"):
        read_log(write("out.log", "".join(map(words.format, range(9)))))


def test_a_backslash_of_a_path_is_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_dict(r"{'loss': 0.1, 'path': 'C:\data', 'both': 'a\\d\\\d'}") == {
            "loss": 0.1,
            "path": r"C:\data",
            "both": r"a\d\\d",
        }


def test_keys_without_a_heading_are_read_from_a_long_text(write):
    lines = (f"INFO | reward/avg_raw_reward: {0.3 + i / 1000}, reward/avg_pass_at_4: 0.9\n" for i in range(300))
    assert_read(read_log(write("train.log", "".join(lines))), reward=0.3 + np.arange(300) / 1000)
