"""What a watch keeps between two calls: which findings have been told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import platformdirs

from bayes_grpo.common.files import written_whole
from bayes_grpo.watching.result import Memory

_FORMAT = 1
"""Number of the file's format."""
FOLDER = Path(platformdirs.user_state_dir("bayes_grpo")) / "watch"
"""Where memories are kept unless a watch is told otherwise."""


def place_of(paths: Sequence[Path]) -> Path:
    """Where a watch of these paths keeps its memory unless told otherwise: in the user's folder of state."""
    name = hashlib.sha256("\n".join(str(p.resolve()) for p in paths).encode()).hexdigest()[:32]
    return FOLDER / f"{name}.json"


def load_memory(path: Path) -> Memory:
    """The memory in a file; an empty one where there is none, or none of this format.

    A broken file costs an alarm that is told twice, and a refusal would cost the watch.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            return Memory()
        return Memory.from_dict(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return Memory()


def save_memory(memory: Memory, path: Path) -> None:
    """Writes a memory to a file, whole or not at all.

    Raises:
        OutputError: The place cannot be written to.
    """
    if path.parent == FOLDER:
        with suppress(OSError):  # what is wrong with it is said below
            FOLDER.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps({"format": _FORMAT} | memory.to_dict()), encoding="utf-8")
