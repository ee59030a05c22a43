"""Progress bars with metrics behind them, as of tqdm: ``12%|█▏ | 12/100 [01:02<07:30, 5.1s/it, reward=0.4]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from bayes_grpo.common.wording import ANSI
from bayes_grpo.logs.console import names_reward, nothing_found, usual
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float

NAME = "progress_bar"

_BAR = re.compile(r"(\d{1,9})(?:/(\d{1,9})|it) \[(?>[^\]\n=]{0,60}?(?:it/s|s/it))\s?,\s{0,2}([^\]\n]{3,1000}+)\]")
_PAIR = re.compile(r"([A-Za-z_][\w./@ ]{0,60}?)\s?=\s{0,8}([-+.\w%]{1,40})")
_MIN_BARS = 3


class _Shown(NamedTuple):
    done: int
    planned: int | None
    row: dict[str, float]


def sniff(source: Source) -> Evidence | None:
    """Recognises at least three bars with a reward."""
    bars = sum(1 for _ in _rewarded(source.head))
    return Evidence(1, f"{bars} progress bars with a reward", bars) if bars >= _MIN_BARS else None


def read(source: Source, options: ReadOptions) -> Parsed:
    """A row for every count of the bar, as it was first shown: a bar redrawn shows the metrics of the step to come."""
    shown = list(_rewarded(source.text))
    if not shown:
        raise nothing_found("progress bars such as '12/100 [01:02<07:30, 5.1s/it, reward=0.4]'", source)
    planned = usual(x.planned for x in shown)
    first: dict[int, dict[str, float]] = {}
    for x in shown:
        if x.planned == planned:
            first.setdefault(x.done, x.row)
    if first.get(0) == first.get(1):
        first.pop(0, None)  # drawn before the first step was counted
    rows = [{**row, "step": float(done)} for done, row in first.items()]
    return Parsed(Table.from_rows(rows), total_steps=planned, notes=("read from a progress bar, which rounds",))


def _rewarded(text: str) -> Iterator[_Shown]:
    """Bars with a reward, in their order."""
    for done, planned, metrics in _BAR.findall(ANSI.sub("", text)):
        row = {key.strip(): to_float(value) for key, value in _PAIR.findall(metrics)}
        if names_reward(key for key, value in row.items() if value == value):
            yield _Shown(int(done), int(planned) if planned else None, row)
