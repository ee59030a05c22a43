"""`read_log`: a path or rows in memory in, a `Run` out."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoError, LogReadError
from bayes_grpo.common.files import RUN_MARK, STANDARD_INPUT, file_and_run
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.assembling import assemble
from bayes_grpo.logs.file_names import with_rewards_of_name
from bayes_grpo.logs.finding import STATE_FILE, LogFiles, find, is_output_directory, only_run_in, run_name_of
from bayes_grpo.logs.formats import Parsed, Reader, Source, load
from bayes_grpo.logs.in_memory import is_tabular, kind_of_value, parsed_of, run_of_client
from bayes_grpo.logs.lines import PASTED, names_reward
from bayes_grpo.logs.options import SIDECAR_NAME, checked, checked_columns, read_sidecar
from bayes_grpo.logs.parts import as_one_run, parts_in
from bayes_grpo.logs.picking import all_readers, pick_reader
from bayes_grpo.logs.readers.json_text import CutOffError, before_cut
from bayes_grpo.logs.run import Caution, Run
from bayes_grpo.logs.wrapped_text import unwrapped

if TYPE_CHECKING:
    import pandas as pd


def to_frame(run: Run) -> pd.DataFrame:
    """One row a step: step, reward, the logged signals, eval_reward; NaN where not logged.

    Steps of train rows and of evaluations are joined; a column that the run lacks altogether is absent,
    reward and eval_reward excepted.
    """
    import pandas as pd

    train = pd.DataFrame({"reward": run.reward, **run.signals}, index=run.step)
    evals = pd.Series(run.eval_reward, index=run.eval_step, name="eval_reward")
    return train.join(evals, how="outer").rename_axis("step").reset_index()


_LINES = ("console_dict", "console_pairs", "csv", "step_blocks", "verl_console", "wandb_csv")
"""Formats in which half a line can pass for a whole one; half a JSON object cannot."""
_TRAINING = re.compile(r"training \d+")
"""A training within a run: "training 2", or "RUN/training 2"."""
PathLike = str | os.PathLike[str]
type RowsInMemory = Any
"""A data frame, columns, records, a trainer's state, a run of W&B's client."""
type RunLike = Run | PathLike | Sequence[PathLike] | RowsInMemory
"""A run, or what `read_log` makes one of."""


class _Read(NamedTuple):
    """A log: the file, or the folder of several; the bytes of its files; format; rows, joined; the wanted training."""

    where: Path
    content: tuple[bytes, ...]
    format: str
    parsed: Parsed
    training: str | None = None


def read_log(
    path_or_paths: PathLike | Sequence[PathLike] | RowsInMemory,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    run_name: str | None = None,
    run: str | None = None,
    settings: Mapping[str, Any] | None = None,
    whole_lines: bool = False,
) -> Run:
    """Reads the log of one training run, whatever trainer wrote it.

    Args:
        path_or_paths: A log file, the output directory of a trainer, a store's file or folder, or several files of one
            run, joined on the step (later files win where they disagree); ``FILE#RUN`` for one of several runs in a
            file; "-" for the standard input; ``wandb://entity/project/run``, by W&B's own
            client; or the rows themselves: a pandas or Polars frame, columns, a list of records such as
            ``trainer.state.log_history``, or a run of W&B's client.
        format: Name of a reader, where the content does not tell.
        columns: Key of "step", "reward", "heldout" (the evaluation reward) or a signal of `SIGNALS`, where the keys are
            unusual; "bayes_grpo.toml" states them under ``[columns]``.
        run_name: Name of the result.
        run: The run to take where a store, a chart or a file holds several: its name, its id, or the beginning of
            either; "training 2" of a file in which trainings follow each other.
        settings: Values for fields of `Settings`; they override everything else, also what "bayes_grpo.toml" in the
            folder of the log states.
        whole_lines: Leave out a last line that has not ended, in formats in which half a line can pass for a whole one:
            for a log that is being written.

    Raises:
        LogReadError: The log is missing, broken, of an unknown format, or holds no usable reward.
        SettingError: A setting has an unknown name or an impossible value.
        MissingExtraError: The format needs a package that is not installed.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> len(run.step), run.has_reward, run.has_eval
        (30, True, False)
    """
    user = checked(settings or {}, "settings")
    named = checked_columns(columns or {}, "columns")
    in_memory = is_tabular(path_or_paths)
    paths = [Path(kind_of_value(path_or_paths))] if in_memory else _paths(path_or_paths)
    if not in_memory and run is None and len(paths) == 1:
        file, named_run = file_and_run(str(paths[0]))
        paths = [Path(file)]
        run = named_run or None
    from_sidecar, columns_there = ({}, {}) if in_memory else read_sidecar(paths[0])
    if in_memory:
        rows = parsed_of(path_or_paths)
        read = [_Read(paths[0], (rows.table.digest().encode(),), "memory", rows, run)]
    else:
        read = [_read_one(p, format, whole_lines, run) for p in _files_of(paths)]
    where = "; ".join(clean(x.where, 200) for x in read)
    try:
        choices = {**columns_there, **named}
        parts = [x.parsed if "reward" in choices else with_rewards_of_name(x.parsed, x.where.stem) for x in read]
        if len(read) > 1:
            parts = as_one_run([(x.where, x.parsed) for x in read], choices)
        assembled = assemble(parts, choices, user, from_sidecar, read[0].training)
    except LogReadError as error:
        raise error.at(where) from None
    digest = hashlib.sha256()
    for part in (part for x in read for part in x.content):
        digest.update(part)
    unnamed = "run" if in_memory else run_name_of(paths[0])
    return replace(
        assembled,
        name=clean(run_name or read[0].parsed.run_name) or unnamed,
        source=where,
        format="+".join(dict.fromkeys(x.format for x in read)),
        log_hash=digest.hexdigest(),
    )


def as_run(source: RunLike) -> Run:
    """A run as it is, and what `read_log` takes as the run that it reads."""
    return source if isinstance(source, Run) else read_log(source)


def _paths(path_or_paths: PathLike | Sequence[PathLike]) -> list[Path]:
    given = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else path_or_paths
    if not isinstance(given, Sequence) or not all(isinstance(x, str | os.PathLike) for x in given):
        raise LogReadError(
            f"expected the path of a log, several, or rows of metrics, found {kind_of_value(path_or_paths)}; "
            f"pass a file, a data frame or a list of dicts"
        )
    if not given:
        raise LogReadError("expected the path of a log, found an empty list; pass at least one path")
    return [only_run_in(Path("/dev/stdin" if os.fspath(p) == STANDARD_INPUT else p)) for p in given]


def _files_of(paths: list[Path]) -> list[Path]:
    """Paths, or the parts of one run in the folder that is the only one of them."""
    try:
        alone = len(paths) == 1 and paths[0].is_dir() and not is_output_directory(paths[0])
        return [*parts_in(paths[0])] or paths if alone else paths
    except (OSError, ValueError):  # reading the path reports it
        return paths


def _read_one(path: Path, format: str | None, whole_lines: bool, wanted: str | None) -> _Read:
    """The first of the files behind a path that can be read: a newest checkpoint may be cut off. Of a store's all."""
    if (rows := run_of_client(path)) is not None:
        return _Read(path, (rows.table.digest().encode(),), "wandb_client", rows, wanted)
    training = None
    if wanted is not None and _TRAINING.fullmatch(last := wanted.rpartition("/")[2]):  # as "RUN/training 2"
        training = last
        wanted = wanted.removesuffix(last).rstrip("/") or None
    found = find(path, wanted)
    wanted = found.within if found.id else wanted
    read, failed = _readable(found, format, whole_lines, wanted)
    first = read[0]
    if not (found.id or training or first.parsed.took_run):
        training = wanted  # of a file that holds one run the name is that of a training in it
    where = first.where if len(read) == 1 else first.where.parent
    parsed = reduce(Parsed.followed_by, (x.parsed for x in read)).noted(*_origin(path, where, found, failed))
    if found.id:
        parsed = replace(parsed, run_name=parsed.run_name or found.name)
    return _Read(where, tuple(part for x in read for part in x.content), first.format, parsed, training)


