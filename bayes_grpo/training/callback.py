"""What a callback of transformers' Trainer does, without transformers: TRL, unsloth and ms-swift all have its events.

The first of the processes that train together (rank 0) has a process beside it that makes updates. Every row of the
log goes there, and what has come back by then goes into the row. Nothing is waited for until training has ended, and
nothing is raised: a failure of ours is one warning, then silence.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Literal, Self

from bayes_grpo.common.errors import BayesGrpoWarning, SettingError
from bayes_grpo.decision.question import Question
from bayes_grpo.logs.assembling import Known
from bayes_grpo.logs.keyindex import OWN
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.training_args import settings_of_args
from bayes_grpo.training.background import EVERY, Background, BackgroundSetup
from bayes_grpo.training.entries import SAID, entries_of, sounded_in, stops_now
from bayes_grpo.training.monitor import number_of, watching_of
from bayes_grpo.training.one_warning import OneWarning
from bayes_grpo.watching.result import Memory, Update

StopRule = Literal["decision", "alarm"] | Callable[[Update], bool] | bool
"""When to stop: where the decision says so, at an alarm, at either (True), by a rule of one's own, never (False)."""
AGREEING = 3
"""Updates in a row that have to advise to stop before "decision" does."""
FEWEST = 20
"""Advice of fewer rewards than this does not stop a training."""
_CLOSING = {"total_flos", "train_loss"}
"""Keys of the summary that closes a training, after which no step comes."""


