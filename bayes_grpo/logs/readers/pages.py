"""Tables of metrics inside HTML, Markdown and prose."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.cells import (
    HEAD_OF_STD,
    LEAST_IN_TABLE,
    WITH_STD,
    are_steps,
    in_rows_of_steps,
    of_training,
    range_in,
    step_in,
    value_in,
)
from bayes_grpo.logs.formats import HEAD, NO_REWARDS, Evidence, Parsed, Reader, RunName, Source, chosen_run, main_run
from bayes_grpo.logs.grids import (
    COUNTERS,
    Grid,
    html_grids,
    is_step_column,
    text_grids,
    title_of,
    unrepeated,
)
from bayes_grpo.logs.keyindex import KeyIndex, normal, of_evaluation, with_evaluation_keys
from bayes_grpo.logs.lines import is_rate, is_total_reward, names_reward, planned_in, std_of
from bayes_grpo.logs.run import Caution
from bayes_grpo.logs.table import RUN_KEYS, Table, to_float
from bayes_grpo.logs.trainers import GENERIC

_MAX_TABLES = 200
_LISTED_TABLES = 3
"""Tables that a refusal describes."""
_OF_EVALUATION = re.compile(r"\b(?:eval\w*|validation|held[- ]?out|test)\b", re.IGNORECASE)
_PASS = re.compile(r"\bpass(?:@|_at_)\d", re.IGNORECASE)
"""Words of a line above a table of evaluations, and the name of a column that only these have."""
_NO_GOAL = re.compile(r"trunc|clip|cut|length|len\b|tokens|time|loss|entropy|\bkl\b|std|step", re.IGNORECASE)
"""Names of what a training does not aim at, whatever stands before."""
_HELD_OUT = re.compile(r"\b(?:eval|validation|val|held[- ]?out)\Z", re.IGNORECASE)
"""The end of a name that says no more than of what rows it is, "p50 validation"."""
PAGE = "table"
"""Name of a table in a page that has no other."""
_KIND = "kind"
"""Name of a column for what stands in parentheses behind a step."""


def tables_in(text: str) -> list[Parsed]:
    """The tables of metrics in HTML, else in Markdown, in prose and as a data frame prints them, in their order.

    One of a single row, which may be a result, counts where no other does; so does one whose steps are its columns, and
    one whose reward has another name.
    """
    for grids in (html_grids, text_grids):
        known = list(grids(text))
        found = [table for grid in known if (table := _metrics(grid)) is not None]
        across = [table for grid in known if (table := _turned_metrics(grid)) is not None]
        unrewarded = [] if found or across else [x for grid in known if (x := _without_reward(grid)) is not None]
        found = _with_their_parts(found)
        if read := [x for x in found if x.table.n >= LEAST_IN_TABLE] or found or across or unrewarded:
            left = [x.table for x in (*found, *across) if not any(x is other for other in read)]
            others = [grid for grid in known if _metrics(grid) is None and _turned_metrics(grid) is None]
            evaluations = [table for grid in others if (table := _evaluations(grid)) is not None]
            if len(read) == len(evaluations) == 1:
                read = [_evaluated(read[0], evaluations[0])]
            return [x.noted(*_unread_note(left)) for x in read]
    return []


def _with_their_parts(tables: list[Parsed]) -> list[Parsed]:
    """Tables, one that says which column is the reward with the columns of others on the same steps that say it not."""
    whole = [x for x in tables if any(map(is_total_reward, x.table.keys))]
    if len(whole) != 1 or len(tables) == 1:
        return tables
    (one,) = whole
    others = [x for x in tables if x is not one and np.array_equal(_steps(x.table), _steps(one.table))]
    if len(others) < len(tables) - 1:
        return tables
    beside = {key: x.table.column(key) for x in others for key in x.table.keys if not is_step_column(key)}
    columns = {key: one.table.column(key) for key in one.table.keys}
    note = f"with the columns of {counted(len(others), 'other table')} on the same steps: {listed(list(beside))}"
    return [replace(one, table=Table.from_columns(beside | columns)).noted(note)]


def _unread_note(tables: Sequence[Table]) -> tuple[str, ...]:
    """A note on tables with rewards beside those that are read; nothing where there is none."""
    texts = [f"{counted(table.n, 'row')} ({_contents(table)})" for table in tables]
    return (f"another table with rewards left out: {listed(texts, _LISTED_TABLES)}",) if texts else ()


def _evaluations(grid: Grid) -> Table | None:
    """The rows of a table of evaluations, which its heading or its columns name so; None where it is none."""
    if names_reward(grid.names) or not (_OF_EVALUATION.search(grid.above) or any(map(_PASS.search, grid.names))):
        return None
    columns = _by_step(grid) or {}
    measured = {name: cells for name, cells in columns.items() if name != _KIND}
    return Table.from_columns(of_evaluation(measured)) if measured else None


def _evaluated(train: Parsed, evaluations: Table) -> Parsed:
    """The rows of a training with those of its evaluations, which have a table of their own."""
    step = next(key for key in train.table.keys if is_step_column(key))
    names = [step if is_step_column(key) else key for key in evaluations.keys]
    note = f"{counted(evaluations.n, 'row')} of evaluations from a table of their own"
    return replace(train, table=train.table.appended(evaluations.renamed(names))).noted(note)


def runs_in(tables: Mapping[str, Parsed]) -> dict[str, Parsed]:
    """Runs out of tables: one that repeats another is left out, one that goes on where another ends is its rest."""
    if len(tables) > _MAX_TABLES:
        return dict(tables)  # each is compared with all others
    kept: list[str] = []
    for name in sorted(tables, key=lambda name: -tables[name].table.n):
        if not any(_repeats(tables[name].table, tables[other].table) for other in kept):
            kept.append(name)
    out: dict[str, Parsed] = {}
    for name in (name for name in tables if name in kept):
        last = next(reversed(out), "")
        table = tables[name].table
        goes_on = last and out[last].table.keys == table.keys and _steps(out[last].table).max() < _steps(table).min()
        out |= {last: out[last].followed_by(tables[name])} if goes_on else {name: tables[name]}
    return out


def _repeats(one: Table, other: Table) -> bool:
    """True if every row of a table is in another, up to rounding, as far as they have the same columns."""
    known = {normal(key): key for key in other.keys}
    shared = {key: known[normal(key)] for key in one.keys if normal(key) in known}
    order = np.argsort(step := _steps(other), kind="stable")
    same = order[np.searchsorted(step[order], _steps(one)).clip(max=other.n - 1)]
    return bool(names_reward(shared) and np.array_equal(step[same], _steps(one))) and all(
        np.allclose(one.column(key), other.column(their)[same], rtol=1e-3, atol=1e-5, equal_nan=True)
        for key, their in shared.items()
    )


def _steps(table: Table) -> np.ndarray:
    return table.column(next(key for key in table.keys if is_step_column(key)))


def _metrics(grid: Grid) -> Parsed | None:
    """The table as one of metrics by step, None where it is none; rows without a step are left out."""
    grid = unrepeated(grid)
    names = grid.names
    runs = [[row[i] for row in grid.rows if i < len(row)] for i, x in enumerate(names) if normal(x) in RUN_KEYS]
    if not names_reward(names) or any(len({*words}) == len(words) for words in runs):
        return None  # results of runs, one a row
    if (columns := _by_step(grid)) is None:
        return None
    columns = _with_evaluations(columns)
    table = with_evaluation_keys(columns)
    if not any(names_reward((key,)) and table.has_numbers(key) for key in table.keys):
        return None
    measured = [i for i, name in enumerate(names) if not is_step_column(name)]
    ranges = sum(range_in(row[i]) is not None for row in grid.rows for i in measured if i < len(row))
    notes = [Caution(f"{counted(ranges, 'cell')} with the ends of a range, of which the middle is read")][
        : bool(ranges)
    ]
    if left := _without_step(grid, len(next(iter(columns.values())))):
        notes.append(Caution(left))
    return Parsed(table, total_steps=grid.planned, notes=tuple(notes), run_name=title_of(grid))


def _without_step(grid: Grid, read: int) -> str:
    """A note on the rows whose step is no number where they are as many as a quarter of those that were ``read``."""
    step = next((i for i, name in enumerate(grid.names) if is_step_column(name)), None)
    cells = [row[step] for row in grid.rows if len(row) == len(grid.names)] if step is not None else []
    left = [cell for cell in cells if cell.strip("-:= ") and math.isnan(step_in(cell))]
    if 4 * len(left) < read or not left:
        return ""
    return f"{counted(len(left), 'row')} whose step is no number left out, such as {clean(left[0], 40)!r}"


def _turned_metrics(grid: Grid) -> Parsed | None:
    """The table as one of metrics by step where its columns are steps; None where it is none, or of an evaluation."""
    trained = any("train" in normal(row[0]) for row in grid.rows if row)
    evaluated = _OF_EVALUATION.search(grid.above) is not None and not trained
    table = None if evaluated else in_rows_of_steps(grid.names, grid.rows)
    found = None if table is None else _metrics(grid._replace(names=table[0], rows=table[1]))
    return None if found is None else found.noted("a row of the table is a metric and a column a step; it is turned")


_MEASURED = ("entropy", "kl", "grad_norm", "learning_rate", "completion_length", "clip_ratio")
_LEAST_MEASURED = 2


def _without_reward(grid: Grid) -> Parsed | None:
    """A table of a training by its step and signals, whose reward has another name; None where it is none."""
    if not any(is_step_column(name) for name in grid.names) or (columns := _by_step(unrepeated(grid))) is None:
        return None
    index = KeyIndex(table := with_evaluation_keys(columns))
    measured = sum(bool(index.find(GENERIC.keys[name])) for name in _MEASURED)
    rates = [] if _OF_EVALUATION.search(grid.above) else [name for name in grid.names if is_rate(name)]
    trained = measured >= _LEAST_MEASURED or (measured and len(rates) == 1)
    return Parsed(table) if table.n > LEAST_IN_TABLE and trained else None


def _by_step(grid: Grid) -> dict[str, list[str]] | None:
    """Columns of the rows with a step, the step first; None where none of them is one of steps."""
    names = grid.names
    cells = [row for row in grid.rows if len(row) == len(names)]
    places = [i for i, name in enumerate(names) if is_step_column(name)]
    places += [i for i in range(len(names)) if not places and are_steps([row[i] for row in cells])]
    if not places:
        return None
    step = places[0]
    kept = [(at, row) for row in cells if math.isfinite(at := step_in(row[step]))]
    columns = {names[step] if normal(names[step]) in COUNTERS else "step": [f"{at:.12g}" for at, _ in kept]}
    for i, name in enumerate(names):
        if name and i != step:
            name = HEAD_OF_STD.sub("", name)
            columns.setdefault(name, [value_in(row[i]) for _, row in kept])
            if any(stds := [found[2] if (found := WITH_STD.fullmatch(row[i])) else "" for _, row in kept]):
                columns.setdefault(std_of(name), stds)
    if any(kinds := [row[step].partition(" (")[2].rstrip(")") for _, row in kept]):  # as in "20 (val)"
        columns.setdefault(_KIND, kinds)
    return columns


def _with_evaluations(columns: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Columns, of which those of percentages that rows without a train reward have too are named as evaluations."""
    reward = next(name for name in columns if names_reward((name,)))
    unrewarded = [i for i, cell in enumerate(columns[reward]) if math.isnan(to_float(cell))]

    def named(name: str, cells: Sequence[str]) -> str:
        written = [cell for cell in cells if math.isfinite(to_float(cell))]
        if _NO_GOAL.search(name) or not any(math.isfinite(to_float(cells[i])) for i in unrewarded):
            return name
        if any("%" in cells[i] for i in unrewarded) and all("%" in cell for cell in written):
            return f"eval/{name}/accuracy"
        return f"eval/{name}/reward" if _HELD_OUT.search(name) and not names_reward((name,)) else name

    return {named(name, cells): cells for name, cells in columns.items()}