def _readable(
    found: LogFiles, format: str | None, whole_lines: bool, wanted: str | None
) -> tuple[list[_Read], list[Path]]:
    """The readable files of a store's run, or the first of them; and the files that could not be read.

    Of JSON that is cut off the whole values are read where no file is whole.
    """
    read: list[_Read] = []
    failed: list[tuple[Path, LogReadError]] = []
    for file in found.files:
        try:
            read.append(_read_source(load(file), format, whole_lines, wanted))
        except LogReadError as error:
            failed.append((file, error))
            continue
        if not found.id:
            break
    if not read and not whole_lines:
        rests = (_read_before_cut(file, format, wanted) for file, error in failed if isinstance(error, CutOffError))
        read = [rest for rest in rests if rest is not None][:1]
    if not read:
        file, error = failed[0]
        raise error.at(clean(file, 200))
    return read, [file for file, _ in failed if file not in {x.where for x in read}]


def _read_before_cut(file: Path, format: str | None, wanted: str | None) -> _Read | None:
    """The rows of a file of JSON that is cut off, as far as it goes; None where it ends before a reward."""
    source = load(file)
    note = Caution(f"the file is cut off in line {len(source.text.splitlines())}; it is read as far as it goes")
    whole = replace(source, data=before_cut(source.text.strip()).encode())
    return _with_rewards(source, whole, format, False, wanted, note)


