"""Parsed files, stores or sessions as everything of a `Run` but its name and origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from bayes_grpo.common.errors import MENDING, LogReadError
from bayes_grpo.common.text import clean, counted
from bayes_grpo.logs.columns import COMPONENT, ENVIRONMENT, Columns
from bayes_grpo.logs.formats import NO_ROWS, Parsed, parsed_rows
from bayes_grpo.logs.hygiene import tidy, usual_spacing
from bayes_grpo.logs.keyindex import column
from bayes_grpo.logs.mapping import Choices, map_columns
from bayes_grpo.logs.resolve import resolve_settings, settings_in_rows
from bayes_grpo.logs.reward_parts import single_rewards
from bayes_grpo.logs.run import Run, row_windows
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.logs.steps import counter_of
from bayes_grpo.logs.table import COMPLETION_TEXTS, GROUP_KEYS
from bayes_grpo.logs.trainings import chosen_training, closing_rows
from bayes_grpo.logs.unused import suggested_keys, unused_keys

_SHARE = 0.8
_LEAST_GROUPS = 3


@np.errstate(over="ignore", invalid="ignore")  # a log may hold numbers whose difference is none
def assemble(
    files: list[Parsed],
    choices: Choices,
    user: Mapping[str, Any],
    sidecar: Mapping[str, Setting],
    training: str | None = None,
) -> Run:
    """The run, but for its name and origin, out of what was read file by file.

    ``choices`` are columns that the user named, ``user`` and ``sidecar`` checked settings, ``training`` is the one to
    read where a file holds several.
    """
    parsed = reduce(Parsed.followed_by, files)
    columns = map_columns(parsed.table, choices, parsed.trainer)
    trainings, resumed = (), ()
    if len(files) == 1:
        parsed, trainings, resumed = chosen_training(parsed, columns, training)
        files = [parsed]
    if trainings:
        columns = map_columns(parsed.table, choices, parsed.trainer)
    columns = _by_group(columns)
    row_steps = user.get("logging_window") or sidecar.get("logging_window", Setting(1)).value
    file = np.repeat(np.arange(len(files)), [part.table.n for part in files])
    closing = closing_rows(parsed.table)
    run = tidy(columns, closing, row_steps, file)
    if not (run.has_reward or run.has_eval):
        raise LogReadError(
            f"expected a row with a finite reward, found {counted(len(run.step), 'row')} without one; wait for more of "
            f"the log, or name another key with {MENDING}",
            mended_by=column("reward"),
        )
    closed = bool(closing.any()) and not np.any(np.isfinite(columns.train["reward"][np.flatnonzero(closing)[-1] :]))
    settings = resolve_settings(parsed, columns, run, sidecar, user, closed)
    parts = (*(COMPONENT + name for name in run.components), *(ENVIRONMENT + name for name in run.environments))
    part_keys = {name: columns.keys[name] for name in parts}
    used = {k: v for k, v in columns.keys.items() if k in ("step", "reward", "eval_reward", *run.signals)}
    in_rows = settings_in_rows(parsed.table)
    adapted = (
        f"{key!r} is adapted, from {known[0]:g} to {known[-1]:g}; it is no constant setting"
        for key, known in in_rows.items()
        if np.ptp(known) > 0
    )
    free = unused_keys(columns, used, [*single_rewards(columns.index), *in_rows])
    of_parts = {key for name in parts for key in columns.raw[name]}  # which may be a signal too
    unused = {key: why for key, why in free.items() if key not in of_parts}
    notes = (*parsed.notes, *columns.notes, *run.notes, *_rare_reward_note(columns, run, settings), *adapted)
    return replace(
        run,
        window=row_windows(run.step, settings.logging_window.value or 1),
        settings=settings,
        keys=used,
        part_keys=part_keys,
        definitions={name: columns.definitions[name] for name in run.signals},
        notes=notes,
        unused=unused,
        step_counter=counter_of(columns.keys),
        resumes=tuple(sorted({*run.resumes, *resumed})),
        trainings=trainings,
        suggested=suggested_keys(parsed.table, free, {"heldout" if k == "eval_reward" else k for k in used}),
    )


def _by_group(columns: Columns) -> Columns:
    """Columns with a step for each group, where a log without steps has one line a completion."""
    if columns.step is not None:
        return columns
    table = columns.index.table
    used = np.flatnonzero(np.isfinite(columns.train["reward"]))
    for key in (key for key in table.keys if key.strip().lower() in GROUP_KEYS):
        words = np.array(table.labels[key]) if key in table.labels else np.nan_to_num(table.column(key), nan=-1.0)
        begins = np.r_[True, words[used][1:] != words[used][:-1]]
        sizes, counts = np.unique(np.diff(np.flatnonzero(np.r_[begins, True])), return_counts=True)
        if sizes[np.argmax(counts)] > 1 and counts.max() >= max(_LEAST_GROUPS, _SHARE * counts.sum()):
            step = np.full(table.n, np.nan)
            step[used] = np.cumsum(begins)
            size = sizes[np.argmax(counts)]
            note = f"one line a completion: the {size} of each {clean(key)!r} are averaged, and groups counted from 1"
            return replace(columns, step=step, notes=[*columns.notes, note])
    texts = [k for k in table.keys if k.strip().lower() in COMPLETION_TEXTS and not table.has_numbers(k)]
    if texts:
        raise LogReadError(
            f"expected a row a step, found {counted(len(used), 'line')} of one completion each ({clean(texts[0])!r}) "
            f"without a step, and no {' or '.join(sorted(GROUP_KEYS)[:3])} whose lines follow each other; read them "
            f"with `bayes-grpo rollouts`, or name the step with {MENDING}",
            mended_by=column("step"),
        )
    return columns


def _rare_reward_note(columns: Columns, run: Run, settings: Settings) -> tuple[str, ...]:
    """A note where most rows have no reward, and no setting explains it by rollouts that serve several steps."""
    rewarded = np.isfinite(run.reward)
    spacing = usual_spacing(run.step)
    gap = usual_spacing(run.step[rewarded])
    known = settings.refresh_interval.provenance is not Provenance.ASSUMED
    if columns.step is None or known or spacing is None or gap is None or gap <= spacing:
        return ()
    every = gap // spacing
    return (
        f"a reward in one of {every} rows only; if one rollout serves the {gap} steps between, "
        f"state --set refresh_interval={gap}",
    )


def run_of(records: Iterable[Mapping[str, Any]], known: Parsed = NO_ROWS, settings: Mapping[str, Any] = {}) -> Run:
    """The run that records, in the order in which they came, hold by the same rules as a log in a file.

    ``known`` is what a trainer states besides rows: itself, a name, settings, planned steps; ``settings`` are checked
    ones of the user, which override everything else.
    """
    found = parsed_rows(records)
    parsed = replace(known, table=found.table, total_steps=known.total_steps or found.total_steps)
    name = clean(known.run_name) or "run"
    run = assemble([parsed], {}, settings, {})
    return replace(run, name=name, source=name, format="records", log_hash=parsed.table.digest())
