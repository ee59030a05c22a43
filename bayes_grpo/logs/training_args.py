"""Settings of a run from the configuration that trainers and stores keep with its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayes_grpo.common.text import clean
from bayes_grpo.logs.options import SCHEDULES, configured, known_setting
from bayes_grpo.logs.run import Provenance, Setting
from bayes_grpo.logs.table import to_float
from bayes_grpo.logs.trainers import Trainer


def settings_of_args(arguments: Mapping[str, Any], where: str) -> dict[str, Setting]:
    """Settings that follow from the fields of a ``GRPOConfig``; impossible values are passed over."""
    found: dict[str, Setting] = {}

    def state(name: str, value: Any, note: str, provenance: Provenance = Provenance.CONFIG) -> None:
        found.update(known_setting(name, value, note, provenance))

    def number(name: str, default: float = float("nan")) -> float:
        value = to_float(arguments.get(name))
        return value if value > 0 else default

    group, accumulated = number("num_generations"), number("gradient_accumulation_steps", 1)
    per_generation = number("steps_per_generation", accumulated)
    state("group_size", group, f"num_generations in {where}")
    if (batch := number("generation_batch_size")) > 0:
        text = f"generation_batch_size {batch:g} and the steps that share it, in {where}"
        state("prompts_per_step", batch / per_generation * accumulated / group, text)
    else:
        text = f"per_device_train_batch_size in {where}, taken for one process"
        prompts = number("per_device_train_batch_size") * accumulated / group
        state("prompts_per_step", prompts, text, Provenance.ASSUMED)
    if "num_generations" in arguments:
        updates = max(per_generation * number("num_iterations", 1) / accumulated, 1)
        state("refresh_interval", updates, f"steps_per_generation, num_iterations in {where}")
    if "adam" in str(arguments.get("optim", "adam")).lower():
        state("momentum", arguments.get("adam_beta1"), f"adam_beta1 in {where}")
        if "momentum" in found:
            state("momentum_convention", "ema", f"adam_beta1 in {where}")
    schedule = arguments.get("lr_scheduler_type")
    state("schedule", SCHEDULES.get(str(schedule), schedule), f"lr_scheduler_type {clean(schedule)} in {where}")
    state("total_steps", number("max_steps"), f"max_steps in {where}")
    if str(arguments.get("save_strategy", "steps")) == "steps":
        state("save_steps", number("save_steps"), f"save_steps in {where}")
    if (window := number("logging_steps")) >= 1:
        state("logging_window", window, f"logging_steps in {where}")
    return found


_WHERE = "the run's configuration"

_MAX_DEPTH = 10
_MAX_ENTRIES = 20_000
_MAX_ITEMS = 8
_MAX_TEXT = 1_000


def flat_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and texts of a nested configuration under keys joined by "/"; items of a list under their numbers."""
    found: dict[str, Any] = {}
    left: list[tuple[str, Any, int]] = [("", config, _MAX_DEPTH + 1)]
    while left and len(found) < _MAX_ENTRIES:
        name, value, depth = left.pop()
        if isinstance(value, list | tuple):
            value = dict(enumerate(value[:_MAX_ITEMS]))
        if isinstance(value, Mapping):
            begin = f"{name}/" if name else ""
            below = [(begin + str(key).replace(".", "/"), x, depth - 1) for key, x in value.items()]
            left += below[::-1] if depth else []
        elif isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _MAX_TEXT):
            found.setdefault(name, value)
    return found


def settings_of_run(config: Mapping[str, Any], trainer: Trainer) -> dict[str, Setting]:
    """Settings that a trainer's configuration, from `flat_config`, states; impossible values are passed over."""
    found: dict[str, Setting] = {}
    if "num_generations" in config and "per_device_train_batch_size" in config:
        found |= settings_of_args(config, _WHERE)
    found |= configured(config, f"{{}} in {_WHERE}", trainer.config)
    group = to_float(found.get("group_size", Setting()).value)
    for key in trainer.config.get(_COMPLETIONS, ()):
        prompts = to_float(config.get(key)) / group
        note = f"{clean(key)} in {_WHERE}, in completions"
        if prompts > 0 and (entry := known_setting("prompts_per_step", prompts, note)):
            return found | entry
    return found


_COMPLETIONS = "completions_per_step"
"""In `Trainer.config`, besides names of settings: completions of an optimizer step, where prompts are not given."""
