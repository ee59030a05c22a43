"""Many logs as a document: one row for each log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayes_grpo.batches.table import Batch
from bayes_grpo.common.document import Cell, Document, Tabular, number, section, sentence_case, shows, table, words
from bayes_grpo.common.intervals import LEVEL, percent
from bayes_grpo.diagnosis.status import ALARMING, SEVERITY

_MAX_ROWS = 60
"""Rows on a terminal; the table on disk has all."""


@shows(Batch)
def batch_document(f: Batch) -> Document:
    """The worst status first."""
    good = sorted((r for r in f.table if r["status"]), key=lambda r: -SEVERITY.get(str(r.get("status")), 0))
    bad = [r for r in f.table if r["error"]]
    hidden = f"{len(good) - _MAX_ROWS} more rows are in the table on disk." if len(good) > _MAX_ROWS else ""
    errors = (f"{r['log']}: {r['error']}" for r in bad[:_MAX_ROWS])
    answer, *more = f.clauses
    return Document(
        title=f"{f.logs} logs",
        answer=f"{sentence_case(answer)}.",
        why=f"{'; '.join(more)}." if more else "",
        tone="alarm" if any(r.get("status") in ALARMING for r in good) else "",
        table=_table(good[:_MAX_ROWS], hidden) if good else None,
        sections=(section("Errors", *errors, tone="doubt"),),
        unchecked=f"Errors: {len(bad)}; the first is {bad[0]['log']}: {bad[0]['error']}" if bad else "",
        docs="how/batch",
    )


def _table(rows: list[dict[str, Any]], hidden: str) -> Tabular:
    more = [(name, made) for name, made in _MORE.items() if any(r.get(name) for r in rows)]
    lines = (
        (
            words(r["log"], limit=36),
            r["rows"],
            r["last_step"],
            *(_level(r[f"reward_{word}"]) for word in _LEVELS),
            words(_status(r), mark=r["status"] in ALARMING, limit=300),
            *(made(r) if r.get(name) else "" for name, made in more),
        )
        for r in rows
    )
    heads = ("log", "rows", "last step", *_LEVELS, "status", *(f"{name} ({LEVEL:.0%} intervals)" for name, _ in more))
    return table("Logs", heads, lines, " ".join(x for x in (LEVELS_NOTE, hidden) if x))


_LEVELS = ("first", "last", "best")
"""Levels of the reward that are shown."""
LEVELS_NOTE = "First, last and best: levels of the reward without the noise of its rows."


def _level(value: float | None) -> Cell:
    return number("" if value is None else f"{value:.3g}")


def _status(r: Mapping[str, Any]) -> str:
    """The status with its reason and what to do."""
    return f"{r['status']} {percent(r['p_status'])}: {r['reason']} Do: {r['to_do']}"


def _fit(r: Mapping[str, Any]) -> str:
    growth = r.get("p_growth")
    text = f"settles at {_interval(r, 'fixed_point')}" + ("" if growth is None else f", growth {percent(growth)}")
    return text if r["converged"] else f"not converged: {text}"


def _forecast(r: Mapping[str, Any]) -> str:
    return f"{_interval(r, 'at_horizon')} at step {r['until']:g}, gain {_interval(r, 'gain')}"


_MORE = {"fit": _fit, "forecast": _forecast}
"""Part → its result in a few words."""


def _interval(r: Mapping[str, Any], name: str) -> str:
    low, median, high = (r.get(f"{name}_{q}") for q in ("5", "50", "95"))
    return "unknown" if None in (low, median, high) else f"{median:.3g} [{low:.3g}, {high:.3g}]"
