"""A store's file with those that belong to it: SQLite read from a private copy, settings in YAML, folders of MLflow.

The writer of a database never waits, and its log of changes is not lost: SQLite itself opens the copy, which
applies the write-ahead log or takes back an unfinished change, as after a crash. Only plain tables can be read: views,
triggers and functions of a hostile file never run.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.files import folder_for_a_while
from bayes_grpo.common.text import clean

_MAX_CHARACTERS = 200_000


class _Loader(yaml.SafeLoader):
    """Builds plain values, and none of them twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node that is written out; a reference to another one could hold itself, or grow without bound."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a reference")
        return super().compose_node(parent, index)


def settings_in(text: str) -> dict[str, Any]:
    """The mapping in a text; empty where there is none."""
    if len(text) > _MAX_CHARACTERS:
        return {}
    try:
        found = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
        return {}
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


MAGIC = b"SQLite format 3\x00"
BESIDE = ("-wal", "-journal")
"""Ends of the names of the files that belong to a database while it is written."""

_MAX_SECONDS = 60.0
_OPERATIONS = 10_000
_MAX_VALUE = 1 << 26
_MAX_TABLES = 1_000
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION})


class DatabaseTables:
    """The plain tables of a database.

    Attributes:
        columns: Table → names of its stored columns.
        notes: Why not all rows of a table could be read; empty where they could.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.notes: tuple[str, ...] = ()
        # A virtual table has no page of its own.
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
        names = [name for (name,) in found if isinstance(name, str)]
        self.columns: dict[str, tuple[str, ...]] = {}
        for name in names[:_MAX_TABLES]:
            # A column that is computed calls functions; only those that are stored are known (the last entry is 0).
            shape = connection.execute(f"PRAGMA table_xinfo({_name(name)})")
            self.columns[name] = tuple(str(column[1]) for column in shape if not column[-1])

    def rows(self, table: str, columns: Sequence[str], **where: Any) -> Iterator[tuple[Any, ...]]:
        """Rows of a table in the order in which they were written; the rest is left out where the file is damaged.

        Args:
            table: Name of the table.
            columns: Names of columns; one that the table lacks is None in every row.
            **where: Column → value that it must have.
        """
        known = self.columns.get(table, ())
        shown = ", ".join(_name(c) if c in known else "NULL" for c in columns)
        tests = " AND ".join(f"{_name(c)} = ?" for c in where)
        query = f"SELECT {shown} FROM {_name(table)}{' WHERE ' + tests if tests else ''} ORDER BY rowid"
        try:
            yield from self._connection.execute(query, list(where.values()))
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            self.notes = self.notes or (f"table {clean(table)} is damaged ({clean(error)}); the rest is left out",)


def columns_in(data: bytes, attached: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Table → names of its columns, of a database; nothing where it cannot be read."""
    try:
        with opened(data, attached) as tables:
            return tables.columns
    except LogReadError:
        return {}


def has_columns(known: Mapping[str, Sequence[str]], wanted: Mapping[str, Sequence[str]]) -> bool:
    """Whether tables with these columns are there."""
    return all(set(columns) <= set(known.get(table, ())) for table, columns in wanted.items())


@contextmanager
def opened(data: bytes, attached: Mapping[str, bytes]) -> Iterator[DatabaseTables]:
    """The tables of a database.

    Args:
        data: The database's file.
        attached: End of a name in `BESIDE` → the bytes of that file.

    Raises:
        LogReadError: The file is no database that can be read.
    """
    with folder_for_a_while() as folder:
        path = folder / "store.db"
        path.write_bytes(data)
        for end, content in attached.items():
            if end in BESIDE:
                path.with_name(path.name + end).write_bytes(content)
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            yield DatabaseTables(_guarded(connection))
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise LogReadError(
                f"expected an SQLite database of a store, found one that cannot be read ({clean(error)}); copy it "
                f"again while nothing writes to it"
            ) from None
        finally:
            connection.close()


def _guarded(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA query_only = ON")
    connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    late = time.monotonic() + _MAX_SECONDS
    connection.set_progress_handler(lambda: int(time.monotonic() > late), _OPERATIONS)
    connection.set_authorizer(_only_reads)
    return connection


def _only_reads(action: int, first: str | None, second: str | None, base: str | None, via: str | None) -> int:
    """Allows reading tables; a statement that a view or a trigger runs has the name of that in ``via``."""
    shape = action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
    return sqlite3.SQLITE_OK if via is None and (action in _ALLOWED or shape) else sqlite3.SQLITE_DENY


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


MLFLOW_RUN = "meta.yaml"
"""File that makes a folder a run of MLflow's text store, where its folder has a folder `METRICS`."""
METRICS, PARAMS = "metrics", "params"
SWANLAB_CONFIG = "config.yaml"

_ATTEMPTS = 5
_PAUSE = 0.05
_MAX_FILES = 20_000
_MAX_SMALL = 1 << 24
_MAX_DEPTH = 6


def files_beside(path: Path) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of a file, and name → bytes of those that belong to it.

    Raises:
        OSError: The file cannot be read.
    """
    data = path.read_bytes()
    if data.startswith(MAGIC):
        return _database(path)
    if data.startswith(b":SWL"):
        return data, _small({SWANLAB_CONFIG: path.parent / "files" / SWANLAB_CONFIG})
    if path.name == MLFLOW_RUN and (path.parent / METRICS).is_dir():
        return data, _small(_run_of_text_files(path.parent))
    return data, {}


def _database(path: Path) -> tuple[bytes, dict[str, bytes]]:
    """A database and its unfinished changes of one moment, as far as a writer leaves one between two readings."""
    others = {end: path.with_name(path.name + end) for end in BESIDE}
    attempt = 0
    while True:
        before = [_state(p) for p in (path, *others.values())]
        data = path.read_bytes()
        attached = {end: content for end, content in _small(others, math.inf).items() if content}
        attempt += 1
        if attempt == _ATTEMPTS or before == [_state(p) for p in (path, *others.values())]:
            return data, attached
        time.sleep(_PAUSE * attempt)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _run_of_text_files(folder: Path) -> dict[str, Path]:
    """The files of metrics and parameters of a run, by their names in its folder."""
    found: dict[str, Path] = {}
    for part in (METRICS, PARAMS):
        for directory, folders, names in (folder / part).walk(follow_symlinks=False):
            below = directory.relative_to(folder)
            if len(below.parts) > _MAX_DEPTH:
                folders.clear()
            found |= {(below / name).as_posix(): directory / name for name in sorted(names)}
            if len(found) > _MAX_FILES:
                break
    return found


def _small(paths: dict[str, Path], largest: float = _MAX_SMALL) -> dict[str, bytes]:
    """Files that are there and not larger than those of settings and metrics are."""
    found = {}
    for name, path in paths.items():
        try:
            if path.is_file() and path.stat().st_size <= largest:
                found[name] = path.read_bytes()
        except OSError:
            continue
    return found
