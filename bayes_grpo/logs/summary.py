"""What a log holds, before anything is fitted: counts and ranges of its columns, its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.text import clean
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import LoggedTraining, Run, Setting, run_line

if TYPE_CHECKING:
    import pandas as pd

_TEXT_LIMIT = 200


class SeriesSummary(NamedTuple):
    """One logged column: the trainer's key, number of finite values, the range, first and last of them."""

    key: str
    finite: int
    low: float | None
    high: float | None
    first: float | None
    last: float | None


class SettingSummary(NamedTuple):
    """One setting: its value, where it comes from ("logged", "config", "user", "assumed", "none"), and why."""

    value: Any
    provenance: str
    note: str


@dataclass(frozen=True)
class RunSummary(Result):
    """What a log holds. All text is on one line and free of control characters.

    Attributes:
        name: Name of the run.
        source: Where it was read.
        format: The reader that read it.
        log_hash: SHA-256 of the bytes read.
        rows: Number of train rows.
        first_step: Step of the first train row, None without any.
        last_step: Step of the last train row.
        window: Smallest and largest number of steps averaged into a row.
        reward: The train reward.
        signals: Canonical name → the signal.
        evals: The held-out reward.
        eval_rows: Number of evaluations.
        settings: Name → setting, in order of declaration.
        notes: What the reader did that one should know.
        unused: Key of the log → why nothing was made of it.
        trainings: All trainings in the file, where it holds several.
        suggested: Column that was not recognized → the keys of the log that it may be.
    """

    name: str
    source: str
    format: str
    log_hash: str
    rows: int
    first_step: float | None
    last_step: float | None
    window: tuple[float, float] | None
    reward: SeriesSummary
    signals: Mapping[str, SeriesSummary]
    evals: SeriesSummary
    eval_rows: int
    settings: Mapping[str, SettingSummary]
    notes: tuple[str, ...]
    unused: Mapping[str, str]
    trainings: tuple[LoggedTraining, ...] = ()
    suggested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Name, rows and steps."""
        return run_line(self.name, self.rows, (self.first_step, self.last_step), self.eval_rows)

    def to_frame(self) -> pd.DataFrame:
        """One row a logged column: the trainer's key, number of finite values, range, first and last value."""
        columns = {"reward": self.reward, **self.signals, "eval_reward": self.evals}
        return frame_of(({"column": name} | x._asdict() for name, x in columns.items()), "column")


def describe_run(run: RunLike) -> RunSummary:
    """Counts and ranges of everything that a log holds.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
    """
    run = as_run(run)
    rows = bool(len(run.step))
    return RunSummary(
        name=_plain(run.name),
        source=_plain(run.source),
        format=_plain(run.format),
        log_hash=run.log_hash,
        rows=len(run.step),
        first_step=float(run.step[0]) if rows else None,
        last_step=float(run.step[-1]) if rows else None,
        window=(float(run.window.min()), float(run.window.max())) if rows else None,
        reward=_series(run, "reward", run.reward),
        signals={name: _series(run, name, values) for name, values in run.signals.items()},
        evals=_series(run, "eval_reward", run.eval_reward),
        eval_rows=len(run.eval_step),
        settings={name: _setting(setting) for name, setting in run.settings.items()},
        notes=tuple(map(_plain, run.notes)),
        unused={_plain(key): _plain(why) for key, why in run.unused.items()},
        trainings=tuple(x._replace(name=_plain(x.name)) for x in run.trainings),
        suggested={name: tuple(map(_plain, keys)) for name, keys in run.suggested.items()},
    )


def _series(run: Run, name: str, values: np.ndarray) -> SeriesSummary:
    finite, key = values[np.isfinite(values)], _plain(run.keys.get(name, ""))
    ends = (finite.min(), finite.max(), finite[0], finite[-1]) if len(finite) else ()
    return SeriesSummary(key, len(finite), *(tuple(map(float, ends)) or (None,) * 4))


def _setting(setting: Setting) -> SettingSummary:
    """A setting, its value as JSON can hold it."""
    value = setting.value.item() if isinstance(setting.value, np.generic) else setting.value
    value = value if value is None or isinstance(value, bool | int | float) else _plain(value)
    return SettingSummary(value, "none" if value is None else str(setting.provenance), _plain(setting.note))


def _plain(text: object) -> str:
    return clean(text, _TEXT_LIMIT)
