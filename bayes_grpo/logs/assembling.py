"""Parsed files, stores or sessions as everything of a `Run` but its name and origin: which training, which rows.

A training begins after a closing line of a trainer, where steps or epochs go back to their start, where a column names
another run, and where rewards begin after rows without any. Where the steps go on, the training was resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from bayes_grpo.common.errors import MENDING, LogReadError
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.columns import Columns
from bayes_grpo.logs.formats import NO_ROWS, Parsed, chosen_run, main_run, parsed_rows
from bayes_grpo.logs.hygiene import MAX_RESUMES, repeats, tidy, usual_spacing
from bayes_grpo.logs.keyindex import column
from bayes_grpo.logs.mapping import Choices, counter_of, map_columns
from bayes_grpo.logs.resolve import resolve_settings, settings_in_rows
from bayes_grpo.logs.reward_key import single_rewards, suggested_keys, unused_keys
from bayes_grpo.logs.run import LoggedTraining, Run, row_windows
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.logs.table import COMPLETION_TEXTS, GROUP_KEYS, RUN_KEYS, Table
from bayes_grpo.logs.trainers import GENERIC

CLOSING = ("train_runtime", "train/train_runtime")
"""Keys that only the line has that closes a training."""
_LEAST = 2
_ROWS_BEFORE = 3
"""Rows without a reward before the first one, from which on they are another training's."""
_SHARE = 0.8
_ROWS_AT_LIMIT = 5
"""Rows from which on a length that most of them reach is a limit."""
_LEAST_LIMIT = 16
"""Tokens below which completions are equally long because their answers are."""


def _closing_rows(table: Table) -> np.ndarray:
    """Rows that close a training, shape (n,)."""
    return np.logical_or.reduce([np.isfinite(table.column(key)) for key in CLOSING])


