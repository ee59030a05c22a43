"""``trainer_state.json`` of TRL and of every other trainer built on transformers."""

from __future__ import annotations

import re
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import listed
from bayes_grpo.logs.jsontext import load_json, mapping_rows, parse_line
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import trainer_named

NAME = "trl_trainer_state"

_MARKS = re.compile(r'"(?:log_history|max_steps|is_world_process_zero|best_model_checkpoint|logging_steps)"\s*:')
_EPOCHS = ("num_train_epochs", "global_step", "epoch")
"""What tells the planned length where ``max_steps`` does not."""


def sniff(source: Source) -> Evidence | None:
    """Recognises the object by the names that transformers gives its fields."""
    if source.head.lstrip()[:1] != "{":
        return None
    first, *others = source.head.lstrip().split("\n", 1)
    if others and others[0].lstrip()[:1] == "{" and isinstance(parse_line(first), dict):
        return None  # one object a line, of which the last may be a state
    marks = set(_MARKS.findall(source.head))
    if '"log_history":' in {m.replace(" ", "") for m in marks} or len(marks) >= 3:
        return Evidence(3, "a JSON object with log_history")
    return None


def read(source: Source, options: ReadOptions) -> Parsed:
    """Rows of ``log_history``, with ``max_steps``, ``logging_steps`` and the epochs."""
    return of_state(load_json(source, "the newest complete checkpoint's trainer_state.json"))


def of_state(state: Any) -> Parsed:
    """Rows of a state that is there already.

    Raises:
        LogReadError: It holds no list ``log_history``.
    """
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise LogReadError(
            f"expected a JSON object with a list log_history, found {type(state).__name__} with "
            f"{listed(state, 8) if isinstance(state, dict) else 'no keys'}; pass trainer_state.json"
        )
    rows, notes = mapping_rows(state["log_history"])
    table = Table.from_rows(rows)
    return Parsed(
        table,
        {key: state[key] for key in (*_EPOCHS, "save_steps") if isinstance(state.get(key), int | float)},
        total_steps=_positive(state.get("max_steps")),
        logging_steps=_positive(state.get("logging_steps"), at_least=1),
        trainer=trainer_named("trl_ppo" if "objective/scores" in table else "trl"),
        notes=notes,
    )


def _positive(value: object, at_least: float = 0.0) -> float | None:
    number = to_float(value)
    return number if number > 0 and number >= at_least else None
