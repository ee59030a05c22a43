"""What files, stores or a session gave, as everything of a `Run` but its name and origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import clean, counted
from bayes_grpo.logs.formats import NO_ROWS, Parsed, parsed_rows
from bayes_grpo.logs.hygiene import Tidy, row_windows, tidy, usual_spacing
from bayes_grpo.logs.keyindex import Columns
from bayes_grpo.logs.mapping import COMPONENT, ENVIRONMENT, Choices, counter_of, map_columns
from bayes_grpo.logs.phases import Chosen, chosen_training, closing_rows
from bayes_grpo.logs.resolve import resolve_settings, settings_in_rows
from bayes_grpo.logs.reward_key import single_rewards, suggested_keys, unused_keys
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.logs.table import GROUP_KEYS, Table

_COMPLETION_TEXTS = ("completion", "response", "output", "generation", "completion_text", "response_text")
_LEAST_GROUPS, _MOSTLY = 3, 0.8


@np.errstate(over="ignore", invalid="ignore")  # a log may hold numbers whose difference is none
def assemble(
    files: list[Parsed],
    choices: Choices,
    user: Mapping[str, Any],
    sidecar: Mapping[str, Setting],
    training: str | None = None,
) -> dict[str, Any]:
    """Everything of a `Run` but its name and origin, out of what was read file by file.

    ``choices`` are columns that the user named, ``user`` and ``sidecar`` checked settings, ``training`` is the one to
    read where a file holds several. A `LogReadError` says why there is no usable reward, a `SettingError` what
    contradicts.
    """
    parsed = reduce(Parsed.followed_by, files)
    columns = _over_epochs(map_columns(parsed.table, choices, parsed.trainer))
    chosen = chosen_training(parsed.table, columns, training, parsed.starts) if len(files) == 1 else Chosen(None)
    if chosen.rows is not None:
        table = parsed.table.rows(chosen.rows)
        parsed = replace(parsed, table=table, total_steps=parsed.total_steps if chosen.is_last else None)
        files = [parsed]
        columns = _over_epochs(map_columns(table, choices, parsed.trainer))
    columns = _by_group(columns)
    row_steps = user.get("logging_window") or sidecar.get("logging_window", Setting(1)).value
    file = np.repeat(np.arange(len(files)), [part.table.n for part in files])
    rows = tidy(columns, closing_rows(parsed.table), row_steps, file)
    finite = int(np.sum(np.isfinite(rows.train["reward"])))
    if max(finite, len(rows.eval_step)) < 2:
        raise LogReadError(
            f"expected at least two rows with a finite reward, found {counted(len(rows.step), 'row')} and "
            f"{finite} finite; wait for more of the log, or name another key with --column reward=KEY"
        )
    settings = resolve_settings(parsed, columns, rows, sidecar, user)
    used = {k: v for k, v in columns.keys.items() if k in rows.train or k in ("step", "eval_reward")}
    notes = (*_seldom(columns, rows, settings), *_adapted(parsed.table))
    otherwise = [*single_rewards(columns.index), *settings_in_rows(parsed.table)]
    unused = unused_keys(columns, used, otherwise)
    parts = {k: v for k, v in sorted(rows.train.items()) if k in columns.parts}
    return {
        "step": rows.step,
        "reward": rows.train["reward"],
        "window": row_windows(rows.step, settings.logging_window.value or 1),
        "signals": {k: v for k, v in rows.train.items() if k != "reward" and k not in parts},
        "components": {k.removeprefix(COMPONENT): v for k, v in parts.items() if k.startswith(COMPONENT)},
        "environments": {k.removeprefix(ENVIRONMENT): v for k, v in parts.items() if k.startswith(ENVIRONMENT)},
        "logged": rows.logged,
        "step_counter": counter_of(columns.keys),
        "second_counter": _on_rows(columns, rows),
        "resumes": tuple(sorted({*rows.resumes, *chosen.resumed})),
        "trainings": chosen.trainings,
        "eval_step": rows.eval_step,
        "eval_reward": rows.eval_reward,
        "settings": settings,
        "keys": used,
        "notes": (*chosen.notes, *parsed.notes, *columns.notes, *rows.notes, *notes),
        "unused": unused,
        "suggested": suggested_keys(parsed.table, unused, {"heldout" if k == "eval_reward" else k for k in used}),
    }


def _over_epochs(columns: Columns) -> Columns:
    """Columns whose steps go on from one epoch to the next, where they count within an epoch."""
    key = columns.index.first(("epoch", "train/epoch"))
    if columns.step is None or key is None or columns.keys.get("step") == key:
        return columns
    epoch, step = columns.index.table.column(key), columns.step
    rows = np.flatnonzero(np.isfinite(columns.train["reward"]) & np.isfinite(step) & np.isfinite(epoch))
    back = step[rows[1:]] < step[rows[:-1]]
    if not back.any() or np.any((epoch[rows[1:]] > epoch[rows[:-1]]) != back):
        return columns
    begins = np.r_[0, rows[1:][back]]
    ends = [np.nanmax(part) for part in np.split(step, begins[1:])]
    offset = np.cumsum(np.r_[0.0, np.array(ends[:-1]) + (np.nanmin(step) == 0)])
    step = step + offset[np.searchsorted(begins, np.arange(len(step)), side="right") - 1]
    note = f"steps count within an epoch; they go on from one {key!r} to the next"
    return replace(columns, step=step, notes=[*columns.notes, note])


def _by_group(columns: Columns) -> Columns:
    """Columns with a step for each group, where a log without steps has one line a completion."""
    if columns.step is not None:
        return columns
    table, used = columns.index.table, np.flatnonzero(np.isfinite(columns.train["reward"]))
    for key in (key for key in table.keys if key.strip().lower() in GROUP_KEYS):
        words = np.array(table.labels[key]) if key in table.labels else np.nan_to_num(table.column(key), nan=-1.0)
        begins = np.r_[True, words[used][1:] != words[used][:-1]]
        sizes, counts = np.unique(np.diff(np.flatnonzero(np.r_[begins, True])), return_counts=True)
        if sizes[np.argmax(counts)] > 1 and counts.max() >= max(_LEAST_GROUPS, _MOSTLY * counts.sum()):
            step = np.full(table.n, np.nan)
            step[used] = np.cumsum(begins)
            size = sizes[np.argmax(counts)]
            note = f"one line a completion: the {size} of each {clean(key)!r} are averaged, and groups counted from 1"
            return replace(columns, step=step, notes=[*columns.notes, note])
    texts = [k for k in table.keys if k.strip().lower() in _COMPLETION_TEXTS and not table.has_numbers(k)]
    if texts:
        raise LogReadError(
            f"expected a row a step, found {counted(len(used), 'line')} of one completion each ({clean(texts[0])!r}) "
            f"without a step, and no {' or '.join(sorted(GROUP_KEYS)[:3])} whose lines follow each other; read them "
            f"with `bayes-grpo rollouts`, or name the step with --column step=KEY"
        )
    return columns


def _on_rows(columns: Columns, rows: Tidy) -> tuple[str, np.ndarray] | None:
    """The log's second counter with its value in each row; None where it has none."""
    if columns.counter is None or columns.step is None or not len(rows.step):
        return None
    values = columns.index.table.column(columns.counter)
    known = np.isfinite(values) & np.isin(columns.step, rows.step)
    out = np.full(len(rows.step), np.nan)
    out[np.searchsorted(rows.step, columns.step[known])] = values[known]
    return columns.counter, out


