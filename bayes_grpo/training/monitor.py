"""`Monitor`: forecast, diagnosis and alarms for a training loop of one's own; importing it imports no JAX."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.decision.question import Question
from bayes_grpo.logs.assembling import Known, run_of
from bayes_grpo.logs.run import SIGNALS, Run
from bayes_grpo.logs.table import to_float
from bayes_grpo.training.background import EVERY, Background, BackgroundSetup
from bayes_grpo.watching.result import Alarm, Memory, Update, Watching


class Monitor:
    """Rows of a running training, and updates about them: forecast, diagnosis, advice, alarms.

    >>> with Monitor(settings={"group_size": 8}, until=1000, background=True) as monitor:
    ...     for step in range(1, 1001):
    ...         reward, entropy = train_one_step()
    ...         monitor.add(step, reward, entropy=entropy)
    ...         if update := monitor.latest():
    ...             print(update.sentence)

    As in logs, several rows of every step are averaged; a step that goes back is a resume, which removes later rows.

    Args:
        settings: Values for fields of `Settings`, such as group_size, momentum, total_steps, reward_low, reward_high.
        until: Horizon of the forecasts, optimizer step; by default total_steps, else 1.5 times the last step.
        question: Costs and values behind the advice to stop: a `Question` or its fields.
        background: Whether a process of its own makes the updates. `close`, the end of a ``with`` block or the end of
            this process ends it.
        every: Seconds between the starts of two updates in the background.
        threads: Threads of that process; by default half of the cores, at most two.
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
        self._background = Background(self._setup, threads) if background else None

    def add(
        self,
        step: float,
        reward: float | None = None,
        *,
        eval_reward: float | None = None,
        components: Mapping[str, float] | None = None,
        **signals: float | None,
    ) -> None:
        """Adds the row of an optimizer step.

        Args:
            step: Optimizer step; the first update is step 1.
            reward: Mean train reward; None on a row without one.
            eval_reward: Held-out reward, if measured.
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
        if self._background is not None:
            self._background.add([numbers])

    @property
    def run(self) -> Run:
        """The run so far, for other functions of this package.

        Raises:
            LogReadError: There are fewer than two rows with a reward.
        """
        return run_of(self._rows, self._setup.known)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All alarms so far."""
        if self._background is None:
            return self._alarms
        self._background.latest()
        return self._background.alarms

    def update(self) -> Update | None:
        """The update about all rows; None with fewer than two rewards.

        The first one compiles; later ones take about a second. In the background this waits for the process.
        """
        if self._background is not None:
            while not self._background.current:
                self._background.wait(60.0)
            return self._background.latest()
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
        """The last update, without waiting; None before the first."""
        return self._update if self._background is None else self._background.latest()

    def close(self) -> None:
        """Ends the background process, if there is one."""
        if self._background is not None:
            self._background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def watching_of(
    until: float | None, question: Question | Mapping[str, Any] | None, more: Mapping[str, Any]
) -> Watching:
    """`Watching` from a caller's options.

    Raises:
        SettingError: A field has an unknown name or an impossible value.
    """
    for given, known, what in ((more, Watching, "an option"), (question, Question, "a field of the question")):
        names = [field.name for field in fields(known) if field.name not in ("cost_told", "kept")]  # derived fields
        if isinstance(given, Mapping) and (unknown := [name for name in given if name not in names]):
            raise SettingError(f"monitor: expected {what} among {listed(names)}, found {listed(unknown)}")
    if isinstance(question, Mapping):
        question = Question(**question)
    like = more.get("like", ())
    named = [like] if isinstance(like, str | os.PathLike) else like
    return Watching(until=until, question=question, **{**more, "like": tuple(os.fspath(x) for x in named)})


def number_of(value: Any) -> float:
    """A value as a number, also that of an array or tensor of one element; NaN for anything else."""
    if hasattr(value, "item") and not isinstance(value, int | float):
        try:
            value = value.item()
        except (ValueError, RuntimeError):
            return float("nan")
    return to_float(value)
