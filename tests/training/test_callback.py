"""What the callback does, with stand-ins for a trainer's state, control and arguments: no transformers is needed."""

import importlib
import json
import re
import sys
import warnings
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_grpo.common.errors import BayesGrpoWarning, MissingExtraError, SettingError
from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.logs.assembling import run_of
from bayes_grpo.logs.reading import read_log
from bayes_grpo.training import callback as module
from bayes_grpo.training.background import BackgroundSetup
from bayes_grpo.training.callback import AGREEING, SENTENCE, Watcher, entries_of, trainer_facts
from bayes_grpo.watching.result import Alarm, Outlook, Update
from tests.helpers.pages import DOCS
from tests.helpers.paths import not_none

HERE = Interval(0.5, 0.4, 0.6, 0.9)
QUESTION = {"cost_per_step": 1.0, "value_per_reward": 100.0}


class Schedule(Enum):
    """As transformers' own enumeration of schedules."""

    LINEAR = "linear"


ARGUMENTS = SimpleNamespace(
    num_generations=8,
    generation_batch_size=64,
    per_device_train_batch_size=32,
    gradient_accumulation_steps=2,
    steps_per_generation=4,
    num_iterations=2,
    adam_beta1=0.8,
    lr_scheduler_type=Schedule.LINEAR,
    optim="adamw_torch",
    logging_steps=5,
    max_steps=-1,
    device="cpu",
)


@dataclass
class State:
    """As much of transformers' TrainerState as the callback reads."""

    global_step: int = 0
    max_steps: int = 100
    logging_steps: int = 1
    is_world_process_zero: bool = True
    log_history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Control:
    """As much of transformers' TrainerControl as the callback sets."""

    should_training_stop: bool = False
    should_save: bool = False


class Reporter:
    """A callback that reports, as that of W&B does: it keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        self.seen.append(dict(logs))


class Training:
    """A trainer as transformers has it: events go to its handler's list of callbacks, those that report first."""

    def __init__(self, watcher: Watcher, state: State | None = None, attached: bool = True) -> None:
        self.state, self.control, self.reporter = state or State(), Control(), Reporter()
        self.callback_handler = SimpleNamespace(callbacks=[self.reporter])
        if attached:
            assert watcher.attach(self) is watcher
        else:
            self.callback_handler.callbacks.append(watcher)  # as Trainer.add_callback does
        self.call("on_train_begin")

    def call(self, event: str, **more: Any) -> None:
        for callback in self.callback_handler.callbacks:
            getattr(callback, event)(ARGUMENTS, self.state, self.control, model=None, **more)

    def step(self, **logs: Any) -> dict[str, Any]:
        self.state.global_step += 1
        self.call("on_step_end")
        self.state.log_history.append(logs | {"step": self.state.global_step})
        self.call("on_log", logs=logs)
        return self.state.log_history[-1]


class FakeBackground:
    """In the place of the background process: it answers with the update that a test gives it."""

    def __init__(self, setup: BackgroundSetup, threads: int | None) -> None:
        self.setup, self.rows, self.closed, self.waited = setup, [], False, 0.0
        self.update: Update | None = None
        self.alarms: tuple[Alarm, ...] = ()
        self.pid = 1
        made.append(self)

    def add(self, rows: Any) -> None:
        self.rows += rows

    def latest(self) -> Update | None:
        return self.update

    def wait(self, seconds: float) -> Update | None:
        self.waited += seconds
        return self.update

    def close(self) -> None:
        self.closed = True

    def answer_with(self, update: Update) -> None:
        self.update = update
        self.alarms += update.alarms


made: list[FakeBackground] = []


@pytest.fixture(autouse=True)
def fake_background(monkeypatch):
    made.clear()
    monkeypatch.setattr(module, "Background", FakeBackground)


