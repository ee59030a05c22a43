"""Files that trackers keep: event files of TensorBoard, ``run-ID.wandb``, MLflow and Trackio.

Events (``event.proto``) are steps with summaries of tagged values; W&B's records (``wandb_internal.proto``) are the
run, changes of its configuration and rows of its history. MLflow keeps a database or text (``mlruns/EXPERIMENT/RUN``).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import counted
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, RunName, Source, chosen_run
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.options import flat_config
from bayes_grpo.logs.readers.json_text import parse_line
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import identify
from bayes_grpo.stores.files import METRICS, MLFLOW_RUN, PARAMS, DatabaseTables, has_columns, opened
from bayes_grpo.stores.records import (
    WANDB,
    Damage,
    Value,
    fields,
    leveldb_records,
    message,
    signed,
    starts_record,
    text,
    tfrecord_records,
)  # fmt: skip

type Points = list[tuple[float, str, float]]
"""Step, key and value of metrics in the order in which they were written."""


def rows_of_points(points: Points) -> Table:
    """Rows in the order of their first metric: metrics of one step are one row.

    A metric that a step already has opens a new row of that step: it is a part of the step or a resumed training.
    Where the trainer counts rollouts and updates on steps of their own, each kind of key has rows of its own.
    """
    keys = dict.fromkeys((key for _, key, _ in points), 0.0)
    trainer = identify(KeyIndex(Table.from_rows([keys])))
    counters = (*trainer.steps[0], *trainer.rollouts) if trainer.rollouts else ()
    axes = [counter.partition("/")[0] for counter in counters if counter not in keys]
    axis_of = {key: next((axis for axis in axes if key.startswith(f"{axis}/")), "") for key in keys}
    counter = "_step" if "step" in keys else "step"
    rows: list[dict[str, float]] = []
    current: dict[tuple[str, float], dict[str, float]] = {}
    for step, key, value in points:
        axis = axis_of[key]
        row = current.get((axis, step))
        if row is None or key in row:
            row = {f"{axis}/step": step} if axis else {counter: step}
            current[axis, step] = row
            rows.append(row)
        row[key] = value
    return Table.from_rows(rows)


_STEP, _SUMMARY = 2, 5
"""Fields of an event."""
_VALUE, _TAG, _SIMPLE, _TENSOR, _METADATA = 1, 1, 2, 8, 9
_DTYPE, _CONTENT, _FLOATS, _DOUBLES, _STRINGS = 1, 4, 5, 6, 8
_NUMBERS = {1: "<f", 2: "<d"}
"""Type of a tensor → how its number is written."""
_PLUGIN, _PLUGIN_CONTENT = 1, 2
_SESSION, _SETTING = 3, 1
_SETTINGS_TAG = "_hparams_/session_start_info"
_SIMPLE_END = b"\x15"  # the key of a number by itself, with four bytes behind it at the end of an event


def _read_tensorboard(source: Source, wanted: str | None) -> Parsed:
    """Scalars joined into rows, with the settings among the texts."""
    if not starts_record(source.data):
        raise LogReadError("expected an event file of TensorBoard, found another beginning; pass events.out.tfevents.*")
    damage = Damage()
    points: Points = []
    config: dict[str, Any] = {}
    # Nearly all events are one number: what stands before its four bytes repeats, so its tag is looked up.
    tags: dict[bytes, str] = {}
    for record in tfrecord_records(source.data, damage):
        try:
            event = message(record)
            step = signed(event.get(_STEP, 0))
            summary = event.get(_SUMMARY)
            if not isinstance(summary, bytes):
                continue
            known = tags.get(summary[:-4])
            if known is not None:
                points.append((step, known, struct.unpack("<f", summary[-4:])[0]))
                continue
            values = [message(value) for number, value in fields(summary) if number == _VALUE]
            for value in values:
                tag = text(value.get(_TAG))
                number = value.get(_SIMPLE)
                if tag == _SETTINGS_TAG:
                    config |= _session(value.get(_METADATA))
                elif _TENSOR in value:
                    number, words = _tensor(value[_TENSOR])
                    logged = parse_line(words) if words.lstrip().startswith("{") else None
                    config |= logged if isinstance(logged, dict) else {}
                if isinstance(number, float):
                    points.append((step, tag, number))
            if len(values) == 1 and list(values[0])[-1:] == [_SIMPLE] and summary[-5:-4] == _SIMPLE_END:
                tags[summary[:-4]] = text(values[0].get(_TAG))
        except ValueError:
            damage.places += 1
    table = rows_of_points(points)
    if not table.n and not config:
        raise damage.nothing("the event file")
    return Parsed(table, flat_config(config), notes=damage.notes())


def _tensor(tensor: Value) -> tuple[float | None, str]:
    """The number or the text in a tensor of one entry."""
    found = message(tensor)
    number = found.get(_CONTENT, found.get(_FLOATS, found.get(_DOUBLES)))
    form = _NUMBERS.get(int(found.get(_DTYPE, 0)))
    if form and isinstance(number, bytes):
        number = struct.unpack(form, number)[0] if len(number) == struct.calcsize(form) else None
    return (number if isinstance(number, float) else None), text(found.get(_STRINGS))


def _session(metadata: Value | None) -> dict[str, Any]:
    """Settings of the plugin for hyperparameters: number, text or truth value by name."""
    session = message(message(message(metadata).get(_PLUGIN)).get(_PLUGIN_CONTENT)).get(_SESSION)
    found: dict[str, Any] = {}
    for number, entry in fields(session) if isinstance(session, bytes) else ():
        setting = message(entry) if number == _SETTING else {}
        for value in message(setting.get(2)).values():
            value = text(value) if isinstance(value, bytes) else value
            found.setdefault(text(setting.get(1)), bool(value) if isinstance(value, int) else value)
    found.pop("", None)
    return found


_HISTORY, _RUN, _CONFIG = 2, 17, 18
_RUN_ID, _RUN_CONFIG, _RUN_NAME = 1, 4, 8
_ITEM = 1
_KEYS, _JSON = (1, 2), 16


def _runs_wandb(source: Source) -> list[RunName]:
    """The one run of the file, by its own name or else by the file's."""
    key = source.path.stem.removeprefix("run-")
    for number, content in _contents(source.data, Damage()):
        if number == _RUN:
            with suppress(ValueError):
                run = message(content)
                key = text(run.get(_RUN_ID)) or key
                return [RunName(text(run.get(_RUN_NAME)) or key, key)]
    return [RunName(key, key)]


