"""JSON: a document with records, one object a line, verl's file logger, ``trainer_state.json`` of transformers.

The text is a stranger's: errors say where, depth and size of numbers cannot crash the parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, Source, chosen_run, long_lines
from bayes_grpo.logs.keyindex import StepCounter, marked_evaluation, normal
from bayes_grpo.logs.options import CONFIG_KEYS
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import GENERIC, trainer_named


def load_json(source: Source, instead: str = "a complete file") -> Any:
    """The document in a file.

    Args:
        source: The file.
        instead: What to pass where the file is cut off.

    Raises:
        LogReadError: It is not JSON; the message says where.
    """
    try:
        return json.loads(source.text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(source.text.rstrip()) - 1 or "Unterminated" in error.msg
        raise LogReadError(
            f"expected JSON, found {'the end of the file' if cut else clean(error.msg)} at line "
            f"{error.lineno} column {error.colno}{' (it is cut off)' if cut else ''}; pass {instead}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LogReadError(
            f"expected JSON of metrics, found values that cannot be parsed ({clean(error)}); pass {instead}"
        ) from None


def parse_line(text: str) -> Any:
    """The JSON value in a line, None where there is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        return None


_CONFIG_NAMES = (
    "config", "args", "hparams", "hyperparameters", "hyperparams", "settings", "params", "training_args",
)  # fmt: skip
"""Names of objects in which scripts keep their settings."""

_METRIC = re.compile(r"step|reward|score|loss|iter|update|accuracy", re.IGNORECASE)


def scalars_of(mapping: dict[str, Any]) -> dict[str, Any]:
    """Numbers and texts of a mapping."""
    return {k: v for k, v in mapping.items() if isinstance(v, int | float | str)}


_HEADER = frozenset(("config", "configuration", "start", "run_start", "header", "args", "hparams", "settings", "init"))
_NO_CONFIG = frozenset((*GENERIC.reward, *(key for group in GENERIC.steps for key in group)))


def config_line(row: dict[str, Any]) -> dict[str, Any] | None:
    """Settings of a first record that holds them under their own names, None where it is another record.

    It says what it is, or names two settings at least, and holds neither a step nor a reward.
    """
    if any(normal(key) in _NO_CONFIG for key in row):
        return None
    said = any(isinstance(value, str) and value.strip().lower() in _HEADER for value in row.values())
    named = sum(any(key in row for key in keys) for keys in CONFIG_KEYS.values())
    return scalars_of(row) if named >= (1 if said else 2) else None


def config_in(row: dict[str, Any]) -> dict[str, Any] | None:
    """Settings of a record that holds them instead of metrics, None where it is a record of metrics."""
    if row.keys().isdisjoint(_CONFIG_NAMES):
        return None
    held = [row[name] for name in _CONFIG_NAMES if isinstance(row.get(name), dict)]
    if not held or any(_METRIC.search(key) for key in row):
        return None
    return {k: v for part in held for k, v in scalars_of(part).items()}


