"""A run read together with its reference runs: their curves, and the order of data that they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.references.curve import SmoothCurve, cuts_of, smooth_curve
from bayes_grpo.references.gather import ExcludedRun, ReferenceRuns
from bayes_grpo.references.order import DataOrder, order_of, orders_of
from bayes_grpo.references.transfer import TransferForecast, transfer_forecast
from bayes_grpo.rows.series import Series


@dataclass(frozen=True, eq=False)
class JointReading:
    """A run and its reference runs.

    Attributes:
        table: Rows of the run.
        own: Its smooth curve; None where its rows have no noise.
        names: Names of the reference runs.
        curves: Their smooth curves.
        left_out: Runs that were named and not used, with the reasons.
        order: The data order that the run shares; None without one.
        searched: Whether the reference runs were found near the log, not named.
    """

    table: Series
    own: SmoothCurve | None
    names: tuple[str, ...]
    curves: tuple[SmoothCurve, ...]
    left_out: tuple[ExcludedRun, ...]
    order: DataOrder | None
    searched: bool = False

    def transfer_forecast(self, step: np.ndarray, window: np.ndarray) -> TransferForecast | None:
        """Forecast of the run's future rows from its reference runs.

        None where fewer than two of them extend beyond its last row.

        Args:
            step: Steps at which the rows to come end, shape (h,).
            window: Steps averaged into each, shape (h,).
        """
        t, order = self.table, self.order
        both = np.stack([np.concatenate([t.step, step]), np.concatenate([t.window, window])])
        effect = None if order is None else (order.at(both), order.share.median)
        return transfer_forecast(both[0], t.y, self.curves, effect)


def read_jointly(table: Series, references: ReferenceRuns) -> JointReading:
    """Reads a run together with its reference runs.

    Args:
        table: Rows of the run so far; later rows are not used.
        references: Its reference runs, with all of their rows.
    """
    cuts = cuts_of([table, *(rows for _, rows in references.runs)])
    names, curves, left_out = [], [], list(references.left_out)
    for run, rows in references.runs:
        curve = smooth_curve(rows, cuts)
        if curve is None:
            left_out.append(ExcludedRun(plain(run.name, 80), "its rows are too few or do not scatter"))
            continue
        names.append(plain(run.name, 80))
        curves.append(curve)
    own, order = smooth_curve(table, cuts), None
    if own is not None:
        orders = orders_of(curves)
        order = order_of(own, orders, len(curves) - sum(len(o.members) for o in orders))
    return JointReading(table, own, tuple(names), tuple(curves), tuple(left_out), order, references.searched)
