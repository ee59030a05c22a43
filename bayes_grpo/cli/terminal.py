"""What reaches the user's terminal: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Writes JSON to standard output; numbers that are not finite are an error, not a literal."""
    json.dump(value, sys.stdout, allow_nan=False, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def console() -> Any:
    """Where tables go."""
    from rich.console import Console

    # Piped output keeps the table's full width instead of wrapping at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


class progress:  # noqa: N801  (used like a function)
    """One line on standard error: a spinner, the stage, the time; nothing where that is no terminal.

    Args:
        left: Whether the time that is left is shown, where the share of the work that is done is told.
    """

    def __init__(self, left: bool = False) -> None:
        self._left = left

    def __enter__(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            *([TextColumn("left"), TimeRemainingColumn()] if self._left else []),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar.start()
        task = self._bar.add_task("starting", total=None)

        def tell(stage: str, share: float | None = None) -> None:
            """Names the stage; with the share of the work that is done, the bar shows it."""
            self._bar.update(task, description=stage)
            if share is not None:
                self._bar.update(task, total=1.0, completed=share)

        return tell

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
