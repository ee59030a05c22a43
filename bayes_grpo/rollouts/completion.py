"""One completion as a format hands it on, and what formats share: whose prompt, how long, cut or not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

UNKNOWN = -1
"""A version, length, number or truth value that a format does not state."""
_NO_PARTS: Mapping[str, float] = MappingProxyType({})
_CUT = frozenset({"length", "max_tokens", "max_length", "truncated", "model_length"})
_ENDED = frozenset({"stop", "eos", "end_turn", "tool_calls", "stop_sequence", "finished", "complete", "completed"})
_TURN = re.compile(
    r"<\|im_start\|>user\s*\n(.*?)<\|im_end\|>|<\|start_header_id\|>user<\|end_header_id\|>(.*?)<\|eot_id\|>", re.S
)
_BARE_TURN = re.compile(r"(?:^|\n)user\n(.*?)\nassistant\n?\s*(?:<think>\s*)?$", re.S)


class Completion(NamedTuple):
    """A completion.

    Attributes:
        step: Step, or iteration, of the training; NaN where nothing tells it.
        reward: Its reward.
        prompt: What tells its prompt from others: text, messages, token ids or an id; None where nothing does.
        group: Label of its group within the step; None where the prompt is the group.
        sample: Its number within the group.
        version: Version of the policy that wrote it, in updates.
        length: Its length.
        truncated: 1 where it was cut at the limit, 0 where it ended.
        parts: Name → value of what the reward is made of, or was measured beside it.
        output: Its text; kept only where it is asked for.
        answer: The reference answer, likewise.
    """

    step: float
    reward: float
    prompt: Any = None
    group: Any = None
    sample: int = UNKNOWN
    version: int = UNKNOWN
    length: int = UNKNOWN
    truncated: int = UNKNOWN
    parts: Mapping[str, float] = _NO_PARTS
    output: Any = None
    answer: Any = None


def scalar_of(value: Any) -> float:
    """A value as a number; NaN where it is none. A list is summed: rewards of single tokens or turns."""
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return math.nan
    if isinstance(value, list):
        return math.fsum(map(scalar_of, value)) if value else math.nan
    return math.nan


def count(value: Any) -> int:
    """A whole number of at least 0; `UNKNOWN` where a value is none."""
    found = scalar_of(value)
    return int(found) if 0.0 <= found < 2**31 else UNKNOWN


def was_cut(value: Any) -> int:
    """1 where a flag or reason says that a completion was cut, 0 where it ended, else `UNKNOWN`."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return int(value) if value in (0, 1) else UNKNOWN
    reason = str(value).lower() if value is not None else ""
    return 1 if reason in _CUT else 0 if reason in _ENDED else UNKNOWN


def scalars_in(record: Mapping[str, Any], *without: str, under: str = "") -> dict[str, float]:
    """The numbers and truth values of a record by name, but those named."""
    return {
        f"{under}{name}": float(value)
        for name, value in record.items()
        if isinstance(value, bool | int | float)
        and name not in without
        and not (isinstance(value, int) and abs(value) > 2**53)
    }


def bare(prompt: Any) -> str:
    """The question of a prompt, without the chat template around it, which differs between trainers and versions.

    Args:
        prompt: Text, a list of messages, token ids, or an id.

    Returns:
        The last turn of the user where a template is recognised, else everything as text.
    """
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
        turns = [m.get("content") for m in prompt if isinstance(m, dict) and m.get("role") == "user"]
        return bare(turns[-1] if turns else prompt[-1].get("content"))
    if not isinstance(prompt, str):
        return str(prompt)
    if "user" not in prompt:
        return prompt.strip()
    turns = _TURN.findall(prompt)
    if turns:
        return "".join(turns[-1]).strip()
    found = _BARE_TURN.search(prompt)
    return (found[1] if found else prompt).strip()


def last_turn(messages: Any) -> str | None:
    """The text of the last message of an assistant; None where there is none."""
    if isinstance(messages, str):
        return messages
    if not isinstance(messages, list):
        return None
    texts = [m.get("content") for m in messages if isinstance(m, dict) and m.get("role") == "assistant"]
    return texts[-1] if texts and isinstance(texts[-1], str) else None
