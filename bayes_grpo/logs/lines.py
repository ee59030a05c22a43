"""Lines of console text without what a terminal, Ray or a notebook put around them; bars, plans and rewards in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.text import ANSI, clean, counted
from bayes_grpo.logs.formats import HEAD, Source
from bayes_grpo.logs.keyindex import KeyIndex, in_english, normal
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import GENERIC, TRAINERS, identify

_BAR = re.compile(r"(\d{1,9})/(\d{1,9}) \[([^\]\n]{0,80})\]?")
_BAR_TEXT = re.compile(r"[^|}\n]{0,80}?\d{1,3}%(?:\|[^|\n]{0,400}+\|)?\s{0,4}\d{1,9}/\d{1,9} \[[^\]\n]{0,80}\]?")
_NARROW_BAR = re.compile(r"\d% \d{1,9}/\d{1,9} \[\d")
"""A bar without its picture, as the shell of a notebook shows it."""
_PREPARING = re.compile(
    r"\A\W{0,8}(?:(?:down)?loading|fetching|saving|map|tokenizing|capturing|processed prompts)\b", re.IGNORECASE
)
"""Text before a bar that counts no training."""
NUMBER = r"([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)%?)"
BEFORE_EVALUATION = re.compile(
    r"(?:^|[\W_])(?:eval|evaluation|validation|val|test|held[-_ ]?out)\W{0,8}\Z|\A\W{0,4}\[(?:eval|val|test)\w{0,12}\]",
    re.IGNORECASE,
)
"""Text before the step of an evaluation, as in "[eval] step 4: reward=0.5", or at the start of its line."""
_WITH_SPREAD = re.compile(
    rf"(?<![\w./@])([A-Za-z_][\w./@]{{0,60}}+)(\s?[=:]\s{{0,4}}|\s{{1,4}}){NUMBER}"
    rf"\s?(?:(?:±|\+/?-)\s?{NUMBER}|\((?:std|σ)\s?[=:]?\s?{NUMBER}[^()\n]{{0,80}}\))"
)
"""A number with its standard deviation, as in "reward=0.1±0.08" and "reward 0.1 (std 0.08)"."""
_REWARD = re.compile(r"reward|score|\br_mean|\bmean_r\b|belohnung|r[ei]compens[ae]", re.IGNORECASE)
REWARD_KEYS = frozenset(k for t in TRAINERS for k in t.keys["reward"] if "/" in k and "*" not in k) | {"train/reward"}
"""Keys that are a trainer's reward wherever they stand."""
_TIMED = re.compile(
    r"timing|profiling|duration|_time\b|time[ _]taken|(?:\b|_)(?:cal|calc|calculate|compute)_", re.IGNORECASE
)
"""A name of how long something took, as the computation of rewards."""
_SETTING = re.compile(r"(?:weights?|coef|coefs|model|model_path)\Z", re.IGNORECASE)
"""The end of a name of what a training is set up with, as "reward_weights"."""
_MEAN_OF = re.compile(r"(?:mean|avg|average)[_ ]|[_ ](?:mean|avg)\b", re.IGNORECASE)
_PREFIX = re.compile(r"^\s*\([\w.]+ pid=\d+(?:, ip=[\d.:a-f]+)?\)\s?")
_LOGURU = re.compile(r"\d{4}-\d\d-\d\d [\d:.]{8,15} \| [A-Z]{4,8}\s{1,9}\| [\w.]{1,80}:[\w<>]{1,80}:\d{1,7} - ")
_LITERAL = re.compile(r"""\s{0,80}\(?(?:"([^"\n]*+)"|'([^'\n]*+)')\)?,?\s{0,80}""")
"""A part of a long text, as Python prints it over several lines."""
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(-?0),(\d{1,9})(?!\d|,\d)")
"""A number below one as much of Europe writes it, "0,35"."""
_EAST_ASIAN = re.compile("[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]")
_EUROPEAN = ("elohnung", "ecompens", "écompens", "icompens", "аград", "ознагражд")
"""Parts of words for a reward in other languages of Europe."""
JSON_START = re.compile(r'\A\s*+(?:\[\s*+)?\{\s*+"')
"""A JSON document or JSON lines; other readers take those."""
MAX_LINE = 65_536
"""Characters of a line of console text; a longer one is no row of metrics, and is passed over with a note."""
PASTED = 20_000
"""Characters of a text that was pasted."""
_LOOKED_AT = 100
"""Rows whose keys say which trainer wrote them."""


