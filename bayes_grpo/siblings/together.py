"""A run read together with its reference runs: the effects of their data order, and a forecast from their curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.rows.series import Series
from bayes_grpo.siblings.alike import Foreseen, foreseen
from bayes_grpo.siblings.course import SmoothCourse, cuts_of, smooth_course
from bayes_grpo.siblings.effect import Effects, StepEffect, order_of, step_effects
from bayes_grpo.siblings.gather import NotSibling, SiblingRuns
from bayes_grpo.siblings.order import DataOrder, orders_of


@dataclass(frozen=True, eq=False)
class ReadTogether:
    """A run and its reference runs.

    Attributes:
        table: Rows of the run.
        own: Its smooth curve; None where its rows have no noise.
        names: Names of the reference runs.
        courses: Their smooth curves.
        left_out: Runs that were named and not used, with the reasons.
        order: The data order that the run shares; None without one.
        effects: Posterior effects of that order, from the reference runs.
        searched: Whether the reference runs were found near the log, not named.
    """

    table: Series
    own: SmoothCourse | None
    names: tuple[str, ...]
    courses: tuple[SmoothCourse, ...]
    left_out: tuple[NotSibling, ...]
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

    def foreseen(self, step: np.ndarray, window: np.ndarray) -> Foreseen | None:
        """Forecast of the run from its reference runs; None where fewer than two of them extend beyond its last row.

        Args:
            step: Steps at which the rows to come end, shape (h,).
            window: Steps averaged into each, shape (h,).
        """
        t = self.table
        both = np.concatenate([t.step, step]), np.concatenate([t.window, window])
        share = 0.0 if self.effects is None else self.effects.share
        return foreseen(both[0], t.y, self.courses, self.effect(*both), share)


type Courses = dict[tuple[bytes, bytes, bytes, float, float], SmoothCourse | None]
"""Smooth curves of reference runs by their rows (steps, windows, rewards) and where runs are cut."""


def read_together(table: Series, siblings: SiblingRuns, kept: Courses | None = None) -> ReadTogether:
    """Reads a run together with its reference runs.

    Args:
        table: Rows of the run so far; later rows are not used.
        siblings: Its reference runs, with all of their rows.
        kept: Cache of smooth curves from earlier calls, updated in place; pass the same mapping to repeated calls.
    """
    cuts = cuts_of([table, *siblings.tables])
    kept = {} if kept is None else kept
    names, courses, left_out = [], [], list(siblings.left_out)
    for run, rows in zip(siblings.runs, siblings.tables, strict=True):
        seen = (rows.step.tobytes(), rows.window.tobytes(), rows.y.tobytes())
        key = (*seen, float(cuts[0]), float(cuts[1] - cuts[0]))
        if key not in kept:
            kept[key] = smooth_course(rows, cuts)
        course = kept[key]
        if course is None:
            left_out.append(NotSibling(plain(run.name, 80), "its rows are too few or do not scatter"))
            continue
        names.append(plain(run.name, 80))
        courses.append(course)
    own = smooth_course(table, cuts)
    order, effects = None, None
    if own is not None and len(courses) > 1:
        orders = orders_of(courses)
        known = [step_effects(o, courses) for o in orders]
        sizes = [len(o.members) for o in orders]
        place = order_of(own, known, sizes, len(courses) - sum(sizes))
        if place is not None:
            order, effects = orders[place], known[place]
    return ReadTogether(table, own, tuple(names), tuple(courses), tuple(left_out), order, effects, siblings.searched)
