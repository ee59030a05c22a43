"""What docs/live.md shows is run, with stand-ins for the trainers."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bayes_grpo.logs.run import SIGNALS
from bayes_grpo.training import monitor as module
from bayes_grpo.training.monitor import Monitor

PAGE = Path(__file__).resolve().parents[2] / "docs" / "live.md"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S))


def block(section: str) -> str:
    """The first piece of Python in a section."""
    return re.findall(r"```python\n(.*?)```", SECTIONS[section], re.S)[0]


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    class Nobody:
        def __init__(self, *_: Any) -> None:
            self.alarms = ()

        def add(self, rows: Any) -> None:
            pass

        def latest(self) -> None:
            return None

        def close(self) -> None:
            pass

    monkeypatch.setattr(module, "Background", Nobody)


def test_a_loop_of_ones_own():
    names: dict[str, Any] = {"train_one_step": lambda: (0.5, 1.0, 0.01)}
    exec(block("A loop of your own"), names)
    assert len(names["monitor"].run.step) == 1000
    assert set(names["monitor"].run.signals) == {"entropy", "kl"}
    assert all(f"`{name}`" in SECTIONS["A loop of your own"] for name in SIGNALS)


def test_tinker():
    monitor = Monitor()
    for batch in range(3):
        exec(
            block("tinker"),
            {"monitor": monitor, "batch_idx": batch, "metrics": {"reward/total": 0.5, "optim/lr": 1e-5}},
        )
    assert monitor.run.step.tolist() == [1, 2, 3]


def test_nemo_rl(monkeypatch):
    theirs = ModuleType("nemo_rl.utils.logger")
    theirs.LoggerInterface = object  # pyright: ignore[reportAttributeAccessIssue]
    for name in ("nemo_rl", "nemo_rl.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "nemo_rl.utils.logger", theirs)
    logger = SimpleNamespace(loggers=[])
    exec(block("NeMo-RL"), {"logger": logger})
    (beside,) = logger.loggers
    for step in range(1, 5):
        beside.log_metrics({"reward": 0.1 * step, "lr": 1e-6, "approx_entropy": 1.0}, step, "train", None)
        beside.log_metrics({"accuracy": 0.2}, step, prefix="validation")
        beside.log_metrics({"total_step_time": 3.0}, step, "timing/train")
    beside.log_hyperparams({})
    beside.log_plot(None, 1, "name")
    run = beside.monitor.run
    assert run.reward.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert run.eval_reward.tolist() == [0.2] * 4
    assert run.signals["learning_rate"].tolist() == [1e-6] * 4
    assert run.settings.group_size.value == 16


def test_every_key_of_the_table_is_one_that_we_write():
    from bayes_grpo.training.callback import SENTENCE, entries_of
    from tests.training.test_callback import alarm, update

    kept = update(5, stop=9.0)
    assert kept.outlook is not None
    kept = replace(kept, outlook=replace(kept.outlook, take=4.0))
    written = {*entries_of(kept, (alarm(),)), SENTENCE}
    told = re.findall(r"`bayes_grpo/([\w/]+)`", SECTIONS["TRL, unsloth, ms-swift"])
    told = [name for name in told if name != "p/reward_hacking"]  # the stand-in has two answers
    assert told
    assert all(f"bayes_grpo/{name}" in written for name in told)
