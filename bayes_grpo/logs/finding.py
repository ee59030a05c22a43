"""What a path stands for: a log, the output of a trainer, or a run that a store keeps in a folder."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean, listed
from bayes_grpo.logs.stores import StoreRun, run_in

METRIC_FILES = ("metrics.jsonl", "history.jsonl", "logging.jsonl", "experiment_log.jsonl")
"""Names that trainers give the metrics file of an output directory (Tinker, prime-rl; ART; ms-swift; EasyR1)."""
STATE_FILE = "trainer_state.json"
"""What transformers saves the rows of a training in."""

_GLOBAL_STEP = re.compile(rb'"global_step"\s*:\s*(\d{1,15})')
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})")


class FoundLog(NamedTuple):
    """The files behind a path.

    Attributes:
        files: The most advanced first, of which the first readable one is the log; of a store's run all its files, the
            oldest first.
        store: The run of a store that they are; None where they are another log.
    """

    files: tuple[Path, ...]
    store: StoreRun | None = None


def find(path: Path, wanted: str | None) -> FoundLog:
    """What a path stands for; a file stands for itself.

    Args:
        path: A file or a folder: the output directory of a trainer, one of its checkpoints, the folder of a store, or
            one that holds a single log.
        wanted: The run to take where a store holds several; None for the only one.

    Raises:
        LogReadError: A folder holds no log, or several that are not told apart.
    """
    files, problem = (path,), None
    try:
        if not path.is_dir():
            return FoundLog(files)
        files = _logs_in(path)
    except (OSError, ValueError) as error:
        problem = f"expected a readable directory, found {clean(error)}; check path and permissions"
    except LogReadError as error:
        problem = str(error)
    try:
        store = None if wanted is None and is_output_directory(path) else run_in(path, wanted, problem is None)
    except (OSError, ValueError):
        store = None  # a path that no system call takes
    except LogReadError as error:
        raise LogReadError(f"{clean(path, 200)}: {error}") from None
    if store is None and problem is not None:
        raise LogReadError(f"{clean(path, 200)}: {problem}")
    return FoundLog(files) if store is None else FoundLog(store.files, store)


def _logs_in(folder: Path) -> tuple[Path, ...]:
    """The log files of a folder, the most advanced first.

    Raises:
        OSError: It cannot be read.
        LogReadError: It holds no log, or several that are not told apart.
    """
    entries = sorted(folder.iterdir())
    states = {e / STATE_FILE: step for e in entries if (step := checkpoint_step(e.name)) is not None}
    states = {state: step for state, step in states.items() if state.is_file()}
    if (folder / STATE_FILE).is_file():
        states = {folder / STATE_FILE: _global_step(folder / STATE_FILE), **states}
    if states:
        return tuple(sorted(states, key=lambda state: states[state], reverse=True))
    named = [folder / name for name in METRIC_FILES if (folder / name).is_file()]
    logs = named or [e for e in entries if e.is_file() and e.suffix.lower() in (".jsonl", ".csv", ".parquet", ".log")]
    if len(logs) == 1:
        return tuple(logs)
    if logs:
        raise LogReadError(f"expected one log in the directory, found {listed(p.name for p in logs)}; pass one of them")
    raise LogReadError(
        f"expected {STATE_FILE}, checkpoint-*/{STATE_FILE}, {' or '.join(METRIC_FILES)} in the directory, found "
        f"{listed([e.name for e in entries])}; pass the log file itself"
    )


def checkpoint_step(name: str) -> int | None:
    """The step in the name of a checkpoint's folder, None where the folder is none."""
    found = _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None


def checkpoints_beside(source: str) -> tuple[int, ...]:
    """Steps of the checkpoints in the folder that a log lies in, in order; none where there is no such folder.

    Args:
        source: Path of the log or of the output directory, as `Run.source` has it.
    """
    path = Path(source)
    try:
        if not source or not path.exists():
            return ()
        folder = path if path.is_dir() else path.absolute().parent
        folder = folder.parent if checkpoint_step(folder.name) is not None else folder
        found = (checkpoint_step(child.name) for child in folder.iterdir())
        return tuple(sorted(step for step in found if step is not None))
    except (OSError, ValueError):  # a name that no system call takes
        return ()


def is_output_directory(path: Path) -> bool:
    """Whether a directory is where a trainer wrote one run, by the names of its files."""
    if not path.is_dir():
        return False
    names = (STATE_FILE, *METRIC_FILES)
    return any((path / n).is_file() for n in names) or any(checkpoint_step(e.name) is not None for e in path.iterdir())


def _global_step(state: Path) -> float:
    """How far the training was when a state was saved; infinite where the file does not say so."""
    found = _GLOBAL_STEP.search(state.read_bytes())
    return int(found[1]) if found else math.inf


def run_name_of(path: Path) -> str:
    """A short name for a run: the file's, or its directory's where the file's says nothing."""
    path = path.absolute()
    name = path.stem if not path.is_dir() else path.name
    if path.name in (STATE_FILE, *METRIC_FILES):
        path = path.parent
        name = path.name
    if checkpoint_step(name) is not None:
        name = path.parent.name or name
    return clean(name) or "run"
