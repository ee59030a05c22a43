"""The callback of `bayes_grpo.trl` without transformers: TRL, unsloth and ms-swift all have the events of its Trainer.

On rank 0 a process of its own makes updates: every row of the log goes there, and the last update that has come back
goes into the row. The training waits for nothing until its end, and no error of ours reaches it.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from enum import Enum
from typing import Any, Literal, Self

from bayes_grpo.common.errors import BayesGrpoWarning, SettingError
from bayes_grpo.common.text import listed
from bayes_grpo.decision.decide import StoppingCosts
from bayes_grpo.diagnosis.status import SEVERITY
from bayes_grpo.logs.formats import NO_ROWS, Parsed
from bayes_grpo.logs.keyindex import CALLBACK_PREFIX
from bayes_grpo.logs.options import checked, settings_of_args
from bayes_grpo.logs.table import to_float
from bayes_grpo.logs.trainers import trainer_named
from bayes_grpo.training.background import EVERY, Background, BackgroundSetup, Guard
from bayes_grpo.watching.notify import tracker_alert
from bayes_grpo.watching.result import Alarm, Memory, Update, Watching

StopRule = Literal["decision", "alarm"] | Callable[[Update], bool] | bool
"""When to stop: by the decision, at an alarm, at either (True), by a function of the update, never (False)."""
AGREEING = 3
"""Updates in a row that have to advise a stop before "decision" stops."""
FEWEST = 20
"""Rewards from which on "decision" may stop a training."""
SENTENCE = f"{CALLBACK_PREFIX}sentence"
"""Key of the update in words."""
_ALARM = f"{CALLBACK_PREFIX}alarm/"
_STEP = f"{CALLBACK_PREFIX}step"
_CLOSING = {"total_flos", "train_loss"}
"""Keys of the summary that closes a training; no step follows it."""


class Watcher:
    """Events of a training, as transformers' Trainer calls them.

    Args:
        horizon: Horizon of the forecasts, optimizer step; by default the planned length of the training.
        costs: Costs and values behind the advice to stop: a `StoppingCosts` or its fields.
        settings: Values for fields of `Settings`; they override the trainer's arguments.
        stop: When to stop the training, which then saves a checkpoint and ends as with its last step. A status alone
            stops nothing: an alarm has to last; a function may ask for the status.
        every: Seconds between the starts of two updates.
        threads: Threads of the process; by default half of the cores, at most two.
        alert: Tracker whose own alert every alarm raises in its open run: "wandb" or "trackio".
        finish: Seconds that the end of a training waits for the update about all its rows.
        watching: Further fields of `Watching`: signal, alarm, forecasts, seed, reference_runs.

    Raises:
        SettingError: An option has an unknown name or an impossible value.
        MissingExtraError: The client of the tracker is not installed.
    """

    def __init__(
        self,
        *,
        horizon: float | None = None,
        costs: StoppingCosts | Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        stop: StopRule = False,
        every: float = EVERY,
        threads: int | None = None,
        finish: float = 10.0,
        alert: str | None = None,
        **watching: Any,
    ) -> None:
        self._watching = watching_of(horizon, costs, watching)
        self._settings = checked(settings or {}, "settings")
        self._stop = stop
        self._alert = None if alert is None else tracker_alert(alert)
        self._every, self._threads, self._finish = every, threads, finish
        self._background: Background | None = None
        self._first = False
        self._guard = Guard("no more updates in the log", self._give_up)
        self._forget()
        if not (callable(stop) or stop in (True, False, "decision", "alarm")):
            raise SettingError(f"stop: expected True, False, decision, alarm or a function, found {stop!r}")
        known = self._watching.costs
        if stop == "decision" and (known is None or known.cost_per_step is None):
            raise SettingError(
                "stop: decision needs a cost and a value; give costs={'cost_per_step': …, 'value_per_reward': …}"
            )

    def attach(self, trainer: Any) -> Self:
        """Puts the callback before those that report, so that they see the entries of a row.

        ``Trainer.add_callback`` puts it behind them; then ``log_history`` alone has the entries.

        Args:
            trainer: A trainer of transformers, TRL, unsloth or ms-swift.

        Returns:
            This callback.

        Raises:
            SettingError: It is no such trainer.
        """
        prepend_callback(self, trainer)
        self._first = True
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Starts the process; rows of a resumed training go there first."""
        self.close()
        self._forget()
        with self._guard():
            if state.is_world_process_zero:
                self._warn_reporters(getattr(args, "report_to", ()))
                history = [row for row in state.log_history if row.get("step", 0) <= state.global_step]
                setup = BackgroundSetup(
                    facts=trainer_facts(args, state),
                    settings=self._settings,
                    watching=self._watching,
                    memory=Memory(alarmed=alarms_in(history)),
                    every=self._every,
                )
                self._background = Background(setup, self._threads)
                self._background.add([numbers_of(row) for row in history])

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Sends a row, and writes the last update into it unless an earlier row has it."""
        if self._background is None or logs is None:
            return
        with self._guard():
            self._background.add([numbers_of(logs) | {"step": float(state.global_step)}])
            last = not _CLOSING.isdisjoint(logs)
            update = self._background.wait(self._finish) if last else self._background.latest()
            if update is None or (update is self._written and not last):
                return
            write_entries(self._entries(update, last), state, logs)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stops by the rule, at the same step in all processes that train together."""
        if self._stop is False:
            return
        stop = False
        # Every process takes part at every step, or the others would wait for ever.
        with self._guard():
            stop = agree_across_ranks(self._wish, args)
        if stop:
            control.should_training_stop = True
            control.should_save = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ends the process."""
        self.close()

    def close(self) -> None:
        """Ends the process."""
        background = self._background
        self._background = None
        if background is not None:
            background.close()

    @property
    def pid(self) -> int | None:
        """Number of the process; None without one."""
        return None if self._background is None else self._background.pid

    def _forget(self) -> None:
        self._written: Update | None = None
        self._written_alarms, self._advising = 0, 0
        self._wish = False

    def _entries(self, update: Update, last: bool) -> dict[str, float | str]:
        """Entries of a row; updates the wish to stop."""
        assert self._background is not None
        alarms = self._background.alarms[self._written_alarms :]
        self._written_alarms += len(alarms)
        advises = stops_now(update) and update.rows >= FEWEST
        advising = self._advising
        self._advising = self._advising + 1 if advises else 0
        self._written = update
        raised = self._alert or (lambda _: "")
        for problem in filter(None, map(raised, alarms)):
            warnings.warn(problem, BayesGrpoWarning, stacklevel=2)
        entries: dict[str, float | str] = dict(entries_of(update, alarms))
        changed = bool(advising) != bool(self._advising)
        if alarms or changed or last:
            earlier = [f"ALARM: {alarm.sentence}" for alarm in alarms if alarm not in update.alarms]
            entries[SENTENCE] = " ".join([*earlier, update.sentence])
        rules = {"alarm": bool(alarms), "decision": self._advising >= AGREEING}
        if callable(self._stop):
            self._wish |= bool(self._stop(update))
        else:
            self._wish |= any(hit for rule, hit in rules.items() if self._stop in (True, rule))
        return entries

    def _warn_reporters(self, report_to: Any) -> None:
        names = [name for name in ([report_to] if isinstance(report_to, str) else report_to or ()) if name != "none"]
        if names and not self._first:
            with contextlib.suppress(Warning):
                warnings.warn(
                    f"{', '.join(map(str, names))} will not see the entries of this callback, which comes after them; "
                    "use callback.attach(trainer) in place of trainer.add_callback(callback)",
                    BayesGrpoWarning,
                    stacklevel=4,
                )

    def _give_up(self) -> None:
        self._wish = False
        self.close()


def watching_of(
    horizon: float | None, costs: StoppingCosts | Mapping[str, Any] | None, more: Mapping[str, Any]
) -> Watching:
    """`Watching` from a caller's options.

    Raises:
        SettingError: A field has an unknown name or an impossible value.
    """
    for given, known, what in ((more, Watching, "an option"), (costs, StoppingCosts, "a field of the costs")):
        names = [field.name for field in fields(known) if field.name != "saved"]  # read from the run
        if isinstance(given, Mapping) and (unknown := [name for name in given if name not in names]):
            raise SettingError(f"expected {what} among {listed(names)}, found {listed(unknown)}")
    if isinstance(costs, Mapping):
        costs = StoppingCosts(**costs)
    reference_runs = more.get("reference_runs", ())
    named = [reference_runs] if isinstance(reference_runs, str | os.PathLike) else reference_runs
    return Watching(horizon=horizon, costs=costs, **{**more, "reference_runs": tuple(os.fspath(x) for x in named)})


def number_of(value: Any) -> float:
    """A value as a number, also that of an array or tensor of one element; NaN for anything else."""
    if hasattr(value, "item") and not isinstance(value, int | float):
        try:
            value = value.item()
        except (ValueError, RuntimeError):
            return float("nan")
    return to_float(value)


def trainer_facts(args: Any, state: Any) -> Parsed:
    """Facts of a trainer about its run: its arguments as settings, its planned length."""
    plain = {name: value.value if isinstance(value, Enum) else value for name, value in vars(args).items()}
    scalars = {name: value for name, value in plain.items() if isinstance(value, int | float | str)}
    planned = number_of(getattr(state, "max_steps", None))
    spacing = number_of(getattr(state, "logging_steps", None))
    return replace(
        NO_ROWS,
        run_name=str(scalars.get("run_name") or "run"),
        trainer=trainer_named("TRL"),
        settings=settings_of_args(scalars, "the trainer's arguments"),
        total_steps=planned if planned > 0 else None,
        logging_steps=spacing if spacing >= 1 else None,
    )


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row, without our entries."""
    found = {name: number_of(value) for name, value in row.items() if not name.startswith(CALLBACK_PREFIX)}
    return {name: value for name, value in found.items() if value == value}


