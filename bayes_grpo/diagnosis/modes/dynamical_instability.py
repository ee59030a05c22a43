"""Dynamical instability: a reward or evaluation reward that is lost, a gradient norm or a KL that explodes.

`bayes_grpo.diagnosis.logged.Logged.loss` defines a lost reward. Every threshold applies to running means of the rows
and to their standard errors.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.diagnosis.logged import Logged, fall_of
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class DynamicalInstability(Mode):
    """Dynamical instability."""

    name = "dynamical_instability"
    wants = ("grad_norm", "kl")
    chances = Calibration(0.03, 0.05, 0.85)
    remedies = ("compare resume", "go back", "compare checkpoints", "lower rate", "KL term", "log KL", "log evaluation")

    def strength(self, rows: RunSoFar) -> float:
        """A lost reward or evaluation reward, an exploded KL, or an exploded gradient norm while a reward falls."""
        y, held_out = rows.reward, rows.held_out
        found = [rows.loss]
        if rows.rise <= 1.0:  # where the train reward rose, what is lost is what it stands for
            found.append(held_out.loss(least_rows=THRESHOLDS.held_out_rows))
        usual, peak = _burst(rows, "grad_norm")
        if usual > 0.0 and any(x.fell() for x in (y, held_out)):
            found.append(peak / max(THRESHOLDS.grad_times * usual, 1e-12))
        usual, peak = _burst(rows, "kl")
        found.append(min(peak / THRESHOLDS.kl_high, peak / (THRESHOLDS.kl_times * max(usual, THRESHOLDS.least_kl))))
        return max(found)

    def began(self, rows: RunSoFar) -> Interval | None:
        """From the last step near the best of the lost reward to the step at half of its fall; or where it jumped."""
        if rows.loss > 1.0 and rows.stuck is not None:
            return interval(rows.stuck)
        found = _lost(rows)
        if found is None:
            return None
        y = found[1]
        first, last = (float(y.step[i + y.window - 1]) for i in y.fall)
        return Interval(0.5 * (first + last), first, last, LEVEL)

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """The fall, or the exploded signal, by the end of the episode."""
        then = rows.until(last)
        found = _lost(then)
        if found is not None:
            return fall_of(*found).clause
        y = then.reward
        parts = [f"{rows.reward_name} is at {y.now:.2g}, its best running mean was {y.best:.2g}"] if y.rows else []
        for key, words in (("grad_norm", "the gradient norm"), ("kl", "the KL")):
            usual, peak = _burst(then, key)
            if peak > THRESHOLDS.calm_burst * usual > 0.0:
                parts.append(f"{words} reached {peak:.2g}, {peak / usual:.2g} times its usual {usual:.2g}")
        return "; ".join(parts)


def _lost(rows: RunSoFar) -> tuple[str, Logged] | None:
    """Which reward is lost, with its name; None where none is."""
    if rows.loss > 1.0:
        return rows.reward_key, rows.reward
    if rows.held_out.loss(least_rows=THRESHOLDS.held_out_rows) > 1.0:
        return "eval_reward", rows.held_out
    return None


def _burst(rows: RunSoFar, signal: str) -> tuple[float, float]:
    """Usual size of a signal, and of the highest running medians after its first quarter; 0 and 0 of few rows.

    The usual size is that of the first quarter; that of a KL, which begins at 0, is that of the rest. A running median
    passes over a burst of one row: a row far off its neighbors is a batch, not a state of the run.
    """
    size = np.abs(rows.signal(signal).value)
    if len(size) < THRESHOLDS.burst_rows:
        return 0.0, 0.0
    quarter = len(size) // THRESHOLDS.late_part
    early, rest = size[:quarter], size[quarter:]
    lasting = np.sort(np.median(np.lib.stride_tricks.sliding_window_view(rest, THRESHOLDS.least_rows), axis=1))
    highest = lasting[-max(THRESHOLDS.least_rows, quarter // THRESHOLDS.late_part) :]
    return float(np.median(rest if signal == "kl" else early)), float(np.median(highest))


MODE = DynamicalInstability()
