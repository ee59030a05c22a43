"""Runs of a sweep and their settings, those in names of files included."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, FitError, LogReadError, SettingError
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.logs.options import CONFIG_KEYS
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.references.gather import RunSources, incomparable_reason, named_runs
from bayes_grpo.regimes.built_in.exponential import Exponential
from bayes_grpo.rows.rows_of import MAX_ROWS_OF_SEVERAL, rows_of
from bayes_grpo.rows.schedule import logged_rate
from bayes_grpo.rows.series import Series

_WORDS = {word: name for name, words in CONFIG_KEYS.items() for word in words if "steps" not in word} | {
    "g": "group_size", "beta": "kl_weight", "kl": "kl_weight", "epsilon": "clip_range", "eps": "clip_range",
    "clip": "clip_range", "mu": "epochs", "epochs": "epochs", "rank": "lora_rank", "lora_rank": "lora_rank",
    "lora_r": "lora_rank", "lora_alpha": "lora_alpha", "temperature": "temperature", "temp": "temperature",
}  # fmt: skip
"""Word in a name → setting. A word alone, such as that of a model, is none."""
_SETTING = re.compile(
    rf"(?<![a-z])({'|'.join(sorted(_WORDS, key=len, reverse=True))})[_\-= ]?"
    r"(\d+(?:\.\d+)?(?:e[-+m]?\d+)?)(?![a-z\d]|\.\d)",
    re.IGNORECASE,
)
_RATE_ALONE = re.compile(r"(?<![a-z\d.])(?:\d+(?:\.\d+)?e-\d+|\d+(?:p\d+)?em\d+)(?![a-z\d]|\.\d)", re.IGNORECASE)
"""A number of no word that only a learning rate is written as: 5e-06, 5em06."""
SEED = re.compile(r"(?<![a-z])(seed|run|rep|repeat|repetition|s)[\W_]?\d+(?![.\w])", re.IGNORECASE)
"""Part of a name that numbers repetitions; any other number may be a setting."""


@dataclass(frozen=True)
class NamedSetting(Result):
    """A setting that names of files state.

    Attributes:
        setting: Its name.
        values: Name of a run → the value that it states.
        others: Number of runs that state none.
        assumed: Value of these, the geometric mean of the known ones; None where all runs have one.
    """

    setting: str
    values: Mapping[str, float]
    others: int
    assumed: float | None

    provenance = "file name"
    also_in_json = ("provenance",)

    @property
    def sentence(self) -> str:
        """Which values the names state."""
        return f"{self.setting} {', '.join(f'{x:g}' for x in sorted(set(self.values.values())))}"


def settings_in_name(name: str) -> dict[str, float]:
    """Settings that a run's name states; a minus sign of an exponent may be missing, or an m: lr5em06, lr5e6."""
    out = {}
    rest = _SETTING.sub(" ", name)
    bare = {_number(text) for text in _RATE_ALONE.findall(rest)}
    if len(bare) == 1:
        out["learning_rate"] = bare.pop()
    for word, number in _SETTING.findall(name):
        setting = _WORDS[word.lower()]
        value = _number(number)
        if setting == "learning_rate" and value >= 1.0:  # a sign is often left out of a file's name
            value = float(number.lower().replace("e", "e-"))
        if value > 0.0:
            out[setting] = value
    return out


def _number(text: str) -> float:
    return float(text.lower().replace("em", "e-").replace("p", "."))


FEWEST_RUNS = 3
"""Runs of a sweep at least."""
_ROWS_ONLY = ("logging_window", "reward_low", "reward_high", "reward_std_kind", "save_steps", "total_steps")
"""Settings of the log and of its length, which are no settings of the training's dynamics."""


class SweepMember(NamedTuple):
    """A run of a sweep: the run, its rows, and its varied settings by name."""

    run: Run
    table: Series
    settings: Mapping[str, float]


@dataclass(frozen=True)
class ShortRun(Result):
    """A run with too few rows for the regime: why, its known varied settings, and what failed, "" for nothing."""

    name: str
    why: str
    settings: dict[str, float]
    failed: str


def read_runs(logs: RunSources, read: Mapping[str, Any] | None = None, part: str | None = None) -> list[Run]:
    """Reads runs. A setting in ``read`` is that of the runs whose names state no other value."""
    found, _ = named_runs(logs, read)
    if not found:
        raise LogReadError("expected the logs of runs, found none; check the paths")
    given = (read or {}).get("settings") or {}
    for i, run in enumerate(found):
        from_name = {
            k: Setting(x, Provenance.CONFIG, "file name") for k, x in settings_in_name(run.name).items() if k in given
        }
        found[i] = run.with_settings(from_name) if from_name else run
    return found if part is None else [run.of_part(part) for run in found]


def recorded_settings(run: Run) -> dict[str, Any]:
    """Settings from the log, its configuration, the user or else the name; the learning rate is the highest one."""
    known = settings_in_name(run.name) | {
        name: s.explicit for name, s in run.settings.items() if s.explicit is not None and name not in _ROWS_ONLY
    }
    rate = logged_rate(run, run.step)[1]
    return known | ({"learning_rate": rate} if math.isfinite(rate) else {})


