"""`shared_order`: which of several runs saw the same data at the same steps, and how much of a row that explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.text import counted, plain
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.course import cuts_of, smooth_course
from bayes_grpo.siblings.gather import Like, NotSibling, named_runs
from bayes_grpo.siblings.order import orders_of

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

    Such runs move together from row to row about their courses; the log does not state it otherwise. Runs with
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
    found, left_out = named_runs(like)
    kept = []
    for run in found:
        try:
            kept.append((plain(run.name, 80), rows_of(run, signal)))
        except FitError as error:
            left_out.append(NotSibling(plain(run.name, 80), plain(error, 200)))
    # Where the signal is left open, that of most runs.
    signals = [t.signal for _, t in kept]
    most = max(set(signals), key=signals.count, default="")
    left_out += [NotSibling(name, f"another signal: {t.signal}") for name, t in kept if t.signal != most]
    kept = [(name, t) for name, t in kept if t.signal == most]
    out = shared_orders([name for name, _ in kept], [t for _, t in kept])
    known = sum(len(x.runs) for x in out.orders) + len(out.alone)
    left_out += out.left_out
    if known < 2:
        why = f" ({left_out[0].name}: {left_out[0].why})" if left_out else ""
        raise FitError(f"shared order: expected at least 2 runs whose rows scatter, found {known}{why}; name more")
    return replace(out, left_out=tuple(left_out))


def shared_orders(names: Sequence[str], tables: Sequence[RowTable]) -> SharedOrder:
    """The same of rows.

    Args:
        names: Names of the runs.
        tables: Rows of each, of one signal.
    """
    cuts = cuts_of(tables) if tables else None
    made = [(name, smooth_course(t, cuts)) for name, t in zip(names, tables, strict=True)]
    known = [(name, c) for name, c in made if c is not None]
    orders = orders_of([c for _, c in known])
    inside = {i for o in orders for i in o.members}
    return SharedOrder(
        tuple(OneOrder(tuple(known[i][0] for i in o.members), o.share) for o in orders),
        tuple(name for i, (name, _) in enumerate(known) if i not in inside),
        tuple(NotSibling(name, "its rows are too few or do not scatter") for name, c in made if c is None),
    )
