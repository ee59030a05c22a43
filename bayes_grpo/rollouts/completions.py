"""Completions as formats hand them on, gathered into typed columns: about 40 bytes a record, whatever its text."""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections.abc import Container, Mapping
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.text import clean
from bayes_grpo.rollouts.files import SkippedRecords

UNKNOWN = -1
"""A version, group number or truth value that a format does not state."""
MOST_PARTS = 32
"""Parts of a reward that are kept: the first that are met."""
_FARTHEST = 2.0**31
_NO_PARTS: Mapping[str, float] = MappingProxyType({})
_CUT = frozenset({"length", "max_tokens", "max_length", "truncated", "model_length"})
_ENDED = frozenset({"stop", "eos", "end_turn", "tool_calls", "stop_sequence", "finished", "complete", "completed"})
_TURN = re.compile(
    r"<\|im_start\|>user\s*\n(.*?)<\|im_end\|>|<\|start_header_id\|>user<\|end_header_id\|>(.*?)<\|eot_id\|>", re.S
)
_PLAIN_TURN = re.compile(r"(?:^|\n)user\n(.*?)\nassistant\n?\s*(?:<think>\s*)?$", re.S)


class Completion(NamedTuple):
    """A completion: step (NaN where nothing tells it), reward, and what tells its prompt from others.

    ``group`` is a label within the step, None where the prompt is the group; ``version`` that of the policy, in
    updates; ``truncated`` is 1 where it was cut at the limit, 0 where it ended; ``parts`` are what the reward is made
    of; ``answer`` is its text, of which a hash is kept, and ``length`` its length, in the unit of the record, else in
    characters.
    """

    step: float
    reward: float
    prompt: Any = None
    group: Any = None
    version: int = UNKNOWN
    truncated: int = UNKNOWN
    parts: Mapping[str, float] = _NO_PARTS
    answer: Any = None
    length: float = math.nan


class TableColumns(NamedTuple):
    """A plain table's names of columns, and weights of reward functions where a trainer saves no total."""

    columns: Mapping[str, str] = {}
    weights: Mapping[str, float] = {}


COLUMN_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "step": "d",
        "reward": "d",
        "prompt": "Q",
        "group": "Q",
        "version": "i",
        "truncated": "b",
        "answer": "Q",
        "length": "f",
    }
)
"""Column of gathered completions → code of its type, for arrays of Python and of NumPy."""


def scalar_of(value: Any) -> float:
    """A value as a number; NaN where it is none. A list is summed: rewards of single tokens or turns."""
    if isinstance(value, int | float):
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
    if isinstance(value, int | float):  # a flag among them
        return int(value) if value in (0, 1) else UNKNOWN
    reason = str(value).lower()
    if reason in _CUT:
        return 1
    return 0 if reason in _ENDED else UNKNOWN


def scalars_in(record: Mapping[str, Any], without: Container[str] = ()) -> dict[str, float]:
    """The numbers and truth values of a record by name, but those named."""
    return {
        name: float(value)
        for name, value in record.items()
        if isinstance(value, int | float)
        and name not in without
        and not (isinstance(value, int) and abs(value) > 2**53)
    }


def question_of(prompt: Any) -> str:
    """The question of a prompt, a text, messages, token ids or an id, without the chat template around it.

    That is the last turn of the user where a template is recognised, else everything as text.
    """
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
        turns = [m.get("content") for m in prompt if isinstance(m, dict) and m.get("role") == "user"]
        return question_of(turns[-1] if turns else prompt[-1].get("content"))
    if not isinstance(prompt, str):
        return str(prompt)
    if "user" not in prompt:
        return prompt.strip()
    turns = _TURN.findall(prompt)
    if turns:
        return "".join(turns[-1]).strip()
    found = _PLAIN_TURN.search(prompt)
    return (found[1] if found else prompt).strip()


def hash_of(value: Any) -> int:
    """A number of 64 bits that differs between values and from which none can be read, never 0."""
    digest = hashlib.blake2b(str(value).encode("utf-8", "replace"), digest_size=8, person=b"bayes-grpo")
    return int.from_bytes(digest.digest(), "little") or 1


class Gatherer:
    """Takes completions one by one and forgets their text.

    Attributes:
        columns: As in `COLUMN_KINDS`, with hashes for prompts, groups and answers (0 for none).
        size: Number of completions.
    """

    def __init__(self, skipped: SkippedRecords) -> None:
        self.columns = {name: array(kind) for name, kind in COLUMN_KINDS.items()}
        self.size = 0
        self._skipped = skipped
        self._names: dict[str, str] = {}
        self._parts: dict[str, array[float]] = {}
        self._last: tuple[Any, int] = (None, 0)

    def add(self, found: Completion) -> None:
        """Adds a completion; one that has no reward or no step is counted and left out."""
        if not (math.isfinite(found.reward) and -_FARTHEST < found.step < _FARTHEST):
            self._skipped.records += 1
            return
        text = "" if found.answer is None else str(found.answer)
        group = 0 if found.group is None else hash_of(found.group)
        length = found.length if found.length >= 0.0 or not text else float(len(text))
        hashed = (self._key(found.prompt), group, found.version, found.truncated, hash_of(text) if text else 0, length)
        for column, value in zip(self.columns.values(), (found.step, found.reward, *hashed), strict=True):
            column.append(value)
        for raw, value in found.parts.items():
            if name := self._part(raw):
                part = self._parts.setdefault(name, array("f"))
                part.extend(repeat(math.nan, self.size - len(part)))
                part.append(value)
        self.size += 1

    def parts(self) -> dict[str, np.ndarray]:
        """Parts of the reward, float32, shape (n,) each; NaN where a record lacks one."""
        for part in self._parts.values():
            part.extend(repeat(math.nan, self.size - len(part)))
        return {name: np.array(part) for name, part in self._parts.items()}

    def _key(self, prompt: Any) -> int:
        """Hash of the question of a prompt; those of a group stand side by side and have one."""
        if prompt is None:
            return 0
        if prompt != self._last[0]:
            self._last = (prompt, hash_of(question_of(prompt)))
        return self._last[1]

    def _part(self, raw: str) -> str:
        """The name under which a part is kept; "" where there are too many."""
        if raw not in self._names:
            if len(self._names) >= 4 * MOST_PARTS:
                return ""
            room = sum(map(bool, self._names.values())) < MOST_PARTS
            name = clean(raw, 60) if room else ""
            self._names[raw] = "" if name in self._names.values() else name
        return self._names[raw]
