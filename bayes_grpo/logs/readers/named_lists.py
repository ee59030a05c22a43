"""Lists of numbers with a name before each, as a script prints them or a chat pastes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayes_grpo.common.text import listed
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source, parsed_rows
from bayes_grpo.logs.json_columns import number_lists
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import names_reward, no_rows_error
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.table import Table, to_float

_ITEM = r"\s{0,60}(?:[A-Za-z_][\w.]{0,20}\()?(?:[-+]?\d[\d.eE+-]{0,30}|nan|None)\)?\s{0,60}"
_NAME = r"(?:[A-Za-z_]\w{0,40} ){0,2}[A-Za-z_]\w{0,60}"
_NAMED_LIST = re.compile(
    rf"^[^\n\[{{]{{0,80}}?({_NAME}) ?[:=] ?(?:(?:[a-z]{{1,6}}\.)?(?:array|tensor)\()?\[({_ITEM}(?:,{_ITEM})*+),?\s*\]",
    re.MULTILINE,
)
"""A list of numbers with a name before it, as a script prints it or a chat pastes it."""
_IN_DICTIONARY = re.compile(rf"(['\"])([A-Za-z_][\w./ -]{{0,60}})\1\s?:\s?\[({_ITEM}(?:,{_ITEM}){{2,}}+),?\s*\]")
"""The same in a dictionary of lists."""
_IN_YAML = re.compile(
    r"^[ \t]{0,8}([A-Za-z_][\w./-]{0,60}):[ \t]*\n((?:[ \t]{0,12}- [-+\d.][\d.eE+-]{0,30}[ \t]*(?:\n|\Z)){2,})",
    re.MULTILINE,
)
"""The same in YAML, a number a line."""


def _lists_in(text: str) -> list[tuple[str, list[str]]]:
    """Names and the numbers of their lists, in the first of the three ways in which a text has any."""
    if "[" in text:
        found = [(name, items.split(",")) for name, items in _NAMED_LIST.findall(text)]
        if found or (found := [(name, items.split(",")) for _, name, items in _IN_DICTIONARY.findall(text)]):
            return found
    lists = _IN_YAML.findall(text) if "- " in text else []
    return [(name, [line.strip()[2:] for line in lines.splitlines()]) for name, lines in lists]


def _named_lists(text: str) -> list[dict[str, Any]]:
    """Lists of numbers by name, those from one name to its next appearance in one record."""
    records: list[dict[str, Any]] = [{}]
    for name, numbers in ((normal(name), x) for name, x in _lists_in(text)):
        if name in records[-1]:
            records.append({})
        records[-1][name] = numbers
    return records if records[0] else []


_BATCH = 64
"""Values of 0 and 1 up to which a list alone is of one step; a series of steps has averages, or is longer."""


def _of_one_batch(lists: Mapping[str, list[str]]) -> list[float] | None:
    """The only list that a text holds, where it reads like a script's print of the rewards of one step; else None."""
    values = [to_float(x) for x in next(iter(lists.values()))] if len(lists) == 1 else []
    return values if 1 < len(values) <= _BATCH and {*values} <= {0.0, 1.0} else None


def _sniff_named_lists(source: Source) -> Evidence | None:
    """Recognizes lists of numbers of which one is named as a reward, where nothing else fits."""
    found = _named_lists(source.head)
    return (
        Evidence(0) if any(names_reward(name for name in record if "weight" not in name) for record in found) else None
    )


def _read_named_lists(source: Source, wanted: str | None) -> Parsed:
    """One list a name is a column; names that come again and again are the completions of a row each."""
    found = _named_lists(source.text)
    if not found:
        raise no_rows_error("lists such as 'rewards = [0.1, 0.2]'", source)
    if len(found) > 1:
        return parsed_rows(found)
    if (numbers := _of_one_batch(found[0])) is not None:
        note = f"{len(numbers)} values of 0 and 1: taken for the completions of one step, not for steps"
        return parsed_rows([{"rewards": numbers}]).noted(Caution(note))
    return Parsed(Table.from_columns(number_lists(found[0])), notes=(f"lists named {listed(found[0])}",))


READERS = (Reader("named_lists", _sniff_named_lists, _read_named_lists),)
