"""Progress of long computations."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from bayes_grpo.common.text import plain

Progress = Callable[[str], None]
"""Called with a short phrase at the start of every stage."""


def teller(progress: Callable[..., None] | None) -> Callable[..., None]:
    """The progress callback: the given one, else a line below the cell in a notebook, else a no-op."""
    if progress is not None:
        return progress
    return Line() if in_notebook() else lambda *_: None


def in_notebook() -> bool:
    """Whether this session shows its output in a notebook. Imports nothing."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Line:
    """One line on standard error that every stage overwrites."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._width = 0

    def __call__(self, stage: str, share: float | None = None) -> None:
        """Shows a stage, the share of the work that is done where it is known, and the seconds so far."""
        done = "" if share is None else f"{share:.0%} "
        text = f"{done}{plain(stage, 100)} ({time.monotonic() - self._begin:.0f} s)"
        self._width = max(self._width, len(text))
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
