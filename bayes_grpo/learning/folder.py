"""A folder of logs as a corpus: which logs it holds, which repository each is from, and the fits kept between runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import LogReadError, PriorError
from bayes_grpo.common.files import written_whole
from bayes_grpo.learning.learn import LogCase
from bayes_grpo.logs import Run
from bayes_grpo.logs.reading import logs_in

NAMES, REPOSITORIES = ("run_id", "run", "log", "name"), ("repo", "repository", "project", "team")
"""Columns of an index, by their possible names."""


class SourcedRun(NamedTuple):
    """A log and the repository it is from."""

    run: Run
    repository: str


class Corpus(NamedTuple):
    """What a folder holds.

    Attributes:
        runs: Logs with their repositories, in the order of their names.
        refused: A sentence for each file that is no log.
    """

    runs: list[SourcedRun]
    refused: list[str]


def read_folder(folder: str | Path, index: str | Path | None = None) -> Corpus:
    """Reads every log in a folder and the folders in it.

    Args:
        folder: The folder. A file is a log; a folder is the output directory of a run if it can be read as one.
        index: CSV file that names the repository of each log (columns ``run_id``, the file's name without its
            suffix, and ``repo``). Without it, or for a log that it lacks, the repository is the folder of the log.

    Returns:
        The logs, and a sentence for each file that is no log.

    Raises:
        LogReadError: The folder does not exist or holds no log.
        PriorError: The index cannot be read or lacks a column.
    """
    root = Path(folder)
    if not root.is_dir():
        raise LogReadError(f"{root}: expected a folder of logs, found none; check the path")
    known = {} if index is None else read_index(index)
    found = Corpus([], [])
    for path, log in logs_in(root, skipped={Path(index).resolve()} if index is not None else ()):
        if isinstance(log, Run):
            own = str(path.parent.relative_to(root))
            found.runs.append(SourcedRun(log, known.get(path.stem, known.get(path.name, own))))
        else:
            found.refused.append(str(log))
    if not found.runs:
        why = f" ({found.refused[0]})" if found.refused else ""
        raise LogReadError(f"{root}: expected a folder of logs, found none that can be read{why}")
    return found


def read_index(path: str | Path) -> dict[str, str]:
    """Log → repository, from a CSV file.

    Raises:
        PriorError: It cannot be read or lacks a column.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PriorError(f"{path}: cannot read this index ({error}); give a CSV file") from error
    columns = [c for c in (rows[0] if rows else {}) if c]
    name = next((c for c in NAMES if c in columns), None)
    repository = next((c for c in REPOSITORIES if c in columns), None)
    if name is None or repository is None:
        raise PriorError(
            f"{path}: expected an index with columns run_id and repo, found {', '.join(columns) or 'no row'}"
        )
    return {row[name]: row[repository] for row in rows if row[name] and row[repository]}


def save_cases(cases: Iterable[LogCase], path: str | Path) -> None:
    """Keeps fitted logs in a NumPy archive, so that learning again costs seconds."""
    arrays: dict[str, np.ndarray] = {}
    about = []
    for i, c in enumerate(cases):
        about.append([c.regime, c.log, c.repository, list(c.parameters), c.hash])
        arrays |= {f"draws{i}": c.draws.astype(np.float32), f"weak{i}": c.weak, f"covariates{i}": c.covariates}
    with written_whole(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)  # pyright: ignore[reportArgumentType]


def load_cases(path: str | Path) -> list[LogCase]:
    """Fitted logs from `save_cases`.

    Raises:
        PriorError: The file cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as kept:
            return [
                LogCase(
                    regime,
                    log,
                    repository,
                    tuple(parameters),
                    kept[f"draws{i}"].astype(float),
                    kept[f"weak{i}"],
                    kept[f"covariates{i}"],
                    digest,
                )
                for i, (regime, log, repository, parameters, digest) in enumerate(json.loads(str(kept["about"])))
            ]
    except (OSError, ValueError, KeyError) as error:
        raise PriorError(f"{path}: cannot read these fitted logs ({error}); fit them again") from error
