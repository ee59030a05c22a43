"""Outputs of commands: JSON, the terminal, a line of progress, exit codes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from bayes_grpo.common.text import plain

SCHEMA = 1
"""Version of what ``--json`` prints; docs/how/json.md says what it promises."""

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
"""Switch: this call of the program shows no progress."""
_PAUSE = 10.0
"""Seconds between lines of progress where standard error is no terminal."""


def print_json(value: Mapping[str, Any], headline: str) -> None:
    """Writes JSON to standard output under a headline in one sentence; numbers that are not finite are null."""
    from bayes_grpo.common.results import json_safe  # NumPy, after the first line of progress

    json.dump(json_safe(marked(value, headline)), sys.stdout, allow_nan=False, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def marked(value: Mapping[str, Any], headline: str) -> dict[str, Any]:
    """A result with the version of the schema and its headline first."""
    return {"schema": SCHEMA, "headline": headline, **value}


def console() -> Any:
    """Where tables go."""
    from rich.console import Console

    # Piped output keeps the table's full width instead of wrapping at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


@contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """One line on standard error: the stage, a bar, the time; where that is no terminal, a line now and then.

    Gives the function to call with the stage, and with the share of the work that is done where that is known; with
    ``first`` also the first line of the answer, which stays above the stage. With ``--quiet`` nothing is shown.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    shown = console.is_terminal and not QUIET.get()
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        begin = shown_at = time.monotonic()
        task = bar.add_task("starting", total=None)
        answer = ""

        def report(stage: str, share: float | None = None, *, first: str = "") -> None:
            nonlocal answer, shown_at
            if first:
                answer = f"{plain(first, 300)}\n"
                bar.update(task, description=answer, refresh=True)
                if not console.is_terminal and not QUIET.get():
                    sys.stderr.write(f"bayes-grpo: {answer}")
                    sys.stderr.flush()
            bar.update(task, description=f"{answer}{stage}")
            if share is not None:
                bar.update(task, total=1.0, completed=share)
            now = time.monotonic()
            if not console.is_terminal and not QUIET.get() and now - shown_at >= _PAUSE:
                shown_at = now
                sys.stderr.write(f"bayes-grpo: {plain(stage, 100)} ({now - begin:.0f} s)\n")
                sys.stderr.flush()

        yield report


EXIT_USAGE, EXIT_INPUT, EXIT_NOT_CONVERGED, EXIT_FAILING, EXIT_INTERRUPTED, EXIT_ENDED = 2, 3, 4, 5, 130, 143
"""Exit codes; `bayes_grpo.cli.app` says when each is used. The last two are those of `bayes_grpo.cli.signals`."""