def update(step: float, stop: float | None = None, alarms: tuple[Alarm, ...] = (), rows: int = 50) -> Update:
    outlook = Outlook(
        until=100,
        until_from="planned length",
        now=HERE,
        at_horizon=Interval(0.7, 0.6, 0.8, 0.9),
        remaining_gain=Interval(0.2, -0.1, float("nan"), 0.9),
        highest=float("inf"),
        threshold=0.01,
        p_gain=0.8,
        p_peaked=0.1,
        p_collapse=0.05,
        p_takeoff=0.0,
        weights={"overdamped": 1.0},
        sentence="the reward is likely to rise.",
        stop=stop,
        advice="",
    )
    return Update(
        name="run",
        step=step,
        rows=rows,
        reward=0.5,
        probability={"policy_concentration": 0.02, "reward_hacking": 0.05},
        outlook=outlook,
        alarms=alarms,
        alarmed={},
        notes=(),
        seconds=0.5,
    )


def alarm(finding: str = "policy_concentration", step: float = 5.0) -> Alarm:
    return Alarm(
        finding=finding, probability=0.95, step=step, rows=5, since=None, sentence="Gone.", remedies=(), name="run"
    )


# What goes where


def test_rows_go_to_the_process_and_updates_come_into_rows_that_reporting_callbacks_see_and_checkpoints_keep():
    training = Training(Watcher())
    (background,) = made
    training.step(reward=0.5, entropy=1.0, text="words", nothing=None)
    assert background.rows == [{"reward": 0.5, "entropy": 1.0, "step": 1.0}]
    assert training.reporter.seen[-1] == {"reward": 0.5, "entropy": 1.0, "text": "words", "nothing": None}
    background.answer_with(update(1))
    row = training.step(reward=0.6)
    assert training.reporter.seen[-1] | {"step": 2} == row
    assert row["bayes_grpo/step"] == 1
    assert row["bayes_grpo/p/reward_hacking"] == 0.05
    assert row["bayes_grpo/p/failing"] == pytest.approx(0.069)
    assert (row["bayes_grpo/reward_now_low"], row["bayes_grpo/reward_now"]) == (0.4, 0.5)
    assert row["bayes_grpo/reward_at_horizon"] == pytest.approx(0.7)
    assert row["bayes_grpo/horizon"] == 100
    assert "bayes_grpo/gain_high" not in row  # it is not finite
    assert "bayes_grpo/stop_at" not in row  # nobody asked
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert "bayes_grpo/step" not in training.step(reward=0.7)  # the same update is not written twice
    assert all(not key.startswith("bayes_grpo/") for sent in background.rows for key in sent)


def test_words_are_written_with_an_alarm_with_a_change_of_the_advice_and_at_the_end():
    training = Training(Watcher(costs=QUESTION, finish=7.0))
    (background,) = made
    written = []
    for i, (stop, alarms) in enumerate([(90.0, ()), (90.0, (alarm(),)), (3.0, ()), (4.0, ()), (90.0, ())], 1):
        background.answer_with(update(i, stop, alarms))
        row = training.step(reward=0.5)
        written.append("bayes_grpo/sentence" in row)
        assert row["bayes_grpo/stop_now"] == float(stop <= i)
        assert ("bayes_grpo/alarm/policy_concentration" in row) == bool(alarms)
        assert row.get("bayes_grpo/sentence", "").count("ALARM") == len(alarms)
    assert written == [False, True, True, False, True]
    assert background.waited == 0
    background.answer_with(update(6, 90.0))
    assert "The reward is likely to rise" in training.step(train_runtime=1.0, total_flos=0.0)["bayes_grpo/sentence"]
    assert background.waited == 7.0
    assert "bayes_grpo/sentence" in training.step(train_runtime=1.0, total_flos=0.0)  # although a row has the update
    training.call("on_train_end")
    assert background.closed


def test_alarms_of_updates_that_no_row_was_there_for_are_not_lost():
    training = Training(Watcher())
    (background,) = made
    background.answer_with(update(1, alarms=(alarm(),)))
    background.answer_with(update(2))
    row = training.step(reward=0.5)
    assert row["bayes_grpo/alarm/policy_concentration"] == 0.95
    assert row["bayes_grpo/sentence"].startswith("ALARM: Gone. Step 2,")


def test_only_the_first_of_the_processes_that_train_together_has_one():
    training = Training(Watcher(stop=True), State(is_world_process_zero=False))
    training.step(reward=0.5)
    training.call("on_train_end")
    assert made == []
    assert not training.control.should_training_stop


