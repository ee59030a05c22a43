"""Picture of a fleet: a line a log, a panel a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas
from bayes_grpo.common.text import drawable
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.fleets.result import Fleet
from bayes_grpo.views.plots.diagnosis import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_grpo.common.picture import Canvas

FleetRows = list[dict[str, Any]]

LABELLED = 80
"""Logs whose names fit beside the panels."""
_COLOURS = ("#1d4ed8", "#c2410c", "#15803d", "#7c3aed", "#0e7490", "#a16207")


def plot_fleet(fleet: Fleet, figure: Canvas | None = None) -> Canvas:
    """Draws a fleet: where each law settles, reward now and at the horizon, probabilities of the failures.

    Args:
        fleet: The result.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    panels = [(draw, rows) for name, draw in PANELS.items() if (rows := fleet.good(name))]
    logs = _ordered([row for _, rows in panels for row in rows])
    figure = canvas(figure, (3.0 + 4.2 * max(len(panels), 1), max(1.6 + min(0.24 * len(logs), 24.0), 2.6)))
    all_axes = figure.subplots(1, max(len(panels), 1), sharey=True, squeeze=False)[0]
    for axes, (draw, rows) in zip(all_axes, panels, strict=False):
        draw(axes, rows, np.array([logs[row["source"]] for row in rows], float))
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", color="#e5e7eb", lw=0.6)
        axes.set_axisbelow(True)
    first = all_axes[0]
    if len(logs) <= LABELLED:
        names = {row["source"]: drawable(row["log"], 40) for _, rows in panels for row in rows}
        first.set_yticks(range(len(logs)), [names[key] for key in logs], fontsize=7)
    else:
        first.set_yticks([])
        first.set_ylabel(f"{len(logs)} logs")
    first.set_ylim(len(logs) - 0.4, -0.6)
    return figure


def _ordered(rows: FleetRows) -> dict[str, int]:
    """Log → line: the largest expected gain first, without forecasts the least healthy."""
    for column, sign in (("gain_50", -1.0), ("failing", -1.0)):
        known = {row["source"]: sign * row[column] for row in rows if row.get(column) is not None}
        if known:
            keys = sorted(dict.fromkeys(row["source"] for row in rows), key=lambda key: known.get(key, np.inf))
            return {key: i for i, key in enumerate(keys)}
    return {key: i for i, key in enumerate(dict.fromkeys(row["source"] for row in rows))}


def _draw_fits(axes: Axes, rows: FleetRows, at: np.ndarray) -> None:
    laws = list(dict.fromkeys(row["regime"] for row in rows))
    for i, law in enumerate(laws):
        own = np.array([row["regime"] == law for row in rows])
        colour = _COLOURS[i % len(_COLOURS)]
        filled = [row["converged"] for row in rows if row["regime"] == law]
        shift = 0.5 * ((i + 0.5) / len(laws) - 0.5)
        _intervals(axes, _quantiles(rows, "fixed_point")[own], at[own] + shift, colour, filled)
        axes.plot([], [], "o-", ms=4, color=colour, label=drawable(law))
    _limits(axes, _quantiles(rows, "fixed_point"))
    axes.legend(fontsize=7, frameon=False)
    axes.set_title(f"where the reward would settle, {LEVEL:.0%}\n(open: not converged)", fontsize=9, loc="left")


def _draw_forecasts(axes: Axes, rows: FleetRows, at: np.ndarray) -> None:
    now, ahead = _quantiles(rows, "now"), _quantiles(rows, "at_horizon")
    _intervals(axes, ahead, at, _COLOURS[0], [True] * len(rows))
    axes.plot(now[:, 1], at, "|", ms=8, mew=1.5, color="#111827", label="now")
    axes.plot([], [], "o-", ms=4, color=_COLOURS[0], label="at the horizon")
    _limits(axes, np.concatenate([ahead, now]))
    axes.legend(fontsize=7, frameon=False)
    axes.set_title(f"reward now and at the horizon, {LEVEL:.0%}\n(largest expected gain first)", fontsize=9, loc="left")


def _draw_diagnoses(axes: Axes, rows: FleetRows, at: np.ndarray) -> None:
    for i, mode in enumerate(MODES):
        p = np.array([row[f"p_{mode}"] for row in rows], float)
        place = at + 0.75 * ((i + 0.5) / len(MODES) - 0.5)
        axes.barh(place, p, height=0.75 / len(MODES), color=COLOURS[mode], label=mode.replace("_", " "))
    axes.set_xlim(0, 1)
    axes.set_title("probability of each failure", fontsize=9, loc="left")
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


PANELS: dict[str, Callable[[Any, FleetRows, np.ndarray], None]] = {
    "fit": _draw_fits,
    "forecast": _draw_forecasts,
    "diagnose": _draw_diagnoses,
}


def _quantiles(rows: FleetRows, name: str) -> np.ndarray:
    """Low end, median and high end of a column's interval, shape (rows, 3); NaN where unknown."""
    return np.array([[row.get(f"{name}_{q}") for q in ("5", "50", "95")] for row in rows], float)


def _intervals(axes: Axes, ends: np.ndarray, at: np.ndarray, colour: str, filled: Sequence[bool]) -> None:
    axes.hlines(at, ends[:, 0], ends[:, 2], color=colour, lw=1.4, alpha=0.6)
    faces = [colour if f else "white" for f in filled]
    axes.scatter(ends[:, 1], at, s=14, zorder=3, edgecolors=colour, facecolors=faces)


def _limits(axes: Axes, ends: np.ndarray) -> None:
    """Limits that one interval as wide as its prior does not set."""
    middle, whole = ends[np.isfinite(ends[:, 1]), 1], ends[np.isfinite(ends)]
    if middle.size:
        room = 0.75 * max(np.ptp(middle), 0.25 * np.median(np.abs(middle)), 1e-9)
        low, high = max(whole.min(), middle.min() - room), min(whole.max(), middle.max() + room)
        axes.set_xlim(low - 0.02 * room, high + 0.02 * room)
