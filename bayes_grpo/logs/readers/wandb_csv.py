"""CSV that Weights & Biases exports from a chart: ``<run> - <metric>`` with ``__MIN`` and ``__MAX``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean, listed
from bayes_grpo.logs.csvtext import header, load_csv
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.parsed import Evidence, Parsed, ReadOptions
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.table import Table

NAME = "wandb_csv"

_SEPARATOR = " - "
_BOUNDS = ("__MIN", "__MAX")
_STEP_AXES = ("step", "global_step", "_step", "iteration")
_TABLE_MARKS = {"state", "created", "runtime", "user", "sweep", "notes", "tags", "end time", "id"}


class _Column(NamedTuple):
    run: str
    metric: str
    name: str


def sniff(source: Source) -> Evidence | None:
    """Recognises the paired bounds of a chart export, or the columns of a runs table."""
    if source.is_parquet or (found := header(source)) is None:
        return None
    names, _ = found
    if any(name.endswith(_BOUNDS) and _SEPARATOR in name for name in names):
        return Evidence(3, "columns '<run> - <metric>__MIN' of a Weights & Biases chart")
    if len(names) > 1 and all(_SEPARATOR in name for name in names[1:]) and _is_step(names[0]):
        return Evidence(3, "columns '<run> - <metric>' of a Weights & Biases chart")
    if _is_runs_table(names):
        return Evidence(3, "a Weights & Biases table of runs")
    return None


def read(source: Source, options: ReadOptions) -> Parsed:
    """The metrics of one run over the chart's x axis."""
    found = header(source)
    if found is None:
        raise LogReadError("expected a Weights & Biases chart export, found no header line; export the chart again")
    names, delimiter = found
    if _is_runs_table(names):
        raise LogReadError(
            "expected a chart export with a history, found a table of runs (one row a run); "
            "export the reward chart as CSV, or the run's history"
        )
    columns = [_column(name) for name in names[1:] if _SEPARATOR in name]
    if not columns:
        raise LogReadError(f"expected columns '<run> - <metric>', found {listed(names)}; read it with --format csv")
    run = _pick_run(columns, options.run_name or options.run)
    table = load_csv(source, delimiter)
    metrics = {c.name: c.metric for c in columns if c.run == run and not c.metric.endswith(_BOUNDS)}
    axis = names[0]
    notes = [f"run {clean(run)!r} of a Weights & Biases chart over {clean(axis)!r}"]
    if not _is_step(axis):
        notes.append(f"the x axis {clean(axis)!r} is not the step; rows are counted unless --step-column names one")
    if _is_bucketed(table, metrics):
        notes.append("values lie between MIN and MAX: the chart averaged several rows into one; export more points")
    return Parsed(table.renamed({axis: "step" if _is_step(axis) else axis, **metrics}), notes=tuple(notes))


def _column(name: str) -> _Column:
    run, _, metric = name.rpartition(_SEPARATOR)
    return _Column(run, metric, name)


def _pick_run(columns: list[_Column], wanted: str | None) -> str:
    runs = list(dict.fromkeys(c.run for c in columns))
    if wanted is not None:
        if wanted not in runs:
            raise LogReadError(f"expected a run among {listed(runs)}, found {clean(wanted)!r}; correct --run-name")
        return wanted
    if len(runs) > 1:
        raise LogReadError(f"expected one run, found {len(runs)}: {listed(runs)}; choose with --run-name")
    return runs[0]


def _is_step(name: str) -> bool:
    return normal(name).rsplit("/", 1)[-1] in _STEP_AXES


def _is_runs_table(names: list[str]) -> bool:
    plain = {name.strip().lower() for name in names}
    return "name" in plain and len(plain & _TABLE_MARKS) >= 2


def _is_bucketed(table: Table, metrics: dict[str, str]) -> bool:
    for name in metrics:
        low, high = (table.column(name + bound) for bound in _BOUNDS)
        if np.any(high > low):
            return True
    return False