def test_a_resumed_training_hands_over_its_rows_up_to_the_checkpoint_and_the_alarms_that_it_had():
    history = [{"step": i, "reward": 0.1 * i, "bayes_grpo/step": i - 1.0} for i in range(1, 9)]
    history[3]["bayes_grpo/alarm/policy_concentration"] = 0.95
    Training(Watcher(), State(global_step=6, log_history=history))
    (background,) = made
    assert [row["step"] for row in background.rows] == [1, 2, 3, 4, 5, 6]
    assert background.setup.memory.alarmed == {"policy_concentration": 3.0}


# Settings


def test_the_trainers_arguments_are_settings():
    known = trainer_facts(ARGUMENTS, State(max_steps=300, logging_steps=5))
    run = run_of(
        [{"step": 5.0 * i, "reward": 0.5, "learning_rate": 1e-6} for i in range(1, 9)], known, {"reward_low": 0}
    )
    values = {name: setting.value for name, setting in run.settings.items()}
    assert values["group_size"] == 8
    assert values["prompts_per_step"] == 4  # 64 completions for 4 steps, of which an update takes 2
    assert values["refresh_interval"] == 4  # 4 steps twice, 2 an update
    assert (values["momentum"], values["momentum_convention"]) == (0.8, "ema")
    assert (values["total_steps"], values["logging_window"], values["reward_low"]) == (300, 5, 0)
    assert run.settings.schedule.value == "logged"
    assert "the trainer's arguments" in run.settings.group_size.note


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"stop": "sometimes"}, "stop: expected True, False, decision, alarm or a function"),
        ({"stop": "decision"}, "stop: decision needs a cost and a value"),
        ({"settings": {"group_size": 0}}, "group_size to be a whole number"),
        ({"lasts": 3}, "horizon, costs, .* found lasts"),
        ({"costs": {"cost": 1}}, "cost_per_step, .* found cost"),
        ({"alarm": 2}, "alarm: expected a probability"),
    ],
)
def test_an_option_that_is_none_is_refused_before_training(options, found):
    with pytest.raises(SettingError, match=found):
        Watcher(**options)


# Stopping


def stopped_at(training: Training, updates: list[Update]) -> int | None:
    """Step at whose end the training was told to stop, where each update comes before a step."""
    for latest in updates:
        made[-1].answer_with(latest)
        training.step(reward=0.5)
        if training.control.should_training_stop:
            return training.state.global_step
    return None


DECISION = {"stop": "decision", "costs": QUESTION}


@pytest.mark.parametrize(
    ("options", "updates", "step"),
    [
        ({"stop": "alarm"}, [update(i, alarms=(alarm(),) if i == 2 else ()) for i in range(1, 5)], 3),
        (DECISION, [update(i, stop=i if i % AGREEING else 90) for i in range(1, 12)], None),
        (DECISION, [update(i, stop=i, rows=i) for i in range(1, 12)], None),
        (DECISION | {"stop": True}, [update(i, stop=min(i, 4)) for i in range(1, 12)], AGREEING + 1),
        ({"stop": lambda latest: latest.step >= 5}, [update(i) for i in range(1, 9)], 6),
    ],
    ids=["an alarm", "advice that wavers", "of few rows", "the same several times in a row", "a rule of one's own"],
)
def test_a_training_stops_and_saves_at_an_alarm_at_advice_or_by_a_rule(options, updates, step):
    training = Training(Watcher(**options))
    assert stopped_at(training, updates) == step
    assert training.control.should_save == (step is not None)


# Never a harm


@pytest.mark.parametrize("event", ["add", "latest", "wait"])
def test_a_failure_of_ours_is_one_warning_then_silence(event, monkeypatch):
    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    training = Training(Watcher(stop=True))
    monkeypatch.setattr(FakeBackground, event, fail)
    with pytest.warns(BayesGrpoWarning, match="no more updates in the log: RuntimeError: broken"):
        training.step(reward=0.5, **({"total_flos": 0.0} if event == "wait" else {}))
    with warnings.catch_warnings(action="error"):
        training.step(reward=0.5)
        training.call("on_train_end")
    assert made[0].closed
    assert len(training.reporter.seen) == 2