_SUFFIXES = (".md", ".markdown", ".html", ".htm", ".mdx", ".qmd")
_PAGE = ("<!doctype html", "<html", "<div", "<table", "<p", "<style")


@lru_cache(maxsize=1)
def _tables_in(page: str) -> tuple[Parsed, ...]:
    """The tables of metrics in a page, found once for its evidence and its rows."""
    return tuple(tables_in(page))


def _sniff_marked_table(source: Source) -> Evidence | None:
    """Recognizes a page with a table of metrics, by its ending or its beginning."""
    marked = source.path.suffix.lower() in _SUFFIXES or source.head.lstrip()[:20].lower().startswith(_PAGE)
    found = _tables_in(source.text if marked else source.head)
    if not found:
        return None
    if not any(names_reward(x.table.keys) for x in found):
        return NO_REWARDS
    return Evidence(2 if marked else 1, sum(x.table.n for x in found))


def _read_marked_table(source: Source, wanted: str | None) -> Parsed:
    """The rows of the only table of metrics, or of the one that was chosen."""
    tables = named(_tables_in(source.text), PAGE, {})
    by_place = {f"{PAGE} {i}": name for i, name in enumerate(tables, 1)}
    wanted = by_place.get(wanted or "", wanted)
    found = runs_in(tables)
    if not found:
        raise LogReadError(
            f"expected a table with a column step and one of rewards in the page, found none; choose another {MENDING}",
            mended_by=Argument("format"),
        )
    taken = chosen_table(found, wanted)
    placed = any(is_step_column(key) for key in taken.table.keys)
    planned = planned_in(source.text) if taken.total_steps is None and placed else None
    return taken if planned is None or planned < _steps(taken.table).max() else replace(taken, total_steps=planned)


