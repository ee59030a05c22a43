"""Rows of one signal of a run, as a law sees them: where each window starts and ends, and how it is weighted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jax import Array

from bayes_grpo.errors import FitError
from bayes_grpo.logs.run import Provenance, Run

MAX_ROWS = 2048
"""Longer logs are averaged in blocks down to this number of rows."""
MIN_ROWS = 4
"""Fewer logged rewards than this cannot tell a law from its noise at all."""


class Rows(NamedTuple):
    """Rows on their way into the compiled sampler, padded to a bucket length T.

    A field that is the same for every row is a scalar, and None where it plays no part: both make the compiled
    program shorter.

    Attributes:
        y: Logged rewards, shape (T,), NaN where missing or padded.
        window: Steps averaged into a row; None for instantaneous values.
        gap: Steps between the end of the row before and the start of the row's window; None without gaps.
        rate: Learning rate of the row over the reference learning rate; None where constant.
        weight: Completions of the row over the typical number; None where all rows weigh the same.
        start_speed: Prior sd of the latent reward's initial velocity, reward/step; None where the log starts
            with the run, from rest.
        length: Steps from the start of the first row to the end of the last, a scalar.
        spacing: Mean steps from row to row, a scalar.
        start: Step at which the first row's window starts, a scalar.
        momentum: Momentum μ or Adam's β₁, a scalar.
        refresh: Optimizer steps between refreshes of the sampling policy, a scalar.
        entropy: Policy entropy of the row in nats, shape (T,), the last one repeated in padded rows; NaN where not
            logged, rather than None, so that one compiled program serves logs with and without it.
    """

    y: Array | np.ndarray
    window: Array | np.ndarray | None
    gap: Array | np.ndarray | None
    rate: Array | np.ndarray | None
    weight: Array | np.ndarray | None
    start_speed: Array | np.ndarray | None
    length: Array | np.ndarray
    spacing: Array | np.ndarray
    start: Array | np.ndarray
    momentum: Array | np.ndarray
    refresh: Array | np.ndarray
    entropy: Array | np.ndarray | None = None


class Optimizer(NamedTuple):
    """Settings that the reduced model rests on.

    Attributes:
        momentum: μ or Adam's β₁.
        convention: "heavy_ball" or "ema".
        refresh: Optimizer steps between refreshes of the sampling policy.
        stated: Whether momentum and refresh were stated by log, config or user, rather than assumed.
    """

    momentum: float
    convention: str
    refresh: float
    stated: bool

    @property
    def mass(self) -> float:
        """Mass of the oscillator without lag, (1 + μ)/2, dimensionless in units of optimizer steps."""
        return 0.5 * (1.0 + self.momentum)


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows of one signal, unpadded, with what the priors may know: scale and length.

    Attributes:
        signal: "reward" or "eval_reward".
        step: Steps at which the rows end, shape (n,).
        y: Logged values, shape (n,), all finite.
        window: Steps averaged into each row, shape (n,), ≥ 0; 0 = instantaneous.
        start: Step at which the first row's window starts, t = 0 of the law.
        rate: Learning rate over the reference one, shape (n,).
        weight: Completions of each row over the typical number, shape (n,).
        reference_rate: The run's highest learning rate, to which stiffness refers; NaN if not logged.
        from_rest: Whether the log starts at the beginning of the run, where the curve is at rest.
        optimizer: Settings of the run that the reduced model rests on.
        notes: What was done to the rows that a user should know.
        entropy: Policy entropy at each row in nats, shape (n,), from the logged values around it, its own left out;
            None where not logged.
    """

    signal: str
    step: np.ndarray
    y: np.ndarray
    window: np.ndarray
    start: float
    rate: np.ndarray
    weight: np.ndarray
    reference_rate: float
    from_rest: bool
    optimizer: Optimizer
    notes: tuple[str, ...] = ()
    entropy: np.ndarray | None = None

    @property
    def centre(self) -> float:
        """Mean of the rows, reward."""
        return float(np.mean(self.y))

    @property
    def scale(self) -> float:
        """Standard deviation of the rows, reward."""
        return float(np.std(self.y))

    @property
    def is_share(self) -> bool:
        """Whether all rows lie in [0, 1], as those of a share of successes do."""
        return bool(np.min(self.y) >= 0.0 and np.max(self.y) <= 1.0)

    @property
    def length(self) -> float:
        """Steps from the start of the first row to the end of the last."""
        return float(self.step[-1] - self.start)

    def gap(self) -> np.ndarray:
        """Steps between the end of the row before and the start of each row's window, shape (n,)."""
        before = np.concatenate([[self.start], self.step[:-1]])
        return np.maximum(self.step - self.window - before, 0.0)

    def padded(self, length: int | None = None) -> Rows:
        """Rows padded to a bucket length, or to the length given."""
        n = len(self.y)
        size = bucket(n) if length is None else length

        def pad(values: np.ndarray, fill: float, neutral: float) -> np.ndarray | None:
            if np.all(values == neutral):
                return None
            if np.all(values == values[0]):
                return np.asarray(values[0])
            return np.concatenate([values, np.full(size - n, fill)])

        return Rows(
            y=np.concatenate([self.y, np.full(size - n, np.nan)]),
            window=pad(self.window, 1.0, 0.0),
            gap=pad(self.gap(), 0.0, 0.0),
            rate=pad(self.rate, 1.0, 1.0),
            weight=pad(self.weight, 1.0, 1.0),
            start_speed=None if self.from_rest else np.asarray(5.0 * self.scale / self.length),
            length=np.asarray(self.length),
            spacing=np.asarray(self.length / n),
            start=np.asarray(self.start),
            momentum=np.asarray(self.optimizer.momentum),
            refresh=np.asarray(self.optimizer.refresh),
            entropy=self._padded_entropy(size),
        )

    def _padded_entropy(self, size: int) -> np.ndarray:
        """Entropy of padded rows; rows that a forecast has added know none and repeat the last one."""
        if self.entropy is None:
            return np.full(size, np.nan)
        return np.concatenate([self.entropy, np.full(size - len(self.entropy), self.entropy[-1])])


