"""Dictionaries of a trainer in console text, placed by their own step, by progress bars, or counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from sys import intern
from typing import Any

import numpy as np

from bayes_grpo.common.text import counted
from bayes_grpo.logs.bar_steps import NO_BARS, BarCounter, RowBelowBars, is_train, steps_on_bars
from bayes_grpo.logs.formats import NO_REWARDS, Evidence, Parsed, Reader, Source, parsed_rows
from bayes_grpo.logs.keyindex import marked_evaluation
from bayes_grpo.logs.lines import (
    Bars,
    lines_of,
    names_reward,
    no_rows_error,
    of_a_trainer,
    planned_in,
    settings_in,
    too_long,
    usual,
)
from bayes_grpo.logs.readers.json_text import before_cut, begins_json, parse_line
from bayes_grpo.logs.table import to_float
from bayes_grpo.logs.trainings import CLOSING, starts_of

_OPEN = re.compile(r"\{\s*['\"]|\A\s{0,40}\{\s{0,8}\Z")
"""The start of a dict: a brace and a key, or a line with nothing but the brace."""
_TOKEN = re.compile(r"\\.|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|[{}]|(?<![^\s,])#\s.*")
"""A whole text, in which braces count nothing, a brace, or a remark up to the end of its line."""
_CALL = re.compile(r"\b(?:[A-Za-z_]\w{0,20}\.){0,2}[A-Za-z_]\w{0,20}\(\s*([-+.\w]{1,40})\s*(?:,[^()]{0,80})?\)")
_NO_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?=[^\\'\"abfnrtvxuUN0-7\n])")  # a backslash of a path, which warns
_ABRIDGED = re.compile(r"(?<=[{,])\s*(?:\.\.\.|…)\s*,?")
"""Ellipsis of keys that were left out of a pasted dict."""
_BARE = re.compile(r"(?<=[:\s,\[])(-?)(?:nan|inf)(?=\s*[,}\]])")
_MAX_BEFORE = 1_000
_DICT_COUNT = re.compile(
    r"\b(rollout|perf|step|eval)\s{1,4}(\d{1,12})(?:\s?/\s?\d{1,12})?[\])]?\s{0,8}[:|>-]{0,3}\s{0,8}$", re.IGNORECASE
)
_PERF = "perf/step"
_NO_BRACES = re.compile(r"(\s{0,8}\w{4,7}\s\d{1,12}:\s?(?:\.\.\.|…))?\s{0,40}['\"][\w/@. -]{1,80}['\"]\s?:(?=.*:)")
"""Pairs of a dict that was pasted without its braces, or abridged before them."""
_PAIR = re.compile(r"[^{'\"\n]{0,40}['\"]([\w@. -]{1,40}/[\w/@. -]{1,80})['\"]\s?:[^{}#'\"\n]{1,60}")
"""One of them on a line of its own."""
_OUTCOME = re.compile(r" reward (\d{1,6}(?:\.\d{1,6})?)$")
"""The end of an outcome's name: the reward of its answer."""
_METRIC = re.compile(r"reward|score|loss|return|acc|entropy|kl|grad|lr|step|epoch|train|eval|/", re.IGNORECASE)
"""A key of a row of metrics; before the first row, dictionaries of settings are printed too."""
_STEP_KEY = re.compile(r"\A(?!.*(?:time|timing|second|cost|per_step)).*step")
"""A key that counts steps, and not how long one took (TRL's ``step_time``)."""
_HEADING = re.compile(r"#{1,6} [^{}]{1,200}\Z")
"""A heading in Markdown."""
_STEP_OF_TEXT = re.compile(r"[\d\s]{0,12}\[step (\d{1,12})\]\s\S", re.IGNORECASE)
"""The beginning of a text that is shown with its step, maybe behind the number of its line."""
_PANEL = ("│", "┃", "║")
"""How a line of a panel begins, in which a trainer shows prompts and completions, whatever these hold."""
_NAMED = r"([A-Za-z_][\w/]{0,60})\s?[:=]\s?([-+.\deE]{1,40})"
_NAMED_BEFORE = re.compile(rf"(?:(?<![\w/.]){_NAMED},\s){{1,40}}[A-Za-z_]\w{{0,40}}\s?[:=]\s?\Z")
"""Numbers with names that stand on the line of a dict, before its own name: "loss: 0.1, entropy: 0.8, rewards: {"."""
_EVALUATED_KEY = (
    r"(?:eval|val|valid|validation|test|held_?out)[_/](?:mean_|avg_)?"
    r"(?:acc|accuracy|reward|score|pass@?_?1|success_rate|solve_rate)(?:_mean)?"
)
_EVALUATED = re.compile(rf"(?<![\w/.'\"])({_EVALUATED_KEY})\s?[:=]\s?(-?\d{{1,9}}(?:\.\d{{1,20}})?)(?![\w%])")
_MAX_EVALUATED = 200
"""Characters of a line that names an evaluation, "rollout batch 10 done, eval_acc: 0.6"; a longer one is prose."""
_SUM = re.compile(r"(?:total|sum)_(?=\w{0,40}(?:reward|score|correct))(\w{1,60})", re.IGNORECASE)
"""The name of a sum of rewards over completions."""
_SUMMED = re.compile(
    r"(?:total|num|n)_(?:num|count|samples|completions|rollouts|responses|total|examples)", re.IGNORECASE
)
"""The name of the number of completions that such a sum is over."""
_MAX_LENGTH = 20_000
_MAX_DEPTH = 8
_MAX_COUNT = 64


