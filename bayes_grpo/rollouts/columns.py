"""Completions gathered into typed columns: about 40 bytes a record, whatever its text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.text import clean
from bayes_grpo.rollouts.completion import UNKNOWN, Completion, bare
from bayes_grpo.rollouts.lines import LeftOut

MOST_PARTS = 32
"""Parts of a reward that are kept: the first that are met."""
_BATCH = 8192
_FARTHEST = 2.0**31
_NAME = 60


class CompletionBatch(NamedTuple):
    """Some completions as columns, shape (n,) each; None where a format does not state a column.

    Attributes:
        step: Steps.
        reward: Rewards.
        prompt: What tells prompts apart.
        group: Labels of groups.
        sample: Numbers within groups.
        version: Versions of the policy.
        length: Lengths.
        truncated: 1, 0 or `UNKNOWN`.
        parts: Name → values.
        texts: Prompt, output and answer of each, where they are kept.
    """

    step: np.ndarray
    reward: np.ndarray
    prompt: np.ndarray | None = None
    group: np.ndarray | None = None
    sample: np.ndarray | None = None
    version: np.ndarray | None = None
    length: np.ndarray | None = None
    truncated: np.ndarray | None = None
    parts: Mapping[str, np.ndarray] = MappingProxyType({})
    texts: tuple[tuple[str, str, str], ...] = ()


class Gathered(NamedTuple):
    """Columns of all completions, in the order of files, n of them.

    Attributes:
        step: Float, shape (n,).
        reward: Float, shape (n,).
        prompt: Hashes, shape (n,); 0 where nothing tells the prompt.
        group: Hashes of labels, shape (n,); 0 where there is none.
        sample: Shape (n,), `UNKNOWN` where not stated; likewise version, length and truncated.
        version: Shape (n,).
        length: Shape (n,).
        truncated: Shape (n,).
        parts: Name → shape (n,), float32, NaN where a record lacks it.
        texts: As kept; empty unless asked for.
    """

    step: np.ndarray
    reward: np.ndarray
    prompt: np.ndarray
    group: np.ndarray
    sample: np.ndarray
    version: np.ndarray
    length: np.ndarray
    truncated: np.ndarray
    parts: dict[str, np.ndarray]
    texts: tuple[tuple[str, str, str], ...]


def hash_of(value: Any, salt: str) -> int:
    """A number of 64 bits that tells values apart and from which none can be read, never 0.

    Args:
        value: Text, or anything with one.
        salt: The same salt gives the same numbers.
    """
    text = value if isinstance(value, str) else str(value)
    digest = hashlib.blake2b(
        text.encode("utf-8", "replace"), digest_size=8, key=salt.encode()[:64], person=b"bayes-grpo"
    )
    return int.from_bytes(digest.digest(), "little") or 1


class Gatherer:
    """Takes completions, one by one or in blocks, and forgets their text."""

    def __init__(self, salt: str, text: bool, damage: LeftOut) -> None:
        self._salt, self._text, self._damage = salt, text, damage
        self._open: list[Completion] = []
        self._blocks: list[dict[str, Any]] = []
        self._texts: list[tuple[str, str, str]] = []
        self._names: dict[str, str] = {}
        self._closed = 0
        self._last: tuple[Any, str, int] = (None, "", 0)

    @property
    def size(self) -> int:
        """Completions taken so far."""
        return self._closed + len(self._open)

    def take(self, found: Completion | CompletionBatch) -> None:
        """Adds what a format hands on; what has no reward or no step is counted and left out."""
        if isinstance(found, CompletionBatch):
            self._close()
            self._take_block(found)
        elif not (isfinite(found.reward) and -_FARTHEST < found.step < _FARTHEST):
            self._damage.records += 1
        else:
            prompt, key = self._keyed(found.prompt)
            if self._text:
                self._texts.append((prompt, _text(found.output), _text(found.answer)))
            label = 0 if found.group is None else hash_of(found.group, self._salt)
            self._open.append(found._replace(prompt=key, group=label, output=None, answer=None))
            if len(self._open) >= _BATCH:
                self._close()

    def gathered(self) -> Gathered:
        """All columns."""
        self._close()
        names = [name for name in self._names.values() if name]
        whole: dict[str, Any] = {}
        for name, kind in _KINDS.items():
            whole[name] = np.concatenate([np.zeros(0, kind), *(b.pop(name) for b in self._blocks)])
        parts = {
            name: np.concatenate(
                [np.zeros(0, np.float32)]
                + [b["parts"].get(name, np.full(b["size"], np.nan, np.float32)) for b in self._blocks]
            )
            for name in names
        }
        return Gathered(**whole, parts=parts, texts=tuple(self._texts))

    def _keyed(self, prompt: Any) -> tuple[str, int]:
        """The question of a prompt and its hash; those of a group stand side by side and have one."""
        if prompt is None:
            return "", 0
        if prompt != self._last[0]:
            question = bare(prompt)
            self._last = (prompt, question, hash_of(question, self._salt))
        return self._last[1:]

    def _close(self) -> None:
        some, self._open = self._open, []
        if not some:
            return
        block: dict[str, Any] = {
            name: np.array([getattr(c, name) for c in some], kind) for name, kind in _KINDS.items()
        }
        parts: dict[str, np.ndarray] = {}
        for place, completion in enumerate(some):
            for raw, value in completion.parts.items():
                name = self._part(raw)
                if name:
                    if name not in parts:
                        parts[name] = np.full(len(some), np.nan, np.float32)
                    parts[name][place] = value
        self._add(block, parts, len(some))

    def _take_block(self, found: CompletionBatch) -> None:
        kept = np.isfinite(found.reward) & (np.abs(found.step) < _FARTHEST)
        self._damage.records += int(np.sum(~kept))
        n = int(kept.sum())
        block: dict[str, Any] = {}
        for name, kind in _KINDS.items():
            values = getattr(found, name)
            if values is None:
                block[name] = np.full(n, 0 if kind is np.uint64 else UNKNOWN, kind)
            elif kind is np.uint64:
                block[name] = self._hashed(values[kept], bare if name == "prompt" else None)
            else:
                block[name] = values[kept].astype(kind)
        parts = {}
        for raw, values in found.parts.items():
            if name := self._part(raw):
                parts[name] = values[kept].astype(np.float32)
        if self._text:
            self._texts += (
                [t for t, k in zip(found.texts, kept, strict=True) if k] if found.texts else [("", "", "")] * n
            )
        self._add(block, parts, n)

    def _add(self, block: dict[str, Any], parts: dict[str, np.ndarray], n: int) -> None:
        self._blocks.append(block | {"parts": parts, "size": n})
        self._closed += n

    def _hashed(self, values: np.ndarray, made: Callable[[Any], str] | None) -> np.ndarray:
        import pandas as pd

        places, labels = pd.factorize(values, use_na_sentinel=True)
        names = (str(int(x)) if isinstance(x, float) and x.is_integer() else x for x in labels.tolist())
        hashes = [0, *(hash_of(made(x) if made else x, self._salt) for x in names)]
        return np.array(hashes, np.uint64)[places + 1]

    def _part(self, raw: str) -> str:
        """The name under which a part is kept; "" where there are too many."""
        if raw not in self._names:
            if len(self._names) >= 4 * MOST_PARTS:
                return ""
            room = sum(map(bool, self._names.values())) < MOST_PARTS
            name = clean(raw, _NAME) if room else ""
            self._names[raw] = "" if name in self._names.values() else name
        return self._names[raw]


_KINDS: dict[str, Any] = {
    "step": np.float64,
    "reward": np.float64,
    "prompt": np.uint64,
    "group": np.uint64,
    "sample": np.int32,
    "version": np.int32,
    "length": np.int32,
    "truncated": np.int8,
}


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)
