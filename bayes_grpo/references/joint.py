"""A run read together with its reference runs: the effects of their data order, and a forecast from their curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.references.curve import SmoothCurve, cuts_of, smooth_curve
from bayes_grpo.references.effect import Effects, StepEffect, order_of, step_effects
from bayes_grpo.references.gather import ExcludedRun, ReferenceRuns
from bayes_grpo.references.order import DataOrder, orders_of
from bayes_grpo.references.transfer import TransferForecast, transfer_forecast
from bayes_grpo.rows.table import RowTable


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
        effects: Posterior effects of that order, from the reference runs.
        searched: Whether the reference runs were found near the log, not named.
    """

    table: RowTable
    own: SmoothCurve | None
    names: tuple[str, ...]
    curves: tuple[SmoothCurve, ...]
    left_out: tuple[ExcludedRun, ...]
    order: DataOrder | None
    effects: Effects | None
    searched: bool = False

    def effect(self, step: np.ndarray, window: np.ndarray) -> StepEffect | None:
        """Effects of the data on rows of the run, past or to come; None where no order is shared.

        Args:
            step: Steps at which the rows end, shape (n,).
            window: Steps averaged into each, shape (n,).
        """
        return None if self.effects is None else self.effects.at(np.stack([step, window]))

    def transfer_forecast(self, step: np.ndarray, window: np.ndarray) -> TransferForecast | None:
        """Forecast of the run from its reference runs; None where fewer than two of them extend beyond its last row.

        Args:
            step: Steps at which the rows to come end, shape (h,).
            window: Steps averaged into each, shape (h,).
        """
        t = self.table
        both = np.concatenate([t.step, step]), np.concatenate([t.window, window])
        share = 0.0 if self.effects is None else self.effects.share
        return transfer_forecast(both[0], t.y, self.curves, self.effect(*both), share)


type Curves = dict[tuple[bytes, bytes, bytes, float, float], SmoothCurve | None]
"""Smooth curves of reference runs by their rows (steps, windows, rewards) and where runs are cut."""


def read_jointly(table: RowTable, reference_runs: ReferenceRuns, kept: Curves | None = None) -> JointReading:
    """Reads a run together with its reference runs.

    Args:
        table: Rows of the run so far; later rows are not used.
        reference_runs: Its reference runs, with all of their rows.
        kept: Cache of smooth curves from earlier calls, updated in place; pass the same mapping to repeated calls.
    """
    cuts = cuts_of([table, *reference_runs.tables])
    kept = {} if kept is None else kept
    names, curves, left_out = [], [], list(reference_runs.left_out)
    for run, rows in zip(reference_runs.runs, reference_runs.tables, strict=True):
        seen = (rows.step.tobytes(), rows.window.tobytes(), rows.y.tobytes())
        key = (*seen, float(cuts[0]), float(cuts[1] - cuts[0]))
        if key not in kept:
            kept[key] = smooth_curve(rows, cuts)
        curve = kept[key]
        if curve is None:
            left_out.append(ExcludedRun(plain(run.name, 80), "its rows are too few or do not scatter"))
            continue
        names.append(plain(run.name, 80))
        curves.append(curve)
    own = smooth_curve(table, cuts)
    order, effects = None, None
    if own is not None and len(curves) > 1:
        orders = orders_of(curves)
        known = [step_effects(o, curves) for o in orders]
        sizes = [len(o.members) for o in orders]
        place = order_of(own, known, sizes, len(curves) - sum(sizes))
        if place is not None:
            order, effects = orders[place], known[place]
    return JointReading(
        table, own, tuple(names), tuple(curves), tuple(left_out), order, effects, reference_runs.searched
    )