def _sniff_console_dict(source: Source) -> Evidence | None:
    """Recognizes dicts with a reward inside lines of text; others of a known trainer, where nothing else fits."""
    if begins_json(source.head):
        return None
    *found, _ = _dicts(source.head)
    if rows := sum(names_reward(x.row) for x in found):
        return Evidence(2, rows)
    return NO_REWARDS if found and of_a_trainer(x.row for x in found) else None


def _read_console_dict(source: Source, wanted: str | None) -> Parsed:
    """Rows of all dicts of numbers, with the settings that the text states in words."""
    found = _rows_of(source)
    return replace(found, settings={**found.settings, **settings_in(source.text)})


def _rows_of(source: Source) -> Parsed:
    """Rows of all dicts of numbers; the step is in the dict, on the progress bar, or counted later."""
    *found, end = _dicts(source.text)
    if not found:
        raise no_rows_error("dicts of metrics in the text", source)
    in_dicts = {key for f in found if len(f.row) > 1 for key in f.row}
    found = [f for f in found if not _only_evaluations(f.row) or not f.row.keys() <= in_dicts]
    notes = ["console text is rounded; trainer_state.json, where it exists, is exact", *too_long(source.text)]
    single = [_summed(f.row) is None and names_reward(f.row) for f in found]
    if 0 < sum(single) < sum(_summed(f.row) is not None for f in found):
        found = [f for f, alone in zip(found, single, strict=True) if not alone]
        notes.append(f"{counted(sum(single), 'dict')} of single completions left out")
    rows = _counted_outcomes(_at_rollouts([_means_of_sums(f.row) for f in found]))
    spaces = [{key.partition("/")[0] for key in row} for row in rows]
    if len(rows) > 1 and all(map(is_train, rows)) and len(set().union(*spaces)) == sum(map(len, spaces)):
        return parsed_rows([dict(pair for row in rows for pair in row.items())], notes=notes)  # parts of one row
    if not any(_STEP_KEY.search(k) for row in rows for k in row):
        found = [f._replace(row=marked_evaluation(row)) for f, row in zip(found, rows, strict=True)]
        names = ("reward", "loss", "epoch", CLOSING[0])
        reward, loss, epoch, closing = (np.array([to_float(f.row.get(k)) for f in found]) for k in names)
        starts, _ = starts_of(np.isfinite(closing), {"reward": reward, "loss": loss}, None, epoch)
        starts = starts or tuple(i for i, (a, b) in enumerate(pairwise(found), 1) if _are_of_two_runs(a, b))
        rows, total, more = steps_on_bars([found[i:k] for i, k in pairwise((0, *starts, len(found)))], end)
        total = total or planned_in(source.text)
        return parsed_rows(rows, total_steps=total, notes=(*notes, *more), starts=starts)
    for i, (before, row) in enumerate(pairwise(rows), 1):  # an evaluation in words stands behind the row of its step
        if _only_evaluations(row):
            rows[i] = {**{k: v for k, v in before.items() if _STEP_KEY.search(k)}, **row}
    parsed = parsed_rows(rows, notes=notes)
    return parsed if parsed.total_steps else replace(parsed, total_steps=planned_in(source.text))


