"""Two recipes on the same data: rows without what the data alone did, so that their difference is known better.

Where runs of both sides saw the same data at the same steps, the effect of a step is in both and cancels in their
difference. It is taken out of every run's rows, each run is read as before, and what a reading leaves open is as much
as noise of its own leaves: of n runs whose rows share ρ, taking out the effect that all of them tell leaves

    1 − 2ρ + nρ² / (1 + (n − 1)ρ)

of the noise in a run, less than the 1 − ρ that two runs differ by; the errors of the readings are put right for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.course import cuts_of, smooth_course
from bayes_grpo.siblings.effect import step_effects
from bayes_grpo.siblings.order import orders_of


class Paired(NamedTuple):
    """Runs of both recipes that share an order of data.

    Attributes:
        runs: Their places.
        share: Share of a row's noise that is an effect of the step.
        tables: Rows without that effect, of every run; those of no member as they were.
        factor: What an error of a reading has to be multiplied by, of every run.
    """

    runs: tuple[int, ...]
    share: Interval
    tables: tuple[RowTable, ...]
    factor: tuple[float, ...]


def paired(tables: Sequence[RowTable], first: int) -> Paired | None:
    """The order that most runs of both recipes share; None where none is shared across them.

    Args:
        tables: Rows of the runs of A, then of B.
        first: Number of the runs of A.
    """
    cuts = cuts_of(tables)
    known = [(i, c) for i, t in enumerate(tables) if (c := smooth_course(t, cuts)) is not None]
    courses = [c for _, c in known]
    across = [
        o for o in orders_of(courses) if len({known[i][0] < first for i in o.members}) == 2
    ]  # of one recipe alone, nothing cancels
    if not across:
        return None
    order = max(across, key=lambda o: len(o.members))
    effects, n = step_effects(order, courses), len(order.members)
    share = effects.share
    left = 1.0 - 2.0 * share + n * share**2 / (1.0 + (n - 1) * share)
    out, factor = list(tables), [1.0] * len(tables)
    for i in order.members:
        place, course = known[i]
        t = tables[place]
        at = effects.at(np.stack([t.step, t.window]))
        out[place] = replace(t, y=t.y - course.sd * math.sqrt(share) * at.mean)
        factor[place] = math.sqrt((1.0 - share) / left)
    return Paired(tuple(known[i][0] for i in order.members), order.share, tuple(out), tuple(factor))
