"""Settings that a user states: what each may be, and the file of settings in the folder of a log."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.run import SIGNALS, Provenance, Setting

CANONICAL_COLUMNS = ("step", "reward", "heldout", *SIGNALS)
"""Canonical names of columns that a user can name."""
SIDECAR_NAME = "bayes_grpo.toml"
"""File in the folder of a log whose ``[settings]`` table is read with it."""

_MAX_SIDECAR_BYTES = 1_000_000

OptionCheck = tuple[str, Callable[[Any], Any]]
"""What is expected, in words, and a function that returns the value or raises ValueError."""


def _number(expected: str, fits: Callable[[float], bool] = math.isfinite, kind: type = float) -> OptionCheck:
    def check(value: Any) -> float:
        is_text = isinstance(value, str) and len(value) <= 64
        if isinstance(value, bool) or not (is_text or isinstance(value, int | float)):
            raise ValueError
        number = float(value)
        if not (math.isfinite(number) and fits(number) and number == kind(number)):
            raise ValueError
        return kind(number)

    return expected, check


def _one_of(*names: str) -> OptionCheck:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value.strip().lower() not in names:
            raise ValueError
        return value.strip().lower()

    return f"one of {', '.join(names)}", check


_ABOVE_0 = _number("a number above 0", lambda x: x > 0)
_NOT_NEGATIVE = _number("a number of at least 0", lambda x: x >= 0)
_STEPS = _number("a number of steps above 0", lambda x: x > 0)
_FINITE = _number("a finite number")

CHECKS: Mapping[str, OptionCheck] = {
    "group_size": _number("a whole number of at least 1", lambda x: x >= 1, int),
    "prompts_per_step": _ABOVE_0,
    "momentum": _number("a number in [0, 1)", lambda x: 0 <= x < 1),
    "momentum_convention": _one_of("heavy_ball", "ema"),
    "refresh_interval": _STEPS,
    "schedule": _one_of("logged", "constant", "linear", "cosine"),
    "total_steps": _STEPS,
    "logging_window": _STEPS,
    "reward_low": _FINITE,
    "reward_high": _FINITE,
    "reward_std_kind": _one_of("within", "total", "unknown"),
    "learning_rate": _ABOVE_0,
    "epochs": _ABOVE_0,
    "kl_weight": _NOT_NEGATIVE,
    "clip_range": _ABOVE_0,
    "model_size": _ABOVE_0,
    "save_steps": _number("a number of steps of at least 1", lambda x: x >= 1),
    "advantage_scaling": _one_of("group", "batch", "none", "gdpo"),
    "group_filter": _one_of("none", "before", "after"),
    "entropy_weight": _NOT_NEGATIVE,
}
"""Setting → what it may be."""


def checked(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Settings with their types put right, None left out; numbers may be text. ``where`` they are from is for messages.

    Raises:
        SettingError: A name is unknown or a value is outside its meaning.
    """
    result = {}
    for name, value in values.items():
        if name not in CHECKS:
            raise SettingError(
                f"{where}: expected a setting among {', '.join(CHECKS)}, found {clean(name)!r}; correct its name"
            )
        if value is None:
            continue
        expected, check = CHECKS[name]
        try:
            result[name] = check(value)
        except (ValueError, OverflowError):
            raise SettingError(
                f"{where}: expected {name} to be {expected}, found {_quoted(value)}; correct it or leave it out"
            ) from None
    low, high = result.get("reward_low"), result.get("reward_high")
    if low is not None and high is not None and low >= high:
        raise SettingError(f"{where}: expected reward_low below reward_high, found {low:g} and {high:g}; correct them")
    return result


class Sidecar(NamedTuple):
    """What a file of settings says of a log: settings, and canonical name → key of the log."""

    settings: Mapping[str, Setting] = MappingProxyType({})
    columns: Mapping[str, str] = MappingProxyType({})