def _only_evaluations(row: Mapping[str, Any]) -> bool:
    return all(re.fullmatch(_EVALUATED_KEY, key) for key in row)


def _summed(row: Mapping[str, Any]) -> float | None:
    """The number of completions that a row with sums of rewards states."""
    numbers = [to_float(value) for key, value in row.items() if _SUMMED.fullmatch(key)]
    return numbers[0] if len(numbers) == 1 and numbers[0] >= 1 and any(map(_SUM.fullmatch, row)) else None


def _means_of_sums(row: dict[str, Any]) -> dict[str, Any]:
    """A row with sums as means: ``{"total_num": 256, "total_reward": 144}`` is a reward of 0.5625."""
    if (number := _summed(row)) is None:
        return row
    means = {key: found[1] for key in row if (found := _SUM.fullmatch(key)) is not None and found[1] not in row}
    return {means.get(key, key): to_float(x) / number if key in means else x for key, x in row.items()}


def _are_of_two_runs(one: RowBelowBars, other: RowBelowBars) -> bool:
    """True if two rows with a reward stand below headings of their own, and have few keys in common."""
    trained = all(is_train(x.row) and _names_total(x.row) for x in (one, other))
    shared = len(one.row.keys() & other.row.keys())
    return trained and one.section != other.section and 2 * shared < len(one.row.keys() | other.row.keys())


def _at_rollouts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows on what a rollout took, ``perf 3: {…}``, at the step of the rollout where others have one."""
    if not any("rollout/step" in row for row in rows):
        return [{k: v for k, v in row.items() if k != _PERF} for row in rows]
    return [{"rollout/step" if k == _PERF else k: v for k, v in row.items()} for row in rows]


def _counted_outcomes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that count completions by outcome, ``{'answer reward 1': 54, 'answer reward 0': 202}``, as mean rewards.

    The usual number of completions is a train batch; another one is an evaluation.
    """
    places = [i for i, row in enumerate(rows) if all(map(_OUTCOME.search, row))]
    found = {i: list(zip(map(_OUTCOME.search, rows[i]), rows[i].values(), strict=True)) for i in places}
    found = {i: x for i, x in found.items() if all(type(n) is int and n >= 0 for _, n in x)}
    batch = usual(sum(n for _, n in x) for x in found.values())
    for i, counts in found.items():
        total = sum(n for _, n in counts)
        mean = sum(float(key[1]) * n for key, n in counts if key) / max(total, 1)
        rows[i] = {"reward" if total == batch else "eval_reward": mean, "completions": total}
    return rows


def _without_braces(piece: str) -> dict[str, Any]:
    """The row in a line of pairs without braces; empty where it is none."""
    if (found := _NO_BRACES.match(piece)) is None:
        return {}
    before = (found[1] or "").rstrip(".…")
    pairs = "{" + piece[found.end(1) if before else 0 :].strip().strip("{},")
    return _dict_counted(before, parse_dict(pairs + "}") or parse_dict(before_cut(pairs)))


def _joined(lines: Iterable[tuple[str, Bars]]) -> Iterator[tuple[str, Bars]]:
    """Lines, those that hold one pair of a dict each in one, until a key comes again."""
    pairs: dict[str, str] = {}
    for piece, bars in (*lines, ("", ())):
        pair = _PAIR.fullmatch(piece)
        if pairs and (pair is None or pair[1] in pairs):
            *first, last = pairs.values()
            yield "".join(f"{x.rstrip(' ,')}, " for x in first) + last, ()
            pairs = {}
        if pair is None:
            yield piece, bars
        else:
            pairs[pair[1]] = piece


