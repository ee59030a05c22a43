"""Dynamical instability: a reward or held-out reward that is lost, a gradient norm or a KL that explodes.

What counts as lost stands in `bayes_grpo.diagnosis.rows.lost_strength`; all of it is measured on running means of the
rows, beside their noise.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.diagnosis.collapse import best_so_far, fallen
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar, lost_strength
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.rows.table import is_share


class DynamicalInstability(Mode):
    """Dynamical instability."""

    name = "dynamical_instability"
    label = "dynamical instability"
    signals = ("grad_norm", "kl")
    is_defined = True

    def evidence(self, trends: RunTrends) -> ModeEvidence:
        """How far the reward ends below its best, and bursts of the gradient norm."""
        trend = trends.reward
        quantities, missing = [], []
        parts: list[tuple[bool, str]] = []  # whether it speaks for the mode, and what it says
        used = ["eval_reward" if trends.uses_eval else "reward"]
        quantities.append(quantity("fall", fallen(trend), "reward", "from the best of the trend to its end"))
        f = quantities[0].posterior
        fell = f.low > 0.0
        ends = f"the reward ends {span_text(f, '.3g')} below its best"
        parts.append((fell, ends))
        norms = _norms(trends)
        if len(norms):
            used.append("grad_norm")
            burst = float(norms.max() / np.median(norms))
            parts.append((burst > THRESHOLDS.calm_burst, f"largest gradient norm {burst:.3g} times the median"))
        elif "grad_norm" not in trends.run.signals:
            missing.append("grad_norm")
        kl = trends.signals.get("kl")
        if kl is None:
            missing.append("kl")
        else:
            used.append("kl")
        said = "; ".join(text for _, text in sorted(parts, key=lambda part: not part[0]))
        return ModeEvidence(self.name, np.nan, tuple(quantities), tuple(used), tuple(missing), said)

    def strength(self, rows: RunSoFar) -> float:
        """A reward or a held-out reward that is lost, a KL, or a gradient norm beside a fall, that has exploded."""
        y, held = rows.reward, rows.held_out
        found = [lost_strength(y, rows.low, rows.high, THRESHOLDS.trend_rows)]
        ends = (0.0, 1.0) if is_share(held.value) else (np.nan, np.nan)
        if rows.rise <= 1.0:  # beside a train reward that rose, what is lost is what it stands for
            found.append(lost_strength(held, *ends, THRESHOLDS.held_out_rows))
        norm, kl = (rows.signals.get(name) for name in ("grad_norm", "kl"))
        if norm is not None and norm.rows >= THRESHOLDS.burst_rows:
            early, _, peak = _bursts(norm.value)
            falls = any(x.rows and x.best - x.now > THRESHOLDS.going_errors * x.error for x in (y, held))
            found.append(peak / max(THRESHOLDS.grad_times * early, 1e-12) if early > 0.0 and falls else 0.0)
        if kl is not None and kl.rows >= THRESHOLDS.burst_rows:
            _, usual, peak = _bursts(kl.value)
            found.append(min(peak / THRESHOLDS.kl_high, peak / (THRESHOLDS.kl_times * max(usual, THRESHOLDS.least_kl))))
        return max(found)

    def began(self, rows: RunSoFar) -> Interval | None:
        """From the best of what is lost to where half of the fall was over."""
        return _began(rows)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How far the reward lies below its best so far at its worst."""
        trend = trends.reward
        inside = (trend.step >= first) & (trend.step <= last)
        fall = (best_so_far(trend) - trend.draws)[:, inside].max(axis=1)
        return f"the reward falls {span_text(interval(fall), '.2g')} below its best"


def _began(rows: RunSoFar) -> Interval | None:
    """Steps between the best mean of what is lost and the first mean below half of the fall."""
    ends = (0.0, 1.0) if is_share(rows.held_out.value) else (np.nan, np.nan)
    for y, low, high, least in (
        (rows.reward, rows.low, rows.high, THRESHOLDS.trend_rows),
        (rows.held_out, *ends, THRESHOLDS.held_out_rows),
    ):
        if lost_strength(y, low, high, least) > 1.0:
            best = int(y.means.argmax())
            half = best + int(np.argmax(y.means[best:] < y.best - THRESHOLDS.half * (y.best - y.now)))
            first, last = (float(y.step[i + y.window - 1]) for i in (best, half))
            return Interval(0.5 * (first + last), first, last, LEVEL)
    return None


def _bursts(values: np.ndarray) -> tuple[float, float, float]:
    """Sizes of a signal: median of its first quarter, of the rest, and of the highest quarter of the rest."""
    size, quarter = np.abs(values), len(values) // THRESHOLDS.late_part
    rest = np.sort(size[quarter:])
    highest = rest[-max(THRESHOLDS.least_rows, quarter // THRESHOLDS.late_part) :]
    return float(np.median(size[:quarter])), float(np.median(rest)), float(np.median(highest))


def _norms(trends: RunTrends) -> np.ndarray:
    """Gradient norms of the rows that had a gradient; empty where there are too few for a trend."""
    trend = trends.signals.get("grad_norm")
    return np.empty(0) if trend is None else np.exp(trend.raw)


MODE = DynamicalInstability()
