"""Numbers that follow each other behind a name: lists as printed or in YAML, "reward: 0.2 → 0.3", charts."""

from __future__ import annotations

import re
from typing import Any

from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source, parsed_rows
from bayes_grpo.logs.json_columns import number_lists
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import PASTED, lines_of, names_reward, no_rows_error
from bayes_grpo.logs.mentions import STEP_NAME, lists_in, reads_like_reward, with_full_names, without_decoration
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.table import Table

_LINES_OF_LIST = re.compile(r"\[[-+\w.(), \n]{1,200000}+\]")
"""A list that a script may print over several lines."""
_IN_YAML = re.compile(
    r"^[ \t]{0,8}([A-Za-z_][\w./-]{0,60}):[ \t]*\n((?:[ \t]{0,12}- [-+\d.][^\n]{0,30}(?:\n|\Z)){2,})", re.M
)
_CHART = re.compile(r"^[ \t]{0,20}xychart(?:-beta)?\b[^\n]*\n((?:(?![ \t]{0,20}```)[^\n]*+(?:\n|\Z)){1,60}+)", re.M)
_TITLE = re.compile(r"^[ \t]{0,20}(?:title|y-axis)[ \t]{1,20}\"?([^\"\n]{1,120})", re.M)
_OVER = re.compile(r"\s{0,4}(?:\([^()]{0,80}\)\s{0,4})?(?:(?:over|per|by|vs\.?|during)\s.*)?$", re.IGNORECASE)
"""The end of a title, "Average Batch Reward (Accuracy) Over Steps"."""
_LINE = re.compile(r"^[ \t]{0,20}(?:line|bar)[^\[\n]{0,120}(?=\[)", re.M)
_STEPS = re.compile(r"^[ \t]{0,20}x-axis[^\[\n]{0,120}\[([^\]\n]{1,4000})\]", re.M)
_BATCH = 64
"""Values of 0 and 1 up to which a list alone is of one step; a series of steps has averages, or is longer."""


def _of_chart(chart: re.Match[str]) -> str:
    """The lines of a chart as lists with its title before each, numbered where it has several."""
    titles = _TITLE.findall(chart[1]) or ["line"]
    title = next((title for title in titles if names_reward((title,))), titles[0])
    name = re.sub(r"\W+", "_", _OVER.sub("", title))
    text = _STEPS.sub(lambda axis: f"step: [{re.sub('[^0-9.,]', '', axis[1])}]", chart[1])
    numbers = iter(range(1, text.count("[")))
    several = len(_LINE.findall(text)) > 1
    return _LINE.sub(lambda _: f"{name}_line_{next(numbers)}: " if several else f"{name}: ", text)


def _records(text: str) -> list[dict[str, Any]]:
    """Lists by name, those from one name to its next appearance in one record; nothing where none is a reward."""
    text = _CHART.sub(_of_chart, text) if "xychart" in text else text
    text = _IN_YAML.sub(lambda found: f"{found[1]}: [{', '.join(found[2].split('- ')[1:])}]\n", text)
    text = _LINES_OF_LIST.sub(lambda found: " ".join(found[0].replace(",", ", ").split()), text)
    records: list[dict[str, Any]] = [{}]
    rewarded = False
    for line in (without_decoration(line) for line, _ in lines_of(text)):
        for name, values, (start, _) in lists_in(line):
            listed = line[start - 1] == "["
            if not listed and len(text) > PASTED:
                continue
            if records[-1].get(name) == values:
                continue  # the axis of another chart
            if name in records[-1] and (not listed or name == STEP_NAME):
                return []
            if name in records[-1]:
                records.append({})
            records[-1][name] = values
            rewarded |= reads_like_reward(name) or (listed and names_reward((name,)) and "weight" not in name)
    return records if rewarded else []


def _sniff(source: Source) -> Evidence | None:
    """Recognizes series of numbers of which one is named as a reward, once or for each row."""
    found = _records(source.head)
    return Evidence(int(len(found) == 1)) if found else None


def _read(source: Source, wanted: str | None) -> Parsed:
    """One list a name is a column; names that come again and again are the completions of a row each."""
    found = _records(source.text)
    if not found:
        raise no_rows_error("lists such as 'rewards = [0.1, 0.2]'", source)
    if len(found) > 1:
        return parsed_rows({normal(name): values for name, values in record.items()} for record in found)
    columns = number_lists(found[0])
    values = next(iter(columns.values()))
    if len(found[0]) == 1 and len(values) <= _BATCH and {*values} <= {0.0, 1.0}:
        note = f"{len(values)} values of 0 and 1: taken for the completions of one step, not for steps"
        return parsed_rows([{"rewards": values}]).noted(Caution(note))
    note = Caution(f"numbers that follow each other behind {listed(columns)} are {counted(len(values), 'row')}")
    return Parsed(with_full_names(Table.from_columns(columns)), notes=(note,))


READERS = (Reader("named_lists", _sniff, _read, last=True),)
