"""Single metrics of a store, each with the step that the trainer gave it, joined into the rows of a log."""

from __future__ import annotations

from collections.abc import Sequence

from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.table import Table, TableBuilder
from bayes_grpo.logs.trainers import identify

StoreRow = dict[str, float]


class Points:
    """Collects metrics in the order in which they were written."""

    def __init__(self) -> None:
        self._step: list[float] = []
        self._key: list[str] = []
        self._value: list[float] = []

    def add(self, step: float, key: str, value: float) -> None:
        """Appends one metric."""
        self._step.append(step)
        self._key.append(key)
        self._value.append(value)

    def table(self) -> Table:
        """Rows in the order of their first metric: metrics of one step are one row.

        A metric that a step already has opens a new row of that step: it is a part of the step or a resumed training.
        Where the trainer counts rollouts and updates on steps of their own, each kind of key has rows of its own.

        Raises:
            LogReadError: There are more keys than a log of metrics has.
        """
        keys = dict.fromkeys(self._key)
        axes = _axes(tuple(keys))
        axis_of = {key: next((axis for axis in axes if key.startswith(f"{axis}/")), "") for key in keys}
        counter = "_step" if "step" in keys else "step"
        rows: list[StoreRow] = []
        current: dict[tuple[str, float], StoreRow] = {}
        for step, key, value in zip(self._step, self._key, self._value, strict=True):
            axis = axis_of[key]
            row = current.get((axis, step))
            if row is None or key in row:
                row = {f"{axis}/step": step} if axis else {counter: step}
                current[axis, step] = row
                rows.append(row)
            row[key] = value
        builder = TableBuilder()
        for row in rows:
            builder.add(row)
        return builder.build()


def _axes(keys: Sequence[str]) -> tuple[str, ...]:
    """First words of the keys that the trainer logs at steps of their own, where the keys do not say the step."""
    trainer = identify(KeyIndex(Table.from_rows([dict.fromkeys(keys, 0.0)])))
    return tuple(axis for axis in trainer.axes if f"{axis}/step" not in keys)
