"""`shared_order`: which of several runs saw the same data at the same steps, and how much of a row that explains."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.frames import frame_of
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.common.wording import counted
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.siblings.course import SmoothCourse, cuts_of, smooth_course
from bayes_grpo.siblings.effect import step_effects
from bayes_grpo.siblings.gather import Like, NotSibling, named_runs
from bayes_grpo.siblings.order import DataOrder, orders_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class OneOrder(Result):
    """Runs that share an order of data.

    Attributes:
        runs: Their names.
        share: Share of a row's noise about its run's course that is an effect of the step.
    """

    runs: tuple[str, ...]
    share: Interval


@dataclass(frozen=True)
class SharedOrder(Result):
    """Orders of data among several runs.

    Attributes:
        orders: The orders that several runs share, the clearest first.
        alone: Runs that share none with another.
        left_out: Runs and files that were not looked at, with the reasons.
    """

    orders: tuple[OneOrder, ...]
    alone: tuple[str, ...]
    left_out: tuple[NotSibling, ...]

    in_json = ("sentence", ("interval_level", LEVEL), ...)

    @property
    def sentence(self) -> str:
        """The finding in words."""
        total = sum(len(x.runs) for x in self.orders) + len(self.alone)
        if not self.orders:
            return (
                f"No order of data is shared: rows of {counted(total, 'run')} do not move together at the same steps."
            )
        parts = [
            f"{len(x.runs)} of {total} runs move together at the same steps, share of a row's noise "
            f"{x.share.median:.2f} [{x.share.low:.2f}, {x.share.high:.2f}]"
            for x in self.orders
        ]
        return f"The order of data is shared: {'; '.join(parts)} ({LEVEL:.0%} intervals)."

    def to_frame(self) -> pd.DataFrame:
        """One row a run: the number of its order, or none, and the share there."""
        rows = [{"run": name, "order": i + 1, "share": x.share} for i, x in enumerate(self.orders) for name in x.runs]
        nothing = Interval(0.0, 0.0, 0.0, LEVEL)
        return frame_of(rows + [{"run": name, "order": 0, "share": nothing} for name in self.alone], "run")


def shared_order(like: Like, signal: str = "auto") -> SharedOrder:
    """Finds which of several runs saw the same data at the same steps.

    Such runs move together from row to row about their courses; the log says nothing of it otherwise. Runs with
    different logging intervals are compared by the steps that their rows average over.

    Args:
        like: The runs: files, folders, stores, patterns and runs.
        signal: "auto", "reward" (train) or "eval" (held-out); rows of different signals are different things.

    Returns:
        The orders, which may be none.

    Raises:
        LogReadError: A path that was named does not exist or cannot be read.
        FitError: Fewer than two runs whose rows scatter.
    """
    return _found(like, signal).result


@dataclass(frozen=True, eq=False)
class ClearedRun:
    """A run of several that share an order of data, without what the data did to its rows.

    Attributes:
        name: Its name.
        step: Steps of its rows, shape (n,).
        y: The rows, shape (n,).
        cleared: The rows less the mean effect of their steps, as the other runs of the order tell it, shape (n,).
        left: Standard deviation of the cleared rows about the run's course over that of the rows.
    """

    name: str
    step: np.ndarray
    y: np.ndarray
    cleared: np.ndarray
    left: float


def cleared_runs(like: Like, signal: str = "auto") -> tuple[SharedOrder, tuple[ClearedRun, ...]]:
    """Runs that share an order of data, with its effects taken out of their rows.

    What a row's own noise is never counts as an effect: those on a run are told by the other runs alone.

    Args:
        like: The runs, as in `shared_order`.
        signal: As there.

    Returns:
        The orders, and the runs that share one.

    Raises:
        LogReadError: A path that was named does not exist or cannot be read.
        FitError: Fewer than two runs whose rows scatter.
    """
    found, out = _found(like, signal), []
    for order in found.orders:
        for i in order.members:
            course = found.courses[i]
            others = replace(order, members=tuple(j for j in order.members if j != i))
            t, share = course.table, order.share.median
            effect = step_effects(others, found.courses).at(np.stack([t.step, t.window]))
            cleared = t.y - course.sd * math.sqrt(share) * effect.mean
            before, after = (float(np.nanstd(y - course.smooth)) for y in (t.y, cleared))
            out.append(ClearedRun(found.names[i], t.step, t.y, cleared, after / before))
    return found.result, tuple(out)


class _Found(NamedTuple):
    """Orders among runs, with the courses that they were found in."""

    names: tuple[str, ...]
    courses: tuple[SmoothCourse, ...]
    orders: list[DataOrder]
    left_out: tuple[NotSibling, ...]

    @property
    def result(self) -> SharedOrder:
        """The orders by the names of their runs."""
        inside = {i for o in self.orders for i in o.members}
        return SharedOrder(
            tuple(OneOrder(tuple(self.names[i] for i in o.members), o.share) for o in self.orders),
            tuple(name for i, name in enumerate(self.names) if i not in inside),
            self.left_out,
        )


def _found(like: Like, signal: str) -> _Found:
    found, left_out = named_runs(like)
    kept = []
    for run in found:
        try:
            kept.append((plain(run.name, 80), rows_of(run, signal)))
        except FitError as error:
            left_out.append(NotSibling(plain(run.name, 80), plain(error, 200)))
    # The signal of most, where a run has no say in it.
    signals = [t.signal for _, t in kept]
    most = max(set(signals), key=signals.count, default="")
    left_out += [NotSibling(name, f"another signal: {t.signal}") for name, t in kept if t.signal != most]
    kept = [(name, t) for name, t in kept if t.signal == most]
    cuts = cuts_of([t for _, t in kept]) if kept else None
    made = [(name, smooth_course(t, cuts)) for name, t in kept]
    left_out += [NotSibling(name, "its rows are too few or do not scatter") for name, c in made if c is None]
    known = [(name, c) for name, c in made if c is not None]
    if len(known) < 2:
        why = f" ({left_out[0].name}: {left_out[0].why})" if left_out else ""
        raise FitError(f"shared order: expected at least 2 runs whose rows scatter, found {len(known)}{why}; name more")
    courses = tuple(c for _, c in known)
    return _Found(tuple(name for name, _ in known), courses, orders_of(courses), tuple(left_out))
