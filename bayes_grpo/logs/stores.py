"""Runs that the stores of trainers keep in a folder, and which of them is meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs.detect import pick_reader
from bayes_grpo.logs.parsed import RunName, StoreReader
from bayes_grpo.logs.pick import chosen_run, listed_runs
from bayes_grpo.logs.source import Source, load
from bayes_grpo.stores.companions import METRICS, MLFLOW_RUN
from bayes_grpo.stores.sqlite_copy import MAGIC

ROOTS = ("wandb", "runs", "tensorboard", "tensorboard_log", "swanlog", "mlruns", "trackio")
"""Names that stores give the folder with their runs."""

_DEPTH = 5
_MAX_FOLDERS = 5_000
_HEAD = 1 << 18
"""Bytes of a file in which its store names the run."""
_PASSED_BY = ("artifacts", "media", "files", "logs", "tmp", "traces", "node_modules", "__pycache__")
_RUN_FILES = (".wandb", ".swanlab")
_DATABASES = (".db", ".sqlite", ".sqlite3")
_EVENTS = "tfevents"


class StoreRun(NamedTuple):
    """A run that a store keeps in a folder.

    Attributes:
        name: Its name.
        id: What only this run is called; a place in the folder where the store gives none.
        files: Its files, the oldest first.
        within: What it is called in a file that holds several, else None.
    """

    name: str
    id: str
    files: tuple[Path, ...]
    within: str | None = None


def run_in(path: Path, wanted: str | None, is_log: bool) -> StoreRun | None:
    """The run of a store that a folder stands for; None where no store keeps any there.

    Args:
        path: The folder.
        wanted: What the run is called, wherever in the folder it lies; None for the only one.
        is_log: Whether the folder stands for a log without it: then only a store's own folder counts.

    Raises:
        LogReadError: None or several are meant, or the folder's runs lie further down than a store keeps them.
    """
    if wanted is not None:
        runs = _named(path, _folders(path, _DEPTH))
    else:
        runs = _runs_at(path)
        if not runs and not is_log:
            roots = [path / name for name in ROOTS if (path / name).is_dir()]
            runs = _named(path, (folder for root in roots for folder in _folders(root, _DEPTH)))
            if not runs and (deeper := _named(path, _folders(path, _DEPTH))):
                raise LogReadError(
                    f"expected a log in the folder, found runs of stores further down: {listed_runs(deeper)}; "
                    f"choose with --run NAME"
                )
    return runs[chosen_run(runs, wanted)] if runs else None


def _runs_at(path: Path) -> list[StoreRun]:
    """The runs of a folder that is a store's: by its name, or because files of a store lie in it."""
    if path.resolve().name in ROOTS or (path / MLFLOW_RUN).is_file():  # an experiment of MLflow is described too
        return _named(path, _folders(path, _DEPTH))
    return _named(path, [path])


def _folders(root: Path, depth: int) -> Iterator[Path]:
    """A folder and those in it; folders of checkpoints and pictures, hidden ones and links are passed by."""
    left = [(root, depth)]
    for _ in range(_MAX_FOLDERS):
        if not left:
            return
        folder, depth = left.pop(0)
        yield folder
        for child in _entries(folder) if depth else ():
            known = child.name in _PASSED_BY and folder != root
            if (
                child.is_dir()
                and not child.is_symlink()
                and not known
                and not child.name.startswith((".", "checkpoint-"))
            ):
                left.append((child, depth - 1))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _named(root: Path, folders: Iterator[Path] | list[Path]) -> list[StoreRun]:
    """The runs whose files lie in some folders; files of one run in several folders are put together."""
    found: dict[tuple[str, str], StoreRun] = {}
    for folder in folders:
        if _is_trial(folder):
            continue  # belongs to the run above it
        for run in _runs_in(folder, _place(folder, root)):
            key = (run.id, str(run.within and run.files))
            same = found.get(key)
            found[key] = run if same is None else same._replace(files=(*same.files, *run.files))
    return list(found.values())


def _runs_in(folder: Path, place: str) -> Iterator[StoreRun]:
    """The runs whose files lie in a folder itself."""
    entries = _entries(folder)
    if (folder / MLFLOW_RUN).is_file() and (folder / METRICS).is_dir():
        yield from _of_file(folder / MLFLOW_RUN, place)
        return
    files = [e for e in entries if e.is_file()]
    events = [e for e in files if _EVENTS in e.name]
    if events:
        trials = [e for child in entries if _is_trial(child) for e in _entries(child) if _EVENTS in e.name]
        named = [part for part in (folder.name, *Path(place).parts[::-1]) if part not in ROOTS]
        yield StoreRun(named[0] if named else place, place, (*events, *trials))
    for file in files:
        if file.suffix in _RUN_FILES or (file.suffix in _DATABASES and _begins(file).startswith(MAGIC)):
            yield from _of_file(file, place)


def _of_file(file: Path, place: str) -> Iterator[StoreRun]:
    try:
        # What makes a description a run's is that metrics lie beside it; which they are does not matter here.
        beside = {f"{METRICS}/": b""} if file.name == MLFLOW_RUN else {}
        source = load(file) if file.suffix in _DATABASES else Source(file, _begins(file, _HEAD), beside)
        reader = pick_reader(source)
        names = reader.runs(source) if isinstance(reader, StoreReader) else []
    except LogReadError:
        names = [] if file.suffix in _DATABASES else [RunName(place, place)]
    for name in names:
        yield StoreRun(name.name or place, name.id or place, (file,), name.id if file.suffix in _DATABASES else None)


def _begins(file: Path, size: int = len(MAGIC)) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(size)
    except OSError:
        return b""


def _is_trial(folder: Path) -> bool:
    """Whether a folder is what a writer of TensorBoard makes for the settings of a run, named by the time."""
    whole, _, fraction = folder.name.partition(".")
    return whole.isdigit() and len(whole) == 10 and (not fraction or fraction.isdigit()) and folder.is_dir()


def _place(folder: Path, root: Path) -> str:
    return folder.name if folder == root else folder.relative_to(root).as_posix()
