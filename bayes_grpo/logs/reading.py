"""`read_log`: a path in, a `Run` out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean, counted, listed
from bayes_grpo.logs.detect import pick_reader
from bayes_grpo.logs.hygiene import row_windows, tidy
from bayes_grpo.logs.mapping import Choices, map_columns
from bayes_grpo.logs.options import SIDECAR_NAME, checked, read_sidecar
from bayes_grpo.logs.parsed import Parsed, ReadOptions
from bayes_grpo.logs.pick import chosen, listed_runs
from bayes_grpo.logs.resolve import resolve_settings
from bayes_grpo.logs.run import Run, Setting
from bayes_grpo.logs.source import STATE_FILE, Source, find_logs, is_output_directory, load, run_name_of
from bayes_grpo.logs.stores import StoreRun, runs_at, runs_below
from bayes_grpo.logs.training_args import read_beside

_LINES = ("console_dict", "console_pairs", "csv", "step_blocks", "verl_console", "wandb_csv")
"""Formats in which half a line can pass for a whole one; half a JSON object cannot."""
_PART = "rewards/"
"""Before the name of a reward function among the columns."""
PathLike = str | os.PathLike[str]


def read_log(
    path_or_paths: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,
    step_column: str | None = None,
    reward_column: str | None = None,
    eval_column: str | None = None,
    run_name: str | None = None,
    run: str | None = None,
    settings: Mapping[str, Any] | None = None,
    sidecar: PathLike | None = None,
    whole_lines: bool = False,
) -> Run:
    """Reads the log of one training run, whatever trainer wrote it.

    Args:
        path_or_paths: A log file, the output directory of a trainer, a store's file or folder, or several files of one
            run, joined on the step (later files win where they disagree).
        format: Name of a reader, where the content does not tell.
        step_column: Key of the optimizer step.
        reward_column: Key of the mean train reward.
        eval_column: Key of the held-out reward.
        run_name: The run to take where a chart export holds several; otherwise the name of the result.
        run: The run to take where a store holds several: its name, its id, or the beginning of either.
        settings: Values for fields of `Settings`; they override everything else.
        sidecar: TOML or JSON file of such values; "bayes_grpo.toml" beside the log is read by itself.
        whole_lines: Leave out a last line that has not ended, in formats in which half a line can pass for a whole one:
            for a log that is being written.

    Raises:
        LogReadError: The log is missing, broken, of an unknown format, or holds no usable reward.
        SettingError: A setting has an unknown name or an impossible value.
        MissingExtraError: The format needs a package that is not installed.
    """
    user = checked(settings or {}, "settings")
    paths = _paths(path_or_paths)
    stated = _sidecar(paths[0], sidecar)
    choices = Choices(step_column, reward_column, eval_column)
    read = [_read_one(p, format, ReadOptions(choices, run_name, run), whole_lines) for p in paths]
    where = "; ".join(clean(s.path, 200) for s, _, _ in read)
    try:
        rows = assemble([parsed for _, _, parsed in read], choices, user, stated)
    except LogReadError as error:
        raise LogReadError(f"{where}: {error}") from None
    formats = list(dict.fromkeys(name for _, name, _ in read))
    digest = hashlib.sha256()
    for source, _, _ in read:
        for part in source.parts():
            digest.update(part)
    return Run(
        name=clean(run_name or read[0][2].run_name) or run_name_of(paths[0]),
        source=where,
        format="+".join(formats),
        log_hash=digest.hexdigest(),
        **rows,
    )


def _paths(path_or_paths: PathLike | Sequence[PathLike]) -> list[Path]:
    given = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else list(path_or_paths)
    if not given:
        raise LogReadError("expected the path of a log, found an empty list; pass at least one path")
    return [Path(p) for p in given]


def _sidecar(path: Path, sidecar: PathLike | None) -> dict[str, Setting]:
    if sidecar is not None:
        return read_sidecar(Path(sidecar))
    try:
        beside = (path if path.is_dir() else path.parent) / SIDECAR_NAME
        return read_sidecar(beside) if beside.is_file() else {}
    except (OSError, ValueError):  # a path that no system call takes; reading the log reports it
        return {}


def _read_one(path: Path, format: str | None, options: ReadOptions, whole_lines: bool) -> tuple[Source, str, Parsed]:
    """The first of the files behind a path that can be read: a newest checkpoint may be cut off."""
    store = _store_run(path, options.run)
    if store is not None:
        return _read_store(path, store, format, options)
    failed: list[str] = []
    first_error: LogReadError | None = None
    for candidate in find_logs(path):
        try:
            source = load(candidate)
            reader = pick_reader(source, format)
            if whole_lines and reader.NAME in _LINES:
                source = replace(source, data=source.data[: source.data.rfind(b"\n") + 1])
            parsed = reader.read(source, options)
        except LogReadError as error:
            first_error = first_error or LogReadError(f"{clean(candidate, 200)}: {error}")
            failed.append(candidate.parent.name)
            continue
        notes = parsed.notes
        is_state = candidate.name == STATE_FILE
        if is_state and candidate != path:
            notes += (f"read from {clean(candidate.relative_to(path))}",)
        if is_state or candidate != path:
            arguments = read_beside(candidate)
            parsed = replace(parsed, settings=arguments.settings)
            notes += arguments.notes
        if failed:
            notes += (f"newer but unreadable: {', '.join(clean(n) for n in failed)}",)
        return source, reader.NAME, replace(parsed, notes=notes)
    raise first_error or LogReadError(f"{clean(path, 200)}: expected a log, found none; check the path")


def _store_run(path: Path, wanted: str | None) -> StoreRun | None:
    """The run of a store that a folder stands for, None where the folder or file stands for another log."""
    try:
        if not path.is_dir():
            return None
        if wanted is not None:
            runs = runs_below(path, everywhere=True)
            return runs[chosen(runs, wanted)] if runs else None
        if is_output_directory(path):
            return None
        runs = runs_at(path)
        if not runs:
            try:
                find_logs(path)
                return None
            except LogReadError:
                runs = runs_below(path)
                if not runs and (deeper := runs_below(path, everywhere=True)):
                    raise LogReadError(
                        f"expected a log in the folder, found runs of stores further down: {listed_runs(deeper)}; "
                        f"choose with --run NAME"
                    ) from None
        return runs[chosen(runs, wanted)] if runs else None
    except (OSError, ValueError):
        return None  # a path that no system call takes; reading the log reports it
    except LogReadError as error:
        raise LogReadError(f"{clean(path, 200)}: {error}") from None


def _read_store(path: Path, store: StoreRun, format: str | None, options: ReadOptions) -> tuple[Source, str, Parsed]:
    """A run out of a store's files, joined in the order of their time; one that cannot be read is left out."""
    read: list[tuple[Source, str, Parsed]] = []
    failed: list[str] = []
    first_error: LogReadError | None = None
    for file in store.files:
        try:
            source = load(file)
            reader = pick_reader(source, format)
            read.append((source, reader.NAME, reader.read(source, options._replace(run=store.within))))
        except LogReadError as error:
            first_error = first_error or LogReadError(f"{clean(file, 200)}: {error}")
            failed.append(file.name)
    if not read:
        raise first_error or LogReadError(f"{clean(path, 200)}: expected a store's files, found none; check the path")
    sources = [source for source, _, _ in read]
    first = sources[0].path if len(sources) == 1 else sources[0].path.parent
    parsed = reduce(_join, [parsed for _, _, parsed in read])
    notes = (*parsed.notes, f"read from {clean(first.relative_to(path) if first != path else path.name, 200)}")
    if failed:
        notes += (f"left out because unreadable: {listed(failed)}",)
    whole = Source(first, b"".join(part for source in sources for part in source.parts()))
    named = parsed.run_name or store.name
    return whole, read[0][1], replace(parsed, notes=notes, run_name=named)