class Watcher:
    """Events of a training, as transformers' Trainer calls them.

    Args:
        until: Horizon of the forecasts, optimizer step; by default the planned length of the training.
        question: Costs and values behind the advice to stop: a `Question` or its fields.
        settings: Values for fields of `Settings`; they override what the trainer's arguments say.
        stop: When to stop the training. It then saves a checkpoint and ends as it does with its last step. The status
            of an update's top line alone stops nothing: an alarm has to last, and a function may ask for the status.
        every: Seconds between the beginnings of two updates.
        threads: Threads of the process beside; by default half of the processors, at most two.
        finish: Seconds that the end of a training waits for the update of all its rows.
        watching: Further fields of `Watching`: signal, alarm, lasting, least_rows, forecasts, draws, seed, like.

    Raises:
        SettingError: An option has an unknown name or an impossible value.
    """

    def __init__(
        self,
        *,
        until: float | None = None,
        question: Question | Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        stop: StopRule = False,
        every: float = EVERY,
        threads: int | None = None,
        finish: float = 10.0,
        **watching: Any,
    ) -> None:
        self._watching = watching_of(until, question, watching)
        self._settings = checked(settings or {}, "settings")
        self._stop = stop
        self._every, self._threads, self._finish = every, threads, finish
        self._background: Background | None = None
        self._first, self._warning = False, OneWarning()
        self._forget()
        self._check_rule()

    def attach(self, trainer: Any) -> Self:
        """Joins a trainer's callbacks, before those that report, so that they see what is written into a row.

        ``Trainer.add_callback`` would put it behind them: then ``log_history`` alone has our entries.

        Args:
            trainer: A trainer of transformers, TRL, unsloth or ms-swift.

        Returns:
            This callback.

        Raises:
            SettingError: It is no such trainer.
        """
        line = getattr(getattr(trainer, "callback_handler", None), "callbacks", None)
        if not isinstance(line, list):
            raise SettingError(f"attach: expected a trainer of transformers, found {type(trainer).__name__}")
        line[:] = [self, *(other for other in line if other is not self)]
        self._first = True
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Starts the process beside; rows of an earlier training that is resumed go there first."""
        self.close()
        self._forget()
        with self._no_harm():
            if state.is_world_process_zero:
                self._say_who_sees(getattr(args, "report_to", ()))
                history = [row for row in state.log_history if row.get("step", 0) <= state.global_step]
                setup = BackgroundSetup(
                    known=known_by(args, state, self._settings),
                    watching=self._watching,
                    memory=Memory(sounded=sounded_in(history)),
                    every=self._every,
                )
                self._background = Background(setup, self._threads)
                self._background.add([numbers_of(row) for row in history])

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Hands a row over, and writes the last update into it, where there is one that no row has."""
        if self._background is None or logs is None:
            return
        with self._no_harm():
            self._background.add([numbers_of(logs) | {"step": float(state.global_step)}])
            last = not _CLOSING.isdisjoint(logs)
            update = self._background.wait(self._finish) if last else self._background.latest()
            if update is None or (update is self._written and not last):
                return
            entries: dict[str, Any] = dict(self._entries(update, last))
            logs |= entries  # seen by the callbacks after this one, those that report among them
            if state.log_history and state.log_history[-1].get("step") == state.global_step:
                state.log_history[-1] |= entries  # a copy of `logs`, the one that checkpoints keep

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stops, where that was asked for, at the same step in all processes that train together."""
        if self._stop is False:
            return
        stop = False
        # Every process takes part at every step, whatever else has failed in it: the others would wait for ever.
        with self._no_harm():
            stop = agreed(self._wish, args)
        if stop:
            control.should_training_stop = True
            control.should_save = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends the process beside."""
        self.close()

    def close(self) -> None:
        """Ends the process beside; nothing is left running."""
        background, self._background = self._background, None
        if background is not None:
            background.close()

    @property
    def pid(self) -> int | None:
        """Number of the process beside; None where there is none."""
        return None if self._background is None else self._background.pid

    def _forget(self) -> None:
        self._written: Update | None = None
        self._told, self._advising = 0, 0
        self._wish = False

    def _entries(self, update: Update, last: bool) -> dict[str, float | str]:
        """What a row gets, and what it means for the wish to stop."""
        assert self._background is not None
        alarms, self._told = self._background.alarms[self._told :], len(self._background.alarms)
        advises = stops_now(update) and update.rows >= FEWEST
        advising, self._advising = self._advising, self._advising + 1 if advises else 0
        self._written = update
        entries: dict[str, float | str] = dict(entries_of(update, alarms))
        changed = bool(advising) != bool(self._advising)
        if alarms or changed or last:
            earlier = [f"ALARM: {alarm.sentence}" for alarm in alarms if alarm not in update.alarms]
            entries[SAID] = " ".join([*earlier, update.sentence])
        rules = {"alarm": bool(alarms), "decision": self._advising >= AGREEING}
        if callable(self._stop):
            self._wish |= bool(self._stop(update))
        else:
            self._wish |= any(hit for rule, hit in rules.items() if self._stop in (True, rule))
        return entries

    def _check_rule(self) -> None:
        if not (callable(self._stop) or self._stop in (True, False, "decision", "alarm")):
            raise SettingError(f"stop: expected True, False, decision, alarm or a function, found {self._stop!r}")
        question = self._watching.question
        if self._stop == "decision" and (question is None or question.value is None):
            raise SettingError(
                "stop: found decision without what it rests on; give question={'cost_per_step': …, "
                "'value_per_reward': …}, 'gpus' in place of the cost, or 'steps_per_point' in place of both"
            )

    def _say_who_sees(self, report_to: Any) -> None:
        names = [name for name in ([report_to] if isinstance(report_to, str) else report_to or ()) if name != "none"]
        if names and not self._first:
            with contextlib.suppress(Warning):
                warnings.warn(
                    f"{', '.join(map(str, names))} will not see what is written into a row, because they come first; "
                    "use callback.attach(trainer) in place of trainer.add_callback(callback)",
                    BayesGrpoWarning,
                    stacklevel=4,
                )

    @contextlib.contextmanager
    def _no_harm(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._wish = False
            self.close()
            self._warning.say(f"no more updates in the log: {type(error).__name__}: {error}")


def known_by(args: Any, state: Any, settings: Mapping[str, Any]) -> Known:
    """What a trainer knows of its run: its arguments as settings, its planned length.

    Args:
        args: Its arguments.
        state: Its state.
        settings: Settings that the user states.
    """
    plain = {name: value.value if isinstance(value, Enum) else value for name, value in vars(args).items()}
    scalars = {name: value for name, value in plain.items() if isinstance(value, int | float | str)}
    planned, spacing = number_of(getattr(state, "max_steps", None)), number_of(getattr(state, "logging_steps", None))
    return Known(
        name=str(scalars.get("run_name") or "run"),
        trainer="trl",
        settings=settings,
        stated=settings_of_args(scalars, "the trainer's arguments"),
        total_steps=planned if planned > 0 else None,
        logging_steps=spacing if spacing >= 1 else None,
    )


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row, without our own."""
    found = {name: number_of(value) for name, value in row.items() if not name.startswith(OWN)}
    return {name: value for name, value in found.items() if value == value}


def agreed(wish: bool, args: Any) -> bool:
    """The wish of the first of the processes that train together, told to all of them; each has to ask.

    Args:
        wish: What this process wishes; that of the first one counts.
        args: Arguments of the trainer, which know its device.
    """
    torch: Any = sys.modules.get("torch")
    together = getattr(torch, "distributed", None)
    if together is None or not together.is_available() or not together.is_initialized():
        return wish
    if together.get_world_size() == 1:
        return wish
    word = torch.tensor([int(wish)], device=getattr(args, "device", "cpu"))
    together.broadcast(word, src=0)
    return bool(word.item())
