"""Checks of flags that need no numeric import: a call that cannot work is refused seconds earlier."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from itertools import islice
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import typer

from bayes_grpo.common.errors import FitError, LogReadError, SettingError
from bayes_grpo.common.files import STANDARD_INPUT, file_and_run
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    from bayes_grpo import Run

SIGNAL_CHOICES = ("auto", "reward", "eval")
_MOST_NAMES = 2000
"""Names of a folder among which a similar one is sought."""
_BUILT_IN = Path(__file__).parents[1] / "regimes" / "built_in"
"""One module for each regime, of the regime's name (`bayes_grpo.regimes.registry`)."""


def callback(check: Callable[[Any], object]) -> Callable[..., Any]:
    """A callback of a flag that checks the value given; not while the shell completes words."""

    def checked(context: typer.Context, value: Any) -> Any:
        if value is not None and not context.resilient_parsing:
            check(value)
        return value

    return checked


@cache
def regime_names() -> tuple[str, ...]:
    """Names of all regimes, those of installed packages included, none of which is imported for it."""
    own = sorted(module.name for module in iter_modules([str(_BUILT_IN)]))
    from importlib.metadata import entry_points  # a tenth of the time to the first line of progress

    return (*own, *(entry.name for entry in entry_points(group="bayes_grpo.regimes") if entry.name not in own))


def regimes(value: str) -> None:
    """Refuses names that no regime has."""
    for name in (x.strip() for x in value.split(",")):
        if name and name not in regime_names():
            raise SettingError(
                f"expected one of {', '.join(regime_names())}, found {plain(name, 60)!r}", parameter="regime"
            )


def signal(value: str) -> None:
    """Refuses a signal that there is none of."""
    if value not in SIGNAL_CHOICES:
        raise FitError(f"expected auto, reward or eval, found {plain(value, 60)!r}", parameter="signal")


def check_logs_exist(logs: Iterable[str | Path]) -> None:
    """Refuses logs none of which exists; patterns, addresses and the standard input are read later."""
    paths = [file_and_run(str(x))[0] for x in logs]
    local = [x for x in paths if x != STANDARD_INPUT and not x.startswith("wandb:") and not glob.has_magic(x)]
    if local and len(local) == len(paths) and not any(os.path.lexists(x) for x in local if "\0" not in x):
        raise LogReadError(
            f"{plain(local[0], 200)}: expected a log file, found nothing there; {_hint(Path(local[0]))}check the path"
        )


def horizon(horizon: float | None, run: Run) -> None:
    """Refuses a horizon before the last step of a log."""
    ends = [float(x[-1]) for x in (run.step, run.eval_step) if len(x)]
    if horizon is not None and ends and not horizon > min(ends):  # which of the two signals counts is known later
        raise SettingError(
            f"expected a step after the last logged one ({min(ends):g}), found {horizon:g}; "
            "the horizon lies in the past",
            parameter="horizon",
        )


def _hint(path: Path) -> str:
    """A similar name in the folder of a path, as a question."""
    with suppress(OSError, ValueError):
        some = [x.name for x in islice(path.parent.iterdir(), _MOST_NAMES)]
        found = get_close_matches(path.name, some, 1, 0.75)
        return f"is {plain(found[0], 100)} meant? " if found else ""
    return ""