def assemble(
    parts: list[Parsed], choices: Choices, user: Mapping[str, Any], stated: Mapping[str, Setting]
) -> dict[str, Any]:
    """Everything of a `Run` but its name and origin.

    Args:
        parts: What was read, file by file.
        choices: Columns that the user named.
        user: Settings from the user, checked.
        stated: Settings from a file beside the log.

    Raises:
        LogReadError: No reward is found, several keys could be it, or there are too few rows.
        SettingError: Settings contradict each other.
    """
    parsed = reduce(_join, parts)
    columns = map_columns(parsed.table, choices, parsed.trainer)
    summary = np.zeros(parsed.table.n, dtype=bool)
    for key in ("train_runtime", "train/train_runtime"):
        summary |= np.isfinite(parsed.table.column(key))
    row_steps = user.get("logging_window") or stated.get("logging_window", Setting(1)).value
    file = np.repeat(np.arange(len(parts)), [part.table.n for part in parts])
    functions = {_PART + name: values for name, values in columns.components.items()}
    rows = tidy(columns.step, columns.train | functions, columns.evals, summary, row_steps, file)
    finite = int(np.sum(np.isfinite(rows.train["reward"])))
    if max(finite, len(rows.eval_step)) < 2:
        raise LogReadError(
            f"expected at least two rows with a finite reward, found {counted(len(rows.step), 'row')} and "
            f"{finite} finite; wait for more of the log, or name another key with --reward-column"
        )
    settings = resolve_settings(parsed, columns, rows, stated, user)
    return {
        "step": rows.step,
        "reward": rows.train["reward"],
        "window": row_windows(rows.step, settings.logging_window.value or 1),
        "signals": {k: v for k, v in rows.train.items() if k != "reward" and k not in functions},
        "components": {k.removeprefix(_PART): rows.train[k] for k in sorted(functions) if k in rows.train},
        "eval_step": rows.eval_step,
        "eval_reward": rows.eval_reward,
        "settings": settings,
        "keys": {k: v for k, v in columns.keys.items() if k in rows.train or k in ("step", "eval_reward")},
        "notes": (*parsed.notes, *columns.notes, *rows.notes),
    }


def _join(first: Parsed, second: Parsed) -> Parsed:
    return Parsed(
        first.table.appended(second.table),
        {**first.config, **second.config},
        second.total_steps or first.total_steps,
        second.logging_steps or first.logging_steps,
        first.trainer if first.trainer is second.trainer else None,
        tuple(dict.fromkeys((*first.notes, *second.notes))),
        {**first.settings, **second.settings},
        first.run_name or second.run_name,
    )