def starts_of(
    closing: np.ndarray, columns: Mapping[str, np.ndarray], step: np.ndarray | None, epoch: np.ndarray
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Rows at which trainings begin, after the first, and steps at which one was resumed after its closing line.

    An epoch stands in for the step where the log has none. Rows are in file order; ``columns`` are "reward" and "loss";
    all arrays have the shape (n,).
    """
    train = np.logical_or.reduce([np.isfinite(x) for x in columns.values()]) & ~closing
    axis = epoch if step is None or np.isfinite(step[train]).sum() < _LEAST else step
    placed = bool(np.isfinite(axis[train]).sum() >= _LEAST)
    rows = np.flatnonzero(train & np.isfinite(axis)) if placed else np.flatnonzero(train)
    if len(rows) < _LEAST:
        return (), ()
    at = axis[rows] if placed else np.zeros(len(rows))
    shut = np.diff(np.cumsum(closing)[rows]) > 0
    places = set((1 + np.flatnonzero(shut | (at[1:] < at[:-1]))).tolist())
    if len(places) > MAX_RESUMES:
        return (), ()
    values = {name: column[rows] for name, column in columns.items()}
    loss, reward = (np.isfinite(values[name]) for name in ("loss", "reward"))
    first = int(np.argmax(reward))  # where rows of another training are before it
    another = loss[:first].sum() >= _ROWS_BEFORE and loss[first] and reward[first:][loss[first:]].mean() > _SHARE
    first = first if another else 0
    ordered = sorted(places | {first} - {0})
    begun = 0
    starts = []
    resumed = []
    for k, end in pairwise([*ordered, len(rows)]):
        goes_on = placed and at[k] > at[begun:k].max()
        closed = bool(shut[k - 1])
        if goes_on and k != first:
            resumed += [float(at[k])] if closed and axis is step else []
            continue
        if k == first or (closed and not placed) or _starts_over(at, values, slice(begun, k), slice(k, end), closed):
            between = np.arange(rows[k - 1], rows[k])
            own = axis[between] < at[k] if goes_on else axis[between] > at[k:end].min()
            starts.append(int(between[own | closing[between] | (between == rows[k - 1])][-1]) + 1)
            begun, resumed = k, []
    return tuple(starts), tuple(resumed)


def _starts_over(at: np.ndarray, values: Mapping[str, np.ndarray], before: slice, after: slice, closed: bool) -> bool:
    """Whether rows begin a training of their own, and do not merely repeat, complete or sort those before them."""
    old, new = at[before], at[after]
    if new[0] > max(old[0], 0.9 * old.min() + 0.1 * old.max() if closed else old[0]):
        return False
    if len(new) >= _LEAST and new.max() < old.min():
        return True  # of another part of a text, whose end alone stands before
    inside = (np.sum((x >= y.min()) & (x <= y.max())) for x, y in ((old, new), (new, old)))
    if not closed and min(inside) < _LEAST:
        return False
    shared = [v for v in values.values() if np.isfinite(v[before]).any() and np.isfinite(v[after]).any()]
    return not all(repeats(old, v[before], new, v[after]) for v in shared)


def _chosen_training(
    parsed: Parsed, columns: Columns, wanted: str | None
) -> tuple[Parsed, tuple[LoggedTraining, ...], tuple[float, ...]]:
    """The training to read: the wanted one, else the only one with rewards, else the last with rewards.

    With it come all trainings, none where the log is one, and the steps of its resumes.
    """
    table = parsed.table
    closing = _closing_rows(table)
    reward = columns.train["reward"] if np.isfinite(columns.train["reward"]).any() else columns.evals
    loss = columns.train.get("loss", np.full(table.n, np.nan))
    parts = _by_label(table, columns.step, np.isfinite(reward) | np.isfinite(loss))
    resumed: tuple[float, ...] = ()
    if not parts:
        epoch = columns.index.first(("epoch", "train/epoch"))
        epochs = np.full(table.n, np.nan) if epoch is None else table.column(epoch)
        starts, resumed = starts_of(closing, {"reward": columns.train["reward"], "loss": loss}, columns.step, epochs)
        ends = pairwise((0, *(parsed.starts or starts), table.n))
        parts = {f"training {i}": np.arange(start, end) for i, (start, end) in enumerate(ends, 1)}
    steps = ", ".join(f"{s:g}" for s in resumed)
    resume = (f"resumed at step {steps}, after a closing line",) if resumed else ()
    if len(parts) == 1:
        if not any(wanted in words for words in table.labels.values()):
            chosen_run(list(parts), wanted)
        return replace(parsed, notes=(*resume, *parsed.notes)), (), resumed
    logged = np.logical_or.reduce([np.isfinite(v) for v in (*columns.train.values(), columns.evals)]) & ~closing
    found = []
    for name, rows in parts.items():
        used = rows[logged[rows]]
        step = np.arange(1.0, len(used) + 1) if columns.step is None else columns.step[used]
        steps = np.unique(step[np.isfinite(step)])
        ends = (float(steps[0]), float(steps[-1])) if len(steps) else (None, None)
        rewards = int(np.isfinite(reward[rows[~closing[rows]]]).sum())
        found.append(LoggedTraining(name, len(steps), *ends, rewards))
    rewarded = [i for i, x in enumerate(found) if x.rewards >= _LEAST]
    rewarded = rewarded or [i for i, x in enumerate(found) if x.rewards] or [len(found) - 1]
    taken = rewarded[-1]
    why = "the only one with rewards" if len(rewarded) == 1 else "the last with rewards"
    main = main_run({x.name: x.rewards for x in found})
    if len(rewarded) > 1 and main is not None:
        taken = [x.name for x in found].index(main)
        why = "with ten times the rewards of any other"
    if wanted is not None:
        names = [x.name for x in found]
        taken = names.index(chosen_run(names, wanted))
        why = "as --run names it"
    other = found[rewarded[0] if len(rewarded) > 1 and taken != rewarded[0] else (taken + 1) % len(found)]
    left_out = listed([x.text for i, x in enumerate(found) if i != taken], 6)
    read = f"{found[taken].name} of {len(found)} in the log is read, {why}; --run '{other.name}' takes another"
    found[taken] = found[taken]._replace(taken=True)
    notes = (f"{read}; left out: {left_out}", *parsed.notes)
    parsed = replace(parsed, table=table.rows(list(parts.values())[taken]), notes=notes)
    if taken < len(found) - 1:
        return replace(parsed, total_steps=None), tuple(found), ()
    return replace(parsed, notes=(notes[0], *resume, *notes[1:])), tuple(found), resumed


def _by_label(table: Table, step: np.ndarray | None, train: np.ndarray) -> dict[str, np.ndarray]:
    """Run → its rows, where a column names runs and their steps are not one after another; else nothing."""
    for key in table.keys:
        if key.strip().lower() not in RUN_KEYS:
            continue
        words = table.labels.get(key) or [f"{key}={x:g}" if x == x else "" for x in table.column(key).tolist()]
        names, place = np.unique(np.array(words, dtype=object).astype(str), return_inverse=True)
        rows = {clean(name): np.flatnonzero(place == i) for i, name in enumerate(names) if name.strip()}
        rows = {name: r for name, r in rows.items() if train[r].sum() >= _LEAST}
        rows = dict(sorted(rows.items(), key=lambda x: x[1][0]))
        at = [] if step is None else [step[r[train[r]]] for r in rows.values()]
        begins = [np.nanmin(steps) for steps in at if np.isfinite(steps).any()]
        overlap = any(b <= a for a, b in combinations(begins, 2))  # else the training was resumed
        if 1 < len(rows) <= MAX_RESUMES and (step is None or overlap):
            return rows
    return {}


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
    read where a file holds several. A `LogReadError` says why there is no usable reward, a `SettingError` what
    contradicts.
    """
    parsed = reduce(Parsed.followed_by, files)
    columns = map_columns(parsed.table, choices, parsed.trainer)
    trainings, resumed = (), ()
    if len(files) == 1:
        parsed, trainings, resumed = _chosen_training(parsed, columns, training)
        files = [parsed]
    if trainings:
        columns = map_columns(parsed.table, choices, parsed.trainer)
    columns = _by_group(columns)
    row_steps = user.get("logging_window") or sidecar.get("logging_window", Setting(1)).value
    file = np.repeat(np.arange(len(files)), [part.table.n for part in files])
    run = tidy(columns, _closing_rows(parsed.table), row_steps, file)
    if not (run.has_reward or run.has_eval):
        raise LogReadError(
            f"expected a row with a finite reward, found {counted(len(run.step), 'row')} without one; wait for more of "
            f"the log, or name another key with {MENDING}",
            mended_by=column("reward"),
        )
    run = _with_limit(run, columns)
    settings = resolve_settings(parsed, columns, run, sidecar, user)
    used = {k: v for k, v in columns.keys.items() if k in ("step", "reward", "eval_reward", *run.signals)}
    in_rows = settings_in_rows(parsed.table)
    adapted = (
        f"{key!r} is adapted, from {known[0]:g} to {known[-1]:g}; it is no constant setting"
        for key, known in in_rows.items()
        if np.ptp(known) > 0
    )
    unused = unused_keys(columns, used, [*single_rewards(columns.index), *in_rows])
    notes = (*parsed.notes, *columns.notes, *run.notes, *_seldom(columns, run, settings), *adapted)
    return replace(
        run,
        window=row_windows(run.step, settings.logging_window.value or 1),
        settings=settings,
        keys=used,
        definitions={name: columns.definitions[name] for name in run.signals},
        notes=notes,
        unused=unused,
        step_counter=counter_of(columns.keys),
        resumes=tuple(sorted({*run.resumes, *resumed})),
        trainings=trainings,
        suggested=suggested_keys(parsed.table, unused, {"heldout" if k == "eval_reward" else k for k in used}),
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


def _with_limit(run: Run, columns: Columns) -> Run:
    """The run, noted where a length limit cuts completions that the logged share of cut ones does not count.

    Such a share is of another limit and is left out. Where a completion that ended by itself was as long, as TRL logs
    it, there is no limit.
    """
    keys, index = columns.keys, columns.index
    longest = run.values("completion_length_max")
    longest = longest[np.isfinite(longest)]
    cut = run.values("completions_clipped_ratio")
    if len(longest) < _ROWS_AT_LIMIT or np.any(np.nan_to_num(cut) > 0.0):
        return run
    at_limit = float(np.mean(longest == longest.max()))
    ended = index.table.column(index.first(("completions/max_terminated_length",), GENERIC.prefixes) or "")
    if at_limit < _SHARE or longest.max() < _LEAST_LIMIT or np.any(ended == longest.max()):
        return run
    note = (
        f"the longest completion has {longest.max():g} tokens in {at_limit:.0%} of the rows "
        f"({clean(keys['completion_length_max'])!r}): a length limit cuts completions"
    )
    if "completions_clipped_ratio" in run.signals:
        note += f"; {clean(keys['completions_clipped_ratio'])!r}, 0 throughout, is of another limit and left out"
    signals = {k: v for k, v in run.signals.items() if k != "completions_clipped_ratio"}
    return replace(run, signals=signals, notes=(*run.notes, note))


def _seldom(columns: Columns, run: Run, settings: Settings) -> tuple[str, ...]:
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

    Args:
        records: Rows of metrics.
        known: What a trainer states besides rows: itself, a name, settings, planned steps.
        settings: Checked settings that the user states; they override everything else.
    """
    found = parsed_rows(records)
    parsed = replace(known, table=found.table, total_steps=known.total_steps or found.total_steps)
    name = clean(known.run_name) or "run"
    run = assemble([parsed], {}, settings, {})
    return replace(run, name=name, source=name, format="records", log_hash=parsed.table.digest())
