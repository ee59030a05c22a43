"""Which of several runs is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean, listed


def chosen_run(runs: Sequence[Any], wanted: str | None) -> int:
    """Which run is meant: the only one, or the one whose name or id is or begins with a text.

    Args:
        runs: Runs with a name, which others may share, and an id, which they may not.
        wanted: The text; None for the only one.

    Returns:
        Its place in ``runs``.

    Raises:
        LogReadError: None or several are meant.
    """
    if wanted is None:
        if len(runs) == 1:
            return 0
        raise LogReadError(f"expected one run, found {len(runs)}: {listed_runs(runs)}; choose with --run NAME")
    tests = (
        lambda r: r.id == wanted,
        lambda r: r.name == wanted,
        lambda r: r.id.startswith(wanted) or r.name.startswith(wanted),
    )
    for test in tests:
        fitting = [i for i, run in enumerate(runs) if test(run)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise LogReadError(
                f"expected one run, found {len(fitting)} called {clean(wanted)!r}: "
                f"{listed_runs([runs[i] for i in fitting])}; choose with --run and more of its name or id"
            )
    raise LogReadError(f"expected a run among {listed_runs(runs)}, found {clean(wanted)!r}; correct --run")


def listed_runs(runs: Sequence[Any]) -> str:
    """Runs by name, each with its id where that says more."""
    return listed(r.name if r.name == r.id or not r.id else f"{r.name} ({r.id})" for r in runs)