def agree_across_ranks(wish: bool, args: Any) -> bool:
    """The wish of rank 0, in all processes that train together; each has to call this.

    ``args`` are the trainer's arguments, which know its device.
    """
    torch: Any = sys.modules.get("torch")
    together = getattr(torch, "distributed", None)
    if together is None or not (together.is_available() and together.is_initialized()):
        return wish
    word = torch.tensor([int(wish)], device=getattr(args, "device", "cpu"))
    together.broadcast(word, src=0)
    return bool(word.item())


def prepend_callback(callback: Any, trainer: Any) -> None:
    """Puts a callback before the others of a trainer.

    Raises:
        SettingError: It is no trainer of transformers.
    """
    callbacks = getattr(getattr(trainer, "callback_handler", None), "callbacks", None)
    if not isinstance(callbacks, list):
        raise SettingError(f"attach: expected a trainer of transformers, found {type(trainer).__name__}")
    callbacks[:] = [callback, *(other for other in callbacks if other is not callback)]


def write_entries(entries: Mapping[str, Any], state: Any, logs: dict[str, Any]) -> None:
    """Writes entries into a row, which later callbacks see, and into its copy in the history that checkpoints keep."""
    logs |= entries
    if state.log_history and state.log_history[-1].get("step") == state.global_step:
        state.log_history[-1] |= entries


