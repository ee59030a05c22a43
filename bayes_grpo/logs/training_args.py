"""Settings that trainers and stores keep with a log: ``training_args.bin``, and the configuration of a run.

The former is what transformers saves with every checkpoint, read without unpickling.
"""

from __future__ import annotations

import pickletools
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayes_grpo.common.text import clean
from bayes_grpo.logs.finding import checkpoint_step
from bayes_grpo.logs.options import SCHEDULES, configured, known_setting
from bayes_grpo.logs.run import Provenance, Setting
from bayes_grpo.logs.table import to_float
from bayes_grpo.logs.trainers import Trainer

FILE_NAME = "training_args.bin"

_MAX_FILE_BYTES = 16_000_000
_MAX_MEMBERS = 1_000
_NOTED = ("beta", "scale_rewards", "loss_type")
"""Arguments that no regime depends on, and readers of a log do."""
_MARK = object()
_LARGEST = 1e15
"""Size of a setting's number at most."""


def read_training_args(log: Path) -> tuple[dict[str, Setting], tuple[str, ...]]:
    """Settings and notes from the arguments in a trainer's folder: there, its run's, or the newest checkpoint's.

    A file that cannot be read is a note, never an error: the log does not need it.

    Args:
        log: Path of the log.
    """
    found = next((path for path in _candidates(log) if path.is_file()), None)
    if found is None:
        return {}, ()
    try:
        arguments = _arguments(found)
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        return {}, (f"{FILE_NAME} could not be read ({clean(error)}); its settings are missing",)
    noted = [f"{name} {clean(arguments[name])}" for name in _NOTED if name in arguments]
    return settings_of_args(arguments), (f"{FILE_NAME} says {', '.join(noted)}",) if noted else ()


def settings_of_args(arguments: Mapping[str, Any], where: str = FILE_NAME) -> dict[str, Setting]:
    """Settings that follow from the fields of a ``GRPOConfig``; impossible values are passed over.

    Args:
        arguments: Name of a field → its value.
        where: What states them, for notes.
    """
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


def _candidates(log: Path) -> list[Path]:
    folder = log.absolute().parent
    paths = [folder / FILE_NAME]
    if checkpoint_step(folder.name) is not None:
        return [*paths, folder.parent / FILE_NAME]
    try:
        steps = {child: step for child in folder.iterdir() if (step := checkpoint_step(child.name)) is not None}
    except OSError:
        steps = {}
    return [*paths, *(child / FILE_NAME for child in sorted(steps, key=lambda c: steps[c], reverse=True))]


def _arguments(path: Path) -> dict[str, bool | int | float | str]:
    """Texts, truth values and ordinary numbers among the fields of the saved object.

    Raises:
        ValueError: The file is not what ``torch.save`` writes, or too large.
        OSError: It cannot be read.
        zipfile.BadZipFile: It is cut off.
    """
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise ValueError(f"more than {_MAX_FILE_BYTES} bytes")
    with zipfile.ZipFile(path) as archive:
        names = [m for m in archive.infolist()[:_MAX_MEMBERS] if m.filename.endswith("/data.pkl")]
        if len(names) != 1:
            raise ValueError("no data.pkl of torch.save")
        with archive.open(names[0]) as member:
            fields = fields_in_pickle(member.read(MAX_BYTES + 1))
    return {
        name: value
        for name, value in fields.items()
        if isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= _LARGEST)
    }


MAX_BYTES = 1_000_000
"""Length of a pickle of settings; real ones have about ten thousand bytes."""
MAX_OPCODES = 20_000
_PUT, _GET = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), ("GET", "BINGET", "LONG_BINGET")
_TRUTH = {"NEWTRUE": True, "NEWFALSE": False}
_CALLS = ("REDUCE", "NEWOBJ", "BUILD")


def fields_in_pickle(data: bytes) -> dict[str, Any]:
    """Name → plain value of the attributes of a pickled object, without unpickling: nothing is imported or called.

    The instructions are followed only as far as they put texts and numbers into dictionaries under names. A call with
    one text, as of a member of an enumeration, is that text. Everything else is None.

    Raises:
        ValueError: It is too long, broken, or holds no object with attributes.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count >= MAX_OPCODES:
                raise ValueError(f"more than {MAX_OPCODES} instructions")
            if opcode.name in _PUT:
                memo[len(memo) if argument is None else int(str(argument))] = stack[-1]
            elif opcode.name == "STOP":
                break
            else:
                _follow(opcode, argument, stack, memo)
    except ValueError:
        raise
    except (LookupError, TypeError, OverflowError, struct.error) as error:
        raise ValueError(f"a broken pickle ({type(error).__name__})") from None
    if not stack or not isinstance(stack[-1], dict):
        raise ValueError("no object with fields")
    return stack[-1]


def _follow(opcode: pickletools.OpcodeInfo, argument: Any, stack: list[Any], memo: Mapping[int, Any]) -> None:
    """Takes what an instruction takes from the stack, and puts there what it makes."""
    name, before = opcode.name, opcode.stack_before
    items: list[Any] = []
    if pickletools.markobject in before:
        while (item := stack.pop()) is not _MARK:
            items.append(item)
        before = before[: before.index(pickletools.markobject)]
    taken = [stack.pop() for _ in before][::-1] + items[::-1]
    made: Any = None
    if name == "MARK":
        made = _MARK
    elif name in _GET:
        made = memo[int(argument)]
    elif name in ("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"):
        made = taken.pop(0) if name.startswith("SET") else {}
        if isinstance(made, dict):
            made.update((k, v) for k, v in zip(taken[::2], taken[1::2], strict=False) if isinstance(k, str))
    elif name in ("TUPLE", "TUPLE1"):
        made = taken[0] if len(taken) == 1 and isinstance(taken[0], str) else None
    elif name in _CALLS:
        made = taken[-1] if isinstance(taken[-1], str if name == "REDUCE" else dict) else None
    elif len(opcode.stack_after) == 1 and not opcode.stack_before:
        made = _TRUTH.get(name, argument if name not in ("GLOBAL", "PERSID") else None)
    stack += [made] * len(opcode.stack_after)


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
    """Settings that a trainer's configuration states; impossible values are passed over.

    Args:
        config: Flat configuration, from `flat_config`.
        trainer: Whose configuration it is.
    """
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
