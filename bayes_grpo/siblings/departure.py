"""Robust z-score of a run against its reference runs at the same steps: evidence before a threshold is crossed.

The latest rows of a signal are averaged, in the run and over the same steps in m reference runs. The score is

    z = (mean of the run − median of the reference runs) / √(spread² (1 + 1/m) + error²)

The spread is robust, so that a few failed reference runs hardly widen it. The error of the mean comes from the
differences of neighboring rows. With few reference runs the spread is uncertain: z goes through Student's t with m − 1
degrees of freedom. The most unusual signal decides; a reward above the reference runs does not count. The usual scores
come from public runs that ended well (`benchmarks/departures.py`), with equal weights for repositories.
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
"""Reference runs with rows at the same steps that a signal needs."""
_ROWS, _SHARE = 5, 0.2
"""Latest rows that are averaged: at least so many, and this share of all."""
_LOOKS = 20
"""Earlier looks that date the departure."""
_FLOORS = {"entropy": 1e-3, "kl": 1e-3, "completion_length": 1.0, "grad_norm": 1e-6}
"""Signals other than the reward, compared in logarithms, and the smallest value that counts."""
_WORDS = {
    "reward": "reward",
    "eval_reward": "held-out reward",
    "entropy": "entropy",
    "kl": "KL",
    "completion_length": "length of completions",
    "grad_norm": "gradient norm",
}
USUAL = ((0.5, 1.1), (0.2, 2.4), (0.1, 3.0), (0.05, 3.2), (0.02, 3.5))
"""Tail of the score over looks at public runs that ended well: share of looks, and the score they exceed."""
BORDER = dict(USUAL)[0.05]
"""Threshold of a departure: 5% of looks at runs that ended well exceed it."""


@dataclass(frozen=True)
class SignalComparison(Result):
    """One signal of a run compared with its reference runs at the same steps.

    Attributes:
        signal: Its name.
        value: Mean of the run's latest rows (geometric but for rewards).
        siblings: Median of the reference runs' means over the same steps.
        distance: How far the run lies above them, standard deviations.
        count: Reference runs with rows there.
        first_step: First step of the rows.
    """

    signal: str
    value: float
    siblings: float
    distance: float
    count: int
    first_step: float

    @property
    def counts(self) -> float:
        """Evidence for a departure; a reward above the others is none."""
        return -self.distance if self.signal in ("reward", "eval_reward") else abs(self.distance)

    @property
    def text(self) -> str:
        """E.g. "reward 0.31 where 9 reference runs have 0.52 (3.4 standard deviations below)"."""
        side = "above" if self.distance > 0 else "below"
        return (
            f"{_WORDS[self.signal]} {self.value:.3g} where {counted(self.count, 'reference run')} have "
            f"{self.siblings:.3g} ({abs(self.distance):.1f} standard deviations {side})"
        )


@dataclass(frozen=True)
class Departure(Result):
    """A run compared with its reference runs at the same steps.

    Attributes:
        signals: Its signals, the most unusual first; empty where none can be compared.
        at: Last step of the run.
        since: Step of the first look of the present departure; None where the run does not depart.
        named: Number of runs that were named.
        left_out: Runs that were not used, with the reasons.
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
        """Whether its score exceeds that of 95% of looks at runs that ended well."""
        return self.score > BORDER

    @property
    def usual(self) -> float:
        """Share of looks at public runs that ended well with at least this score; NaN without a signal."""
        share, score = zip(*USUAL, strict=True)
        return float(np.exp(np.interp(self.score, score, np.log(share))))

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if not self.signals:
            return (
                f"too few of {counted(self.named, 'reference run')} overlap with the run "
                f"(at least {LEAST_SIBLINGS} with rows at the same steps)"
            )
        first = self.signals[0]
        if not self.departs:
            return (
                f"the run does not depart from its reference runs at the same steps; largest difference: {first.text}"
            )
        far = [x.text for x in self.signals if x.counts > BORDER]
        share = f"{USUAL[-1][0]:.0%} or fewer" if self.score > USUAL[-1][1] else f"{self.usual:.0%}"
        return (
            f"the run departs from its reference runs since about step {self.since:g}: {'; '.join(far)}. In {share} of "
            "looks at public runs that ended well, the run lies as far from its reference runs"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Which runs were left out, and why."""
        return tuple(
            f"reference run left out: {plain(name, 80)} ({plain(why, 200)})" for name, why in self.left_out[:5]
        )


def departure_of(run: Run, like: Like) -> Departure:
    """Compares a run at its last row with its reference runs at the same steps.

    Args:
        run: The run.
        like: The reference runs, or where they are.

    Raises:
        LogReadError: A path does not exist or cannot be read.
        FitError: The run has too few rewards to find its reference runs.
    """
    table = rows_of(run)
    return departure_among(run, table, gather_siblings(run, table, like))


def departure_among(run: Run, table: RowTable, found: SiblingRuns) -> Departure:
    """`departure_of` for reference runs that were read before.

    Args:
        run: The run.
        table: Its rows.
        found: Its reference runs.
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
    """Compares the signals of a run with its reference runs up to a step; the most unusual first.

    Args:
        own: Signals of the run.
        siblings: Signals of its reference runs.
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
        # The first is robust; the second counts where most reference runs agree exactly.
        spread = max(1.4826 * float(np.median(np.abs(values - centre))), 0.5 * float(np.std(values)))
        errors = [x for x in (mean[1], *errors) if math.isfinite(x)]
        error = float(np.median(errors)) if errors else 0.0
        sd = math.hypot(spread * math.sqrt(1.0 + 1.0 / m), error) + 1e-9
        far = float(ndtri(np.clip(stdtr(m - 1, (mean[0] - centre) / sd), 1e-9, 1.0 - 1e-9)))
        shown = (mean[0], centre) if name not in _FLOORS else (math.exp(mean[0]), math.exp(centre))
        out.append(SignalComparison(name, *shown, far, m, first))
    return tuple(sorted(out, key=lambda x: -x.counts))