def _with_rewards(
    source: Source, text: Source, format: str | None, whole_lines: bool, wanted: str | None, note: str
) -> _Read | None:
    """The rows of a text out of a file, with a note on it; None where it holds no rewards."""
    with suppress(LogReadError):
        read = _read_source(text, format, whole_lines, wanted)
        if names_reward(read.parsed.table.keys):
            return read._replace(where=source.path, content=source.content, parsed=read.parsed.noted(note))
    return None


def _read_source(source: Source, format: str | None, whole_lines: bool, wanted: str | None) -> _Read:
    """The rows of a file, by the reader that fits or was named; of a logger's records those in their messages."""
    if format is None and (messages := unwrapped(source)) is not None:
        text, note = messages
        if (read := _with_rewards(source, text, None, whole_lines, wanted, note)) is not None:
            return read
    reader = pick_reader(source, format)
    text = source
    if whole_lines and reader.name in _LINES:
        text = replace(source, data=source.text[: source.text.rfind("\n") + 1].encode())
    parsed = reader.read(text, wanted)
    if format is None and (other := _also_holds(text, reader)):
        parsed = parsed.noted(other)
    if source.nul_bytes:
        parsed = parsed.noted(f"{counted(source.nul_bytes, 'NUL byte')} left out, which a lost write leaves behind")
    took_run = parsed.took_run or reader.takes_run
    return _Read(source.path, text.content, reader.name, replace(parsed, took_run=took_run))


_SEPARATE = ("console_dict", "marked_table")
"""Readers of things that a paste may hold beside each other: dictionaries of a trainer, and tables."""


def _also_holds(source: Source, taken: Reader) -> str:
    """A note on rewards of a pasted text that another reader than the one taken would read; "" where there are none."""
    others = [all_readers()[name] for name in _SEPARATE if taken.name in _SEPARATE and name != taken.name]
    for reader in others if len(source.text) <= PASTED else ():
        found = reader.sniff(source)
        if found is not None and found.strength > 0 and found.rows:
            what = "a table" if reader.name == "marked_table" else "dictionaries"
            return f"{what} with {counted(found.rows, 'row')} of rewards left out; --format {reader.name} reads them"
    return ""


