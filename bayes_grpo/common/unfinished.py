"""What is under way and has to be undone where a process ends in its midst: half-written files, folders, children.

A block that is left by an error undoes its own work. A command line that is interrupted ends at once, whatever its
threads are doing, and no block is left then; it asks for `undo_all` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_UNDER_WAY: dict[object, Callable[[], object]] = {}


@contextmanager
def undone_at_an_end(undo: Callable[[], object]) -> Iterator[None]:
    """Within the block, an end of the process that leaves no block calls a function; it may be called twice.

    Args:
        undo: What takes back the work of the block.
    """
    mine = object()
    _UNDER_WAY[mine] = undo
    try:
        yield
    finally:
        _UNDER_WAY.pop(mine, None)


def undo_all() -> None:
    """Takes back all that is under way in this process, the latest first. Only for one that ends right after."""
    for undo in reversed(list(_UNDER_WAY.values())):
        with suppress(Exception):
            undo()