@pytest.mark.filterwarnings("error")
def test_a_rule_that_fails_does_not_stop_and_does_not_raise():
    training = Training(Watcher(stop=lambda latest: latest.missing))  # pyright: ignore[reportAttributeAccessIssue]
    assert stopped_at(training, [update(i) for i in range(1, 5)]) is None


@pytest.mark.filterwarnings("error")
def test_a_callback_that_was_only_added_still_writes_into_the_log_history():
    training = Training(Watcher(), attached=False)
    made[0].answer_with(update(1))
    row = training.step(reward=0.5)
    assert row["bayes_grpo/step"] == 1
    assert training.reporter.seen == [{"reward": 0.5}]


def test_who_only_adds_it_is_told_that_those_who_report_see_nothing(monkeypatch):
    monkeypatch.setattr(ARGUMENTS, "report_to", ["wandb"], raising=False)
    with pytest.warns(BayesGrpoWarning, match=r"wandb will not see .* use callback\.attach\(trainer\)"):
        Training(Watcher(), attached=False)
    with warnings.catch_warnings(action="error"):
        Training(Watcher())
        monkeypatch.setattr(ARGUMENTS, "report_to", "none")
        Training(Watcher(), attached=False)


def test_it_is_attached_once_and_comes_before_whoever_joins_later():
    watcher = Watcher()
    training = Training(watcher)
    training.callback_handler.callbacks.append(later := Reporter())
    watcher.attach(training)
    assert training.callback_handler.callbacks == [watcher, training.reporter, later]


def test_without_transformers_the_import_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "bayes_grpo.trl", raising=False)
    with pytest.raises(MissingExtraError, match=r"expected transformers, .* bayes-grpo watch LOG"):
        importlib.import_module("bayes_grpo.trl")


# Our own entries in a log


@pytest.mark.parametrize("prefix", ["", "train/"])
@pytest.mark.parametrize("kind", ["trainer_state.json", "metrics.jsonl", "log.csv"])
def test_a_log_reads_the_same_with_and_without_our_entries(tmp_path: Path, prefix: str, kind: str):
    rng = np.random.default_rng(0)
    rows = [{"step": i, "reward": round(float(rng.uniform()), 3), "kl": 0.1 * i} for i in range(1, 21)]
    ours = {f"{prefix}{key}": value for key, value in module.entries_of(update(1, stop=5.0), (alarm(),)).items()}
    runs = []
    for name, extra in (("without", {}), ("with", ours | {f"{prefix}bayes_grpo/sentence": "Stop."})):
        (tmp_path / name).mkdir()
        path = tmp_path / name / kind
        full = [row | (extra if i % 3 else {}) for i, row in enumerate(rows)]
        if kind.endswith("csv"):
            keys = [*rows[0], *extra]
            lines = [",".join(keys), *(",".join(str(row.get(key, "")) for key in keys) for row in full)]
            path.write_text("\n".join(lines))
        elif kind.endswith("jsonl"):
            path.write_text("".join(json.dumps(row) + "\n" for row in full))
        else:
            path.write_text(json.dumps({"log_history": full, "max_steps": 50, "logging_steps": 1}))
        runs.append(read_log(path))
    first, second = runs
    assert first.step.tolist() == second.step.tolist()
    assert first.reward.tolist() == second.reward.tolist()
    assert {k: v.tolist() for k, v in first.signals.items()} == {k: v.tolist() for k, v in second.signals.items()}
    assert (first.keys, first.settings, first.notes) == (second.keys, second.settings, second.notes)


SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", (DOCS / "live.md").read_text(encoding="utf-8"), re.M | re.S))


def test_every_key_of_the_table_is_one_that_we_write():
    kept = update(5, stop=9.0)
    status = Status("fine", Finding(kind="rising", probability=0.8), Action(kind="go_on"))
    kept = replace(kept, status=status, outlook=replace(not_none(kept.outlook), take=4.0))
    written = {*entries_of(kept, (alarm(),)), SENTENCE}
    told = re.findall(r"`bayes_grpo/([\w/]+)`", SECTIONS["TRL, unsloth, ms-swift"])
    told = [name for name in told if name != "p/reward_hacking"]  # the stand-in has two answers
    assert told
    assert all(f"bayes_grpo/{name}" in written for name in told)
