"""Keys of a table looked up by pattern, whatever their case, spacing or wrapper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean, listed
from bayes_grpo.logs.table import Table

_WRAPPERS = ("metrics/", "data/", "logs/", "log/", "values/", "scalars/")
"""Objects that scripts put a row's metrics into."""

OWN = "bayes_grpo/"
"""Before every key that our callback writes into a trainer's log: what we said of a run is no signal of it."""
MAX_COLUMNS = 200
"""Keys that may make one quantity together, such as the reward functions of a training."""


class KeyIndex:
    """Finds the raw keys of a table by their usual spelling, whatever their case and spacing.

    With ``numbers=False`` the keys are those under which something was written that is no number.

    Attributes:
        table: The table.
        names: Usual spellings of the keys with numbers, but for those that we wrote.
        keys: The keys with numbers as the log spells them.
    """

    def __init__(self, table: Table, numbers: bool = True) -> None:
        self.table = table
        self._raw: dict[str, str] = {}
        for key in table.keys:
            if OWN not in normal(key) and (table.has_numbers(key) if numbers else table.broken(key).any()):
                self._raw.setdefault(normal(key), key)
        for name, key in list(self._raw.items()):
            if name.startswith(_WRAPPERS):
                self._raw.setdefault(name.partition("/")[2], key)
        self.names = tuple(self._raw)
        self.keys = tuple(dict.fromkeys(self._raw.values()))

    def raw(self, name: str) -> str:
        """The key as the log spells it."""
        return self._raw[name]

    def find(self, patterns: Iterable[str], prefixes: Sequence[str] = ("",)) -> list[list[str]]:
        """Raw keys that each pattern matches, patterns without a match left out."""
        found = []
        for pattern in patterns:
            names = [name for prefix in prefixes for name in self._matches(prefix + pattern)]
            if names:
                found.append([self._raw[name] for name in dict.fromkeys(names)])
        return found

    def columns(self, keys: Sequence[str], what: str) -> list[np.ndarray]:
        """The columns of keys that make one quantity together, each of shape (n,).

        Args:
            keys: Raw keys.
            what: What they are, in words.

        Raises:
            LogReadError: There are more than any trainer writes.
        """
        if len(keys) > MAX_COLUMNS:
            raise LogReadError(
                f"expected at most {MAX_COLUMNS} {what}, found {len(keys)}, such as {listed(keys, 3)}; name one column "
                f"with --reward-column or --eval-column in a file without the others"
            )
        return [self.table.column(key) for key in keys]

    def first(self, patterns: Iterable[str], prefixes: Sequence[str] = ("",)) -> str | None:
        """The first raw key of the first pattern that matches."""
        found = self.find(patterns, prefixes)
        return found[0][0] if found else None

    def named(self, key: str, flag: str) -> str:
        """The raw key that a user named.

        Raises:
            LogReadError: The log has no such key, or no number under it.
        """
        if key in self.table and self.table.has_numbers(key):
            return key
        if normal(key) in self._raw:
            return self._raw[normal(key)]
        state = "has no number in it" if key in self.table else "is not in the log"
        raise LogReadError(
            f"expected {flag} to name a column of numbers, found that {clean(key)!r} {state}; "
            f"the numeric keys are {listed(self.keys)}; pass one of these"
        )

    def _matches(self, pattern: str) -> list[str]:
        if "*" not in pattern:
            return [pattern] if pattern in self._raw else []
        regex = _regex(pattern)
        return sorted(name for name in self.names if regex.fullmatch(name))


def normal(key: str) -> str:
    """A key in lower case, words joined by "_", no spaces round "/"."""
    return "/".join("_".join(part.split()) for part in key.lower().split("/"))


@lru_cache(maxsize=512)
def _regex(pattern: str) -> re.Pattern[str]:
    text = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.compile(text)
