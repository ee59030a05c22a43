"""MLflow's database and its text store (``mlruns/EXPERIMENT/RUN``), and projects of Trackio."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import counted
from bayes_grpo.logs.formats import Evidence, Parsed, Reader, RunName, Source, chosen_run
from bayes_grpo.logs.options import flat_config
from bayes_grpo.logs.readers.event_files import rows_of_points
from bayes_grpo.logs.readers.json_text import parse_line
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.stores.files import METRICS, MLFLOW_RUN, PARAMS, DatabaseTables, has_columns, opened
from bayes_grpo.stores.records import Damage

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
    """What a description says: id and name of the run, whether it is deleted; nested values are left out."""
    pairs = (line.partition(":") for line in source.head.splitlines())
    found = {key: value.strip().strip("'\"") for key, _, value in pairs}
    return ({"run_id": found["run_uuid"]} if "run_uuid" in found else {}) | found


def _runs_mlflow(source: Source) -> list[RunName]:
    """The runs of the database, or the one of a folder."""
    if source.is_store:
        return _in_database(source, _mlflow_runs)
    about = _about(source)
    key = about.get("run_id") or source.path.parent.name
    return [] if about.get("lifecycle_stage") == "deleted" else [RunName(about.get("run_name") or key, key)]


def _from_text(source: Source) -> Parsed:
    """Metrics of a folder, whose lines are "time value step" (and a data set), in the order of their times."""
    texts = {name.partition("/"): data for name, data in source.attached.items()}
    lines: list[tuple[float, int, float, str, float]] = []
    cut = bad = 0
    for key, data in ((_key(name), data) for (part, _, name), data in texts.items() if part == METRICS):
        *whole, rest = data.split(b"\n")
        cut += len(rest)
        for line in whole:
            point = _point(line)
            bad += point is None
            if point is not None:
                lines.append((point[0], len(lines), point[1], key, point[2]))
    params = {name: data.decode(errors="replace").strip() for (part, _, name), data in texts.items() if part == PARAMS}
    notes = (f"{counted(bad, 'line')} without time, value and step left out",) if bad else ()
    notes += Damage(cut).notes()
    if not lines:
        raise LogReadError(
            f"expected a file of lines in {METRICS} next to {MLFLOW_RUN}, found none; pass the run's folder"
        )
    points = [(step, key, value) for _, _, step, key, value in sorted(lines)]
    name = _about(source).get("run_name", "")
    return Parsed(rows_of_points(points), _config(params), notes=notes, run_name=name)


def _point(line: bytes) -> tuple[float, float, float] | None:
    """Time, step and value of a line; None where it is none. Old files have no step: there it is 0."""
    parts = [*line.split(), b"0"]
    if len(parts) not in (3, 4, 6):
        return None
    try:
        time, value, step = map(float, parts[:3])
    except ValueError:
        return None
    return (time, step, value) if math.isfinite(time) and math.isfinite(step) else None


def _in_database(source: Source, runs: Callable[[DatabaseTables], list[RunName]]) -> list[RunName]:
    with opened(source.data, source.attached) as tables:
        return runs(tables)


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
            own = which if set(which) <= set(tables.columns["configs"]) else {"run_name": chosen.name}
            for (encoded,) in tables.rows("configs", ("config",), **own):
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


def _mapping(encoded: Any) -> dict[str, Any] | None:
    """The object in a column, which holds text or bytes."""
    if isinstance(encoded, bytes):
        encoded = encoded.decode("utf-8", errors="replace")
    value = parse_line(encoded) if isinstance(encoded, str) else None
    return value if isinstance(value, dict) else None


READERS = (
    Reader("mlflow", _sniff_mlflow, _read_mlflow, _runs_mlflow, takes_run=True),
    Reader(
        "trackio",
        lambda x: Evidence(3) if has_columns(x.tables, _TRACKIO_TABLES) else None,
        _read_trackio,
        lambda x: _in_database(x, _trackio_runs),
        takes_run=True,
    ),
)
