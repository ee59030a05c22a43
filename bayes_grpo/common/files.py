"""Writing files whole or not at all, and taking back what is under way where a process ends in its midst."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayes_grpo.common.errors import OutputError

STANDARD_INPUT = "-"
"""How a command names what is piped or pasted into it in place of a file."""
RUN_MARK = "#"
"""Separator between a file and the name of one of the runs in it."""
PICTURES = (".png", ".pdf", ".svg")
"""Suffixes of pictures."""


def file_and_run(name: str) -> tuple[str, str]:
    """File and run of a name such as ``metrics.csv#seed 2``; the name itself and "" where it is that of a file alone.

    A mark counts where nothing is there by the whole name, and something by what stands before the mark.
    """
    if "\0" in name or os.path.lexists(name):
        return name, ""
    marks = (i for i, sign in enumerate(name) if sign == RUN_MARK and os.path.lexists(name[:i]))
    place = next(marks, len(name))
    return name[:place], name[place + 1 :]


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path next to ``path`` and moves it into place once the block succeeds.

    An existing file is replaced, and stays unchanged if the block fails.

    Raises:
        OutputError: The path is not writable.
    """
    target = Path(path)
    temporary = _temporary_file(target)
    with undo_on_exit(lambda: temporary.unlink(missing_ok=True)):
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
        except OSError as error:
            why = error.strerror or error
            raise OutputError(f"{target}: cannot write there ({why}); choose another place") from error
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def folder_for_a_while() -> Iterator[Path]:
    """An empty folder that is gone after the block, however that ends."""
    folder = tempfile.TemporaryDirectory(prefix="bayes_grpo_")
    with folder as name, undo_on_exit(lambda: shutil.rmtree(name, ignore_errors=True)):
        yield Path(name)


def check_writable(path: str | Path) -> None:
    """Raises `OutputError` now if ``path`` could not be written later, before minutes of work."""
    _temporary_file(Path(path)).unlink(missing_ok=True)


def _temporary_file(target: Path) -> Path:
    """An empty temporary file next to a path; an error where nothing can be written there."""
    if target.is_dir():
        raise OutputError(f"{target}: expected a file to write, found a directory; give a file name")
    if not target.parent.is_dir():
        raise OutputError(f"{target}: its directory {target.parent} does not exist; make it or choose another place")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem[:40]}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"{target}: cannot write there ({error.strerror}); choose another place") from error
    return Path(name)


def check_picture(path: str | Path) -> None:
    """Raises `OutputError` unless the file name ends like a picture's that matplotlib writes."""
    suffix = Path(path).suffix.lower()
    if suffix not in PICTURES:
        raise OutputError(
            f"{path}: expected a picture file name ending in {', '.join(PICTURES)}, found {suffix or 'no suffix'!r}"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_UNDER_WAY: dict[object, Callable[[], object]] = {}


@contextmanager
def undo_on_exit(undo: Callable[[], object]) -> Iterator[None]:
    """Within the block, an end of the process that leaves no block calls a function; it may be called twice."""
    mine = object()
    _UNDER_WAY[mine] = undo
    try:
        yield
    finally:
        _UNDER_WAY.pop(mine, None)


def undo_all() -> None:
    """Takes back all that is under way in this process, the latest first. Only for one that ends right after.

    A block that is left by an error undoes its own work. A command line that is interrupted ends at once, whatever its
    threads are doing, and no block is left then.
    """
    for undo in reversed(list(_UNDER_WAY.values())):
        with suppress(Exception):
            undo()