def _seldom(columns: Columns, rows: Tidy, settings: Settings) -> tuple[str, ...]:
    """What to know where most rows have no reward, and no setting explains it by rollouts that serve several steps."""
    rewarded = np.isfinite(rows.train["reward"])
    spacing, gap = usual_spacing(rows.step), usual_spacing(rows.step[rewarded])
    known = settings.refresh_interval.provenance is not Provenance.ASSUMED
    if columns.step is None or known or spacing is None or gap is None or gap <= spacing:
        return ()
    every = gap // spacing
    return (
        f"a reward in one of {every} rows only; if one rollout serves the {gap} steps between, "
        f"state --set refresh_interval={gap}",
    )


def _adapted(table: Table) -> Iterator[str]:
    """Notes on settings in the rows that the trainer changes."""
    for key, known in settings_in_rows(table).items():
        if np.ptp(known) > 0:
            yield f"{key!r} is adapted, from {known[0]:g} to {known[-1]:g}; it is no constant setting"


def run_of(records: Iterable[Mapping[str, Any]], known: Parsed = NO_ROWS, settings: Mapping[str, Any] = {}) -> Run:
    """The run that records, in the order in which they came, hold by the same rules as a log in a file.

    Args:
        records: Rows of metrics.
        known: What a trainer states besides rows: itself, a name, settings, planned steps.
        settings: Checked settings that the user states; they override everything else.
    """
    found = parsed_rows(records)
    parsed = replace(known, table=found.table, total_steps=known.total_steps or found.total_steps)
    name = clean(known.run_name) or "run"
    rows = assemble([parsed], {}, settings, {})
    return Run(name=name, source=name, format="records", log_hash=parsed.table.digest(), **rows)
