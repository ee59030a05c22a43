"""The configuration that a store keeps with a run, as settings with provenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.wording import clean
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.run import Provenance, Setting
from bayes_grpo.logs.table import to_float
from bayes_grpo.logs.trainer import Trainer
from bayes_grpo.logs.training_args import SCHEDULES, settings_of_args

WHERE = "the run's configuration"

_MAX_DEPTH = 10
_MAX_ENTRIES = 20_000
_MAX_ITEMS = 8
_MAX_TEXT = 1_000


def flat_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and texts of a nested configuration under keys joined by "/"; items of a list under their numbers."""
    found: dict[str, Any] = {}
    _flatten(found, config, "", _MAX_DEPTH)
    return found


def _flatten(found: dict[str, Any], config: Mapping[Any, Any], prefix: str, depth: int) -> None:
    for key, value in config.items():
        if len(found) >= _MAX_ENTRIES:
            return
        name = prefix + str(key).replace(".", "/")
        if isinstance(value, list | tuple):
            value = dict(enumerate(value[:_MAX_ITEMS]))
        if isinstance(value, Mapping):
            if depth:
                _flatten(found, value, f"{name}/", depth - 1)
        elif isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _MAX_TEXT):
            found.setdefault(name, value)


def settings_of_run(config: Mapping[str, Any], trainer: Trainer) -> dict[str, Setting]:
    """Settings that a trainer's configuration states; impossible values are passed over.

    Args:
        config: Flat configuration, from `flat_config`.
        trainer: Whose configuration it is.
    """
    found: dict[str, Setting] = {}
    if "num_generations" in config and "per_device_train_batch_size" in config:
        found |= settings_of_args(config, WHERE)
    for name, keys in trainer.config.items():
        if name == COMPLETIONS:
            continue
        for key in keys:
            value = config.get(key)
            if name == "schedule":
                value = SCHEDULES.get(str(value).lower(), value)
            if (setting := _stated(name, value, f"{clean(key)} in {WHERE}")) is not None:
                found[name] = setting
                if name == "momentum":
                    found["momentum_convention"] = Setting("ema", Provenance.CONFIG, f"{clean(key)} in {WHERE}")
                break
    group = to_float(found.get("group_size", Setting()).value)
    for key in trainer.config.get(COMPLETIONS, ()):
        prompts = to_float(config.get(key)) / group
        note = f"{clean(key)} in {WHERE}, in completions"
        if prompts > 0 and (setting := _stated("prompts_per_step", prompts, note)) is not None:
            return {**found, "prompts_per_step": setting}
    return found


COMPLETIONS = "completions_per_step"
"""Beside the names of settings in `Trainer.config`: completions of an optimizer step, where prompts are not stated."""


def _stated(name: str, value: Any, note: str) -> Setting | None:
    try:
        known = checked({name: value}, WHERE) if isinstance(value, int | float | str) else {}
    except SettingError:
        return None
    return Setting(known[name], Provenance.CONFIG, note) if name in known else None
