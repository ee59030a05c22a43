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
SUMMARY = str({"train_runtime": "99.0", "train_loss": "0.5", "epoch": "0.1"})


def bar(done: int, total: int = 50) -> str:
    return f"\r {2 * done}%|█████▏    | {done}/{total} [01:02<24:10,  6.04s/it]"


def test_the_progress_bar_holds_the_step(write):
    text = "Generating train split: 100%|██████████| 7473/7473 [00:00<00:00, 303210.03 examples/s]\n"
    for r in ROWS:
        text += "".join(map(bar, range(r["step"] - 9, r["step"] + 1))) + "\n" + shown(r) + "\n"
    text += str({"eval_loss": "0.1", "eval_reward": "0.77", "epoch": "0.1"}) + "\n" + SUMMARY
    run = read_log(write("out.log", text))
    assert_read(run, step=TENS, evals={50: 0.77}, settings={"total_steps": (50, "logged")})
    assert run.window.tolist() == [10] * 5
    text = "".join(f"{bar(r['step'])}\x1b[A\x1b[32m{shown(r)}\x1b[0m\r\n" for r in ROWS)  # glued to it and colored
    assert_read(read_log(write("out.log", text)), step=TENS)


def test_nothing_in_a_log_is_executed(write, tmp_path):
    mark = tmp_path / "mark"
    evil = f"{{'reward': __import__('pathlib').Path({str(mark)!r}).touch()}}"
    assert len(read_log(write("out.log", "\n".join([evil, *map(shown, ROWS), evil]))).step) == 5
    assert not mark.exists()


def test_headings_of_steps(write):
    blocks = [
        f"===== Step {s}/50 =====\nPrompt 1: reward: 0.9\nSampled: What is 2 + 2?\n  Mean reward: 0.{s:02}\n"
        f"- KL: 0.002\nAccuracy: 25%\nReward: 1.0\nReward: 0.0\n"
        for s in range(1, 31)
    ]
    run = read_log(write("out.log", "Loading model\n" + "".join(blocks)))
    assert_read(run, step=range(1, 31), reward=0.01 * run.step, signals={"kl": 0.002, "accuracy": 0.25})
    assert_read(run, settings={"total_steps": 50}, format="step_blocks")
    cut = write("cut.log", "".join(blocks)[: -len(blocks[-1]) + 80])
    assert read_log(cut, whole_lines=True).step[-1] >= 29


def test_a_training_may_come_after_much_other_output_and_prose_is_refused(write):
    before = "".join(f"[12:00:{s % 60:02}] loading shard {s} of the reward model into memory\n" for s in range(2000))
    rows = "".join(f"step {s}/500  mean_reward=0.{s}  kl=-0.5\n" for s in TENS)
    assert_read(read_log(write("out.log", before + rows)), step=TENS, reward=0.01 * TENS)
    with pytest.raises(LogReadError, match=r"no reader knows; seen: .*loading shard 0"):
        read_log(write("prose.log", before))
    words = "PHASE 9: PERFORMANCE (step {0})\n  Average reward: 0.2{0}\n  Gen 1: Reward= 0.6 | M: a\n"
    with pytest.raises(LogReadError, match=r"no reader knows; seen: 'PHASE 9.*CSV.*step,reward.*format"):
        read_log(write("out.log", "".join(map(words.format, range(9)))))


@pytest.mark.parametrize("end", ["\r", "\n"])
def test_metrics_in_a_progress_bar(write, end):
    def bar(done: int, reward: float) -> str:
        return f"GRPO: {2 * done}%|█▏   | {done}/50 [01:02<07:30,  5.1s/it, loss=0.12, reward={reward:.3f}]"

    # A bar is drawn when its metrics are set, and again when the step is counted.
    shown = [bar(done, 0.01 * s) for s in range(1, 31) for done in (s - 1, s)]
    text = "Loading: 100%|███| 4/4 [00:01<00:00, 3.5it/s]\n" + end.join(shown) + end
    run = read_log(write("out.log", text))
    note = "read from a progress bar, which rounds"
    assert_read(run, note, step=range(1, 31), reward=0.01 * run.step, signals={"loss": 0.12}, format="progress_bar")
    assert run.settings.total_steps.value == 50


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
