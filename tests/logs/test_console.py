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


def test_dicts_are_counted_where_nothing_holds_the_step(write):
    text = "Loading checkpoint shards: 100%\n" + "\n".join(map(shown, ROWS)) + "\n" + SUMMARY
    run = read_log(write("out.log", text))
    lengths = {"completion_length": 200 + TENS}
    assert_read(run, "counted", step=range(1, 6), reward=0.1 + 0.01 * TENS, signals=lengths, format="console_dict")


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


@pytest.mark.parametrize("width", [40, 80, 131])
def test_dicts_wrapped_by_a_terminal(write, width):
    texts = [shown(r) for r in ROWS]
    text = "\n".join(text[i : i + width] for text in texts for i in range(0, len(text), width))
    assert_read(read_log(write("out.log", text)), reward=0.1 + 0.01 * TENS, signals={"entropy": 0.4})


def test_calls_and_bare_names_in_dicts(write):
    text = "\n".join(
        f"INFO 12:00 metrics: {{'step': {s}, 'reward': np.float64(0.{s}), 'loss': nan, 'entropy': -inf, "
        f"'kl': tensor(0.01, device='cuda:0')}}"
        for s in range(1, 6)
    )
    run = read_log(write("out.log", text))
    assert_read(run, reward=0.1 * run.step, signals={"kl": 0.01})
    assert "loss" not in run.signals


def test_nothing_in_a_log_is_executed(write, tmp_path):
    mark = tmp_path / "mark"
    evil = f"{{'reward': __import__('pathlib').Path({str(mark)!r}).touch()}}"
    assert len(read_log(write("out.log", "\n".join([evil, *map(shown, ROWS), evil]))).step) == 5
    assert not mark.exists()


def test_pairs(write):
    lines = ["[math] 800 examples, 40 unique problems", "[math] model=Qwen/Qwen3-8B seed=42 rank=32 lr=5e-06"]
    for s in range(1, 21):
        lines.append(f"[math]  {s:>3}/100 | loss=-{s}.5276 | reward=0.{s:02d} | acc=62.5%")
        lines += [f"[math]   -> ckpt s{s}"] if s % 10 == 0 else []
    lines += ["", "[math] DONE | last10=0.264 | run=1b01abef-0dc8:train:0", "[math] First-5 avg accuracy: 80.0%"]
    run = read_log(write("out.log", "\n".join(lines)))
    signals = {"accuracy": 0.625, "loss": -(run.step + 0.5276)}
    assert_read(run, step=range(1, 21), reward=0.01 * run.step, signals=signals, settings={"total_steps": 100})
    assert run.format == "console_pairs"


@pytest.mark.parametrize(
    "form",
    [
        "Step {s}/50 - reward: 0.{s}, kl: 1e-3",
        "2026-01-01 10:00:00 INFO step={s} reward=0.{s} kl=0.001",
        "[Step {s}] Reward: 0.{s} | KL: 0.001",
        "Iter {s}: loss 0.3, reward 0.{s}, kl 0.001",
        "step {s:>4} | reward   0.{s} | kl 0.001",
        "reward=0.{s} kl=0.001 step={s}",
        "2026-01-01 10:00:00,123 - INFO - __main__ - step {s} reward 0.{s} kl 0.001",
        "Epoch 1/1 Step {s}/50 - Loss: 0.01 - Reward: 0.{s} - KL 0.001",
        "Step {s}, mean_reward: 0.{s}, train success_rate: 0.10, grad_norm: 0.30, kl: 0.001",
    ],
)
def test_other_forms_of_pairs(write, form):
    run = read_log(write("out.log", "\n".join(form.format(s=s) for s in range(1, 8))))
    assert_read(run, step=range(1, 8), reward=0.1 * run.step, signals={"kl": 0.001})


@pytest.mark.parametrize(
    ("form", "epochs", "planned"),
    [
        ("Epoch:[{e}/3]({s}/20), Reward: -0.{s:02}, KL_ref: 0.02, Actor Loss: 0.1", (1, 2), 60),
        ("epoch: {e}, step: {s}, reward: 0.{s:02}", (0, 1, 2), None),
        ("Epoch {e} step {s}: reward = 0.{s:02}", (1, 2), None),
        ("Epoch {e}/3 | 0{s}/20 | reward=0.{s:02}", (1, 2), 60),
    ],
)
def test_steps_go_on_from_one_epoch_to_the_next(write, form, epochs, planned):
    lines = [form.format(e=e, s=s) for e in epochs for s in range(1, 21)]
    run = read_log(write("out.log", "nohup: ignoring input\nModel Params: 30.03M\n" + "\n".join(lines)))
    sign = -1 if "-0" in form else 1
    assert_read(run, step=range(1, 20 * len(epochs) + 1), reward=sign * 0.01 * ((run.step - 1) % 20 + 1))
    assert_read(run, settings={"total_steps": planned}, signals={"kl": 0.02} if sign < 0 else {})
    assert_read(read_log(write("first.log", "\n".join(lines[:20]))), step=range(1, 21))
    if planned is None or sign > 0:
        over_all = [form.format(e=1 + s // 20, s=s) for s in range(1, 41)]
        assert_read(read_log(write("on.log", "\n".join(over_all))), step=range(1, 41))


def test_epochs_may_count_steps_from_0(write):
    lines = [f"epoch: {e}, step: {s}, reward: 0.{s:02}" for e in (0, 1, 2) for s in range(10)]
    assert_read(read_log(write("out.log", "\n".join(lines))), step=range(30))


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


def test_a_progress_bar_without_a_planned_end_and_one_above_dictionaries(write):
    bars = [f"{s}it [01:02, 5.1s/it, mean reward= {s}%, kl=nan]" for s in range(1, 9)]
    run = read_log(write("out.log", "\r".join(bars)))
    np.testing.assert_allclose(run.reward, 0.01 * run.step)
    rows = [str({"step": 2 * s, "reward": 0.1 * s}) for s in range(1, 9)]
    assert read_log(write("both.log", "\n".join(bars + rows))).format == "console_dict"


def test_a_quote_that_is_lost_costs_its_line_alone(write):
    lines = [f"INFO {{'reward': 0.{s}, 'loss': 0.1, 'step': {s}}}" for s in range(1, 7)]
    lines[2] = lines[2].replace("'loss'", "'loss")
    run = read_log(write("train.log", "\n".join(lines)))
    assert_read(run, step=[1, 2, 4, 5, 6], reward=[0.1, 0.2, 0.4, 0.5, 0.6], format="console_dict")


def test_a_backslash_of_a_path_is_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_dict(r"{'loss': 0.1, 'path': 'C:\data', 'both': 'a\\d\\\d'}") == {
            "loss": 0.1,
            "path": r"C:\data",
            "both": r"a\d\\d",
        }
