"""Settings that a user, a file in the folder of a log, a trainer or a tracker states: what each may be.

What is impossible in a trainer's configuration is left out; a user who states the same gets an error.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.logs.signals import SIGNALS
from bayes_grpo.logs.table import GROUP_KEYS, leaves, to_float
from bayes_grpo.logs.trainer import Trainer

CANONICAL_COLUMNS = ("step", "reward", "heldout", *SIGNALS)
"""Canonical names of columns that a user can name."""
SIDECAR_NAME = "bayes_grpo.toml"
"""File in the folder of a log whose ``[settings]`` table is read with it."""
OptionCheck = tuple[str, Callable[[Any], Any]]
"""Expectation in words, and a function that returns the value or raises ValueError."""


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

_CHECKED_SETTINGS: Mapping[str, tuple[OptionCheck, str]] = {
    "group_size": (
        _number("a whole number of at least 1", lambda x: x >= 1, int),
        "group_size group num_generations n_samples_per_prompt rollout_n",
    ),
    "prompts_per_step": (_ABOVE_0, "prompts_per_step num_prompts_per_step groups_per_batch num_groups n_prompts batch"),
    "momentum": (_number("a number in [0, 1)", lambda x: 0 <= x < 1), "momentum adam_beta1 beta1"),
    "momentum_convention": (_one_of("heavy_ball", "ema"), ""),
    "refresh_interval": (_STEPS, "refresh_interval"),
    "schedule": (_one_of("logged", "constant", "linear", "cosine"), "schedule lr_scheduler_type lr_schedule"),
    "total_steps": (_STEPS, "total_steps max_steps num_steps n_steps steps training_steps"),
    "logging_window": (_STEPS, "logging_window logging_steps"),
    "reward_low": (_FINITE, "reward_low"),
    "reward_high": (_FINITE, "reward_high"),
    "reward_std_kind": (_one_of("within", "total", "unknown"), ""),
    "learning_rate": (_ABOVE_0, "learning_rate peak_learning_rate lr"),
    "epochs": (_ABOVE_0, "epochs_per_rollout_batch num_iterations ppo_epochs"),
    "kl_weight": (_NOT_NEGATIVE, "kl_weight kl_coef kl_beta"),
    "clip_range": (_ABOVE_0, "clip_range clip_ratio_high epsilon_high clip_eps"),
    "model_size": (_ABOVE_0, "model_size model_params_b"),
    "save_steps": (_number("a number of steps of at least 1", lambda x: x >= 1), "save_steps save_freq save_interval"),
    "advantage_scaling": (_one_of("group", "batch", "none", "gdpo"), "advantage_scaling scale_rewards"),
    "group_filter": (_one_of("none", "before", "after"), "group_filter"),
    "entropy_weight": (_NOT_NEGATIVE, "entropy_weight entropy_coef entropy_coeff ent_coef"),
}
"""Setting → what it may be, and names under which scripts keep it with their records, ambiguous ones left out."""
CHECKS = {name: check for name, (check, _) in _CHECKED_SETTINGS.items()}
CONFIG_KEYS = {name: tuple(names.split()) for name, (_, names) in _CHECKED_SETTINGS.items()}


def checked(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Settings with their types put right, None left out; numbers may be text. ``where`` they are from is for messages.

    Raises:
        SettingError: A name is unknown or a value is outside its meaning.
    """
    result = {}
    for name, value in values.items():
        if name not in CHECKS:
            text = f"expected a setting among {', '.join(CHECKS)}, found {clean(name)!r}; correct its name"
            raise _refused(where, text)
        if value is None:
            continue
        expected, check = CHECKS[name]
        try:
            result[name] = check(value)
        except (ValueError, OverflowError):
            text = f"expected {name} to be {expected}, found {_quoted(value)}; correct it or leave it out"
            raise _refused(where, text) from None
    low, high = result.get("reward_low"), result.get("reward_high")
    if low is not None and high is not None and low >= high:
        raise _refused(where, f"expected reward_low below reward_high, found {low:g} and {high:g}; correct them")
    return result


def _refused(where: str, text: str) -> SettingError:
    """The error of a parameter's value, or of a file's."""
    if where in ("settings", "columns"):
        return SettingError(text, parameter=where)
    return SettingError(f"{where}: {text}")