type Bars = tuple[tuple[int, int, bool, bool], ...]
"""Progress bars of a line: steps done, steps planned, whether it shows the time of a step, whether it has a picture."""


def lines_of(text: str) -> Iterator[tuple[str, Bars]]:
    """Lines of at most `MAX_LINE` characters, without escape sequences and bars; and their bars.

    A carriage return ends a line too. The prefixes of Ray and loguru are left out, and so are the quotes of texts as
    Python prints them over several lines.
    """
    head = text[:HEAD]
    european = any(word in head for word in _EUROPEAN)
    foreign = not text.isascii() and _EAST_ASIAN.search(text) is not None
    for raw in _raw_lines(text):
        if len(raw) > MAX_LINE:
            continue
        line = _PREFIX.sub("", raw, count=1) if raw.lstrip()[:1] == "(" else raw
        line = in_english(line) if european or (foreign and not line.isascii()) else line
        line = _LOGURU.sub("", line, count=1) if " | " in line else line
        if (literal := _LITERAL.fullmatch(line)) is not None:
            line = literal[1] or literal[2] or ""
        if "%|" not in line and not ("% " in line and _NARROW_BAR.search(line)):
            yield line, ()
            continue
        bars = (
            (int(done), int(planned), "it/s" in shown or "s/i" in shown, "%|" in line)
            for done, planned, shown in _BAR.findall(line)
        )
        yield _BAR_TEXT.sub("", line), () if _PREPARING.match(line) else tuple(bars)


def too_long(text: str, longest: int = MAX_LINE) -> tuple[str, ...]:
    """A note on the lines of console text that are longer than a reader looks at; nothing where there is none."""
    lines = _raw_lines(text) if len(text) > longest else []
    numbers = [n for n, line in enumerate(lines, 1) if len(line) > longest]
    passed = f"{counted(len(numbers), 'line')} of more than {longest:,} characters passed over"
    return (f"{passed}, the first is line {numbers[0]}",) if numbers else ()


def _raw_lines(text: str) -> list[str]:
    if "\x1b" in text:
        text = ANSI.sub("", text)
    if "0," in text and len(text) <= PASTED and re.search(r"\d\.\d", text) is None:
        text = _DECIMAL_COMMA.sub(r"\1.\2", text)
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def names_reward(keys: Iterable[str]) -> bool:
    """True if any of the names reads like a reward."""
    words = (key if key.isascii() else in_english(key) for key in keys)
    return any(_REWARD.search(key) and not _TIMED.search(key) and not _SETTING.search(key) for key in words)


_TOTAL = re.compile(
    r"(?:(?:mean|avg|average|train|training|total)[ _/]){0,2}rewards?(?:[ _/](?:mean|avg))?", re.IGNORECASE
)


def is_total_reward(key: str) -> bool:
    """True if a name says no more than that it is the reward, or its mean."""
    return _TOTAL.fullmatch(key if key.isascii() else in_english(key)) is not None


_RATE = re.compile(
    r"(?:train[/_])?(?:(?:success|solve|solved|pass|win|correct)_?rate|(?:mean_|avg_)?(?:accuracy|acc)(?:_mean)?|solved)"
)


def is_rate(key: str) -> bool:
    """True if a name says that it is a rate of success, which is the reward where nothing else is."""
    return _RATE.fullmatch(normal(key)) is not None


