"""Resolves a path to a log, the output of a trainer, or a run that a store keeps in a folder."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.formats import RunName, Source, chosen_run, load
from bayes_grpo.logs.picking import pick_reader
from bayes_grpo.stores.files import MAGIC, METRICS, MLFLOW_RUN, bytes_of

ROOTS = ("wandb", "runs", "tensorboard", "tensorboard_log", "mlruns", "trackio")
"""Names that stores give the folder with their runs."""
_DEPTH = 5
_MAX_FOLDERS = 5_000
_HEAD = 1 << 18
"""Bytes of a file in which its store names the run."""
_PASSED_BY = ("artifacts", "media", "files", "logs", "tmp", "traces", "node_modules", "__pycache__")
_DATABASES = (".db", ".sqlite", ".sqlite3")
_EVENTS = "tfevents"
_TIME = re.compile(r"\d{10}(\.\d*)?")


class LogFiles(NamedTuple):
    """A log, or a run that a store keeps in a folder, with its name, an id or its place there, and its name in a file.

    Of a store's run all ``files`` are read, the oldest first; of a log, whose ``id`` is "", the first readable one.
    """

    files: tuple[Path, ...]
    name: str = ""
    id: str = ""
    within: str | None = None


def runs_at(path: Path) -> list[str]:
    """Names of the runs that a store keeps in a folder or a database."""
    runs = _named(path, _folders(path)) if path.is_dir() else list(_of_file(path, ""))
    return [run.id or run.name for run in runs]


def _folders(root: Path) -> Iterator[Path]:
    """A folder and those in it; folders of checkpoints and pictures, hidden ones and links are passed by."""
    for folder, inside, _ in islice(root.walk(), _MAX_FOLDERS):
        yield folder
        passed = () if folder == root else _PASSED_BY
        searched = [x for x in sorted(inside) if not x.startswith((".", "checkpoint-")) and x not in passed]
        inside[:] = searched if len(folder.relative_to(root).parts) < _DEPTH else []


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _named(root: Path, folders: Iterator[Path] | list[Path]) -> list[LogFiles]:
    """The runs whose files lie in some folders; files of one run in several folders are put together."""
    found: dict[tuple[str, str], LogFiles] = {}
    for folder in folders:
        if _is_trial(folder):
            continue  # belongs to the run above it
        place = folder.name if folder == root else folder.relative_to(root).as_posix()
        for run in _runs_in(folder, place):
            key = (run.id, str(run.within and run.files))
            same = found.get(key)
            found[key] = run if same is None else same._replace(files=(*same.files, *run.files))
    return list(found.values())


def _runs_in(folder: Path, place: str) -> Iterator[LogFiles]:
    """The runs whose files lie in a folder itself."""
    entries = _entries(folder)
    files = [e for e in entries if e.is_file()]
    events = [e for e in files if _EVENTS in e.name]
    if events:
        trials = [e for child in entries if _is_trial(child) for e in _entries(child) if _EVENTS in e.name]
        named = [part for part in (folder.name, *Path(place).parts[::-1]) if part not in ROOTS]
        yield LogFiles((*events, *trials), named[0] if named else place, place)
    for file in files:
        is_mlflow = file.name == MLFLOW_RUN and _entries(folder / METRICS)
        if is_mlflow or file.suffix == ".wandb" or (file.suffix in _DATABASES and bytes_of(file, len(MAGIC)) == MAGIC):
            yield from _of_file(file, place)


def _of_file(file: Path, place: str) -> Iterator[LogFiles]:
    try:
        source = load(file) if file.suffix in _DATABASES else Source(file, bytes_of(file, _HEAD))
        reader = pick_reader(source)
        names = [] if reader.runs is None else reader.runs(source)
    except LogReadError:
        names = [] if file.suffix in _DATABASES else [RunName(place, place)]
    for name in names:
        yield LogFiles((file,), name.name or place, name.id or place, name.id if file.suffix in _DATABASES else None)


def _is_trial(folder: Path) -> bool:
    """True if a folder is what a writer of TensorBoard makes for the settings of a run, named by the time."""
    return _TIME.fullmatch(folder.name) is not None and folder.is_dir()


METRIC_FILES = ("metrics.jsonl", "history.jsonl", "logging.jsonl", "experiment_log.jsonl")
"""Names that trainers give the metrics file of an output directory (Tinker, prime-rl; ART; ms-swift; EasyR1)."""
STATE_FILE = "trainer_state.json"
"""File in which transformers saves the rows of a training."""
_GLOBAL_STEP = re.compile(rb'"global_step"\s*:\s*(\d{1,15})')
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,15})")


def find(path: Path, wanted: str | None) -> LogFiles:
    """Resolves a path; a file stands for itself.

    A folder is the output directory of a trainer, one of its checkpoints, the folder of a store, or one that holds a
    single log; ``wanted`` is the run to take where a store holds several.
    """
    files, problem = (path,), ""
    try:
        if not path.is_dir():
            return LogFiles(files)
        files = _logs_in(path)
    except (OSError, ValueError) as error:
        problem = f"expected a readable directory, found {clean(error)}; check path and permissions"
    except LogReadError as error:
        problem = str(error)
    try:
        # A run of a store may lie anywhere in a folder, but in one that is a log by itself and where none is wanted.
        if wanted is not None or not is_output_directory(path):
            deep = path.resolve().name in ROOTS or wanted is not None
            runs = [] if deep else _named(path, [path])
            if not runs and (deep or problem):
                runs = _named(path, _folders(path))
            if runs:
                return chosen_run(runs, wanted)
    except LogReadError as error:
        problem = str(error)
    except OSError:  # a folder that cannot be looked into
        pass
    if problem:
        raise LogReadError(f"{clean(path, 200)}: {problem}")
    return LogFiles(files)


def _logs_in(folder: Path) -> tuple[Path, ...]:
    """The log files of a folder, the most advanced first."""
    entries = sorted(folder.iterdir())
    states = {e / STATE_FILE: step for e in entries if (step := checkpoint_step(e.name)) is not None}
    states = {state: step for state, step in states.items() if state.is_file()}
    if (folder / STATE_FILE).is_file():
        step = _GLOBAL_STEP.search((folder / STATE_FILE).read_bytes())  # how far the training was
        states = {folder / STATE_FILE: int(step[1]) if step else math.inf, **states}
    if states:
        return tuple(sorted(states, key=lambda state: states[state], reverse=True))
    named = [folder / name for name in METRIC_FILES if (folder / name).is_file()]
    logs = named or [e for e in entries if e.is_file() and e.suffix.lower() in (".jsonl", ".csv", ".parquet", ".log")]
    if len(logs) == 1:
        return tuple(logs)
    if logs:
        raise LogReadError(
            f"expected one log in the directory, found {listed(p.name for p in logs)}; pass one of them, or list all "
            f"with `bayes-grpo batch {clean(folder, 200)}`"
        )
    if runs := [e.name for e in entries if is_output_directory(e)]:
        raise LogReadError(
            f"expected one run in the directory, found the folders of {len(runs)}: {listed(runs, 4)}; pass one, such "
            f"as {clean(folder / runs[0], 200)}, or list all with `bayes-grpo batch {clean(folder, 200)}`"
        )
    raise LogReadError(
        f"expected {STATE_FILE}, checkpoint-*/{STATE_FILE}, {' or '.join(METRIC_FILES)} in the directory, found "
        f"{listed([e.name for e in entries])}; pass the log file itself"
    )


def checkpoint_step(name: str) -> int | None:
    """The step in the name of a checkpoint's folder, None where the folder is none."""
    found = _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None


def saved_checkpoints(source: str) -> tuple[int, ...]:
    """Steps of the checkpoints in the folder that a log lies in (`Run.source`), in order; none without a folder."""
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
    """True if a directory is where a trainer wrote one run, by the names of its files."""
    if not path.is_dir():
        return False
    names = (STATE_FILE, *METRIC_FILES)
    return any((path / n).is_file() for n in names) or any(checkpoint_step(e.name) is not None for e in path.iterdir())


def only_run_in(path: Path) -> Path:
    """The folder of the only run in a folder that holds nothing else, as `bayes-grpo simulate` writes it; else it."""
    try:
        shown = [e for e in path.iterdir() if not e.name.startswith(".")] if path.is_dir() else []
        alone = len(shown) == 1 and checkpoint_step(shown[0].name) is None and is_output_directory(shown[0])
        return shown[0] if alone else path
    except (OSError, ValueError):  # reading the path reports it
        return path


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