def _origin(path: Path, where: Path, found: LogFiles, failed: Sequence[Path]) -> list[str]:
    """Notes on which file behind a path was read, and which could not be."""
    notes = []
    if found.id or (where.name == STATE_FILE and where != path):
        place = where.name if where == path else where.relative_to(path)
        notes.append(f"read from {clean(place, 200)}")
    if failed and found.id:
        notes.append(f"left out because unreadable: {listed(file.name for file in failed)}")
    elif failed:
        notes.append(f"newer but unreadable: {', '.join(clean(file.parent.name) for file in failed)}")
    return notes


class LogResult(NamedTuple):
    """A path with the run that it holds, or the reason why it holds none.

    ``named`` is whether the path was named, not found in a folder; ``run`` names the run in the file, where one was.
    """

    path: Path
    log: Run | BayesGrpoError
    named: bool
    run: str = ""


def logs_at(given: str, read: Mapping[str, Any] | None = None, skipped: Collection[Path] = ()) -> Iterator[LogResult]:
    """Logs behind a file, folder, store or pattern, or ``FILE#RUN``. A folder that a trainer wrote is one log.

    ``read`` are keyword arguments of `bayes_grpo.read_log`, ``skipped`` resolved paths that are no logs.
    """
    options = dict(read or {})
    file, name = file_and_run(given)
    if name:
        yield _run_in(Path(file), name, options)
        return
    one = partial(read_log, **options)
    paths = [Path(given)]
    if glob.has_magic(given) and not paths[0].exists():
        paths = [Path(x) for x in sorted(glob.glob(given, recursive=True))]
        if not paths:
            why = f"{clean(given, 300)}: expected logs, found nothing of this pattern; check the path"
            yield LogResult(Path(given), LogReadError(why), True)
    for path in paths:
        yield from map(_with_runs_named, _logs_below(path, one, skipped, True))


def _run_in(path: Path, name: str, read: Mapping[str, Any]) -> LogResult:
    """A run of several in a file, under the file's name and its own where it would be called like the file."""
    try:
        run = read_log(path, **{**read, "run": name})
    except BayesGrpoError as error:
        return LogResult(path, LogReadError(error.message) if error.parameter == "run" else error, True, name)
    training = [x.name for x in run.trainings if x.taken]
    if not training and run.name == run_name_of(path):
        training = [clean(name)]
    return LogResult(path, replace(run, name=" ".join([run.name, *training])), True, name)


def _with_runs_named(found: LogResult) -> LogResult:
    """The same; an error about several runs in a file says how one of them is named among several logs."""
    error = found.log
    if isinstance(error, Run) or error.mended_by is None or error.mended_by.parameter != "run":
        return found
    return found._replace(log=LogReadError(error.worded(lambda _: f"{clean(found.path.name)}{RUN_MARK}NAME")))


def _logs_below(
    path: Path, read: Callable[[Path], Run], skipped: Collection[Path], named: bool = False, depth: int = 5
) -> Iterator[LogResult]:
    """A log, or those in a folder, hidden files and sidecars aside; a named folder is looked into before it is read."""
    if path.resolve() in skipped:
        return
    look = path.is_dir() and depth > 0 and not (named and is_output_directory(path))
    if not (named and look):
        try:
            yield LogResult(path, read(path), named)
            return
        except BayesGrpoError as error:
            if not look:
                yield LogResult(path, error, named)
                return
    try:
        inside = sorted(path.iterdir())
    except OSError as error:
        why = LogReadError(f"{path}: cannot look into this folder ({error.strerror}); check permissions")
        yield LogResult(path, why, False)
        return
    shown = (child for child in inside if not child.name.startswith(".") and child.name != SIDECAR_NAME)
    found = None
    for found in (found for child in shown for found in _logs_below(child, read, skipped, depth=depth - 1)):
        yield found
    if named and found is None:
        yield from _logs_below(path, read, skipped, named, 0)
