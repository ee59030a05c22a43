"""Calls that cannot work, refused before anything numeric is imported: seconds earlier, in the same words."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import bayes_grpo as bg
from bayes_grpo.common.errors import FitError, LogReadError, SettingError
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    from bayes_grpo import Run

SIGNAL_WORDS = ("auto", "reward", "eval")
_NEAR_MOST = 2000
"""Names of a folder among which a near one is sought."""
_LOGS = ("log", "logs", "a", "b")
_BUILT_IN = Path(__file__).parents[1] / "regimes" / "built_in"
"""A module a law, of the law's name (`bayes_grpo.regimes.registry`)."""


@cache
def regime_names() -> tuple[str, ...]:
    """Names of all laws, those of installed packages included, none of which is imported for it."""
    own = sorted(module.name for module in iter_modules([str(_BUILT_IN)]))
    return (*own, *(entry.name for entry in entry_points(group="bayes_grpo.regimes") if entry.name not in own))


def refuse(given: Mapping[str, Any], waits: bool = False) -> None:
    """Refuses what the words of a call rule out by themselves.

    Args:
        given: Parameter of the command → its value.
        waits: Whether the command waits for a log that is not there yet.

    Raises:
        BayesGrpoError: A value that no log could make right, or none of the logs is there.
    """
    for name, check in _CHECKS.items():
        if given.get(name) is not None:
            check(given[name])
    if not waits:
        _nothing_there([str(x) for name in _LOGS for x in _listed(given.get(name))])


def refuse_past(until: float | None, run: Run) -> None:
    """Refuses a horizon that lies behind the last step of a log.

    Raises:
        SettingError: It does.
    """
    ends = [float(x[-1]) for x in (run.step, run.eval_step) if len(x)]
    if until is not None and ends and not until > min(ends):  # which of the two signals counts is known later
        raise SettingError(
            f"until: expected a step after the last logged one ({min(ends):g}), found {until:g}; the horizon lies in "
            f"the past"
        )


def _signal(value: str) -> None:
    if value not in SIGNAL_WORDS:
        raise FitError(f"signal: expected auto, reward or eval, found {plain(value, 60)!r}")


def _regimes(value: str) -> None:
    for name in (x.strip() for x in value.split(",")):
        if name and name not in regime_names():
            raise SettingError(f"regime: expected one of {', '.join(regime_names())}, found {plain(name, 60)!r}")


_CHECKS: Mapping[str, Callable[[str], None]] = {
    "signal": _signal,
    "regime": _regimes,
    "regimes": _regimes,
    "forecast_regimes": _regimes,
    "log_to_": lambda value: bg.check_tracker(value),
}


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else ()


def _nothing_there(paths: list[str]) -> None:
    sought = [x for x in paths if not x.startswith("wandb:") and not glob.has_magic(x)]
    if sought and len(sought) == len(paths) and not any(os.path.lexists(x) for x in sought if "\0" not in x):
        raise LogReadError(
            f"{plain(sought[0], 200)}: expected a log file, found nothing there; {_near(Path(sought[0]))}check the path"
        )


def _near(path: Path) -> str:
    """A name beside a path that reads like it, as a question."""
    with suppress(OSError, ValueError):
        some = [x.name for x in islice(path.parent.iterdir(), _NEAR_MOST)]
        found = get_close_matches(path.name, some, 1, 0.75)
        return f"is {plain(found[0], 100)} meant? " if found else ""
    return ""
