"""Whether a run departs from its siblings at the same steps: evidence before anything crosses a border of its own.

The latest rows of a signal are averaged, and so are those of every sibling over the same steps. The run lies

    z = (its mean − median of theirs) / √(spread² (1 + 1/m) + error²)

from m siblings, with their spread taken so that a few that failed themselves hardly widen it, and the error of its mean
by how much neighbouring rows differ. Of few siblings the spread is known badly: z goes through Student's distribution
with m − 1 degrees of freedom. A run departs by its most unusual signal; a reward above its siblings' is none. What is
usual was learned on public runs that ended well (`benchmarks/departures.py`), repositories counted alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtr

from bayes_grpo.common.results import Result
from bayes_grpo.common.text import counted, plain
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.gather import Like, NotSibling, SiblingRuns, gather_siblings

LEAST_SIBLINGS = 4
"""Siblings with rows at the same steps that a signal needs."""
_ROWS, _SHARE = 5, 0.2
"""Latest rows that are averaged: at least so many, and this share of all."""
_LOOKS = 20
"""Earlier looks that tell since when."""
_FLOORS = {"entropy": 1e-3, "kl": 1e-3, "completion_length": 1.0, "grad_norm": 1e-6}
"""Signals beside the reward, compared in logarithms, and the smallest value that counts."""
_WORDS = {
    "reward": "reward",
    "eval_reward": "held-out reward",
    "entropy": "entropy",
    "kl": "KL",
    "completion_length": "length of completions",
    "grad_norm": "gradient norm",
}
USUAL = ((0.5, 1.1), (0.2, 2.4), (0.1, 3.0), (0.05, 3.2), (0.02, 3.5))
"""Shares of looks at public runs that ended well which lie at least as far from their siblings, and how far."""
BORDER = dict(USUAL)[0.05]
"""Distance from which a run departs: where a twentieth of looks at runs that ended well lie."""


@dataclass(frozen=True)
class SignalComparison(Result):
    """One signal of a run beside its siblings at the same steps.

    Attributes:
        signal: Its name.
        value: Mean of the run's latest rows (geometric but for rewards).
        siblings: Median of the siblings' means over the same steps.
        distance: How far the run lies above them, standard deviations.
        count: Siblings that have rows there.
        first_step: Where the rows begin.
    """

    signal: str
    value: float
    siblings: float
    distance: float
    count: int
    first_step: float

    @property
    def counts(self) -> float:
        """How far it speaks for a departure; a reward above others does not."""
        return -self.distance if self.signal in ("reward", "eval_reward") else abs(self.distance)

    @property
    def text(self) -> str:
        """E.g. "reward 0.31 where 9 siblings have 0.52 (3.4 standard deviations below)"."""
        side = "above" if self.distance > 0 else "below"
        return (
            f"{_WORDS[self.signal]} {self.value:.3g} where {counted(self.count, 'sibling')} have {self.siblings:.3g} "
            f"({abs(self.distance):.1f} standard deviations {side})"
        )


@dataclass(frozen=True)
class Departure(Result):
    """A run beside its siblings at the same steps.

    Attributes:
        signals: Its signals, the most unusual first; empty where none can be compared.
        at: The step it stands at.
        since: First look since which it has departed without a break, a step; None where it does not depart.
        named: How many runs were named.
        left_out: Those that were not taken, with the reasons.
    """

    signals: tuple[SignalComparison, ...]
    at: float
    since: float | None
    named: int
    left_out: tuple[NotSibling, ...]

    in_json = ("sentence", "departs", "usual", ...)

    @property
    def score(self) -> float:
        """Distance of the most unusual signal; NaN without one."""
        return self.signals[0].counts if self.signals else math.nan

    @property
    def departs(self) -> bool:
        """Whether it lies farther from its siblings than nearly all runs that ended well."""
        return self.score > BORDER

    @property
    def usual(self) -> float:
        """Share of looks at public runs that ended well which lie at least as far; NaN without a signal."""
        share, score = zip(*USUAL, strict=True)
        return float(np.exp(np.interp(self.score, score, np.log(share))))

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if not self.signals:
            return (
                f"siblings: none of {counted(self.named, 'run')} named lies beside this one in numbers "
                f"(at least {LEAST_SIBLINGS} with rows at the same steps)"
            )
        first = self.signals[0]
        if not self.departs:
            return f"siblings: the run does not depart from them at the same steps; nearest to it, {first.text}"
        far = [x.text for x in self.signals if x.counts > BORDER]
        share = f"{USUAL[-1][0]:.0%} or fewer" if self.score > USUAL[-1][1] else f"{self.usual:.0%}"
        return (
            f"siblings: the run departs from them since about step {self.since:g}: {'; '.join(far)}; {share} of looks "
            "at public runs that ended well lie as far from theirs"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Which runs were left out, and why."""
        return tuple(f"no sibling: {plain(name, 80)} ({plain(why, 200)})" for name, why in self.left_out[:5])