def mapping_rows(items: list[Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The records among the items of a list, and a note on what else was there."""
    rows = [marked_evaluation(item) for item in items if isinstance(item, dict)]
    other = len(items) - len(rows)
    return rows, (f"{other} entries that are not records left out",) if other else ()


_RECORD_NAMES = (
    "log_history", "step_log", "history", "metrics", "train_metrics", "logs", "log", "train_log", "training_log",
    "steps", "records", "rows", "data", "trajectory",
)  # fmt: skip
_MAX_DEPTH = 4
_STEP = re.compile(r"\d{1,12}")
_LIST = re.compile(r'\[\s*(?:\{\s*["}]|\]\s*$|(?:-?\d[\d.eE+-]*|null)\s*(?:,|\]\s*$))')
"""A list of objects or of numbers; a console line may begin with "[" too."""


def _sniff_json_records(source: Source) -> Evidence | None:
    """Recognises a document by its opening bracket, unless each line is a document of its own."""
    head = source.head.lstrip()
    if head[:1] == "[":
        return Evidence(2, "a JSON list") if _LIST.match(head) else None
    if head[:1] != "{":
        return None
    lines = [line for line in head.splitlines() if line.strip()][:2]
    if len(lines) == 2 and lines[1].lstrip().startswith("{") and isinstance(parse_line(lines[0]), dict):
        return None
    if head[1:].lstrip()[:1] not in ('"', "}"):
        return None
    return Evidence(2, "a JSON object")


def _read_json_records(source: Source, wanted: str | None) -> Parsed:
    """Rows of the list of records in the document, or its lists of numbers as columns."""
    return of_document(load_json(source), wanted)


def of_document(document: Any, run: str | None = None) -> Parsed:
    """Rows of a document that is there already.

    Args:
        document: The document.
        run: The list of records to take where there are several.

    Raises:
        LogReadError: No list of records and no list of numbers is in it.
    """
    if isinstance(document, list):
        return _from_list(document)
    if not isinstance(document, dict):
        raise LogReadError(f"expected a JSON list or object, found {type(document).__name__}; pass a log file")
    config = _scalars(document)
    records = _record_lists(document)
    if records:
        name, items = _choose(records, run)
        rows, notes = mapping_rows(items)
        return Parsed(Table.from_rows(rows), config, notes=(f"records read from {name!r}", *notes))
    numbered = _numbered(document)
    if numbered:
        return Parsed(Table.from_rows(numbered), notes=("the keys of the records are their steps",))
    columns = _number_lists(document)
    if columns:
        return Parsed(Table.from_columns(columns), config)
    if any(isinstance(v, int | float) for v in document.values()):
        return Parsed(Table.from_rows([document]))
    raise LogReadError(
        f"expected a list of records or a trace of rewards in the JSON object, found the keys "
        f"{listed(document)}; pass the file with the records"
    )


def _from_list(items: list[Any]) -> Parsed:
    if items and all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        return Parsed(Table.from_columns({"reward": items}), notes=("a bare list of numbers, taken for rewards",))
    rows, notes = mapping_rows(items)
    if not rows:
        raise LogReadError("expected a JSON list of records, found none in it; pass the file with the records")
    return Parsed(Table.from_rows(rows), notes=notes)


def _scalars(document: dict[str, Any]) -> dict[str, Any]:
    config = {}
    for name in _CONFIG_NAMES:
        if isinstance(document.get(name), dict):
            config |= scalars_of(document[name])
    return config | scalars_of(document)


def _record_lists(document: dict[str, Any], prefix: str = "", depth: int = _MAX_DEPTH) -> dict[str, list[Any]]:
    """Lists of records, by their path in the document."""
    found = {}
    for key, value in document.items():
        if isinstance(value, list) and sum(isinstance(v, dict) for v in value[:10]) > len(value[:10]) / 2:
            found[f"{prefix}{key}"] = value
        elif isinstance(value, dict) and depth > 1:
            found |= _record_lists(value, f"{prefix}{key}.", depth - 1)
    return found


def _numbered(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Records kept under their steps, ``{"0": {"reward": 0.2}, "1": …}``; none where it is another document."""
    records = {k: v for k, v in document.items() if _STEP.fullmatch(k) and isinstance(v, dict)}
    return [{"step": int(k), **v} for k, v in records.items()] if len(records) >= max(2, len(document) - 2) else []


def _choose(records: dict[str, list[Any]], wanted: str | None) -> tuple[str, list[Any]]:
    """The list that looks like a training log: one with a reward in it, by its usual name."""
    rewarded = {
        name: items
        for name, items in records.items()
        if any(
            "reward" in normal(str(k)) or "score" in normal(str(k))
            for r in items[:20]
            if isinstance(r, dict)
            for k in r
        )
    }
    pool = rewarded or records
    for known in _RECORD_NAMES:
        named = [name for name in pool if name.rsplit(".", 1)[-1].lower() == known]
        if len(named) == 1:
            return named[0], pool[named[0]]
    names = list(pool)
    name = names[chosen_run(names, wanted if len(names) > 1 else None)]
    return name, pool[name]


def _number_lists(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Lists of numbers of the most common length, each a column."""
    columns = {
        k: v for k, v in document.items() if isinstance(v, list) and np.isfinite([to_float(x) for x in v[:50]]).any()
    }
    if not columns:
        nested = [v for v in document.values() if isinstance(v, dict)]
        return next((found for v in nested if (found := _number_lists_flat(v))), {})
    lengths = [len(v) for k, v in columns.items() if "reward" in k.lower()] or [len(v) for v in columns.values()]
    return {k: v for k, v in columns.items() if len(v) == max(lengths)}


def _number_lists_flat(document: dict[str, Any]) -> dict[str, list[Any]]:
    plain = {k: v for k, v in document.items() if not isinstance(v, dict)}
    return _number_lists(plain) if plain else {}


_BATCH = 1024
_MAX_LINE = 4_000_000
"""Characters of a line; a record of metrics has thousands, one with the texts of a batch a million."""


def _sniff_jsonl(source: Source) -> Evidence | None:
    """Recognises a first line that is an object by itself, with another below it."""
    lines = first_lines(source)
    if not lines or not lines[0].startswith("{") or not isinstance(parse_line(lines[0]), dict):
        return None
    if len(lines) == 1:
        return Evidence(1, "one JSON object on one line")
    return Evidence(2, "JSON objects, one a line") if lines[1].startswith("{") else None


def _read_jsonl(source: Source, wanted: str | None) -> Parsed:
    """Rows of all lines that parse; the others are counted in a note."""
    lines = JsonLines(source.text)
    rows = StepCounter(_unwrapped(lines))
    table = Table.from_rows(rows)
    return Parsed(table, lines.config, total_steps=rows.planned, notes=lines.notes())


def first_lines(source: Source, count: int = 2) -> list[str]:
    """The first lines with something on them."""
    return [line.strip() for line in source.head.splitlines() if line.strip()][:count]


class JsonLines:
    """Iterates over the objects of a text, one a line, and counts the lines that are none.

    Attributes:
        config: Scalars of the lines that hold settings instead of metrics; later lines win.
    """

    def __init__(self, text: str) -> None:
        self.config: dict[str, Any] = {}
        self._text = text
        self._good = 0
        self._settings = 0
        self._began = False
        self._bad: list[int] = []
        self._long: list[int] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lines = self._text.split("\n")
        for start in range(0, len(lines), _BATCH):
            batch = lines[start : start + _BATCH]
            for place, line in enumerate(batch):
                if len(line) > _MAX_LINE:
                    self._long.append(start + place + 1)
                    batch[place] = ""
            rows = _all_at_once(batch)
            if rows is not None:
                self._good += len(rows)
                yield from self._metrics(rows)
            else:
                yield from self._one_by_one(batch, start + 1)

    def _one_by_one(self, lines: list[str], first: int) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(lines, first):
            if not line or line.isspace():
                continue
            row = parse_line(line)
            if isinstance(row, dict):
                self._good += 1
                yield from self._metrics([row])
            else:
                self._bad.append(number)

    def _metrics(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            config = config_in(row)
            if config is None and not self._began:
                config = config_line(row)
            if config is None:
                self._began = True
                yield marked_evaluation(row)
            else:
                self.config |= config
                self._settings += 1

    def notes(self) -> tuple[str, ...]:
        """What was left out or taken for settings.

        Raises:
            LogReadError: Most lines are no JSON objects.
        """
        if len(self._bad) > self._good:
            raise LogReadError(
                f"expected one JSON object a line, found {len(self._bad)} lines of "
                f"{len(self._bad) + self._good} that are none, the first at line {self._bad[0]}; "
                f"repair the file or pass another"
            )
        said = [f"{counted(self._settings, 'line')} of settings instead of metrics"] if self._settings else []
        if self._bad:
            bad = counted(len(self._bad), "line")
            said.append(f"{bad} without a JSON object left out, the first is line {self._bad[0]}")
        return (*said, *long_lines(self._long, _MAX_LINE))


def _all_at_once(lines: list[str]) -> list[dict[str, Any]] | None:
    """The objects of lines that hold exactly one each, parsed as one list for speed; else None."""
    rows = parse_line("[" + ",".join(lines) + "]")
    if isinstance(rows, list) and len(rows) == len(lines) and all(type(row) is dict for row in rows):
        return rows
    return None


def _sniff_verl_jsonl(source: Source) -> Evidence | None:
    """Recognises a first line with exactly the two keys."""
    lines = first_lines(source, 1)
    row = parse_line(lines[0]) if lines and lines[0].startswith("{") else None
    if isinstance(row, dict) and set(row) == {"step", "data"} and isinstance(row["data"], dict):
        return Evidence(3, 'lines {"step", "data"}')
    return None


def _unwrapped(rows: JsonLines) -> Iterator[dict[str, Any]]:
    """Rows, of which those of verl's file logger are ``{"step": …, "data": {…}}``."""
    for row in rows:
        own = len(row) == 2 and isinstance(row.get("data"), dict) and "step" in row
        yield {**row["data"], "step": row["step"]} if own else row


_MARKS = re.compile(r'"(?:log_history|max_steps|is_world_process_zero|best_model_checkpoint|logging_steps)"\s*:')
_EPOCHS = ("num_train_epochs", "global_step", "epoch")
"""What tells the planned length where ``max_steps`` does not."""


def _sniff_trl_state(source: Source) -> Evidence | None:
    """Recognises the object by the names that transformers gives its fields."""
    if source.head.lstrip()[:1] != "{":
        return None
    first, *others = source.head.lstrip().split("\n", 1)
    if others and others[0].lstrip()[:1] == "{" and isinstance(parse_line(first), dict):
        return None  # one object a line, of which the last may be a state
    marks = set(_MARKS.findall(source.head))
    if '"log_history":' in {m.replace(" ", "") for m in marks} or len(marks) >= 3:
        return Evidence(3, "a JSON object with log_history")
    return None


def _read_trl_state(source: Source, wanted: str | None) -> Parsed:
    """Rows of ``log_history``, with ``max_steps``, ``logging_steps`` and the epochs."""
    return of_state(load_json(source, "the newest complete checkpoint's trainer_state.json"))


def of_state(state: Any) -> Parsed:
    """Rows of a state that is there already.

    Raises:
        LogReadError: It holds no list ``log_history``.
    """
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise LogReadError(
            f"expected a JSON object with a list log_history, found {type(state).__name__} with "
            f"{listed(state, 8) if isinstance(state, dict) else 'no keys'}; pass trainer_state.json"
        )
    rows, notes = mapping_rows(state["log_history"])
    table = Table.from_rows(rows)
    return Parsed(
        table,
        {key: state[key] for key in (*_EPOCHS, "save_steps") if isinstance(state.get(key), int | float)},
        total_steps=_positive(state.get("max_steps")),
        logging_steps=_positive(state.get("logging_steps"), at_least=1),
        trainer=trainer_named("trl_ppo" if "objective/scores" in table else "trl"),
        notes=notes,
    )


def _positive(value: object, at_least: float = 0.0) -> float | None:
    number = to_float(value)
    return number if number > 0 and number >= at_least else None


READERS = (
    Reader("json", _sniff_json_records, _read_json_records),
    Reader("jsonl", _sniff_jsonl, _read_jsonl),
    Reader("verl_jsonl", _sniff_verl_jsonl, _read_jsonl),
    Reader("trl_trainer_state", _sniff_trl_state, _read_trl_state),
)