def read_sidecar(log: Path) -> Sidecar:
    """What the file of settings next to a log says of it: ``[settings]``, ``[runs.NAME]`` and ``[columns]``."""
    path, content = _sidecar_of(log)
    where, runs = clean(path, 200), content.get("runs", {})
    tables = {"settings": content.get("settings", {}), "runs": runs}
    if isinstance(runs, dict) and runs:
        _check_names(runs, log, path)
        tables |= {f"runs.{name}": runs[name] for name in (log.name, log.stem) if name in runs}
    settings: dict[str, Setting] = {}
    for title, table in tables.items():
        if not isinstance(table, dict):
            raise SettingError(
                f"{where}: expected a table [{clean(title)}], found {type(table).__name__}; write 'name = value' lines"
            )
        if title != "runs":
            note = f"from {clean(path.name)}"
            settings |= {k: Setting(v, Provenance.CONFIG, note) for k, v in checked(table, where).items()}
    return Sidecar(settings, checked_columns(content.get("columns", {}), f"{where}: [columns]"))


def _check_names(runs: Iterable[str], log: Path, path: Path) -> None:
    """An error where settings are those of a run that is not in the folder."""
    files = {log, *path.parent.iterdir()} - {path}
    if unknown := sorted({*runs} - {name for file in files for name in (file.name, file.stem)}):
        raise SettingError(
            f"{clean(path, 200)}: expected [runs.NAME] with the name of a log in its folder, found "
            f"{listed(unknown, 4)} among {listed(sorted(file.name for file in files), 6)}; correct or remove it"
        )


def sidecar_reference_runs(log: str | Path) -> list[str]:
    """Where the reference runs of a log are: ``reference_runs = ["runs/"]`` of the file of settings next to it."""
    path, content = _sidecar_of(Path(log))
    like = content.get("reference_runs", [])
    named = [like] if isinstance(like, str) else like
    if not (isinstance(named, list) and all(isinstance(x, str) and x for x in named)):
        raise SettingError(
            f'{clean(path, 200)}: expected reference_runs = ["runs/"], paths of logs, found {_quoted(like)}'
        )
    return [str(path.parent / x) for x in named]


def checked_columns(columns: Any, where: str) -> dict[str, str]:
    """Columns that a user named, by canonical name."""
    if not isinstance(columns, Mapping):
        raise SettingError(f"{where}: expected name = key lines, found {type(columns).__name__}; correct it")
    for name, key in columns.items():
        if name not in CANONICAL_COLUMNS:
            raise SettingError(
                f"{where}: expected a column among {', '.join(CANONICAL_COLUMNS)}, found {clean(name)!r}; correct it"
            )
        if not isinstance(key, str) or not key:
            raise SettingError(f"{where}: expected a key of the log for {name}, found {_quoted(key)}; correct it")
    return dict(columns)


def _sidecar_of(log: Path) -> tuple[Path, dict[str, Any]]:
    """The file of settings in the folder of a log, or in the log that is a folder, and what it holds."""
    try:
        path = (log if log.is_dir() else log.parent) / SIDECAR_NAME
        if not path.is_file():
            return path, {}
    except (OSError, ValueError):  # a path that no system call takes; reading the log reports it
        return log, {}
    where = clean(path, 200)
    try:
        data = path.read_bytes()
        if len(data) > _MAX_SIDECAR_BYTES:
            raise SettingError(f"{where}: expected a small settings file, found {len(data)} bytes; check the path")
        return path, tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise SettingError(f"{where}: expected a settings file, cannot read it ({error.strerror}); check it") from None
    except (ValueError, RecursionError) as error:
        raise SettingError(f"{where}: expected TOML, found something else ({clean(error)}); correct the file") from None


def _quoted(value: Any) -> str:
    """A value as a message shows it; even a number too long to print."""
    try:
        return clean(repr(value))
    except (ValueError, RecursionError):
        return f"a huge {type(value).__name__}"