def departure_of(run: Run, like: Like) -> Departure:
    """A run beside its siblings at the same steps, as it stands at its last row.

    Args:
        run: The run.
        like: Where siblings are.

    Raises:
        LogReadError: A path that was named does not exist or cannot be read.
        FitError: The run has too few rewards to know its siblings by.
    """
    table = rows_of(run)
    return departure_among(run, table, gather_siblings(run, table, like))


def departure_among(run: Run, table: RowTable, found: SiblingRuns) -> Departure:
    """The same where the siblings were read before.

    Args:
        run: The run.
        table: Its rows.
        found: Its siblings.
    """
    siblings = [signals_of(x, table.signal) for x in found.runs]
    own = signals_of(run, table.signal)
    now = compare_at(own, siblings, float(table.step[-1]))
    out = Departure(now, float(table.step[-1]), None, found.named, found.left_out)
    if not out.departs:
        return out
    since = out.at
    for step in np.unique(np.quantile(table.step[_ROWS - 1 :], np.linspace(0, 1, _LOOKS), method="lower"))[-2::-1]:
        before = compare_at(own, siblings, float(step))
        if not before or before[0].counts <= BORDER:
            break
        since = float(step)
    return Departure(now, out.at, since, found.named, found.left_out)


type Signals = dict[str, tuple[np.ndarray, np.ndarray]]
"""Steps and values of the signals of a run, logarithms but for rewards."""


def signals_of(run: Run, reward: str) -> Signals:
    """Signals of a run where they are logged.

    Args:
        run: The run.
        reward: "reward" or "eval_reward".
    """
    rows = {reward: (run.step, run.reward) if reward == "reward" else (run.eval_step, run.eval_reward)}
    rows |= {k: (run.step, np.log(np.maximum(run.signals[k], v))) for k, v in _FLOORS.items() if k in run.signals}
    return {k: (step[fine], y[fine]) for k, (step, y) in rows.items() if (fine := np.isfinite(y)).any()}


def _mean(rows: tuple[np.ndarray, np.ndarray], first: float, last: float) -> tuple[float, float] | None:
    """Mean of the rows between two steps and its error, NaN with fewer than three rows; None without a row."""
    begin, end = np.searchsorted(rows[0], first), np.searchsorted(rows[0], last, side="right")
    y = rows[1][begin:end]
    if not len(y):
        return None
    return float(np.mean(y)), float(np.std(np.diff(y))) / math.sqrt(2.0 * len(y)) if len(y) > 2 else math.nan


def compare_at(own: Signals, siblings: Sequence[Signals], step: float) -> tuple[SignalComparison, ...]:
    """Signals of a run beside those of its siblings as they stood at a step, the most unusual first.

    Args:
        own: Signals of the run.
        siblings: Signals of its siblings.
        step: The step.
    """
    out = []
    for name, (steps, y) in own.items():
        n = int(np.searchsorted(steps, step, side="right"))
        if n < _ROWS:
            continue
        first = float(steps[n - max(_ROWS, round(_SHARE * n))])
        mean = _mean((steps, y), first, float(steps[n - 1]))
        theirs = [m for s in siblings if name in s and (m := _mean(s[name], first, float(steps[n - 1]))) is not None]
        if mean is None or len(theirs) < LEAST_SIBLINGS:
            continue
        (values, errors), m = np.array(theirs).T, len(theirs)
        centre = float(np.median(values))
        # The first as robust, the second where most siblings agree to the digit.
        spread = max(1.4826 * float(np.median(np.abs(values - centre))), 0.5 * float(np.std(values)))
        errors = [x for x in (mean[1], *errors) if math.isfinite(x)]
        error = float(np.median(errors)) if errors else 0.0
        sd = math.hypot(spread * math.sqrt(1.0 + 1.0 / m), error) + 1e-9
        far = float(ndtri(np.clip(stdtr(m - 1, (mean[0] - centre) / sd), 1e-9, 1.0 - 1e-9)))
        shown = (mean[0], centre) if name not in _FLOORS else (math.exp(mean[0]), math.exp(centre))
        out.append(SignalComparison(name, *shown, far, m, first))
    return tuple(sorted(out, key=lambda x: -x.counts))
