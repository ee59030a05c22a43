"""Runs that saw the same data at the same steps, compared by rows of the same step, where it cancels.

Of every run that shares an order of data, the rows of its last fifth less the mean of the others' at the same steps are
averaged; neighbouring rows of that difference tell its error, in which the effects of the steps cancel. It is a
difference of these runs, not of their settings: how far seeds lie apart is no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import Result
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.course import cuts_of, smooth_course
from bayes_grpo.siblings.order import orders_of

_SEEN = 20
"""Common rows from which a shared order of data would be seen."""
_LAST, _LEAST = 0.2, 8
"""Share of the common rows that are compared, and how many at least."""
ONE_SEED = (
    "no two runs move together at the same steps: their data came in different orders; with one data seed for all, the "
    "difference of two runs would have .4 of the variance (public families of one order), the same certainty from less "
    "than half of the rows"
)


@dataclass(frozen=True)
class RunAhead(Result):
    """A run against the others that saw the same data.

    Attributes:
        name: Its name.
        ahead: How far its reward lies above the mean of theirs over the last rows that all have.
        narrower: Width of this interval over what rows of different orders would give.
    """

    name: str
    ahead: Interval
    narrower: float


@dataclass(frozen=True)
class DataOrders(Result):
    """Which runs of a family saw the same data at the same steps.

    Attributes:
        share: Share of a row's noise that is an effect of the step, in the largest group.
        groups: Names of the runs of every order that several share, the largest first.
        alone: Runs that share none.
        first_step: Where the rows that are compared begin.
        runs: Those of the largest group against each other, the best first; empty where they have too few common rows.
    """

    share: Interval
    groups: tuple[tuple[str, ...], ...]
    alone: tuple[str, ...]
    first_step: float
    runs: tuple[RunAhead, ...]

    in_json = ("sentence", ...)

    @property
    def sentence(self) -> str:
        """The finding in words."""
        s = self.share
        sizes = " and ".join(str(len(g)) for g in self.groups)
        alone = f", {len(self.alone)} share none" if self.alone else ""
        text = (
            f"order of data: {sizes} runs saw the same data at the same steps{alone}, correlation {s.median:.2f} "
            f"[{s.low:.2f}, {s.high:.2f}]"
        )
        if not self.runs:
            return text
        best, worst = self.runs[0], self.runs[-1]
        told = "; ".join(
            f"{x.name} {x.ahead.median:+.3g} [{x.ahead.low:+.3g}, {x.ahead.high:+.3g}]" for x in (best, worst)
        )
        narrower = float(np.median([x.narrower for x in self.runs]))
        return (
            f"{text}; by rows of the same step since {self.first_step:g} against the mean of the others, {told}: "
            f"intervals of {narrower:.2f} of the width, as from {1.0 / narrower**2:.1f} times the rows of different "
            "orders (these runs, not their settings)"
        )


def data_orders(names: Sequence[str], tables: Sequence[RowTable]) -> DataOrders | None:
    """Which runs saw the same data at the same steps; None where no two did.

    Args:
        names: Names of the runs.
        tables: Their rows.
    """
    cuts = cuts_of(tables)
    known = [(i, c) for i, t in enumerate(tables) if (c := smooth_course(t, cuts)) is not None]
    orders = sorted(orders_of([c for _, c in known]), key=lambda o: -len(o.members))
    if not orders:
        return None
    groups = [[known[i][0] for i in o.members] for o in orders]
    inside = {i for g in groups for i in g}
    first, ahead = _against(names, tables, groups[0])
    return DataOrders(
        orders[0].share,
        tuple(tuple(names[i] for i in g) for g in groups),
        tuple(n for i, n in enumerate(names) if i not in inside),
        first,
        ahead,
    )


def _against(
    names: Sequence[str], tables: Sequence[RowTable], group: Sequence[int]
) -> tuple[float, tuple[RunAhead, ...]]:
    step = common_steps([tables[i] for i in group])
    n = max(_LEAST, round(_LAST * len(step)))
    if len(step) < n:
        return math.nan, ()
    step = step[-n:]
    y = np.stack([tables[i].y[np.searchsorted(tables[i].step, step)] for i in group])
    out = []
    for place, i in enumerate(group):
        others = np.delete(y, place, axis=0)
        apart = y[place] - others.mean(axis=0)
        error = _error(apart)
        if not error > 0.0:
            continue
        alone = math.hypot(_error(y[place]), math.sqrt(sum(_error(x) ** 2 for x in others)) / len(others))
        # Neighbouring differences of n rows know a variance as about (n − 1)·2/3 independent ones do.
        half = float(stdtrit(2.0 * (n - 1) / 3.0, 0.5 + 0.5 * LEVEL)) * error
        mean = float(apart.mean())
        out.append(RunAhead(names[i], Interval(mean, mean - half, mean + half, LEVEL), error / alone))
    return float(step[0]), tuple(sorted(out, key=lambda x: -x.ahead.median))


def _error(y: np.ndarray) -> float:
    """Standard error of the mean of rows, by how much neighbouring ones differ."""
    return math.sqrt(float(np.mean(np.diff(y) ** 2)) / (2.0 * len(y)))


def common_steps(tables: Sequence[RowTable]) -> np.ndarray:
    """Steps at which all runs have rows.

    Args:
        tables: Rows of the runs.
    """
    step = tables[0].step
    for t in tables[1:]:
        step = np.intersect1d(step, t.step)
    return step


def could_pair(tables: Sequence[RowTable]) -> bool:
    """Whether runs have rows at the same steps, enough of them that a shared order would be seen.

    Args:
        tables: Rows of the runs.
    """
    return len(common_steps(tables)) >= _SEEN
