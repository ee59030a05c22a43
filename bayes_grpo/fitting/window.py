"""`FitWindow`: which rows of a run a regime may describe, and why not all of them.

No regime of a rising reward describes a collapse. Fitted across one it calls a dead run stable, and its plateau is an
average of before and after. So a fit begins where the fall is over, if the reward has fallen, and at the bottom of a
fall from which it came back. A few rows of the fall would decide every parameter of such a fit, and its posterior would
have a mode for each way of explaining them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, FitError, SettingError
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.signals.loss import Fallen, fallen_of, last_lost
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import reward_path

FitRows = Literal["since_break", "all"]
"""Rows to fit: those since the reward last broke, or all of them."""
MIN_WINDOW_ROWS = 8
"""Rows since a break that a regime needs; fewer say no more than that it happened."""
_AS_LOW = 2.0
"""Standard deviations above the mean of later rows up to which a row lies where they do."""


@dataclass(frozen=True)
class FitWindow:
    """The rows of a run that a regime may describe.

    Attributes:
        start_step: Optimizer step after which they begin; None for all rows.
        reason: What happened up to that step, a sentence; "" for all rows.
    """

    start_step: float | None = None
    reason: str = ""

    @property
    def lead(self) -> str:
        """Beginning of a sentence about the rows; "" for all rows."""
        return "" if self.start_step is None else f"{self.reason} Since step {self.start_step:.0f}:"

    def cut(self, run: Run) -> Run:
        """The run without the rows up to `start_step`; settings and the rows' own steps are kept."""
        if self.start_step is None:
            return run
        return run.where(run.step > self.start_step, run.eval_step > self.start_step)


def fit_window(run: Run, signal: str = "auto") -> FitWindow:
    """The rows since the reward last broke; all rows where it did not, or where there is no reward to look at."""
    try:
        table = rows_of(run, signal)
    except BayesGrpoError:  # the fit says why
        return FitWindow()
    path = reward_path(run, evaluation=table.signal != "reward")
    if path is None:
        return FitWindow()
    fallen = fallen_of(path)
    lost = last_lost(path)
    if fallen is not None:
        best = f"{fallen.best:.2g} at step {fallen.best_step:.0f}"
        reason = f"The reward fell from its best, {best}, to {fallen.now:.2g}."
        return FitWindow(_after_fall(path, fallen), reason)
    if lost is None or lost[1] >= path.step[-1]:
        return FitWindow()
    inside = np.flatnonzero((path.step >= lost[0]) & (path.step <= lost[1]))
    lowest = float(path.step[inside[int(np.argmin(path.mean[inside]))]])
    since = int(np.sum(path.logged.step > lowest))
    # What came and went within a block, or has just gone, is how this reward scatters, and no new beginning.
    if len(inside) < 2 or since < MIN_WINDOW_ROWS:
        return FitWindow()
    reason = f"The reward collapsed at about step {lost[0]:.0f} and had recovered by step {lost[1]:.0f}."
    return FitWindow(lowest, reason)


def rows_to_fit(run: Run, rows: FitRows = "since_break", signal: str = "auto") -> tuple[Run, FitWindow]:
    """The run with the rows to fit, and why these; the signal is "auto", "reward" (train) or "eval" (evaluations).

    Raises:
        FitError: Fewer than `MIN_WINDOW_ROWS` rows since the break.
        SettingError: Unknown rows.
    """
    if rows not in ("since_break", "all"):
        raise SettingError(f'expected "since_break" or "all", found {rows!r}', parameter="rows")
    window = FitWindow() if rows == "all" else fit_window(run, signal)
    if window.start_step is None:
        return run, window
    cut = window.cut(run)
    kept = cut.reward if run.has_reward and signal != "eval" else cut.eval_reward
    known = kept[np.isfinite(kept)]
    before = f"--up-to-step {window.start_step:.0f}, run.until({window.start_step:.0f})"
    instead = f'fit the rows before ({before}) or all rows (--all-rows, rows="all")'
    if len(known) < MIN_WINDOW_ROWS:
        raise FitError(
            f"{run.source}: {window.reason} A fit needs {MIN_WINDOW_ROWS} rows since then, found {len(known)}; "
            f"{instead}"
        )
    if np.ptp(known) == 0.0:
        raise FitError(
            f"{run.source}: {window.reason} All {len(known)} rows since step {window.start_step:.0f} are {known[0]:g}, "
            f"so there are no dynamics to fit; {instead}"
        )
    return cut, window


def _after_fall(path: SignalPath, fallen: Fallen) -> float:
    """Step after which the rows of a fallen reward lie where it has stayed; that of its best where few rows follow.

    They begin with the first row, after half of the fall, that is as low as the later half of those that follow.
    """
    middle = 0.5 * (fallen.best + fallen.now)
    above = path.last_step[(path.mean > middle) & (path.step >= fallen.best_step)]
    step = path.logged.step
    y = path.logged.value
    half = int(np.searchsorted(step, above[-1] if len(above) else fallen.best_step, side="right"))
    later = y[half + (len(y) - half) // 2 :]
    if len(later) < MIN_WINDOW_ROWS // 2:
        return fallen.best_step
    low = np.flatnonzero(y[half:] <= float(later.mean() + _AS_LOW * later.std()))
    first = half + int(low[0]) if len(low) else half
    return float(step[first - 1]) if len(y) - first >= MIN_WINDOW_ROWS and first else fallen.best_step
