"""Rows of one signal of a run: which signal, its windows, learning rate, weights and outliers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bayes_grpo.common.errors import MENDING, Argument, FitError
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Settings
from bayes_grpo.rows.known_noise import expected_noise, row_noise
from bayes_grpo.rows.schedule import logged_rate
from bayes_grpo.rows.series import Optimizer, Series, is_share, row_blocks

MAX_ROWS = 2048
"""Longer logs are averaged in blocks down to this number of rows."""
MAX_ROWS_OF_SEVERAL = 512
"""The same where several runs are read together, and for a plan."""

MIN_ROWS = 4
"""Fewer logged rewards than this cannot tell a regime from its noise at all."""


def choose_signal(run: Run, signal: str = "auto") -> tuple[str, str]:
    """The signal to fit, "reward" or "eval_reward", and why ("" where the choice was the user's).

    Raises:
        FitError: The log has no such signal.
    """
    if signal not in ("auto", "reward", "eval"):
        raise FitError(f"expected auto, reward or eval, found {signal!r}", parameter="signal")
    if signal == "eval" and not run.has_eval:
        raise FitError(
            f"{run.source}: no evaluation reward in this log; fit its train reward: {MENDING}",
            mended_by=Argument("signal", "reward"),
        )
    if signal == "reward" and not run.has_reward:
        hint, how = "name its column", Argument("columns", "KEY", "reward")
        if run.has_eval:
            hint, how = "fit its evaluation reward", Argument("signal", "eval")
        raise FitError(f"{run.source}: no train reward in this log; {hint}: {MENDING}", mended_by=how)
    if signal != "auto":
        return {"reward": "reward", "eval": "eval_reward"}[signal], ""
    if run.has_reward:
        return "reward", ""
    if run.has_eval:
        return "eval_reward", "no train reward in this log: its evaluation reward was fitted instead"
    raise FitError(
        f"{run.source}: no reward in this log; name its column: {MENDING}",
        mended_by=Argument("columns", "KEY", "reward"),
    )


def rows_of(run: RunLike, signal: str = "auto", max_rows: int = MAX_ROWS) -> Series:
    """Rows of a run's train or evaluation reward.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        signal: "auto", "reward" or "eval".
        max_rows: Longer logs are averaged in blocks of neighboring rows.

    Returns:
        The rows; rows without a value are left out (their steps become gaps).

    Raises:
        FitError: No such signal, fewer than `MIN_ROWS` rows, or a reward that never changes.

    Examples:
        >>> rows = rows_of([{"step": s, "reward": 0.8 - 0.6 * 0.9**s} for s in range(1, 21)])
        >>> rows.signal, len(rows.y)
        ('reward', 20)
    """
    run = as_run(run)
    name, note = choose_signal(run, signal)
    notes = [note] if note else []
    if name == "reward":
        step, y, window = run.step, run.reward, run.window
    else:
        step = run.eval_step
        y = run.eval_reward
        window = np.zeros_like(run.eval_step)
    kept = np.isfinite(y)
    if kept.sum() < MIN_ROWS:
        raise FitError(
            f"{run.source}: a fit needs at least {MIN_ROWS} rows with a value of {name}, "
            f"found {int(kept.sum())}; log more often or wait for more steps"
        )
    optimizer = _optimizer(run.settings)
    rate, reference = logged_rate(run, step)
    step, y, window, rate = step[kept], y[kept], window[kept], rate[kept]
    window = np.minimum(window, np.diff(step, prepend=step[0] - window[0]))
    start = float(step[0] - window[0])
    if np.ptp(y) <= 1e-12 * max(1.0, float(np.max(np.abs(y)))):
        raise FitError(
            f"{run.source}: {name} is {y[0]:g} in all {len(y)} rows; a curve that never changes has no dynamics "
            "to fit. Look at `inspect` for the share of zero-variance groups, or fit another signal"
        )
    noise, level = row_noise(run, kept) if name == "reward" else (None, None)
    far = outliers(y, np.ones(len(y)) if noise is None else noise)
    table = Series(
        signal=name,
        step=step,
        y=y,
        window=window,
        start=start,
        rate=rate,
        weight=window_weight(window) / np.maximum(far, 1.0) ** 2,
        reference_rate=reference,
        from_rest=start <= 2.0 * float(np.median(np.diff(step))),
        optimizer=optimizer,
        notes=(*notes, *_outlier_notes(step[far > 0.0])),
        noise=noise,
        level=level,
        expected=expected_noise(run) if name == "reward" else None,
    )
    if len(y) > max_rows:
        table = _blocked(table, max_rows)
    return table


def _outlier_notes(outliers: np.ndarray) -> tuple[str, ...]:
    """Notes on outliers at these steps."""
    if not len(outliers):
        return ()
    where = ", ".join(f"{s:g}" for s in outliers[:5]) + (" and others" if len(outliers) > 5 else "")
    rows = "1 row lies" if len(outliers) == 1 else f"{len(outliers)} rows lie"
    return (f"{rows} far from the rows before and after (step {where}): downweighted as an outlier",)


def _optimizer(settings: Settings) -> Optimizer:
    """Momentum and refresh interval of a run, or the commonest values where they are unknown."""
    momentum = settings.momentum
    convention = settings.momentum_convention
    refresh = settings.refresh_interval
    return Optimizer(
        momentum=0.9 if momentum.value is None else float(momentum.value),
        convention=convention.value or "ema",
        refresh=1.0 if refresh.value is None else float(refresh.value),
        given=None not in (momentum.explicit, refresh.explicit),
    )


def window_weight(window: np.ndarray) -> np.ndarray:
    """Completions of each row over the typical number: as many as its window has steps."""
    typical = float(np.median(window))
    return window / typical if typical > 0 and np.all(window > 0) else np.ones(len(window))


def _blocked(table: Series, limit: int) -> Series:
    """Averages blocks of neighboring rows; a mean of windows is the mean over a longer window."""
    n = len(table.y)
    level = table.level
    expected = table.expected
    blocks = row_blocks(n, limit)
    ends = table.step[blocks.last]
    begins = table.step[blocks.start] - table.window[blocks.start]
    least, most = int(blocks.size.min()), int(blocks.size.max())
    size = f"{most}" if least == most else f"{least} or {most}"
    return replace(
        table,
        step=ends,
        y=blocks.mean(table.y),
        window=ends - begins,
        rate=blocks.mean(table.rate),
        noise=None if table.noise is None else blocks.mean(table.noise),
        level=level and level._replace(sd=level.sd / math.sqrt(n / len(ends))),
        expected=expected and expected._replace(sd=expected.sd / math.sqrt(n / len(ends))),
        weight=blocks.mean(table.weight) * blocks.size * len(ends) / n,
        notes=(*table.notes, f"{n} rows were averaged in blocks of {size} to {len(ends)} rows"),
    )


SIDE = 5
"""Rows on either side with whose median a row is compared."""

OUTLIER_FEWEST = 2
"""Fewer rows than this on a side say nothing: whether the last rows are outliers is seen when others have come."""

FAR = 6.0
"""Robust standard deviations from which on a row counts. Fewer than one in 200 series of 20 rows of normal noise have
such a row, and far fewer of longer ones."""

OF_ALL = 1.5
"""Standard deviations of all rows that an outlier is away at least: rows that hardly scatter, as after a collapse, do
not make exceptions of those that do."""

OF_SHARE = 0.3
"""The same for a share of successes, in units of the reward: near 0 and 1 its noise is rare and large by itself."""

MOST = 0.05
"""Share of the rows above which they are no exception but what the noise is like."""

OUTLIER_NEAR = 15
"""Rows on either side that say how rows scatter there, where that is more than in the log as a whole."""

OUTLIER_MIN_ROWS = 20
"""Rows that it takes to know the scatter."""


def outliers(y: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """How far rows lie from their neighbors on both sides, where that is too far; 0 for all others.

    Under normal noise a few outliers widen the band of all rows: a broken batch, a grader that was down for a step.
    They are so rare and so far that there is no doubt which rows they are: each is given the measurement variance at
    which it is an ordinary row. A step, a collapse or a swing is not one: there a row agrees with the rows on one side.

    From rows and their relative measurement variance, shape (n,), robust standard deviations of that shape.
    """
    n, none = len(y), np.zeros(len(y))
    if n < OUTLIER_MIN_ROWS:
        return none
    padded = np.concatenate([np.full(SIDE, np.nan), y, np.full(SIDE, np.nan)])
    windows = sliding_window_view(padded, SIDE)
    inner = slice(OUTLIER_FEWEST, n - OUTLIER_FEWEST)
    before = np.nanmedian(windows[:n][inner], axis=1)
    after = np.nanmedian(windows[SIDE + 1 : SIDE + 1 + n][inner], axis=1)
    one, other = (y[inner] - before), (y[inner] - after)
    off = np.abs(0.5 * (one + other)) / np.sqrt(variance[inner])
    around = sliding_window_view(np.pad(off, OUTLIER_NEAR, constant_values=np.nan), 2 * OUTLIER_NEAR + 1)
    scale = 1.4826 * np.maximum(np.median(off), np.nanmedian(around, axis=1))
    if not scale.min() > 0.0:
        return none
    nearer = np.where(one * other > 0.0, np.minimum(np.abs(one), np.abs(other)), 0.0)
    found = none.copy()
    found[inner] = nearer / (scale * np.sqrt(variance[inner]))
    least = max(OF_ALL * float(np.std(y)), OF_SHARE * is_share(y))
    found[inner][nearer < least] = 0.0
    found[found <= FAR] = 0.0
    return none if np.mean(found > 0.0) > MOST else found