def bucket(n: int) -> int:
    """Smallest bucket length that holds ``n`` rows: 32, 48, 64, 96, 128 and so on."""
    size = 32
    while size < n:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def choose_signal(run: Run, signal: str = "auto") -> tuple[str, str]:
    """The signal to fit and why.

    Args:
        run: The run.
        signal: "auto", "reward" (train) or "eval" (held-out).

    Returns:
        "reward" or "eval_reward", and a sentence where the choice was not the user's ("" otherwise).

    Raises:
        FitError: The log has no such signal.
    """
    if signal not in ("auto", "reward", "eval"):
        raise FitError(f"signal: expected auto, reward or eval, found {signal!r}")
    if signal == "eval" and not run.has_eval:
        raise FitError(f"{run.source}: no held-out reward in this log; fit its train reward: --signal reward")
    if signal == "reward" and not run.has_reward:
        hint = "fit its held-out reward: --signal eval" if run.has_eval else "name its column: --reward-column"
        raise FitError(f"{run.source}: no train reward in this log; {hint}")
    if signal != "auto":
        return {"reward": "reward", "eval": "eval_reward"}[signal], ""
    if run.has_reward:
        return "reward", ""
    if run.has_eval:
        return "eval_reward", "no train reward in this log: its held-out reward was fitted instead"
    raise FitError(f"{run.source}: no reward in this log; name its column: --reward-column or --eval-column")


