"""Progress of long computations."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with a short phrase at the start of every stage."""


def or_silent(progress: Callable[..., None] | None) -> Callable[..., None]:
    """The progress callback: the given one, else one that does nothing."""
    return progress or (lambda *_: None)