def read_sidecar(log: Path) -> tuple[dict[str, Setting], dict[str, str]]:
    """Settings of a log in the file next to it: ``[settings]`` and ``[runs.NAME]``; ``[columns]``."""
    path, content = _sidecar_of(log)
    where = clean(path, 200)
    runs = content.get("runs", {})
    tables = {"settings": content.get("settings", {}), "runs": runs}
    if isinstance(runs, dict) and runs:
        files = {log, *path.parent.iterdir()} - {path}
        if unknown := sorted({*runs} - {name for file in files for name in (file.name, file.stem)}):
            raise SettingError(
                f"{where}: expected [runs.NAME] with the name of a log in its folder, found {listed(unknown, 4)} "
                f"among {listed(sorted(file.name for file in files), 6)}; correct or remove it"
            )
        tables |= {f"runs.{name}": runs[name] for name in (log.name, log.stem) if name in runs}
    settings: dict[str, Setting] = {}
    for title, table in tables.items():
        if not isinstance(table, dict):
            kind = type(table).__name__
            raise _refused(where, f"expected a table [{clean(title)}], found {kind}; write 'name = value' lines")
        if title != "runs":
            note = f"from {clean(path.name)}"
            settings |= {k: Setting(v, Provenance.CONFIG, note) for k, v in checked(table, where).items()}
    return settings, checked_columns(content.get("columns", {}), f"{where}: [columns]")


def sidecar_reference_runs(log: str | Path) -> list[str]:
    """Where the reference runs of a log are: ``reference_runs = ["runs/"]`` of the file of settings next to it."""
    path, content = _sidecar_of(Path(log))
    value = content.get("reference_runs", [])
    paths = [value] if isinstance(value, str) else value
    if not (isinstance(paths, list) and all(isinstance(x, str) and x for x in paths)):
        text = f'expected reference_runs = ["runs/"], paths of logs, found {_quoted(value)}'
        raise _refused(clean(path, 200), text)
    return [str(path.parent / x) for x in paths]


def checked_columns(columns: Any, where: str) -> dict[str, str]:
    """Columns that a user named, by canonical name."""
    if not isinstance(columns, Mapping):
        raise _refused(where, f"expected name = key lines, found {type(columns).__name__}; correct it")
    known = ", ".join(CANONICAL_COLUMNS)
    for name, key in columns.items():
        if name not in CANONICAL_COLUMNS:
            raise _refused(where, f"expected a column among {known}, found {clean(name)!r}; correct it")
        if not isinstance(key, str) or not key:
            raise _refused(where, f"expected a key of the log for {name}, found {_quoted(key)}; correct it")
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
        return path, tomllib.loads(path.read_bytes().decode("utf-8-sig"))
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


ROW_KEYS = frozenset((
    "group_size", "num_generations", "n_samples_per_prompt", "prompts_per_step", "num_prompts_per_step",
    "num_groups", "entropy_coef", "n_prompts", "rollout_n",
))  # fmt: skip
"""Those names that mean a setting in every record too, where it never changes."""


def _checked_setting(
    name: str, value: Any, note: str, provenance: Provenance = Provenance.CONFIG
) -> dict[str, Setting]:
    """A setting under its name; nothing where the value is impossible or none."""
    try:
        known = checked({name: value}, "") if isinstance(value, int | float | str) else {}
    except SettingError:
        return {}
    return {k: Setting(v, provenance, note) for k, v in known.items()}


_TRUE, _FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")
_SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "schedule": {"constant_with_warmup": "constant", "cosine_with_min_lr": "cosine"},
    "advantage_scaling": dict.fromkeys(_TRUE, "group") | dict.fromkeys(_FALSE, "none"),
}
"""Setting → its values by the names that trainers give them, in lower case → those of `CHECKS`."""


def configured(
    config: Mapping[str, Any], note: str, names: Mapping[str, Sequence[str]] = CONFIG_KEYS
) -> dict[str, Setting]:
    """Settings that a configuration states, the first of their names that is there; impossible values are left out.

    ``note`` says where it is, with "{}" for the name of the field.
    """
    found = {}
    for name, keys in names.items():
        for key in keys:
            value = config.get(key)
            value = _SPELLINGS[name].get(_lower(value), value) if name in _SPELLINGS else value
            if entry := _checked_setting(name, value, note.format(clean(key))):
                found |= entry
                if name == "momentum":
                    convention = "heavy_ball" if key == "momentum" else "ema"
                    found["momentum_convention"] = replace(entry[name], value=convention)
                break
    low, high = found.get("reward_low"), found.get("reward_high")
    if low and high and low.value >= high.value:
        del found["reward_low"], found["reward_high"]
    return found