def rows_of(run: Run, signal: str = "auto", max_rows: int = MAX_ROWS) -> RowTable:
    """Rows of a run's train or held-out reward.

    Args:
        run: The run.
        signal: "auto", "reward" or "eval".
        max_rows: Longer logs are averaged in blocks of neighbouring rows.

    Returns:
        The rows; rows without a value are left out (their steps become gaps).

    Raises:
        FitError: No such signal, fewer than `MIN_ROWS` rows, or a reward that never changes.
    """
    name, note = choose_signal(run, signal)
    notes = [note] if note else []
    if name == "reward":
        step, y, window = run.step, run.reward, run.window
    else:
        step, y, window = run.eval_step, run.eval_reward, np.zeros_like(run.eval_step)
    kept = np.isfinite(y)
    if kept.sum() < MIN_ROWS:
        raise FitError(
            f"{run.source}: a fit needs at least {MIN_ROWS} rows with a value of {name}, "
            f"found {int(kept.sum())}; log more often or wait for more steps"
        )
    rate, reference = _learning_rate(run, step)
    step, y, window, rate = step[kept], y[kept], window[kept], rate[kept]
    window = np.minimum(window, np.diff(step, prepend=step[0] - window[0]))
    start = float(step[0] - window[0])
    if np.ptp(y) <= 1e-12 * max(1.0, float(np.max(np.abs(y)))):
        raise FitError(
            f"{run.source}: {name} is {y[0]:g} in all {len(y)} rows; a curve that never changes has no dynamics "
            "to fit. Look at `inspect` for the share of groups without spread, or fit another signal"
        )
    table = RowTable(
        signal=name,
        step=step,
        y=y,
        window=window,
        start=start,
        rate=rate,
        weight=_weight(window),
        reference_rate=reference,
        from_rest=start <= 2.0 * float(np.median(np.diff(step))),
        optimizer=_optimizer(run),
        notes=tuple(notes),
        entropy=_entropy(run, step),
    )
    if len(y) > max_rows:
        table = _blocked(table, -(-len(y) // max_rows))
    return table


def _optimizer(run: Run) -> Optimizer:
    """Momentum and refresh interval of a run, or the commonest values where nobody knows them."""
    momentum, convention, refresh = (
        run.settings.momentum,
        run.settings.momentum_convention,
        run.settings.refresh_interval,
    )
    unknown = [s for s in (momentum, refresh) if s.value is None or s.provenance is Provenance.ASSUMED]
    return Optimizer(
        momentum=0.9 if momentum.value is None else float(momentum.value),
        convention=convention.value or "ema",
        refresh=1.0 if refresh.value is None else float(refresh.value),
        stated=not unknown,
    )


def _entropy(run: Run, step: np.ndarray) -> np.ndarray | None:
    """Policy entropy at ``step``, from the logged values around it; None where fewer than two were logged.

    A row's reward and its logged entropy come from the same completions: easy prompts raise one and lower the other.
    That shared noise is no law. So a row's own value is left out: a local line through its neighbours stands for it.
    """
    logged = run.signals.get("entropy")
    known = np.zeros(0, bool) if logged is None else np.isfinite(logged)
    if logged is None or known.sum() < 2:
        return None
    x, y = run.step[known], logged[known]
    reach = min(max(3, len(x) // 40), 50)
    if len(x) < 2 * reach + 1:
        return np.interp(step, x, y)
    at = np.clip(np.searchsorted(x, step), reach, len(x) - reach - 1)
    near = at[:, None] + np.arange(-reach, reach + 1)
    away = x[near] - step[:, None]
    scale = np.abs(away).max(axis=1, keepdims=True) * (1.0 + 1e-9)
    weight = np.where(away == 0.0, 0.0, (1.0 - (np.abs(away) / scale) ** 3) ** 3)
    weight = weight / weight.sum(axis=1, keepdims=True)
    middle, level = np.sum(weight * away, axis=1), np.sum(weight * y[near], axis=1)
    spread = np.sum(weight * (away - middle[:, None]) ** 2, axis=1)
    slope = np.sum(weight * (away - middle[:, None]) * y[near], axis=1) / np.maximum(spread, 1e-300)
    lowest, highest = y[near].min(axis=1), y[near].max(axis=1)
    return np.clip(level - slope * middle, lowest, highest)  # at an end of the log the line must not run away


def _weight(window: np.ndarray) -> np.ndarray:
    """Completions of each row over the typical number: as many as its window has steps."""
    typical = float(np.median(window))
    return window / typical if typical > 0 and np.all(window > 0) else np.ones(len(window))


def _learning_rate(run: Run, step: np.ndarray) -> tuple[np.ndarray, float]:
    """Learning rate on ``step`` over the run's highest one; ones where it was not logged."""
    logged = run.signals.get("learning_rate")
    known = np.zeros(0, bool) if logged is None else np.isfinite(logged) & (logged > 0)
    reference = float(logged[known].max()) if logged is not None and known.any() else float("nan")
    if run.settings.schedule.value != "logged" or logged is None or not known.any():
        return _scheduled(run, step), reference
    known = np.isfinite(logged) & (logged >= 0)
    # A row's steps ran between the rate logged before it and its own: their mean.
    at_end = np.interp(step, run.step[known], logged[known])
    before = np.interp(np.concatenate([step[:1], step[:-1]]), run.step[known], logged[known])
    return 0.5 * (at_end + before) / reference, reference


def _scheduled(run: Run, step: np.ndarray) -> np.ndarray:
    """Learning rate by a stated schedule, as a share of its peak."""
    schedule, total = run.settings.schedule.value, run.settings.total_steps.value
    if schedule not in ("linear", "cosine") or not total:
        return np.ones(len(step))
    done = np.clip(step / float(total), 0.0, 1.0)
    return 1.0 - done if schedule == "linear" else 0.5 * (1.0 + np.cos(np.pi * done))


def _blocked(table: RowTable, size: int) -> RowTable:
    """Averages blocks of ``size`` neighbouring rows; a mean of windows is the mean over a longer window."""
    starts = np.arange(0, len(table.y), size)
    counts = np.diff(np.append(starts, len(table.y)))

    def mean(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, starts) / counts

    ends = table.step[np.append(starts[1:], len(table.y)) - 1]
    begins = table.step[starts] - table.window[starts]
    return replace(
        table,
        step=ends,
        y=mean(table.y),
        window=ends - begins,
        rate=mean(table.rate),
        entropy=None if table.entropy is None else mean(table.entropy),
        weight=mean(table.weight) * counts / size,
        notes=(*table.notes, f"{len(table.y)} rows were averaged in blocks of {size} to {len(ends)} rows"),
    )
