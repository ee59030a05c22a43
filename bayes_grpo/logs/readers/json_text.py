"""JSON: a document with records, one object a line, verl's file logger, ``trainer_state.json`` of transformers.

The text is a stranger's: errors say where, depth and size of numbers cannot crash the parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source, chosen_run, parsed_rows
from bayes_grpo.logs.json_columns import (
    METRIC,
    STEPS,
    name_runs,
    number_lists,
    objects_in,
    of_run,
    other_reward_lists,
    richest_part,
    runs_by_end,
    with_other_steps,
    with_outer_steps,
)
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.lines import JSON_START, names_reward, too_long
from bayes_grpo.logs.options import CONFIG_KEYS, flat_config
from bayes_grpo.logs.row_shapes import parsed_records
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.shapes import in_usual_shape, is_number
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import GENERIC, trainer_named


class CutOffError(LogReadError):
    """JSON ends before it is closed."""


_JOINED = re.compile(r"\}\s{0,80},?\s{0,80}\{")
"""Separator between two objects, each of which had a line of its own."""


def load_json(source: Source, joined: bool = False) -> Any:
    """The document in a file, or the list of several where lines were ``joined``; the error says where it is broken."""
    try:
        return json.loads(source.text)
    except json.JSONDecodeError as error:
        if joined and error.msg == "Extra data":
            with suppress(ValueError):
                return json.loads(f"[{_JOINED.sub('},{', source.text)}]")
        cut = error.pos >= len(source.text.rstrip()) - 1 or "Unterminated" in error.msg
        raise (CutOffError if cut else LogReadError)(
            f"expected JSON, found {'the end of the file' if cut else clean(error.msg)} at line "
            f"{error.lineno} column {error.colno}{' (it is cut off)' if cut else ''}; "
            "pass a complete file or checkpoint"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LogReadError(
            f"expected JSON of metrics, found values that cannot be parsed ({clean(error)}); pass another file"
        ) from None


def parse_line(text: str) -> Any:
    """The JSON value in a line, None where there is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        return None


def begins_json(head: str) -> bool:
    """True if a text begins as a document or lines of JSON, and nothing else follows the first value."""
    if not JSON_START.match(head):
        return False
    try:
        end = json.JSONDecoder().raw_decode(head := head.lstrip())[1]
    except (ValueError, RecursionError):
        return True  # as it goes on behind the head, or is cut off
    return head[end:].lstrip()[:1] in ("", "{")


_TEXT = r"(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
_TOKEN = re.compile(rf"{_TEXT}|[{{}}\[\],:]|[^\s,:{{}}\[\]'\"]{{1,64}}+")
_ENDS = {"{": "}", "[": "]"}


def before_cut(text: str) -> str:
    """JSON, or a dict display, that is cut off: closed after its last whole value; "" where it has none.

    A number at the very end may have been shortened, and goes, as does what follows the cut.
    """
    ends: list[str] = []
    whole = depth = 0
    after_value = False
    for token in _TOKEN.finditer(text):
        mark = token[0]
        is_end = bool(ends) and mark == ends[-1]
        if after_value != (mark in ",:" or is_end) and not is_end:
            break  # prose
        after_value = is_end or mark not in ",:{["
        if mark in _ENDS:
            ends.append(_ENDS[mark])
        if is_end:
            ends.pop()
            whole, depth = token.end(), len(ends)
        elif mark == ",":
            whole, depth = token.start(), len(ends)
        if not ends:
            break
    return text[:whole] + "".join(reversed(ends[:depth])) if whole else ""


