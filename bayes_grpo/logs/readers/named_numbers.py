"""Free text in which names stand before numbers, whatever is between them: for texts that no other reader knows.

A text is a sequence of mentions, a name with its number. "step 10 → reward 0.2", a list of bullets, a card with a name
above each number and a sentence such as "at step 10 the reward was 0.2" are the same mentions in the same order. A
record ends where another step is named, or, in a text that names none, where a name comes again. Numbers that follow
each other behind one name, "reward: 0.2 → 0.3 → 0.4", are a column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source
from bayes_grpo.logs.keyindex import normal, of_evaluation
from bayes_grpo.logs.lines import PASTED, no_rows_error, planned_in, settings_in, too_long
from bayes_grpo.logs.mentions import (
    LONGEST_MENTIONING,
    PLACE,
    STEP_NAME,
    Mention,
    is_logged_name,
    mentions_in,
    names_only_reward,
    reads_like_reward,
    with_full_names,
)
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.table import Table

_EVALUATED = "evaluated"
_LEAST_ROWS = 3
_LEAST_KEYS = 4
"""Numbers with known names that make a row of a text with one reward and no step."""


def _records(mentions: Sequence[Mention]) -> tuple[list[dict[str, float]], float]:
    """Records of a text in their order, and the planned steps that their steps state (0 without any)."""
    names = [x.name for x in mentions]
    step = STEP_NAME if STEP_NAME in names else PLACE
    rewards = [i for i, name in enumerate(names) if reads_like_reward(name)]
    begins = bool(rewards) and step in names[: rewards[0]]
    records: list[dict[str, float]] = [{}]
    repeated: list[set[str]] = [set()]  # names that a record has with several numbers

    def begin(record: dict[str, float]) -> None:
        records.append(record)
        repeated.append(set())

    for name, value, _, evaluated, _ in mentions:
        record = records[-1]
        if name == PLACE != step:
            continue
        if name == step and begins and record.get(STEP_NAME) != value:
            begin({STEP_NAME: value, **({_EVALUATED: 1.0} if evaluated else {})})
        elif name == step and not begins:
            record[STEP_NAME] = value
            begin({})
        elif name == step:
            continue
        elif name not in record:
            record[name] = value
        elif not begins:
            begin({name: value})
        elif value != record[name]:
            repeated[-1].add(name)
    rows = [{k: v for k, v in x.items() if k not in several} for x, several in zip(records, repeated, strict=True)]
    planned = max((x.planned for x in mentions if x.name == step), default=0.0)
    return [_of_its_kind(x) for x in rows if x.keys() - {STEP_NAME, _EVALUATED}], planned


def _of_its_kind(row: dict[str, float]) -> dict[str, float]:
    """A record without the mark of an evaluation, which names its numbers so instead."""
    marked = {k: v for k, v in row.items() if k != _EVALUATED}
    return dict(of_evaluation(marked)) if _EVALUATED in row else marked


def _rows(text: str) -> tuple[list[dict[str, float]], float]:
    """Rows of a text and planned steps: records with a step and a reward, else those of the same names, else one."""
    mentions = mentions_in(text)
    records, planned = _records(mentions)
    totals = {normal(name) for row in records for name in row if names_only_reward(name)}
    if len(totals) > 1:
        return [], 0.0  # of different things
    rewarded = [row for row in records if any(map(reads_like_reward, row))]
    places = {row.get(STEP_NAME, i) for i, row in enumerate(rewarded)}
    alike = (
        len(places) > 1 and len(rewarded[0]) >= _LEAST_ROWS and all(x.keys() == rewarded[0].keys() for x in rewarded)
    )
    if len(places) < _LEAST_ROWS and not alike and not any(x.linked and reads_like_reward(x.name) for x in mentions):
        return [], 0.0  # a sentence
    if any(STEP_NAME in row for row in rewarded):
        placed = [row for row in records if STEP_NAME in row]
        return placed, planned if planned >= max(row[STEP_NAME] for row in placed) else 0.0
    if rewarded:
        usual, _ = Counter(frozenset(row) for row in rewarded).most_common(1)[0]
        alike = [{key: row[key] for key in row if key in usual} for row in rewarded if row.keys() >= usual]
        if len(alike) >= _LEAST_ROWS and len(usual) > 1:
            rest = [row for row in rewarded[-1:] if row.keys() < usual]  # of a text that was cut off
            return [*alike, *rest], 0.0
    whole = [row for row in rewarded if sum(map(is_logged_name, row)) >= _LEAST_KEYS]
    return (whole, 0.0) if len(whole) == 1 and len(text) <= PASTED else ([], 0.0)


def _sniff(source: Source) -> Evidence | None:
    """Rows with a reward in free text, where no other reader finds any."""
    rewarded = sum(any(map(reads_like_reward, row)) for row in _rows(source.head)[0])
    enough = rewarded >= _LEAST_ROWS or (rewarded and len(source.text) <= PASTED)
    return Evidence(0, rewarded) if enough else None


def _read(source: Source, wanted: str | None) -> Parsed:
    """Rows of names and numbers, with the settings that the text states in words."""
    rows, planned = _rows(source.text)
    if not rows:
        raise no_rows_error("names before numbers such as 'step 3, reward 0.24'", source)
    return Parsed(
        with_full_names(Table.from_rows(rows)),
        total_steps=planned or planned_in(source.text),
        notes=(
            Caution("read from free text by the names that stand before numbers"),
            *too_long(source.text, LONGEST_MENTIONING),
        ),
        settings=settings_in(source.text),
    )


READERS = (Reader("named_numbers", _sniff, _read, last=True),)
