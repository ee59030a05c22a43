"""`Monitor`: a home-made training loop tells its rewards, and hears what is to be thought of them.

Importing this costs no JAX: with ``background=True`` all computing is done by a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.wording import clean, listed
from bayes_grpo.decision.question import Question
from bayes_grpo.logs.assembling import Known, run_of
from bayes_grpo.logs.run import SIGNALS, Run
from bayes_grpo.logs.table import to_float
from bayes_grpo.training.background import EVERY, Background, BackgroundSetup
from bayes_grpo.watching.result import Alarm, Memory, Update, Watching


class Monitor:
    """Rows of a run that goes on, and updates on it: forecast, diagnosis, advice, alarms.

    >>> with Monitor(settings={"group_size": 8}, until=1000, background=True) as monitor:
    ...     for step in range(1, 1001):
    ...         reward, entropy = train_one_step()
    ...         monitor.add(step, reward, entropy=entropy)
    ...         if update := monitor.latest():
    ...             print(update.sentence)

    Rows follow the rules of logs: parts of one step are averaged where every step has them, and a step that goes back
    is a resume, which cuts what came after it.

    Args:
        settings: Values for fields of `Settings`, such as group_size, momentum, total_steps, reward_low, reward_high.
        until: Horizon of the forecasts, optimizer step; by default total_steps, else half as far again as the last
            step.
        question: Costs and values behind the advice to stop: a `Question` or its fields.
        background: Whether updates are made by a process beside this one, which no call waits for. `close` ends it, or
            the end of a ``with`` block, or that of this process.
        every: Seconds between the beginnings of two updates in the background.
        threads: Threads of the process beside; by default half of the processors, at most two.
        name: Name of the run.
        watching: Further fields of `Watching`: signal, alarm, lasting, least_rows, forecasts, draws, seed, like.

    Raises:
        SettingError: A setting or an option has an unknown name or an impossible value.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, Any] | None = None,
        until: float | None = None,
        question: Question | Mapping[str, Any] | None = None,
        background: bool = False,
        every: float = EVERY,
        threads: int | None = None,
        name: str = "run",
        **watching: Any,
    ) -> None:
        known = Known(name=name, settings=settings or {})
        self._setup = BackgroundSetup(known=known, watching=watching_of(until, question, watching), every=every)
        self._rows: list[dict[str, float]] = []
        self._memory: Memory | None = None
        self._update: Update | None = None
        self._alarms: tuple[Alarm, ...] = ()
        self._seen = 0
        self._beside = Background(self._setup, threads) if background else None

    def add(
        self,
        step: float,
        reward: float | None = None,
        *,
        eval_reward: float | None = None,
        components: Mapping[str, float] | None = None,
        **signals: float | None,
    ) -> None:
        """Adds what was logged at an optimizer step.

        Args:
            step: Optimizer step; the first update is step 1.
            reward: Mean train reward; None on a row without one.
            eval_reward: Held-out reward, where it was measured.
            components: Reward function → its mean reward.
            **signals: Any of `bayes_grpo.logs.SIGNALS`: reward_std, frac_reward_zero_std, entropy, kl, clip_ratio,
                grad_norm, completion_length, learning_rate, loss, accuracy, completions_clipped_ratio, gold_reward.

        Raises:
            SettingError: The step is no number, or a signal has another name.
        """
        if unknown := [name for name in signals if name not in SIGNALS]:
            raise SettingError(
                f"monitor: expected signals among {listed(SIGNALS, len(SIGNALS))}, found {listed(unknown)}; "
                "correct the name or leave it out"
            )
        row = {"step": step, "reward": reward, "eval_reward": eval_reward} | signals
        row |= {f"rewards/{clean(name)}/mean": value for name, value in (components or {}).items()}
        numbers = {name: number_of(value) for name, value in row.items() if value is not None}
        if not numbers.get("step", -1.0) >= 0:  # NaN included
            raise SettingError(f"monitor: expected the optimizer step as a number of at least 0, found {step!r}")
        self._rows.append(numbers)
        if self._beside is not None:
            self._beside.add([numbers])

    @property
    def run(self) -> Run:
        """The run so far, for every other function of this package.

        Raises:
            LogReadError: There are fewer than two rows with a reward.
        """
        return run_of(self._rows, self._setup.known)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All findings so far, each once."""
        return self._alarms if self._beside is None else self._beside.alarms

    def update(self) -> Update | None:
        """Looks at the run and waits for what is to be said; None with fewer than two rewards.

        The first look compiles; later ones take about a second. In the background it waits for the process beside.
        """
        if self._beside is not None:
            while self._beside.running and not self._beside.current:
                self._beside.wait(60.0)
            return self._beside.latest()
        if self._seen < len(self._rows):
            from bayes_grpo.watching.update import update_of

            try:
                run = self.run
            except BayesGrpoError:
                return None
            self._update, self._memory = update_of(run, self._setup.watching, self._memory)
            self._alarms += self._update.alarms
            self._seen = len(self._rows)
        return self._update

    def latest(self) -> Update | None:
        """The last update there is, at once; None before the first."""
        return self._update if self._beside is None else self._beside.latest()

    def close(self) -> None:
        """Ends the process beside this one, if there is one; nothing is left running."""
        if self._beside is not None:
            self._beside.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def watching_of(
    until: float | None, question: Question | Mapping[str, Any] | None, more: Mapping[str, Any]
) -> Watching:
    """What is asked of a run, from a caller's words.

    Args:
        until: Horizon, optimizer step.
        question: A `Question` or its fields.
        more: Further fields of `Watching`.

    Raises:
        SettingError: A field has an unknown name or an impossible value.
    """
    for given, known, what in ((more, Watching, "an option"), (question, Question, "a field of the question")):
        names = [
            field.name for field in fields(known) if field.name not in ("cost_told", "kept")
        ]  # no word of a caller's
        if isinstance(given, Mapping) and (unknown := [name for name in given if name not in names]):
            raise SettingError(f"monitor: expected {what} among {listed(names)}, found {listed(unknown)}")
    asked = Question(**question) if isinstance(question, Mapping) else question
    like = more.get("like", ())
    named = [like] if isinstance(like, str | os.PathLike) else like
    return Watching(until=until, question=asked, **{**more, "like": tuple(os.fspath(x) for x in named)})


def number_of(value: Any) -> float:
    """A value as a number, that of an array or tensor of one element included; NaN where it is none."""
    if hasattr(value, "item") and not isinstance(value, int | float):
        try:
            value = value.item()
        except (ValueError, RuntimeError):
            return float("nan")
    return to_float(value)
