"""A store's file with those that belong to it: SQLite read from a private copy, so that its writer never waits.

SQLite itself applies the write-ahead log or takes back an unfinished change, as after a crash. Only plain tables can be
read: views, triggers and functions of a hostile file never run.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.files import folder_for_a_while
from bayes_grpo.common.text import clean

MAGIC = b"SQLite format 3\x00"
ATTACHED = ("-wal", "-journal")
"""Ends of the names of the files that belong to a database while it is written."""
_MAX_SECONDS = 60.0
_OPERATIONS = 10_000
_MAX_VALUE = 1 << 26
_MAX_TABLES = 1_000
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION})


class DatabaseTables:
    """The plain tables of a database, ``columns`` by table; ``notes`` say why not all rows could be read."""

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

        A column that the table lacks is None in every row; ``where`` says which value a column must have.
        """
        known = self.columns.get(table, ())
        shown = ", ".join(_name(c) if c in known else "NULL" for c in columns)
        tests = " AND ".join(f"{_name(c)} = ?" for c in where)
        query = f"SELECT {shown} FROM {_name(table)}{' WHERE ' + tests if tests else ''} ORDER BY rowid"
        try:
            yield from self._connection.execute(query, list(where.values()))
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            self.notes = self.notes or (f"table {clean(table)} is damaged ({clean(error)}); the rest is left out",)


def has_columns(known: Mapping[str, Sequence[str]], wanted: Mapping[str, Sequence[str]]) -> bool:
    """True where there are tables with these columns."""
    return all(set(columns) <= set(known.get(table, ())) for table, columns in wanted.items())


@contextmanager
def opened(data: bytes, attached: Mapping[str, bytes]) -> Iterator[DatabaseTables]:
    """The plain tables of a database, out of its bytes and those of its log of changes (`ATTACHED`)."""
    with folder_for_a_while() as folder:
        path = folder / "store.db"
        path.write_bytes(data)
        for end in attached.keys() & set(ATTACHED):
            path.with_name(path.name + end).write_bytes(attached[end])
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("PRAGMA query_only = ON")
            connection.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
            late = time.monotonic() + _MAX_SECONDS
            connection.set_progress_handler(lambda: int(time.monotonic() > late), _OPERATIONS)
            connection.set_authorizer(_only_reads)
            yield DatabaseTables(connection)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise LogReadError(
                f"expected an SQLite database of a store, found one that cannot be read ({clean(error)}); copy it "
                f"again while nothing writes to it"
            ) from None
        finally:
            connection.close()


def _only_reads(action: int, first: str | None, second: str | None, base: str | None, via: str | None) -> int:
    """Allows reading tables; a statement that a view or a trigger runs has the name of that in ``via``."""
    shape = action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
    return sqlite3.SQLITE_OK if via is None and (action in _ALLOWED or shape) else sqlite3.SQLITE_DENY


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


MLFLOW_RUN = "meta.yaml"
"""File that describes a run of MLflow's text store, next to folders with a file for each metric and parameter."""
METRICS, PARAMS = "metrics", "params"
_MAX_FILES = 20_000
_MAX_DEPTH = 6
_MAX_SMALL = 1 << 24
_ATTEMPTS = 5
_PAUSE = 0.05


def with_attached(path: Path) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of a file and those of files that belong to it.

    Of a database these are its unfinished changes by the end of their name in `ATTACHED`, all of one moment, as far as
    a writer leaves one between two readings; of a run's description in MLflow's text store metrics and parameters.
    """
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        return data, dict(_texts_of(path.parent)) if path.name == MLFLOW_RUN else {}
    others = {end: path.with_name(path.name + end) for end in ATTACHED}
    attached: dict[str, bytes] = {}
    for attempt in range(_ATTEMPTS):
        time.sleep(_PAUSE * attempt)
        before = [_state(p) for p in (path, *others.values())]
        data = path.read_bytes()
        attached = {end: content for end, other in others.items() if (content := bytes_of(other))}
        if before == [_state(p) for p in (path, *others.values())]:
            break
    return data, attached


def _texts_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of metrics and parameters in the folder of a run, by their names in it."""
    left = _MAX_FILES
    for part in (METRICS, PARAMS):
        for directory, folders, names in (folder / part).walk():
            folders[:] = sorted(folders) if len(directory.relative_to(folder).parts) <= _MAX_DEPTH else []
            for file in (directory / name for name in sorted(names)[:left]):
                left -= 1
                if file.is_file() and not file.is_symlink() and (_state(file) or (0, 0))[1] <= _MAX_SMALL:
                    yield file.relative_to(folder).as_posix(), bytes_of(file)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def bytes_of(path: Path, size: int = -1) -> bytes:
    """The bytes of a file, or its first ones; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""