def settings_of_args(arguments: Mapping[str, Any], where: str) -> dict[str, Setting]:
    """Settings that follow from the fields of a ``GRPOConfig``; impossible values are passed over."""

    def number(name: str, default: float = float("nan")) -> float:
        value = to_float(arguments.get(name))
        return value if value > 0 else default

    group = number("num_generations")
    accumulated = number("gradient_accumulation_steps", 1)
    per_generation = number("steps_per_generation", accumulated)
    prompts = number("per_device_train_batch_size") * accumulated / group
    note = f"per_device_train_batch_size in {where}, taken for one process"
    known = Provenance.ASSUMED
    if (batch := number("generation_batch_size")) > 0:
        prompts = batch / per_generation * accumulated / group
        note = f"generation_batch_size {batch:g} and the steps that share it, in {where}"
        known = Provenance.CONFIG
    found = _checked_setting("prompts_per_step", prompts, note, known) if prompts >= 1 else {}
    if "num_generations" in arguments:
        updates = max(per_generation * number("num_iterations", 1) / accumulated, 1)
        found |= _checked_setting("refresh_interval", updates, f"steps_per_generation, num_iterations in {where}")
    fields = {
        "group_size": ("num_generations",),
        "momentum": ("adam_beta1",) if "adam" in str(arguments.get("optim", "adam")).lower() else (),
        "total_steps": ("max_steps",),
        "schedule": ("lr_scheduler_type",),
        "save_steps": ("save_steps",) if str(arguments.get("save_strategy", "steps")) == "steps" else (),
        "logging_window": ("logging_steps",) if number("logging_steps") >= 1 else (),
    }
    return found | configured(arguments, f"{{}} in {where}", fields) | _estimator(arguments, where)


def _estimator(config: Mapping[str, Any], where: str) -> dict[str, Setting]:
    """How advantages are made, by the fields of a trainer's configuration, whatever path they are under."""
    plain = {str(key).rpartition("/")[2].lower(): value for key, value in config.items()}
    names = {name: CONFIG_KEYS[name] for name in ("advantage_scaling", "entropy_weight")}
    found = configured(plain, f"{{}} in {where}", names)
    if _lower(plain.get("norm_adv_by_std_in_grpo")) in _FALSE:
        found |= _checked_setting("advantage_scaling", "none", f"norm_adv_by_std_in_grpo in {where}")
    for key in ("adv_estimator", "multi_objective_aggregation", "loss_type"):
        if "gdpo" in (value := _lower(plain.get(key))) or value == "normalize_then_sum":
            found |= _checked_setting("advantage_scaling", "gdpo", f"{key} in {where}")
    for key in (str(key) for key, value in config.items() if _lower(value) in _TRUE):
        if key.replace(".", "/").endswith(_FILTERS):
            found |= _checked_setting("group_filter", "after", f"{clean(key)} in {where}")
    return found


_FILTERS = ("filter_groups/enable", "dynamic_filtering", "use_dynamic_sampling")
"""Ends of the fields of verl, OpenRLHF and NeMo-RL that take out zero-variance groups before metrics are made."""


def _lower(value: Any) -> str:
    """A word or a truth value as text; "" for anything else."""
    return str(value).strip().lower() if isinstance(value, bool | int | float | str) else ""


_MAX_DEPTH = 10
_MAX_ENTRIES = 20_000
_MAX_ITEMS = 8
_MAX_TEXT = 1_000


def flat_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and texts of a nested configuration under keys joined by "/"; items of a list under their numbers."""
    found: dict[str, Any] = {}
    for key, value in islice(leaves(config, _MAX_DEPTH, _MAX_ITEMS), _MAX_ENTRIES):
        if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _MAX_TEXT):
            found.setdefault(key.replace(".", "/"), value)
    return found


def settings_of_run(config: Mapping[str, Any], trainer: Trainer) -> dict[str, Setting]:
    """Settings that a trainer's configuration, from `flat_config`, states; impossible values are passed over."""
    where = "the run's configuration"
    args = "num_generations" in config and "per_device_train_batch_size" in config
    found = settings_of_args(config, where) if args else _estimator(config, where)
    found |= configured(config, f"{{}} in {where}", trainer.config)
    group = to_float(found.get("group_size", Setting()).value)
    for key in trainer.config.get("completions_per_step", ()):
        prompts = to_float(config.get(key)) / group
        note = f"{clean(key)} in {where}, in completions"
        if prompts >= 1 and (entry := _checked_setting("prompts_per_step", prompts, note)):
            return found | entry
    return found


_ONE_PROMPT = GROUP_KEYS | {"source_id", "sample_id", "idx", "prompt", "question", "problem", "query"}
"""Keys whose value, where it is one, says that a row is of one prompt."""
_LEAST_OF_GROUP = 2


def one_prompt(row: Mapping[str, Any], more: Collection[str] = ()) -> str:
    """The key that says that a row is of one prompt, one of the usual or ``more``; "" where none does."""
    known = _ONE_PROMPT.union(more)
    return next((k for k, v in row.items() if str(k).lower() in known and isinstance(v, int | str)), "")


def settings_of_groups(groups: set[tuple[int, str]]) -> dict[str, Setting]:
    """Settings that follow where every row lists the rewards of one group: its size, and of what their spread is."""
    size, key = next(iter(groups)) if len(groups) == 1 else (0, "")
    if size < _LEAST_OF_GROUP or not key:
        return {}
    note = f"a list of rewards for one {clean(key)!r} in every row"
    found = {"group_size": size, "reward_std_kind": "within"}
    return {name: Setting(value, Provenance.LOGGED, note) for name, value in found.items()}