def settings_that_differ(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Settings of which two runs state different values, with the value of each run; None where it states none."""
    known = [recorded_settings(run) for run in runs]
    values = {name: [k.get(name) for k in known] for name in dict.fromkeys(n for k in known for n in k)}
    return {name: v for name, v in values.items() if len({setting_text(x) for x in v if x is not None}) > 1}


def repetitions(runs: Sequence[Run]) -> tuple[tuple[str, ...], ...]:
    """Names of runs that repeat each other, group by group: all settings alike, and names but for a number of a seed.

    Logs seldom state all settings, so that a name is often all that tells two recipes.
    """
    groups: dict[Any, list[str]] = {}
    for run in runs:
        known = sorted((name, setting_text(value)) for name, value in recorded_settings(run).items())
        groups.setdefault((SEED.sub("", run.name), *known), []).append(plain(run.name, 60))
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def setting_text(value: Any) -> str:
    """A setting as text, numbers to three digits: a highest learning rate that was logged is not exact."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.3g}"
    return "unknown" if value is None else plain(value, 40)


def named_settings(runs: Sequence[Run], vary: Sequence[str] | None = None) -> dict[str, NamedSetting]:
    """Positive settings, of ``vary`` if given, that names of the runs state, and what is assumed of the others."""
    out = {}
    for name, values in settings_that_differ(runs).items():
        known = [x for x in values if x is not None]
        if (vary is not None and name not in vary) or not all(map(_positive, known)):
            continue
        stated = {plain(run.name, 80): x for run, x in zip(runs, values, strict=True)
                  if x is not None and settings_in_name(run.name).get(name) == x}  # fmt: skip
        if stated:
            others = len(values) - len(known)
            assumed = float(np.exp(np.mean(np.log(sorted(set(known)))))) if others else None
            out[name] = NamedSetting(name, stated, others, assumed)
    return out


def varied_in(runs: Sequence[Run]) -> list[str]:
    """Settings that differ between runs and are a positive number of each, or of those whose names state them."""
    named, found = named_settings(runs), settings_that_differ(runs)
    out = [name for name, values in found.items() if name in named or all(map(_positive, values))]
    if not out:
        names = [plain(run.name, 40) for run in runs[:2]]
        raise SettingError(
            "vary: no setting is known for all runs and differs; put it into file names (lr_1e-6, g8, lora_rank_8), or "
            f"into a bayes_grpo.toml next to the logs: [runs.{names[0]}] and learning_rate = 1e-6"
        )
    return out


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def members_of(
    runs: Sequence[Run], vary: Sequence[str], signal: str = "auto"
) -> tuple[list[SweepMember], tuple[ShortRun, ...]]:
    """The runs with their rows and varied settings, and those that the regime cannot be put on."""
    if not vary or len(set(vary)) < len(vary):
        raise SettingError(
            f"expected names of settings, each once, found {', '.join(vary) or 'none'}", parameter="vary"
        )
    assumed = {name: x.assumed for name, x in named_settings(runs, vary).items()}
    members: list[SweepMember] = []
    left_out: list[ShortRun] = []
    for run in runs:
        try:
            # Noise that a log states moved no exponent of the shared families.
            table = replace(rows_of(run, signal, MAX_ROWS_OF_SEVERAL), noise=None, level=None)
            Exponential().check(table)
        except FitError as error:
            known = {}
            for name in vary:
                with suppress(SettingError):
                    known[name] = _setting(run, name, assumed.get(name))
            left_out.append(ShortRun(run.name, str(error), known, failure_in_short(run)))
            continue
        members.append(SweepMember(run, table, {name: _setting(run, name, assumed.get(name)) for name in vary}))
    if len(members) < FEWEST_RUNS:
        why = f" (left out: {plain(left_out[0].name, 80)}: {plain(left_out[0].why, 400)})" if left_out else ""
        raise FitError(
            f"family: expected at least {FEWEST_RUNS} runs, found {len(members)}; compare two with compare-runs{why}"
        )
    for name in vary:
        values = {m.settings[name] for m in members}
        if len(values) < 2:
            raise SettingError(
                f"{name}: expected at least two values among {len(members)} runs, found {values.pop():g} alone; "
                "vary another setting"
            )
    check_comparable([(m.run, m.table) for m in members])
    return members, tuple(left_out)


def _setting(run: Run, name: str, assumed: float | None) -> float:
    given = recorded_settings(run).get(name, assumed)
    label = plain(run.name, 80)
    if given is None:
        raise SettingError(
            f"{name}: not known of run {label}; set it under [runs.{label}] of a bayes_grpo.toml next to the log"
        )
    value = math.nan
    with suppress(TypeError, ValueError):
        value = float(given)
    if not _positive(value):
        raise SettingError(f"{name}: expected a number above 0 for run {label}, found {plain(given, 60)!r}")
    return value


def check_comparable(runs: Sequence[tuple[Run, Series]]) -> None:
    """Raises `FitError` where the rewards of two runs cannot be compared."""
    for (one, table), (other, rows) in combinations(runs, 2):
        if why := incomparable_reason(one, table, other, rows):
            raise FitError(
                f"{plain(other.name, 60)} cannot be compared with {plain(one.name, 60)}: {why}; leave one out, or "
                f"choose what both have: a signal, a unit, or one reward with {MENDING}",
                mended_by=Argument("columns", "KEY", "reward"),
            )


def failure_in_short(run: Run) -> str:
    """The failure of a run with few rows by its status, a clause; "" where it does not fail."""
    # The regime needs more rows than a diagnosis, which may rest on signals that every step has.
    status = diagnose(run).status
    return status.headline.rstrip(".") if status.alarming else ""
