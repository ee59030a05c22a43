"""Cells of a table in a text: a step in words, a mean with its spread, the ends of a range."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from bayes_grpo.logs.grids import is_step_column
from bayes_grpo.logs.keyindex import in_english, normal
from bayes_grpo.logs.table import RUN_KEYS, to_float

LEAST_IN_TABLE = 2
"""Rows of a table, or of what a cell prints, that are a training where others may be one."""
_STEP_CELL = re.compile(
    r"(?:.{0,40}?\b(?P<word>step|iter|iteration|update|epoch|round|rollout|checkpoint|ckpt)s?\W{0,3})?"
    r"(?:(?:terminal|final|last)\s)?(?:[\d,.]{1,12}[km]?\s?(?:[-\u2013\u2014~]|to)\s?)?"
    r"(?P<step>\d(?:[,\s]?\d){0,12}(?:\.\d{1,3})?)(?P<unit>[km]?)\+?"
    r"(?:\s?/\s?[\d,]{1,12})?(?:\s?[(（].{0,80}[)）]|\s?[，、,;；]\s?.{0,80})?",
    re.IGNORECASE,
)
"""A step in words, "iter 12", of all, "99/2000", in thousands, "50k", or the end of several, "1-100"."""
_OF_ALL = re.compile(r"%\s?[(（]\s?([\d,]{1,12})\s?/\s?[\d,]{1,12}\s?[)）]")
"""The step behind a share of the whole, "85% (399/468)"."""
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6}
_SPAN = re.compile(r"[~≈]?\s?([-+\u2212]?[\d.]{1,12}%?)\s?(?:to|\u2013|~|\.\.|→|->)\s?([-+\u2212]?[\d.]{1,12}%?)")
_HYPHENATED = re.compile(r"[~≈]?\s?([-+\u2212]?\d[\d.]{0,11}%?)\s?-\s?([-+\u2212]?\d[\d.]{0,11}%?)")
"""Two numbers with a hyphen between them, of which the second is the greater where they are the ends of a range."""
HEAD_OF_STD = re.compile(r"\s?\(?(?:mean\s?)?±.*")
"""The end of a heading such as "reward (mean ± std)"."""
WITH_STD = re.compile(r"([-+\u2212]?[\d.]{1,12}%?)\s?(?:±|\+/?-)\s?([\d.]{1,12}%?)")


def step_in(cell: str) -> float:
    """The step that a cell states, NaN where it states none."""
    if (counted := _OF_ALL.search(cell)) is not None:
        return float(counted[1].replace(",", ""))
    number = to_float(cell)
    found = None if math.isfinite(number) else _STEP_CELL.fullmatch(cell)
    return float(re.sub(r"[,\s]", "", found["step"])) * _UNITS[found["unit"].lower()] if found else number


def value_in(cell: str) -> str:
    """A cell as it is, a mean without its spread, or the middle of the values between which a metric lies."""
    if (found := WITH_STD.fullmatch(cell)) is not None:
        return found[1]
    ends = range_in(cell)
    return cell if ends is None else f"{(ends[0] + ends[1]) / 2:.6g}"


def range_in(cell: str) -> tuple[float, float] | None:
    """The ends of a range, as in "0.7 to 1.2", "0.7-1.2" and "5-10%"; None where a cell holds none."""
    found = _SPAN.fullmatch(cell)
    hyphenated = None if found else _HYPHENATED.fullmatch(cell)
    if (ends := found or hyphenated) is None:
        return None
    unit = "%" if ends[2].endswith("%") and not ends[1].endswith("%") else ""
    low, high = to_float(ends[1] + unit), to_float(ends[2])
    if not math.isfinite(low + high) or (hyphenated and low >= high):
        return None
    return low, high


def are_steps(cells: Sequence[str]) -> bool:
    """True if cells below no name of a step are steps in words that rise, but for a few other rows."""
    steps = [step_in(x[0]) for x in map(_STEP_CELL.fullmatch, cells) if x and x["word"]]
    return LEAST_IN_TABLE <= len(steps) >= len(cells) / 2 and all(b > a for a, b in pairwise(steps))


_STEP_WORD = r"(?:step|iter|iteration|update|epoch|round|rollout|checkpoint|ckpt)"
_IN_HEADING = re.compile(
    rf"(?<![a-z]){_STEP_WORD}s?[\s:#=_-]{{0,3}}(\d[\d,]{{0,11}}(?:\.\d)?)([km]?)(?![\w.%])"
    rf"|(?<![\w.])(\d[\d,]{{0,11}}(?:\.\d)?)([km]?)\s?{_STEP_WORD}s?(?![a-z])",
    re.IGNORECASE,
)
"""A step within a heading, "start (step 5)" or "after 100 steps"."""
_OF_METRICS = frozenset((
    "", "metric", "metrics", "measure", "quantity", "statistic", "signal", "key", "name", "field", "value", "step",
    "steps", "iteration", "iter", "epoch", "checkpoint", "training_step", "global_step", "指标", "指標", "项目", "지표",
))  # fmt: skip
"""Headings of a column of names of metrics, beside which steps may stand as mere numbers."""
_OF_OTHERS = RUN_KEYS.union((
    "model", "method", "algorithm", "config", "configuration", "setting", "setup", "dataset", "task",
))  # fmt: skip
"""Headings of a column that names what is compared, and no metrics."""
_OF_TRAINING = re.compile(r"^(?!.*(?:chosen|rejected|margin|std|zero)).*(?:reward|critic/score)")
"""A row of rewards that a policy trains on; those of preferred answers belong to a reward model."""


def of_training(name: str) -> bool:
    """True if a row of a table with a row for each metric is one of rewards that a policy trains on."""
    return _OF_TRAINING.search(normal(in_english(name))) is not None


def in_rows_of_steps(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]] | None:
    """A table with a row for each metric and a column for each step, turned to one with a row for each step.

    Columns without a step, such as remarks, are left out. None where the headings name no rising steps, or no row is
    one of rewards.
    """
    first = normal(in_english(names[0])) if names else ""
    if not names or first in _OF_OTHERS:
        return None
    bare = first in _OF_METRICS or is_step_column(names[0])
    steps = {i: _step_of_heading(name, bare) for i, name in enumerate(names) if i}
    steps = {i: step for i, step in steps.items() if math.isfinite(step)}
    if len(steps) < LEAST_IN_TABLE or any(b <= a for a, b in pairwise(steps.values())):
        return None
    kept = [row for row in rows if len(row) == len(names) and row[0].strip("-:= ")]
    rewarded = [row for row in kept if of_training(row[0])]
    if not any(sum(math.isfinite(to_float(value_in(row[i]))) for i in steps) >= LEAST_IN_TABLE for row in rewarded):
        return None
    return ["step", *(row[0] for row in kept)], [[f"{at:.12g}", *(row[i] for row in kept)] for i, at in steps.items()]


def _step_of_heading(name: str, bare: bool) -> float:
    """The one step that a heading names, or where it may be ``bare`` is; else NaN."""
    found = [(a or b, unit or other) for a, unit, b, other in _IN_HEADING.findall(in_english(name))]
    if len(found) == 1 and not re.search("→|->|⇒|Δ|\\bvs\\b", name):
        return float(found[0][0].replace(",", "")) * _UNITS[found[0][1].lower()]
    number = to_float(name.replace(",", "")) if bare and not found else math.nan
    return number if number >= 0 and number % 1 == 0 else math.nan
