"""Mentions in a text: names with the number that stands behind each, whatever is between them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import BEFORE_EVALUATION, REWARD_KEYS, lines_of, names_reward, std_of, with_spread_named
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import GENERIC

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[-+]\d\d:?\d\d)?)?"
    r"|(?<![\d:])\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
)
_WRAPPED = re.compile(
    r"\b(?:[a-z]{1,5}\.)?(?:tensor|array|[a-z]{0,8}(?:float|int)\d{0,3})\(\s*([^\s,()]{1,40})\s*(?:,[^()]{0,80})?\)"
)
"""A number as arrays print it, "tensor(0.2, device='cuda:0')" and "np.float64(0.2)"."""
_ARRAY = re.compile(r"\b(?:[a-z]{1,6}\.)?(?:array|tensor)\((?=\[)")
_LEADERS = re.compile(r"\s?\.{3,80}\s?")
"""Dots between a name and its number, as in a table of contents."""
_JOINED = re.compile(r"(?<![^\W_])(step|iteration|iter|update|epoch)[_-]?(\d{1,12})(?!\w)", re.IGNORECASE)
"""A step written as one word, "step_10"."""
_ARROW = "[-=]>|[\u2190-\u21ff\u27f0-\u27ff]"
_MARKS = re.compile(
    rf"{_ARROW}|\\\\|\s[-\u2013\u2014]+\s|,(?!\d)"
    "|[|;&\\[\\](){}<>\\t\u00b7\u2022\u2500-\u27bf\u2b50\U0001f300-\U0001faff\ufe0f]"
)
"""Separators between mentions: arrows, bars, bullets, brackets, boxes and pictures."""
_BACKTICKS = re.compile(r"\s?`([-+.\deE%]{1,40})`")
"""A number between backticks, as notes have it behind its name."""
_MEAN_AND_STD = re.compile(
    r"(?<![^\s|])([^\W\d][\w./@ -]{0,60}):\s{1,9}(?:μ|mean)\s?=\s?([-+.\deE]{1,40}),\s?(?:σ|std)\s?=\s?(?=[\d.])"
)
"""A mean before its standard deviation, "Total Rewards: μ=0.4, σ=0.2"."""
_NONE = re.compile(r"\*\*|__(?=\W|\Z)|(?<=\W)__|[`'\"#*]")
"""Decoration round a name or a number."""
_DIGITS = r"[-+\u2212]?(?:\d{1,3}(?:,\d{3})++|\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d{1,3}+)?+%?"
_NUMBER = re.compile(
    rf"(?<![\w@.,/+-])({_DIGITS}|nan|inf)(?!\w)(?!\.\d)(?:\s?(?:/|of)\s?(\d{{1,9}})(?![\w.]))?", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d][\w./@%-]{0,80}")
_ITEM = rf"(?:{_DIGITS}|nan\b|None\b)"
_SERIES = re.compile(rf"(?<![\w@.,/+-])(?>{_ITEM})(?>\s{{0,4}}(?:,|{_ARROW})\s{{0,4}}{_ITEM}(?![\w.])){{1,50000}}+")
"""Numbers that follow each other."""
_SPACED = re.compile(rf"(?<=[:=\[]) ?{_DIGITS}(?>[ ]{{1,4}}{_DIGITS}(?![\w.])){{3,500}}+\s?(?=\]|\Z)")
"""At least four numbers between spaces up to the end of a line."""
_ASIDE = re.compile(r"\([^()]{0,80}\)")
_BETWEEN = re.compile(rf"\s{{0,4}}(?:,(?!\d{{3}}(?:\D|\Z))|{_ARROW})\s{{0,4}}|\s{{1,4}}")
_STEP = re.compile(
    r"(?:(?:global|training|train|optimizer|grpo|rl|outer)_){0,3}(?:steps?|iterations?|iters?|it|updates?)"
)
_EPISODE = re.compile(r"(?:episodes?|rounds?|epochs?)")
_STEPS_AFTER = re.compile(
    r"\s{1,4}(?:training |optimizer |gradient )?(?:steps|iterations|iters|updates)\b", re.IGNORECASE
)
_AT_STEP = re.compile(r"\s(?:at|after|in|on|for)\s(?:[a-z]{1,12}\s)?[a-z]{2,10}\s?\Z", re.IGNORECASE)
"""Words between a name and the number of its step, as in "reward at step 100: 0.2"."""
_MEAN_WORDS = "(?:(?:mean|avg|average|train|training|total|raw|step|batch|rollout|current|overall|ep)_){0,4}"
_REWARDED = re.compile(
    rf"{_MEAN_WORDS}(?:rewards?(?:_scores?)?|returns?|scores?|rew|r)(?:_(?:mean|avg|total|history))?(?:_(?:per|by)_(?:step|iteration|update|epoch))?"
)
"""Names of no more than a reward."""
_MEAN_OF_REWARD = re.compile(r"(?:[a-z]{1,20}_){0,2}rewards?_(?:mean|avg)")
"""The end of a key of several parts, "grpo_actor/task_reward/avg"."""
_RATE = re.compile(
    rf"(?:{_MEAN_WORDS}|\w{{1,20}}_)(?:accuracy|acc|solved|(?:success|solve|pass|win|correct)(?:_rate)?)"
)
_SHORT = re.compile(rf"{_MEAN_WORDS}(?:r|rew)(?:_(?:mean|avg))?")
_PART = re.compile(r"\w{2,40}_rewards?|rewards?_\w{2,40}|total", re.IGNORECASE)
_OF_ONE = re.compile(
    r"\W{0,9}(?:sample|completion|question|prompt|problem|example|answer|response|generation|model|task|method|run)s?"
    r"\s?#?\d{1,6}\b",
    re.IGNORECASE,
)
"""How a line begins that is on one completion, prompt or model."""
_STATISTIC = re.compile(r"(?:mean|avg|std|min|max|median|sum)", re.IGNORECASE)
"""A name that says what a number is of that named before it, as in "rewards: mean=0.3 std=0.4"."""
_COLUMN_GAP = "  "
"""Least space between a name and its number in columns."""
STEP_NAME, PLACE = "step", ""
_METRIC_KEYS = frozenset(key for keys in GENERIC.keys.values() for key in keys)
_STOP = frozenset((
    "a", "about", "after", "an", "and", "are", "around", "at", "be", "became", "by", "fell", "for", "from", "gave",
    "got", "had", "has", "have", "in", "is", "its", "my", "no", "now", "of", "on", "our", "reached", "rose", "so",
    "than", "that", "the", "then", "to", "up", "was", "were", "when", "while", "with",
))  # fmt: skip
"""Words that are no part of a name."""
_LONGEST = 4
"""Words of a name."""
LONGEST_MENTIONING = 4_000


class Mention(NamedTuple):
    """A name with its number.

    The name is "step" for any name of a step and "" for none; ``planned`` is the number behind a count, ``evaluated``
    whether the step is of an evaluation, ``linked`` whether a sign stands between the name and its number.
    """

    name: str
    value: float
    planned: float = 0.0
    evaluated: bool = False
    linked: bool = False


def last_part(name: str) -> str:
    """The last part of a key of several, in its usual spelling."""
    return normal(name).rpartition("/")[2]


def names_only_reward(name: str) -> bool:
    """True if a name, or the end of a key of several parts, says no more than that it is a reward."""
    known = normal(name)
    ends = (last_part(name), "_".join(known.split("/")[-2:]))
    mean_of_one = "/" in known and _MEAN_OF_REWARD.fullmatch(ends[1]) is not None
    return known in REWARD_KEYS or mean_of_one or any(_REWARDED.fullmatch(end) for end in ends)


def reads_like_reward(name: str) -> bool:
    """True if a name is one of a reward, of a part of one, or of a rate of success."""
    part = _PART.fullmatch(name) is not None and (normal(name) == "total" or names_reward((name,)))
    return part or names_only_reward(name) or _RATE.fullmatch(last_part(name)) is not None


def is_logged_name(name: str) -> bool:
    """True if a name is one that a trainer or a script logs."""
    return normal(name) in _METRIC_KEYS or last_part(name) in _METRIC_KEYS or reads_like_reward(name)


def _name(words: str, linked: bool) -> str:
    """The name at the end of some words: what is behind the last that is no part of one; "" where it is none."""
    found = [word.strip(".-") for word in words.split()]
    while found and (found[-1].lower() in _STOP or not found[-1]):
        found.pop()
    name: list[str] = []
    for word in reversed(found):
        if (word.lower() in _STOP and name) or not _WORD.fullmatch(word):
            break
        name.insert(0, word)
    if len(name) > _LONGEST:
        name = name[-_LONGEST:] if linked else []
    return " ".join(name)


def _plain(line: str) -> str:
    """A line whose mentions are between bars, without what surrounds names and numbers."""
    line = with_spread_named(line)
    if "=" in line:
        line = _MEAN_AND_STD.sub(lambda x: f"{x[1]}: {x[2]} | {std_of(x[1])}: ", line)
    line = _WRAPPED.sub(r"\1", line) if "(" in line else line
    line = _BACKTICKS.sub(r": \1", line) if "`" in line else line
    line = _JOINED.sub(r"\1 \2", _TIME.sub(" | ", _NONE.sub("", line)))
    return _MARKS.sub(" | ", _LEADERS.sub(": ", line))


class _Scan:
    """The mentions of a text, line by line; a name alone waits for the number behind it."""

    def __init__(self) -> None:
        self._waiting = ""
        self._on_line = False  # whether the number has to stand on the same line

    def of_line(self, line: str) -> list[Mention]:
        """The mentions of a line, without names behind which several numbers stand, as in the row of a table.

        Args:
            line: A line as `lines_of` yields it.
        """
        if self._on_line:
            self._waiting = ""
        self._on_line = False
        found: list[Mention] = []
        several: set[str] = set()
        first = True
        for segment in _plain(line).split("|"):
            alone = found and not self._waiting and _NUMBER.fullmatch(segment.strip()) is not None
            if alone and found[-1].name not in (STEP_NAME, PLACE):
                several.add(found[-1].name)
            found += self._of_segment(segment, first)
            first = first and not segment.strip()
        return [x for x in found if x.name not in several]

    def _of_segment(self, segment: str, first: bool) -> Iterator[Mention]:
        """The mentions of a part of a line; the ``first`` of them may begin with its place."""
        at = 0
        head = ""  # the name of what statistics are of
        for number in _NUMBER.finditer(segment):
            before = segment[at : number.start()]
            words = before.rstrip()
            place = first and at == 0 and not words and number[1].isdigit()
            at = number.end()
            linked = words[-1:] in (":", "=") or before.endswith(_COLUMN_GAP)
            words, _, statistic = words.rstrip(" :=").rpartition(" ")
            if _STATISTIC.fullmatch(statistic) and words.endswith(":"):
                head = _name(words.rstrip(" :="), linked=True)
            elif not (_STATISTIC.fullmatch(statistic) and not words.strip()):
                head = ""
            words = f"{words} {statistic}"
            name = f"{head}/{statistic}" if head else _name(words, linked)
            is_key = "/" in name.rpartition(" ")[2] or "_" in name.rpartition(" ")[2]
            if not words.strip(" :="):
                name = "" if place and segment[at : at + 1] == ":" else self._waiting  # a key of YAML
                linked = bool(name)
            self._waiting = ""
            if behind := _STEPS_AFTER.match(segment, at):
                at = behind.end()
                name = STEP_NAME
            if not name and place:
                yield Mention(PLACE, float(number[1]), float(number[2] or 0))
            elif _STEP.fullmatch(last_part(name)) and to_float(number[1]).is_integer():
                evaluated = BEFORE_EVALUATION.search(words[: words.rfind(name)]) is not None
                yield Mention(STEP_NAME, to_float(number[1]), float(number[2] or 0), evaluated)
                self._waiting = _measured_at(words)
                self._on_line = bool(self._waiting)
            elif name and (linked or is_key or is_logged_name(name)):
                yield Mention(name, _value(name, number[1], number[2]), linked=linked)
        rest = segment[at:].strip(" :=")
        if at == 0 and rest:
            self._waiting = _name(rest, linked=True) if len(rest.split()) <= _LONGEST else ""


def _measured_at(words: str) -> str:
    """The reward that stands before "at step", whose number comes behind that of the step; "" without one."""
    found = _AT_STEP.search(words)
    name = _name(words[: found.start()], linked=True) if found is not None else ""
    return name if reads_like_reward(name) else ""


def _value(name: str, number: str, of: str | None) -> float:
    """A number, or a count as a share of all."""
    value = to_float(number.replace(",", ""))
    share = of is not None and 0.0 <= value <= float(of) > 0.0 and not _EPISODE.fullmatch(last_part(name))
    return value / float(of or 1) if share else value


def without_decoration(line: str) -> str:
    """A line without what surrounds its names and numbers, as the marks of Markdown and the names of arrays."""
    return _WRAPPED.sub(r"\1", _ARRAY.sub("", _NONE.sub("", line)))


def lists_in(line: str) -> Iterator[tuple[str, list[float], tuple[int, int]]]:
    """Names of a line, the numbers that follow each other behind them, and where these stand."""
    at = 0
    for pattern in (_SERIES, _SPACED):
        for numbers in pattern.finditer(line):
            name = _name(_MARKS.split(_ASIDE.sub("", line[at : numbers.start()]).rstrip(" :=[("))[-1], linked=True)
            at = numbers.end()
            values = [to_float(x) for x in _BETWEEN.split(numbers[0].strip())]
            if name and sum(map(math.isfinite, values)) > 1:
                yield STEP_NAME if _STEP.fullmatch(last_part(name)) else name, values, numbers.span()


def _with_means(line: str) -> str:
    """A line in which a list of the rewards of its completions is their mean."""
    for name, values, (start, end) in reversed([*lists_in(line)]):
        if reads_like_reward(name) and all(map(math.isfinite, values)) and not re.search(_ARROW, line[start:end]):
            line = f"{line[:start].rstrip(' [(')}: {sum(values) / len(values):.6g} | {line[end:].lstrip(' ])')}"
    return line


def with_full_names(table: Table) -> Table:
    """A table, in which a short name of the reward is written out where no other name is one."""
    short = [key for key in table.keys if _SHORT.fullmatch(last_part(key))]
    if len(short) != 1 or names_reward(table.keys):
        return table
    return table.renamed(["reward" if key == short[0] else key for key in table.keys])


def mentions_in(text: str) -> list[Mention]:
    """Mentions in the lines of a text, but for those on one completion, prompt or model, and long ones."""
    scan = _Scan()
    lines = (line for line, _ in lines_of(text) if len(line) <= LONGEST_MENTIONING and not _OF_ONE.match(line))
    return [mention for line in lines for mention in scan.of_line(_with_means(line))]