def entries_of(update: Update, alarms: Iterable[Alarm] = ()) -> dict[str, float]:
    """Numbers of an update, all finite: ``bayes_grpo/reward_now``, ``bayes_grpo/p/reward_hacking`` and so on.

    ``bayes_grpo/status`` is one number to put an alert on: 0 fine, done or unclear, 1 watch, 2 failing, 3 failed
    (`bayes_grpo.diagnosis.status`); ``bayes_grpo/p/failing`` is the probability that something fails. An interval is
    its median under its name, its ends under ``…_low`` and ``…_high``. ``bayes_grpo/stop_now`` is 1 where no further
    step is expected to pay, ``bayes_grpo/best_checkpoint`` the step of the checkpoint to take.
    ``alarms`` are those that are new to the log.
    """
    found: dict[str, float] = {"step": update.step, "rows": update.rows, "seconds": update.seconds}
    found |= {f"p/{name}": p for name, p in update.probability.items()}
    if update.probability:
        found["p/failing"] = update.failing
    if update.status is not None:
        found["status"] = float(SEVERITY[update.status.status])
    found |= {f"alarm/{alarm.finding}": alarm.probability for alarm in alarms}
    if (ahead := update.outlook) is not None:
        named = {"reward_now": ahead.now, "reward_at_horizon": ahead.at_horizon, "gain": ahead.remaining_gain}
        for name, x in named.items():
            found |= {name: x.median, f"{name}_low": x.low, f"{name}_high": x.high}
        found |= {"horizon": ahead.until, "gain_threshold": ahead.threshold}
        found |= {name: getattr(ahead, name) for name in ("p_gain", "p_peaked", "p_collapse", "p_takeoff")}
        if ahead.stop is not None:
            found |= {"stop_at": ahead.stop, "stop_now": float(stops_now(update))}
        if ahead.take is not None:
            found["best_checkpoint"] = ahead.take
    return {CALLBACK_PREFIX + name: float(value) for name, value in found.items() if math.isfinite(value)}


def stops_now(update: Update) -> bool:
    """True where an update advises to stop at once."""
    ahead = update.outlook
    return ahead is not None and ahead.stop is not None and ahead.stop <= update.step


def alarms_in(history: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Failure → step of the update that raised its alarm, from our entries in a log."""
    found: dict[str, float] = {}
    for row in history:
        for key in row:
            if key.startswith(_ALARM):
                found.setdefault(key.removeprefix(_ALARM), float(row.get(_STEP, row.get("step", 0.0))))
    return found