def _dicts(log: str) -> Iterator[RowBelowBars]:
    bars = BarCounter()
    counting: frozenset[int] | None = None  # bars that were there before the first row; only those count the training
    text = before = ""  # of a dict that is read, maybe over several lines; and what stands before it
    depth = 0
    evaluated: dict[str, float] = {}  # the last evaluation that a line of text told
    for piece, shown in _joined(lines_of(log)):
        bars.see(shown, counting)
        bars.section += _HEADING.match(piece) is not None
        if (told := _STEP_OF_TEXT.match(piece)) is not None:
            bars.named_step = float(told[1])
        if (shown and not piece.strip()) or piece.lstrip()[:1] in _PANEL:
            continue
        at = 0
        indent = len(piece) - len(piece.lstrip()) if shown else 0
        while True:
            if not text or (at == 0 and _OPEN.match(piece, indent)):
                if text and counting is not None and _names_total(row := parse_dict(before_cut(text))):
                    yield bars.row_below(_dict_counted(before, row))  # it was cut off
                if (start := _OPEN.search(piece, at)) is None:
                    text = ""
                    if at == 0 and (row := _without_braces(piece)):
                        yield bars.row_below(row)
                    elif counting is not None and evaluated != (row := _evaluation_in(piece)):
                        evaluated = row or evaluated
                        yield from (RowBelowBars(row, dict(bars.counts) or NO_BARS, {}, bars.section),) if row else ()
                    break
                at = start.start()
                depth = 0
                text = ""
                before = piece[max(at - _MAX_BEFORE, 0) : at]
            end = None
            limit = at + _MAX_LENGTH + 1 - len(text)
            for token in _TOKEN.finditer(piece, at, limit):
                if token[0].startswith("#"):
                    limit = token.start()
                    break
                depth += (token[0] == "{") - (token[0] == "}")
                if not 0 < depth <= _MAX_DEPTH:
                    end = token.end()
                    break
            text += piece[at : limit if end is None else end]
            if end is None:
                text = text if len(text) <= _MAX_LENGTH else ""
                if limit < len(piece) and text and text.rstrip()[-1] not in ",:{[":
                    text += ","  # a line that ends in a remark ends a value
                break
            row = parse_dict(text) or parse_dict(before_cut(text))
            if row and (counting is not None or any(map(_METRIC.search, row))):
                yield bars.row_below(_dict_counted(before, row))
                if CLOSING[0] in row:
                    counting = None
                elif counting is None:
                    counting = frozenset(bars.counts)
            at, text = end, ""
    row = parse_dict(before_cut(text))  # the last pasted line may be cut off
    if row and (counting is None or _names_total(row)):
        yield bars.row_below(_dict_counted(before, row))
    yield RowBelowBars({}, NO_BARS, bars.passed)


def _evaluation_in(line: str) -> dict[str, float]:
    return {k: to_float(x) for k, x in _EVALUATED.findall(line)} if len(line) <= _MAX_EVALUATED else {}


def _names_total(row: Mapping[str, Any]) -> bool:
    """True if a row has the mean of a reward that is not one of several functions'."""
    return names_reward(key for key in row if "rewards/" not in key and "std" not in key)


def _dict_counted(before: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row with the count before it: ``rollout 3: {…}``, ``perf 3: {…}``, ``step 12: {…}`` for its updates (slime).

    And with the numbers that the line names before it.
    """
    named = _NAMED_BEFORE.search(before)
    row = {**{k: to_float(x) for k, x in re.findall(_NAMED, named[0] if named else "")}, **row}
    count = _DICT_COUNT.search(before[-_MAX_COUNT:])
    if count is None:
        return row
    word = count[1].lower()
    key = f"{word}/step"
    if word == "step":
        key = "train/step" if any(k.startswith("train/") for k in row) else "step"
    return {key: float(count[2]), **row}


def parse_dict(text: str) -> dict[str, Any]:
    """A dict display as a dict with text keys and at least one number; empty where it is none."""
    value = None
    text = text.replace("`", "")
    if "..." in text or "…" in text:
        text = _ABRIDGED.sub("", text)
    if '"' not in text and "\\" not in text:  # nearly all are JSON but for their quotes, read ten times as fast
        value = parse_line(text.replace("'", '"'))
    if value is None:
        try:
            value = ast.literal_eval(_BARE.sub(r"'\1nan'", _CALL.sub(r"\1", _NO_ESCAPE.sub(r"\1\\\\", text))))
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            value = parse_line(text)
    if not isinstance(value, dict):
        return {}
    row = {intern(str(k)): v for k, v in value.items()}  # a name of a million rows is kept once
    if isinstance(row.get("metrics"), dict):  # {"step": …, "metrics": {…}}
        row |= {intern(str(k)): v for k, v in row.pop("metrics").items()}
    return row if any(to_float(v) == to_float(v) for v in row.values()) else {}


READERS = (Reader("console_dict", _sniff_console_dict, _read_console_dict),)