_CONFIG_NAMES = (
    "config", "args", "hparams", "hyperparameters", "hyperparams", "settings", "params", "training_args",
)  # fmt: skip
"""Names of objects in which scripts keep their settings."""
_HEADER = frozenset(
    ("config", "configuration", "start", "run_start", "run_info", "header", "args", "hparams", "settings", "init")
)
_NO_SETTINGS = STEPS.union(GENERIC.keys["reward"])


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and texts of an object, and those of the objects in it that scripts keep their settings in."""
    inside = [flat_config(document[name]) for name in _CONFIG_NAMES if isinstance(document.get(name), dict)]
    scalars = {k: v for k, v in document.items() if isinstance(v, int | float | str)}
    return {k: v for part in (*inside, scalars) for k, v in part.items()}


def _states_settings(row: Mapping[str, Any], is_first: bool) -> bool:
    """True if a record holds settings instead of metrics: in an object of a usual name, or, the first, under their own.

    That one says what it is, or names two settings at least, and holds neither a reward nor a step behind 0.
    """
    if any(isinstance(row.get(name), dict) for name in _CONFIG_NAMES) and not any(map(METRIC.search, row)):
        return True
    is_header = any(isinstance(value, str) and value.strip().lower() in _HEADER for value in row.values())
    metrics = [key for key, value in row.items() if normal(key) in _NO_SETTINGS and not (is_header and value == 0)]
    if not is_first or metrics:
        return False
    return sum(any(key in row for key in keys) for keys in CONFIG_KEYS.values()) >= (1 if is_header else 2)


_RECORD_NAMES = (
    "log_history", "step_log", "history", "metrics", "train_metrics", "logs", "log", "train_log", "training_log",
    "steps", "records", "rows", "data", "trajectory",
)  # fmt: skip
_LIST = re.compile(r'\[\s*(?:\{\s*["}]|\]\s*$|(?:-?\d[\d.eE+-]*|null)\s*(?:,|\]\s*$))')
"""A list of objects or of numbers; a console line may begin with "[" too."""
_LIST_OF_LISTS = re.compile(r'\[\s*\[\s*(?:"[^"\n]*+"|-?\d[\d.eE+-]*)\s*,\s*["{\d-]')
_MARKS = re.compile(r'"(log_history|max_steps|is_world_process_zero|best_model_checkpoint|logging_steps)"\s*:')
"""Fields of a state of transformers."""


def _sniff(name: str, source: Source) -> Evidence | None:
    """Evidence of a kind of JSON: a list, an object, the state of transformers, or an object a line."""
    head = source.head.lstrip()
    if head[:1] != "{":
        if name != "json":
            return None
        if _LIST_OF_LISTS.match(head):
            return Evidence(3)
        return Evidence(2) if _LIST.match(head) else None
    first, *others = [line.strip() for line in head.splitlines() if line.strip()][:2]
    if (is_row := isinstance(parse_line(first), dict)) and others and others[0].startswith("{"):
        return Evidence(2) if name == "jsonl" else None  # of which the last may be a state
    if name == "jsonl":
        return Evidence(1) if is_row and not others else None
    if name == "json":
        return Evidence(2) if head[1:].lstrip()[:1] == "}" or begins_json(head) else None
    marks = set(_MARKS.findall(source.head))
    return Evidence(3) if "log_history" in marks or len(marks) >= 3 else None


def of_document(document: Any, wanted: str | None = None) -> Parsed:
    """Rows of a document: of its list of records, the ``wanted`` of several, or its lists of numbers as columns."""
    if isinstance(document, list):
        if document and all(isinstance(item, int | float) and not isinstance(item, bool) for item in document):
            notes = ("a bare list of numbers, taken for rewards",)
            return Parsed(Table.from_columns({"reward": document}), notes=notes)
        found = parsed_records(document)
        if not found.table.n:
            raise LogReadError("expected a JSON list of records, found none in it; pass the file with the records")
        return found
    if not isinstance(document, dict):
        raise LogReadError(f"expected a JSON list or object, found {type(document).__name__}; pass a log file")
    usual, shapes = (document, ()) if _names_rewards(document) else in_usual_shape(document)
    found = parsed_records(usual) if isinstance(usual, list) else _of_object(usual, wanted)
    return replace(found, config={**_settings(document), **found.config}).noted(*shapes)


def _names_rewards(document: dict[str, Any]) -> bool:
    """True if a list of records, or of numbers, in an object names a reward, so that its rows are there."""
    records = (row for x in _record_lists(document).values() for row in x[:20] if isinstance(row, dict))
    lists = ((k, v) for x in objects_in(document).values() for k, v in x.items() if isinstance(v, list))
    return names_reward(str(key) for row in records for key in row) or any(
        names_reward((str(key),)) and any(map(is_number, value[:50])) for key, value in lists
    )


def _of_object(document: dict[str, Any], wanted: str | None) -> Parsed:
    """Rows of an object: of its list of records, the ``wanted`` of several, or its lists of numbers as columns."""
    config = _settings(document)
    if records := _record_lists(document):
        name = _choose(records, wanted)
        found = parsed_records(records[name])
        notes = (f"records read from {name!r}", *found.notes)
        called = wanted or name
        return replace(found, config=config, notes=notes, took_run=name.startswith(called) or name.endswith(called))
    if (path := richest_part(document)) is not None:
        part = objects_in(document)[path]
        columns = number_lists(part)
        if path and name_runs(columns, path.rpartition(".")[2]):
            name = chosen_run([*columns], wanted)
            notes = (f"the numbers under {name!r} are taken for rewards",)
            return Parsed(Table.from_columns({"reward": columns[name]}), config, notes=notes, took_run=True)
        took_run = False
        if runs := runs_by_end(columns):
            name = chosen_run([*runs], wanted)
            columns, part, took_run = runs[name], of_run(part, name, runs), True
            config = of_run(config, name, runs)
        columns = with_outer_steps(document, path, columns)
        found = Parsed(Table.from_columns(columns), config, took_run=took_run)
        found = with_other_steps(found, part, columns)
        others = other_reward_lists(document, path)
        note = f"read from {path or 'the document'!r}, not from {listed(others, 6)}"
        return found.noted(Caution(note)) if others else found
    if any(isinstance(v, int | float) for v in document.values()):
        return Parsed(Table.from_rows([document]))  # the first line of a log
    raise LogReadError(
        f"expected a list of records or a trace of rewards in the JSON object, found the keys "
        f"{listed(document)}; pass the file with the records"
    )


def _record_lists(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Lists of records, by their path in the document."""
    lists = ((path, k, v) for path, x in objects_in(document).items() for k, v in x.items() if isinstance(v, list))
    mostly = ((path, k, v) for path, k, v in lists if sum(isinstance(x, dict) for x in v[:10]) > len(v[:10]) / 2)
    return {f"{path}.{key}".lstrip("."): value for path, key, value in mostly}