def chosen_table(found: Mapping[str, Parsed], wanted: str | None) -> Parsed:
    """The training that was chosen, else the only one, else the clearly main one with a note on the others."""
    name = main_run({name: x.table.n for name, x in found.items()}) if len(found) > 1 and wanted is None else None
    if name is None:
        return found[chosen_run([RunName(name, _contents(x.table)) for name, x in found.items()], wanted).name]
    others = [f"{other} ({_contents(x.table)})" for other, x in found.items() if other != name]
    return found[name].noted(f"{name} has ten times the rows of any other; left out: {listed(others, 6)}")


def other_tables(text: str) -> list[str]:
    """Columns and rows of the tables of numbers in a page or a text that have no rewards or no steps, in words."""
    found = []
    for grid in (*html_grids(text), *text_grids(text)):
        n = sum(any(math.isfinite(to_float(cell)) for cell in row) for row in grid.rows)
        placed = any(is_step_column(name) for name in grid.names)
        lacks = "steps" if names_reward(grid.names) and not placed else "rewards"
        if n and _metrics(grid) is None:
            turned = [row for row in grid.rows if row and of_training(row[0])]
            if turned and lacks == "rewards" and in_rows_of_steps(grid.names, grid.rows) is None:
                held = f"a row {turned[0][0]!r} in columns that name no step"
                found.append(f"a table with {held} ({listed(grid.names, 6)})")
                continue
            found.append(f"a table without {lacks} of {counted(n, 'row')} ({listed(grid.names, 6)})")
    return found[:_LISTED_TABLES]


