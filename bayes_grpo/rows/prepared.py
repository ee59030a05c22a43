"""`PreparedRows`: the rows of a log as a table and as arrays, which nothing can take apart.

A table says what priors and messages need (scale, length, signal); the arrays are the same rows on their way into a
compiled program. Whoever has one has the other, so no function asks for both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from bayes_grpo.rows.future import FutureRows, extended
from bayes_grpo.rows.padding import Rows, padded, shared
from bayes_grpo.rows.table import RowTable


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Rows of one signal with their padded arrays; made by `prepare_rows`.

    Attributes:
        table: The rows, n of them.
        arrays: The same, padded to a length T; a row that is left out is a missing value.
    """

    table: RowTable
    arrays: Rows

    def __post_init__(self) -> None:
        """Checks that both are of the same rows.

        Raises:
            ValueError: They are not.
        """
        n, y = len(self.table.y), np.asarray(self.arrays.y)
        there = np.isfinite(y)
        same = not there[n:].any() and np.array_equal(y[there], self.table.y[there[:n]])
        if not (same and self.arrays.length == self.table.length and self.arrays.start == self.table.start):
            raise ValueError("expected a table and the arrays of its rows, found those of others; use `prepare_rows`")

    def without(self, row: int) -> PreparedRows:
        """The same log with one row missing.

        Left out of the table instead, its steps would take the learning rate of the row after it.
        """
        y = np.array(self.arrays.y)
        y[row] = np.nan
        return PreparedRows(self.table, self.arrays._replace(y=y))

    def before(self, cut: int) -> PreparedRows:
        """The first ``cut`` rows in the shapes of the whole log, so that nothing is compiled anew."""
        whole, n = self.arrays, len(self.table.y)
        columns = {f.name: getattr(self.table, f.name) for f in fields(self.table)}
        table = replace(
            self.table, **{k: v[:cut] for k, v in columns.items() if isinstance(v, np.ndarray) and v.shape == (n,)}
        )
        own = padded(table)
        speed = np.zeros(()) if own.start_speed is None else own.start_speed
        arrays = whole._replace(
            y=self.values(0, cut),
            length=own.length,
            spacing=own.spacing,
            start_speed=None if whole.start_speed is None else speed,
        )
        return PreparedRows(table, arrays)

    def values(self, first: int, last: int) -> np.ndarray:
        """Logged values from row ``first`` to before row ``last``, all others missing, shape (T,)."""
        out = np.full(len(self.arrays.y), np.nan)
        out[first:last] = np.asarray(self.arrays.y)[first:last]
        return out

    def followed_by(self, future: FutureRows) -> Rows:
        """Arrays of the rows with future ones after them, which have no values.

        Some coordinates refer to the log's length: they keep the meaning that they had when the law was fitted.
        """
        past, rows = self.arrays, shared(extended(self.table, future))
        speed = rows.start_speed if past.start_speed is None else past.start_speed
        return rows._replace(length=past.length, spacing=past.spacing, start_speed=speed)


def prepare_rows(table: RowTable, many: bool = False) -> PreparedRows:
    """Rows for compiled programs.

    Args:
        table: The rows.
        many: Whether the programs are for many logs, or many cuts of one: few shapes then (`shared`), in place of the
            smallest ones (`padded`).

    Returns:
        The rows with their arrays.
    """
    return PreparedRows(table, shared(table) if many else padded(table))
