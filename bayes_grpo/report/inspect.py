"""What a log holds, before anything is fitted: a summary, its tables for a terminal, its plot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.logs.wording import clean
from bayes_grpo.report.picture import save_plot
from bayes_grpo.report.text import drawable
from bayes_grpo.strict_json import json_safe

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

_PANEL_WIDTH = 9.0
_PANEL_HEIGHT = 2.2
_TEXT_LIMIT = 200


@dataclass(frozen=True)
class SeriesSummary:
    """One logged column.

    Attributes:
        key: The trainer's key, empty where the log has none.
        finite: Number of finite values.
        low: Smallest value, None without any.
        high: Largest value.
        first: First finite value.
        last: Last finite value.
    """

    key: str
    finite: int
    low: float | None
    high: float | None
    first: float | None
    last: float | None


@dataclass(frozen=True)
class SettingSummary:
    """One setting: its value, where it comes from ("logged", "config", "user", "assumed"), and why."""

    value: Any
    provenance: str
    note: str


@dataclass(frozen=True)
class RunSummary:
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

    def to_dict(self) -> dict[str, Any]:
        """The summary in JSON's types, None in place of every number that is not finite."""
        return json_safe(asdict(self))


def describe_run(run: Run) -> RunSummary:
    """Counts and ranges of everything that a log holds."""
    n = len(run.step)
    return RunSummary(
        name=_plain(run.name),
        source=_plain(run.source),
        format=_plain(run.format),
        log_hash=run.log_hash,
        rows=n,
        first_step=float(run.step[0]) if n else None,
        last_step=float(run.step[-1]) if n else None,
        window=(float(run.window.min()), float(run.window.max())) if n else None,
        reward=_series(run.reward, run.keys.get("reward", "")),
        signals={name: _series(values, run.keys.get(name, "")) for name, values in run.signals.items()},
        evals=_series(run.eval_reward, run.keys.get("eval_reward", "")),
        eval_rows=len(run.eval_step),
        settings={
            name: SettingSummary(_plain_value(s.value), str(s.provenance), _plain(s.note))
            for name, s in run.settings.items()
        },
        notes=tuple(_plain(note) for note in run.notes),
    )


def render_run(summary: RunSummary, console: Console) -> None:
    """Prints a summary: what was read, the columns, the settings, the notes.

    Text from the log is printed as it is; nothing in it is read as markup.
    """
    from rich.table import Table
    from rich.text import Text

    steps = f", steps {summary.first_step:g} to {summary.last_step:g}" if summary.rows else ""
    head = f"{summary.name}: {summary.rows} rows{steps}, {summary.eval_rows} evaluations"
    console.print(Text(head, style="bold"))
    console.print(Text(f"read as {summary.format} from {summary.source}"))

    columns = Table(title="Logged", title_justify="left")
    for heading in ("column", "key in the log"):
        columns.add_column(heading, overflow="fold")
    for heading in ("values", "lowest", "highest", "first", "last"):
        columns.add_column(heading, justify="right")
    for name, series in {"reward": summary.reward, **summary.signals, "eval_reward": summary.evals}.items():
        numbers = (series.low, series.high, series.first, series.last)
        cells = [name, series.key, str(series.finite), *("" if x is None else f"{x:.4g}" for x in numbers)]
        columns.add_row(*(Text(cell) for cell in cells))
    console.print(columns)

    settings = Table(title="Settings", title_justify="left")
    for heading in ("setting", "value", "origin", "note"):
        settings.add_column(heading, overflow="fold")
    for name, setting in summary.settings.items():
        unknown = setting.value is None
        cells = (
            name,
            "not known" if unknown else f"{setting.value}",
            "" if unknown else setting.provenance,
            setting.note,
        )
        settings.add_row(*(Text(cell) for cell in cells))
    console.print(settings)
    for note in summary.notes:
        console.print(Text(f"note: {note}"))


def plot_run(run: Run, path: str | os.PathLike[str]) -> Path:
    """Draws the reward, the held-out reward and every signal over the steps, one panel each.

    The file appears whole or not at all; its suffix (".png", ".svg", ".pdf") is its format.

    Returns:
        The path written.

    Raises:
        OutputError: The file cannot be written, or its format is unknown.
    """
    from matplotlib.figure import Figure

    target = Path(path)
    names = [name for name, values in run.signals.items() if np.isfinite(values).any()]
    panels = 1 + len(names)
    figure = Figure(figsize=(_PANEL_WIDTH, _PANEL_HEIGHT * panels + 0.6), layout="constrained")
    axes = figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0]
    _draw(axes[0], run.step, run.reward, "train")
    if run.has_eval:
        axes[0].plot(run.eval_step, run.eval_reward, "s", color="C1", markersize=4, label="held out")
        axes[0].legend(loc="best", fontsize="small")
    axes[0].set_ylabel("reward")
    axes[0].set_title(drawable(run.name), fontsize="medium")
    for axis, name in zip(axes[1:], names, strict=True):
        _draw(axis, run.step, run.signals[name], name)
        axis.set_ylabel(name, fontsize="small")
    axes[-1].set_xlabel("step")
    save_plot(figure, target)
    return target


def _draw(axis: Axes, step: np.ndarray, values: np.ndarray, label: str) -> None:
    shown = np.isfinite(values)
    axis.plot(step[shown], values[shown], ".-", color="C0", markersize=3, linewidth=0.8, label=label)
    axis.grid(alpha=0.3)


def _series(values: np.ndarray, key: str) -> SeriesSummary:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return SeriesSummary(_plain(key), 0, None, None, None, None)
    low, high, first, last = (float(x) for x in (finite.min(), finite.max(), finite[0], finite[-1]))
    return SeriesSummary(_plain(key), len(finite), low, high, first, last)


def _plain(text: object) -> str:
    return clean(text, _TEXT_LIMIT)


def _plain_value(value: Any) -> Any:
    """A setting's value as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float) else _plain(value)
