"""The files of a folder of rollouts, looked at once for all formats."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.rollouts.lines import LeftOut, json_lines

_DEEPEST, _MOST = 6, 200_000
_EVAL = re.compile(r"(^|[/_.-])(val|valid|validation|eval|evals)([/_.-]|$)", re.IGNORECASE)


class RolloutFile(NamedTuple):
    """A file of a format.

    Attributes:
        path: The file.
        step: Step that its name states; None where its records do.
        split: "train" or "eval".
        subset: "all" or "effective" where a trainer keeps both what was sampled and what was trained on.
    """

    path: Path
    step: float | None = None
    split: str = "train"
    subset: str = "all"


class StatedColumns(NamedTuple):
    """What a caller states of the records.

    Attributes:
        columns: Name of a column of `Rollouts` → the key of the records that it is read from.
        weights: Reward function → its weight, where a trainer saves functions and no total.
        text: Whether texts are kept.
    """

    columns: Mapping[str, str] = {}
    weights: Mapping[str, float] = {}
    text: bool = False


@dataclass
class Place:
    """A folder, or a single file, of rollouts.

    Attributes:
        root: The path given.
    """

    root: Path
    _heads: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def files(self) -> dict[str, Path]:
        """Path below the root, with "/", → file; the most that are looked at is `_MOST`.

        Raises:
            LogReadError: The root is not there, or holds too many files.
        """
        if self.root.is_file():
            return {"/".join(self.root.parts[-4:]): self.root}
        if not self.root.is_dir():
            raise LogReadError(f"{self.root}: expected a file or folder of rollouts, found none; check the path")
        found: dict[str, Path] = {}
        above = "/".join(self.root.resolve().parts[-2:])
        for folder, folders, names in os.walk(self.root):
            place = Path(folder)
            if len(place.relative_to(self.root).parts) >= _DEEPEST:
                folders.clear()
            folders[:] = sorted(x for x in folders if not x.startswith("."))
            for name in sorted(names):
                path = place / name
                if not name.startswith(".") and path.is_file():
                    found[f"{above}/{path.relative_to(self.root).as_posix()}"] = path
            if len(found) > _MOST:
                raise LogReadError(
                    f"{self.root}: expected at most {_MOST} files, found more; give the folder "
                    "of the rollouts themselves"
                )
        return found

    def named(self, pattern: str) -> list[tuple[Path, re.Match[str]]]:
        """Files whose path ends like a pattern, with the match."""
        ends = re.compile(rf"(?:^|/){pattern}$")
        found = ((path, ends.search(name)) for name, path in self.files.items())
        return [(path, match) for path, match in found if match]

    def keys(self, path: Path) -> tuple[str, ...]:
        """Keys of the first record of a file of JSON lines; empty where there is none."""
        if path not in self._heads:
            self._heads[path] = tuple(next(json_lines(path, LeftOut()), {}))
        return self._heads[path]

    def split(self, path: Path) -> str:
        """Whether a file is of an evaluation, "eval", by its path below the root; else "train"."""
        return "eval" if _EVAL.search(path.relative_to(self.root).as_posix()) else "train"

    def lines_with(self, *keys: str, pattern: str = r"[^/]*\.jsonl(?:\.gz)?") -> list[tuple[Path, re.Match[str]]]:
        """Files of JSON lines whose first record has all these keys."""
        return [(path, match) for path, match in self.named(pattern) if set(keys) <= set(self.keys(path))]
