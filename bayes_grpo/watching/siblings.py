"""The reference runs of a run that is looked at again and again: read once, and again when it has grown."""

from __future__ import annotations

from typing import NamedTuple

from bayes_grpo.analysis.growing import AGAIN
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.gather import Like, SiblingRuns, gather_siblings
from bayes_grpo.siblings.together import Courses


class Siblings(NamedTuple):
    """Reference runs, kept from look to look.

    Attributes:
        like: Where they are.
        rows: Rows of the run when they were read.
        runs: The reference runs.
        courses: Their courses.
    """

    like: Like
    rows: int
    runs: SiblingRuns
    courses: Courses


def siblings_of(run: Run, table: RowTable, like: Like, known: Siblings | None) -> Siblings:
    """The reference runs of a run with such rows, the known ones unless it has grown.

    Raises:
        LogReadError: A named path does not exist or cannot be read.
    """
    rows = len(table.y)
    if known is None or known.like != like or not known.rows <= rows < AGAIN * known.rows:
        return Siblings(like, rows, gather_siblings(run, table, like), {})
    return known
