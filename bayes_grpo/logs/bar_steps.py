"""Progress bars of console text between rows without a step of their own, and the steps that they give these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.logs.lines import Bars
from bayes_grpo.logs.table import to_float
from bayes_grpo.logs.trainings import CLOSING

_NEARLY = 1.2
"""Steps of a bar over rows up to which a row is one step, and a few rows are missing."""
_MAX_BARS = 32
"""Bars that are kept in mind: loading a model and its data shows a few before the training's."""
_LEAST_FALLS = 3
_LINEAR = 0.03
"""Part by which falls of a linear learning rate differ, and windows from a whole number, by rounding."""
NO_BARS: Mapping[int, int] = MappingProxyType({})


class RowBelowBars(NamedTuple):
    """A row (empty at the end), all bars before the first row, a training's first and last bar since the row before.

    And the number of headings before it, and the step that a line in words names before it.
    """

    row: dict[str, Any]
    bars: Mapping[int, int]
    passed: Mapping[int, tuple[int, int]]
    section: int = 0
    named_step: float | None = None


class BarCounter:
    """Progress bars up to a row: the last count of each, and the first and last count of each since the row before."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.passed: dict[int, tuple[int, int]] = {}
        self.section = 0
        self.named_step: float | None = None

    def see(self, shown: Bars, counting: frozenset[int] | None) -> None:
        """Moves the bars of a line on; of those that do not count the training the last counts stay.

        The shell of a notebook shows bars without a picture, and below the rows alone.
        """
        for done, planned, timed, pictured in shown:
            if pictured and (counting is None or planned in counting):
                self.counts.pop(planned, None)
                self.counts[planned] = done
            if timed:
                self.passed[planned] = (self.passed.pop(planned, (done, done))[0], done)
            for some in (self.counts, self.passed):
                if len(some) > _MAX_BARS:
                    del some[next(iter(some))]

    def row_below(self, row: dict[str, Any]) -> RowBelowBars:
        """A row with the bars before it."""
        passed, self.passed = self.passed, {}
        told, self.named_step = self.named_step, None
        return RowBelowBars(row, dict(self.counts) if self.counts else NO_BARS, passed, self.section, told)


class _Placed(NamedTuple):
    """The step of each row of a training (None where bars tell none), planned steps, and how they were found."""

    steps: Iterable[float | None] | None = None
    planned: float | None = None
    note: str = ""


def steps_on_bars(
    parts: list[list[RowBelowBars]], end: RowBelowBars
) -> tuple[list[dict[str, Any]], float | None, tuple[str, ...]]:
    """Rows with the steps that progress bars give them, for each training by itself; planned steps and notes."""
    found = []
    for part, following in zip(parts, [*parts[1:], [end]], strict=True):
        later = {planned for f in following[1:] for planned in f.passed}
        found.append(_on_bar(part, {k: bar for k, bar in following[0].passed.items() if k not in later}))
    some = any(place.steps is not None for place in found)
    rows: list[dict[str, Any]] = []
    for part, place in zip(parts, found, strict=True):
        steps = range(1, len(part) + 1) if some and place.steps is None else place.steps
        rows += [f.row for f in part] if steps is None else _with_steps(part, steps)
    last = found[-1]
    return rows, last.planned, (last.note,) if last.note else ()


def _with_steps(part: list[RowBelowBars], steps: Iterable[float | None]) -> list[dict[str, Any]]:
    return [{**f.row, "step": step} for f, step in zip(part, steps, strict=True)]


def _on_bar(part: list[RowBelowBars], after: Mapping[int, tuple[int, int]]) -> _Placed:
    """The steps of one training, with the bars that came after its last row."""
    train = [is_train(f.row) for f in part]
    closing = [CLOSING[0] in f.row for f in part]
    for planned in part[0].bars:  # the bar that counts it is seen before every row, and moved on by every train row
        at = [f.bars.get(planned) for f in part]
        own = [step or 0 for step, trained in zip(at, train, strict=True) if trained]
        if None not in at and own and own[0] > 0 and all(b > a for a, b in pairwise(own)):
            latest = np.maximum.accumulate([step or 0 if x else 0 for step, x in zip(at, train, strict=True)])
            steps = [last if end else x for x, end, last in zip(at, closing, latest.tolist(), strict=True)]
            return _Placed(steps, float(planned), f"the step is that of the progress bar of {planned}")
    several = len(part) > 1 and all(train)
    for planned in part[0].passed:  # or a row stands below the bar of every epoch
        if several and all(f.passed.get(planned, (0, 0))[1] == planned for f in part):
            steps = range(planned, planned * len(part) + 1, planned)
            return _Placed(steps, None, f"the steps are those of progress bars of {planned} each")
    below = [*(f.passed for f in part[1:]), after]
    n = sum(train)
    shown = [bar for bars in below for bar in bars.items()]
    if n == 1 and shown:
        planned, (step, _) = shown[0]
        note = f"the step is that of the progress bar of {planned}, shown below the row"
        return _Placed([step] * len(part), float(planned), note)
    for planned in below[0] if several else ():  # or it is below every row, and moves on from row to row
        steps = [bars.get(planned, (0, 0))[0] for bars in below]
        if planned not in after:  # the log ends before the bar is shown again
            steps[-1] = _step_after(steps[:-1], below[-2].get(planned, (0, 0))[1])
        if all(b > a for a, b in pairwise(steps)):
            note = f"the step is that of the progress bar of {planned}, shown below each row"
            return _Placed(steps, float(planned), note)
    passed = [*part[0].passed.items(), *shown]
    if not passed:
        told = [f.named_step or 0 for f, trained in zip(part, train, strict=True) if trained]
        if not told or not all(b > a for a, b in pairwise([0, *told])):
            return _Placed()
        latest = np.maximum.accumulate([f.named_step or 0 for f in part]).tolist()
        return _Placed(latest, None, "the step is that of the line in words above each row")
    planned, (_, done) = passed[-1]
    printed = [f.bars.get(planned, 0) for f, trained in zip(part, train, strict=True) if trained]
    if n > 1 and printed[0] > 0 and printed[-1] < done:
        rates = [to_float(f.row.get("learning_rate")) for f, trained in zip(part, train, strict=True) if trained]
        each = _window_of_blocks(printed, rates, planned)
        if each is None:
            late = f"rows have no step, and {n} of them stand behind {printed[-1]} steps on a progress bar that goes on"
            return _Placed(None, None, f"{late} to {done} of {planned}: which are theirs is not known")
        steps = [max(each * k, 1) for k in np.cumsum(train).tolist()]
        note = (
            f"{n} rows stand behind {printed[-1]} of {planned} steps on the progress bar, so a row covers {each} steps"
        )
        return _Placed(steps, float(planned), note)
    alone = n > 2 and done % n != 0 and done % (n - 1) == 0  # the first row is the first step alone
    if n < 2 or done < n or (done % n and not alone):
        shows = f"rows have no step, and the progress bar shows {done} of {planned}"
        planned_too = float(planned) if n <= done < _NEARLY * n else None  # a row a step, but for a few
        return _Placed(None, planned_too, f"{shows}; if a row covers several steps: --set logging_window=N")
    each = done // (n - alone)
    seen = zip(closing, np.cumsum(train).tolist(), strict=True)
    steps = [done if end else max(each * (k - alone), 1) for end, k in seen]
    note = f"the progress bar shows {done} of {planned} steps, so a row covers {each} steps"
    return _Placed(steps, float(planned), note)


def _window_of_blocks(printed: list[int], rates: list[float], planned: int) -> int | None:
    """Steps of a row where rows come in blocks, some time after their steps; None where nothing tells, or both differ.

    The step at which a block is printed is that of its last row, and a linear learning rate falls by as much a row as
    its steps are of all; ``printed`` has the bar's step for each row, ``rates`` the row's learning rate.
    """
    ends = [(k, at) for k, (at, following) in enumerate(pairwise([*printed, 0]), 1) if at != following]
    windows = {at / k for k, at in ends}
    by_block = windows.pop() if len(windows) == 1 else 0.5
    by_rate = _window_of_linear(rates, planned)
    if by_rate is not None and any(k * by_rate > at for k, at in ends):
        return None
    if by_block % 1.0:
        return by_rate
    return int(by_block) if by_rate in (None, by_block) else None


@np.errstate(over="ignore", invalid="ignore")  # a log may hold numbers whose difference is none
def _window_of_linear(rates: list[float], planned: int) -> int | None:
    """Steps of a row whose learning rates fall linearly to 0 at the planned step, by the fall from row to row."""
    falls = -np.diff(rates)
    if len(falls) < _LEAST_FALLS or not np.all(falls > 0.0) or np.ptp(falls) > _LINEAR * falls.mean():
        return None
    windows = [(planned + more) / (rates[0] / falls.mean() + 1.0) for more in (0, 1)]  # before or after an update
    found = {round(x) for x in windows if round(x) >= 1 and abs(x - round(x)) <= _LINEAR * x}
    return found.pop() if len(found) == 1 else None


def _step_after(steps: list[int], shown: int) -> int:
    """The step of a last row below which no bar stands any more: the bar's above it, or as far on as the others are."""
    apart = {b - a for a, b in pairwise(steps)}
    return shown if shown != steps[-1] or len(apart) != 1 else shown + apart.pop()


def is_train(row: dict[str, Any]) -> bool:
    """True if a row is of the training, and neither of an evaluation nor of its closing line."""
    return not any(k.startswith(("eval", "train_runtime")) for k in row)