def of_a_trainer(rows: Iterable[Mapping[str, Any]]) -> bool:
    """True if the keys of the first rows are those of a trainer that is known."""
    return identify(KeyIndex(Table.from_rows(islice(rows, _LOOKED_AT)))) is not GENERIC


def std_of(name: str) -> str:
    """The name of the standard deviation that stands behind a mean."""
    return f"{_MEAN_OF.sub('', name)}/std"


def with_spread_named(line: str) -> str:
    """A line, in which the standard deviation behind a mean is a number with a name of its own."""
    if "±" not in line and "+" not in line and "(s" not in line and "(σ" not in line:
        return line
    return _WITH_SPREAD.sub(lambda x: f"{x[1]}{x[2]}{x[3]} | {std_of(x[1])}{x[2]}{x[4] or x[5]}", line)


def usual(values: Iterable[float | None]) -> float | None:
    """The most frequent of the values that are there; None where there is none."""
    found = Counter(x for x in values if x).most_common(1)
    return found[0][0] if found else None


_PLAN = re.compile(
    r"\btotal (?:optimization )?steps\s{0,3}[=:]\s{0,3}([\d,]{1,12})|\b([\d,]{1,12}) total steps\b", re.I
)


def planned_in(text: str) -> float | None:
    """The planned steps that a banner states, as "Total optimization steps = 1,200"; None without one or with many."""
    lines = (line for line in text.split("\n") if "teps" in line or "TEPS" in line)
    found = {a or b for line in lines for a, b in _PLAN.findall(line)}
    return float(found.pop().replace(",", "")) if len(found) == 1 else None


def planned_on_bars(text: str, steps: Collection[float]) -> float | None:
    """The planned steps of the progress bar that counts the rows: it shows most of their steps; None without one."""
    if "%|" not in text or not steps:
        return None
    shown: dict[int, set[float]] = {}
    for _, bars in lines_of(text):
        for done, planned, _, pictured in bars:
            if pictured and done <= planned:
                shown.setdefault(planned, set()).add(float(done))
    counting = [n for n, done in shown.items() if len(done & set(steps)) >= _COUNTED * len(steps) and n >= max(steps)]
    return float(counting[0]) if len(counting) == 1 else None


_COUNTED = 2 / 3
"""Share of the rows whose steps a progress bar shows that counts them."""
_BATCH = re.compile(r"\b([\d,]{1,9}) prompts?\s?(?:/|per|a)\s?step\b", re.IGNORECASE)
_GROUP = re.compile(
    r"\b(?:num_|n_)?correct\s?[:=]\s?(\d{1,9})/(\d{1,9})\b[^\n]{0,200}?"
    r"\breward_groups?\s?[:=]\s?([01]{2,512})(?!\S)"
)
"""The rewards of the one group of a row as digits, behind their count: "correct=1/4 reward_groups=0100"."""


def settings_in(text: str) -> dict[str, Setting]:
    """Settings that a banner states in words, as "256 prompts/step", or that all rows show; nothing without them.

    What several lines state in several ways is not known.
    """
    found = {int(n.replace(",", "") or 0) for n in _BATCH.findall(text)} if "prompt" in text else set()
    known: dict[str, Setting] = {}
    if len(found) == 1:
        known["prompts_per_step"] = Setting(found.pop(), Provenance.CONFIG, "found in the text")
    groups = _GROUP.findall(text) if "reward_group" in text else []
    sizes = {int(n) if (len(digits), digits.count("1")) == (int(n), int(k)) else 0 for k, n, digits in groups}
    if len(sizes) == 1:
        note = "every row lists the rewards of its group as digits"
        known["group_size"] = Setting(sizes.pop(), Provenance.LOGGED, note)
    return {name: setting for name, setting in known.items() if setting.value}


def no_rows_error(expected: str, source: Source) -> LogReadError:
    """The error where a reader that a user named finds no row."""
    text = f"expected {expected}, found none; seen: {clean(source.head)!r}; choose another {MENDING}"
    return LogReadError(text, mended_by=Argument("format"))