def _choose(records: dict[str, list[Any]], wanted: str | None) -> str:
    """The list that looks like a training log: one with a reward in it, by its usual name."""
    keys = {name: [str(k) for r in x[:20] if isinstance(r, dict) for k in r] for name, x in records.items()}
    names = [name for name in records if names_reward(keys[name])] or list(records)
    for known in _RECORD_NAMES:
        named = [name for name in names if name.rsplit(".", 1)[-1].lower() == known]
        if len(named) == 1:
            return named[0]
    return chosen_run(names, wanted if len(names) > 1 else None)


_BATCH = 1024
_MAX_LINE = 4_000_000
"""Characters of a line; a record of metrics has thousands, one with the texts of a batch a million."""


def _objects(text: str) -> Iterator[tuple[int, Any]]:
    """Number of each line with something on it that is not too long, and the object in it, else None."""
    lines = text.split("\n")
    for start in range(0, len(lines), _BATCH):
        batch = lines[start : start + _BATCH]
        short = max(map(len, batch)) <= _MAX_LINE
        rows = parse_line("[" + ",".join(batch) + "]") if short else None  # for speed
        if isinstance(rows, list) and len(rows) == len(batch) and all(type(row) is dict for row in rows):
            yield from enumerate(rows, start + 1)
            continue
        for number, line in enumerate(batch, start + 1):
            if line and not line.isspace() and len(line) <= _MAX_LINE:
                row = parse_line(line)
                yield number, row if isinstance(row, dict) else None


def _read_jsonl(source: Source, wanted: str | None) -> Parsed:
    """Rows of all lines that parse; the others are counted in a note. verl's are ``{"step": …, "data": {…}}``."""
    bad: list[int] = []
    good = settings = 0
    config: dict[str, Any] = {}

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal good, settings
        for number, row in _objects(source.text):
            if row is None:
                bad.append(number)
                continue
            good += 1
            if _states_settings(row, good == settings + 1):
                config.update(_settings(row))
                settings += 1
                continue
            is_verl = len(row) == 2 and isinstance(row.get("data"), dict) and "step" in row
            yield {**row["data"], "step": row["step"]} if is_verl else row

    found = parsed_records(rows(), config=config)
    if len(bad) > good:
        raise LogReadError(
            f"expected one JSON object a line, found {counted(len(bad), 'line')} of {len(bad) + good} that are "
            f"none, the first is line {bad[0]}; repair the file or pass another"
        )
    notes = [f"{counted(settings, 'line')} of settings instead of metrics"] if settings else []
    if bad:
        notes.append(f"{counted(len(bad), 'line')} without a JSON object left out, the first is line {bad[0]}")
    return found.noted(*notes, *too_long(source.text, _MAX_LINE))


def of_state(state: Any) -> Parsed:
    """Rows of ``log_history`` in a state, with ``max_steps`` and ``logging_steps``."""
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise LogReadError(
            f"expected a JSON object with a list log_history, found {type(state).__name__} with "
            f"{listed(state, 8) if isinstance(state, dict) else 'no keys'}; pass trainer_state.json"
        )
    found = parsed_rows(state["log_history"])
    return replace(
        with_plan(found, state.get("max_steps"), state.get("logging_steps")),
        config={"save_steps": state["save_steps"]} if "save_steps" in state else {},
        trainer=trainer_named("TRL (PPO, RLOO)" if "objective/scores" in found.table else "TRL"),
    )


def with_plan(found: Parsed, max_steps: object, logging_steps: object) -> Parsed:
    """Rows with the planned steps and the steps of a row, as a state of transformers has them, where they are any."""
    total, window = to_float(max_steps), to_float(logging_steps)
    return replace(
        found,
        total_steps=total if total > 0 else found.total_steps,
        logging_steps=window if window >= 1 else None,
    )


READERS = (
    Reader("json", partial(_sniff, "json"), lambda x, wanted: of_document(load_json(x, joined=True), wanted)),
    Reader("jsonl", partial(_sniff, "jsonl"), _read_jsonl),
    Reader("trl_trainer_state", partial(_sniff, "state"), lambda x, wanted: of_state(load_json(x))),
)