def _contents(table: Table) -> str:
    """Description of a table, for a choice among several."""
    if not any(is_step_column(key) for key in table.keys):
        return counted(table.n, "row")
    step = _steps(table)
    key = next((key for key in table.keys if names_reward((key,))), None)
    if key is None:
        return f"steps {step.min():g} to {step.max():g}, no reward"
    reward = table.column(key)
    if table.n == 1:
        return f"step {step[0]:g}, reward {reward[0]:.4g}"
    return f"steps {step.min():g} to {step.max():g}, reward {reward[0]:.4g} to {reward[-1]:.4g}"


def named(tables: Sequence[Parsed], place: str, config: dict[str, Any]) -> dict[str, Parsed]:
    """Tables by the name of their place, several of a page by their headings where all have one of their own."""
    titles = [clean(x.run_name) for x in tables]
    own = place == PAGE and len(tables) > 1 and all(titles) and len({*titles}) == len(titles)
    numbered = [place] if len(tables) == 1 else [f"{place} {i}" for i in range(1, len(tables) + 1)]
    names = titles if own else numbered
    named = {name: replace(x, run_name="") for name, x in zip(names, tables, strict=True)}
    notes = {name: f"read from {name}, a table of {counted(x.table.n, 'row')}" for name, x in named.items()}
    return {name: with_code(x, config, notes[name]) for name, x in named.items()}


def with_code(parsed: Parsed, config: dict[str, Any], note: str) -> Parsed:
    """Rows with the settings of the code up to their cell."""
    more = (f"settings in the notebook's code: {listed(config, 8)}",) if config else ()
    return replace(parsed, config={**config, **parsed.config}, notes=(note, *parsed.notes, *more))


READERS = (
    Reader(
        "marked_table",
        _sniff_marked_table,
        _read_marked_table,
        takes_run=True,
        other_tables=lambda source: other_tables(source.text[:-HEAD][:HEAD] + source.text[-HEAD:]),
    ),
)