def _read_wandb(source: Source, wanted: str | None) -> Parsed:
    """Rows as they were written, with the run's name and its configuration, which changes between them."""
    damage = Damage()
    config: dict[str, Any] = {}
    name = ""

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal name
        for number, content in _contents(source.data, damage):
            try:
                if number == _HISTORY:
                    yield _values(content)
                elif number == _CONFIG:
                    config.update(_values(content))
                elif number == _RUN:
                    run = message(content)
                    name = text(run.get(_RUN_NAME)) or name
                    config.update(_values(run.get(_RUN_CONFIG)))
            except ValueError:
                damage.places += 1

    table = Table.from_rows(rows())
    config.pop("_wandb", None)
    if not table.n:
        raise damage.nothing("the .wandb file")
    return Parsed(table, flat_config(config), notes=damage.notes(), run_name=name)


def _contents(data: bytes, damage: Damage) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of what the records hold, as far as it is a message."""
    if not data.startswith(WANDB):
        raise LogReadError("expected a .wandb file, found another beginning; pass run-ID.wandb")
    for record in leveldb_records(data, damage):
        try:
            for number, content in fields(record):
                if isinstance(content, bytes):
                    yield number, content
        except ValueError:
            damage.places += 1


def _values(content: Value | None) -> dict[str, Any]:
    """Key → value of the items in a message; what is no JSON is left out."""
    found: dict[str, Any] = {}
    for number, value in fields(content) if isinstance(content, bytes) else ():
        if number != _ITEM or not isinstance(value, bytes):
            continue
        keys, encoded = [], b""
        for part, inner in fields(value):
            if part == _JSON and isinstance(inner, bytes):
                encoded = inner
            elif part in _KEYS:
                keys.append(text(inner))
        if keys and encoded:
            try:
                found["/".join(keys)] = float(encoded)  # nearly all values of a history
            except ValueError:
                found["/".join(keys)] = parse_line(encoded.decode("utf-8", errors="replace"))
    return found


_MLFLOW_TABLES = {"metrics": ("key", "value", "step", "run_uuid"), "runs": ("run_uuid",)}
_AT = re.compile(r"_at_(?=\d)")
"""How verl writes the "@" of ``mean@4``, which MLflow does not take."""
_HELD_OUT = ("val-core/", "val-aux/")


def _sniff_mlflow(source: Source) -> Evidence | None:
    """Recognizes the tables of the database, or the description of a run in a folder."""
    described = source.path.name == MLFLOW_RUN and "run_id" in _about(source)
    return Evidence(3) if described or has_columns(source.tables, _MLFLOW_TABLES) else None


def _read_mlflow(source: Source, wanted: str | None) -> Parsed:
    """Metrics of one run joined into rows, with its parameters."""
    if not source.is_store:
        return _from_text(source)
    with opened(source.data, source.attached) as tables:
        run = chosen_run(_mlflow_runs(tables), wanted)
        columns = ("key", "value", "step", "is_nan")
        points = [
            (to_float(step), _key(str(key)), math.nan if nan else to_float(value))
            for key, value, step, nan in tables.rows("metrics", columns, run_uuid=run.id)
        ]
        config = {str(k): v for k, v in tables.rows("params", ("key", "value"), run_uuid=run.id)}
        return Parsed(rows_of_points(points), _config(config), notes=tables.notes, run_name=run.name)


def _about(source: Source) -> dict[str, str]:
    """Id and name of the run in a description, and whether it is deleted; nested values are left out."""
    pairs = (line.partition(":") for line in source.head.splitlines())
    found = {key: value.strip().strip("'\"") for key, _, value in pairs}
    return ({"run_id": found["run_uuid"]} if "run_uuid" in found else {}) | found


def _runs_mlflow(source: Source) -> list[RunName]:
    """The runs of the database, or the one of a folder."""
    if source.is_store:
        with opened(source.data, source.attached) as tables:
            return _mlflow_runs(tables)
    about = _about(source)
    key = about.get("run_id") or source.path.parent.name
    return [] if about.get("lifecycle_stage") == "deleted" else [RunName(about.get("run_name") or key, key)]


def _from_text(source: Source) -> Parsed:
    """Metrics of a folder, whose lines are "time value step" (and a data set), in the order of their times."""
    lines: list[tuple[float, int, float, str, float]] = []
    params: dict[str, str] = {}
    cut = bad = 0
    for path, data in source.attached.items():
        part, _, name = path.partition("/")
        if part == PARAMS:
            params[name] = data.decode(errors="replace").strip()
            continue
        *whole, rest = data.split(b"\n")
        cut += len(rest)
        for line in whole:
            parts = [*line.split(), b"0"]  # old files have no step: there it is 0
            time = value = step = math.nan
            with suppress(ValueError):
                time, value, step = map(float, parts[:3])
            if len(parts) in (3, 4, 6) and math.isfinite(time) and math.isfinite(step):
                lines.append((time, len(lines), step, _key(name), value))
            else:
                bad += 1
    notes = (f"{counted(bad, 'line')} without time, value and step left out",) if bad else ()
    if not lines:
        text = f"expected a file of lines in {METRICS} next to {MLFLOW_RUN}, found none; pass the run's folder"
        raise LogReadError(text)
    points = [(step, key, value) for _, _, step, key, value in sorted(lines)]
    name = _about(source).get("run_name", "")
    return Parsed(rows_of_points(points), _config(params), notes=(*notes, *Damage(cut).notes()), run_name=name)


def _mlflow_runs(tables: DatabaseTables) -> list[RunName]:
    """Runs that are not deleted and have a metric, the oldest first."""
    logged = {key for (key,) in tables.rows("metrics", ("run_uuid",))}
    stages = tables.rows("runs", ("run_uuid", "name", "lifecycle_stage"))
    alive = [(key, name) for key, name, stage in stages if isinstance(key, str) and stage != "deleted"]
    found = [RunName(str(name or key), key) for key, name in alive if key in logged]
    return _some(found, "runs with metrics in the database of MLflow", tables)


def _some(found: list[RunName], expected: str, tables: DatabaseTables) -> list[RunName]:
    if not found:
        why = "".join(f": {note}" for note in tables.notes)
        raise LogReadError(f"expected {expected}, found none{why}; wait for the first logged row")
    return found


def _key(name: str) -> str:
    return _AT.sub("@", name) if name.startswith(_HELD_OUT) else name


def _config(config: dict[str, Any]) -> dict[str, Any]:
    """Parameters, which are all text, with numbers as numbers."""
    numbers = {key: to_float(value) for key, value in config.items() if isinstance(value, str)}
    return flat_config(config | {key: number for key, number in numbers.items() if math.isfinite(number)})


_TRACKIO_TABLES = {"metrics": ("run_name", "step", "metrics")}


def _read_trackio(source: Source, wanted: str | None) -> Parsed:
    """Rows of one run, with its configuration; its own counter is ``_step``."""
    with opened(source.data, source.attached) as tables:
        chosen = chosen_run(_trackio_runs(tables), wanted)
        ids = "run_id" in tables.columns.get("metrics", ())
        which = {"run_id": chosen.id} if ids else {"run_name": chosen.id}
        unread = 0

        def rows() -> Iterator[dict[str, Any]]:
            nonlocal unread
            for step, encoded in tables.rows("metrics", ("step", "metrics"), **which):
                row = _mapping(encoded)
                unread += row is None
                if row is not None:
                    yield {**row, "_step": step}

        table = Table.from_rows(rows())
        config: dict[str, Any] = {}
        if "configs" in tables.columns:
            where = which if set(which) <= set(tables.columns["configs"]) else {"run_name": chosen.name}
            for (encoded,) in tables.rows("configs", ("config",), **where):
                config |= _mapping(encoded) or {}
        notes = (f"{counted(unread, 'row')} whose metrics are no JSON object left out",) if unread else ()
        return Parsed(table, flat_config(config), notes=(*tables.notes, *notes), run_name=chosen.name)


def _trackio_runs(tables: DatabaseTables) -> list[RunName]:
    """The runs of the project."""
    ids = "run_id" if "run_id" in tables.columns.get("metrics", ()) else "run_name"
    found: dict[str, RunName] = {}
    for name, key in tables.rows("metrics", ("run_name", ids)):
        if isinstance(key, str):
            found.setdefault(key, RunName(str(name), key))
    return _some(list(found.values()), "runs in the database of Trackio", tables)


def _runs_trackio(source: Source) -> list[RunName]:
    with opened(source.data, source.attached) as tables:
        return _trackio_runs(tables)


def _mapping(encoded: Any) -> dict[str, Any] | None:
    """The object in a column, which holds text or bytes."""
    words = encoded.decode("utf-8", errors="replace") if isinstance(encoded, bytes) else str(encoded)
    value = parse_line(words)
    return value if isinstance(value, dict) else None


READERS = (
    Reader("tensorboard", lambda x: Evidence(3) if starts_record(x.data) else None, _read_tensorboard),
    Reader("wandb", lambda x: Evidence(3) if x.data.startswith(WANDB) else None, _read_wandb, _runs_wandb),
    Reader("mlflow", _sniff_mlflow, _read_mlflow, _runs_mlflow, takes_run=True),
    Reader(
        "trackio",
        lambda x: Evidence(3) if has_columns(x.tables, _TRACKIO_TABLES) else None,
        _read_trackio,
        _runs_trackio,
        takes_run=True,
    ),
)
