"""Progress of long computations."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""Called with a short phrase at the start of every stage."""
StageProgress = Callable[..., None]
"""Called with a short phrase, and the share of the work that is done where that is known."""


def or_silent(progress: Callable[..., None] | None) -> Callable[..., None]:
    """The progress callback: the given one, else one that does nothing."""
    return progress or (lambda *_: None)
