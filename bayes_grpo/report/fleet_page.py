"""`report_fleet`: the table of a fleet on a page, and the file that holds such a table."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.status import ALARMING, SEVERITY
from bayes_grpo.fleets.result import Fleet
from bayes_grpo.fleets.table import table_of
from bayes_grpo.report.assembly import glossary_of, guarded, made_line, making
from bayes_grpo.report.page import Cell, Lead, Page, PageTable, Part, Picture, Section, head, number, said, words
from bayes_grpo.report.result import Report
from bayes_grpo.report.sections.common import NARROW, digits, new_figure
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.fleets import plot_fleet

_COLUMNS = {"log", "source", "log_hash", "task", "verdict", "error"}
"""Columns by which the table of a fleet is known."""
_SHOWN = 400
"""Rows of a table on the page; the file has all."""
DRAWN = 60
"""Logs up to which the picture is drawn."""


def read_fleet(path: str | Path) -> Fleet | None:
    """Reads the table that `bayes_grpo.fleet` wrote.

    Returns:
        The fleet; None where the file is something else, such as a log.

    Raises:
        LogReadError: It is such a table, and cannot be read.
    """
    place = Path(path)
    try:
        rows = _rows(place)
    except (OSError, ValueError, csv.Error) as error:
        raise LogReadError(f"{place}: expected the table of a fleet, found {error}; write it again") from error
    if rows is None:
        return None
    tasks = [task for task in ("fit", "forecast", "diagnose") if any(row.get("task") == task for row in rows)]
    return Fleet(table_of([{k: _known(v) for k, v in row.items()} for row in rows], tasks), 0, 0.0)


def report_fleet(fleet: Fleet) -> Report:
    """Puts a fleet on one page: its sentence, its picture, a table a task.

    Args:
        fleet: The result of `bayes_grpo.fleet`.

    Returns:
        The page.
    """
    begin, pictures = time.perf_counter(), Pictures()
    with making():
        hero = _picture(fleet, pictures)
        sections = tuple(
            guarded(lambda make=make: make(fleet), key, title, question)
            for key, title, question, make in _SECTIONS
            if fleet.good(key) or key == "errors"
        )
    page = Page(
        title=f"{fleet.logs} log{'' if fleet.logs == 1 else 's'}",
        about=f"{len(fleet.frame)} rows, {fleet.errors or 'none'} with an error",
        leads=(Lead("The fleet", said(fleet.sentence)),),
        sections=sections,
        hero=hero,
        glossary=glossary_of(sections),
        made=made_line(0, time.perf_counter() - begin).replace(", seed 0", ""),
    )
    return Report(page, pictures.stylesheet(), fleet.to_dict())


def _rows(path: Path) -> list[dict[str, Any]] | None:
    """Rows of the file where its columns are those of a fleet; None where they are not."""
    if not path.is_file():
        return None
    suffix = path.suffix.lower()
    if suffix == ".csv":
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            if not set(next(csv.reader(file), [])) >= _COLUMNS:
                return None
            file.seek(0)
            return list(csv.DictReader(file))
    if suffix == ".parquet":
        import pandas as pd

        frame = pd.read_parquet(path)
        return frame.astype(object).where(frame.notna(), None).to_dict("records") if set(frame) >= _COLUMNS else None  # type: ignore[return-value]
    if suffix == ".json":
        with path.open(encoding="utf-8", errors="replace") as file:
            if not file.read(64).lstrip().startswith("["):
                return None
            file.seek(0)
            rows = json.load(file)
        return rows if rows and isinstance(rows[0], dict) and set(rows[0]) >= _COLUMNS else None
    return None


def _known(value: Any) -> Any:
    """A cell as it was: CSV has texts for numbers and nothing for what is unknown."""
    if not isinstance(value, str):
        return value
    if value in ("True", "False"):
        return value == "True"
    if value == "":
        return None
    try:
        number_ = float(value)
    except ValueError:
        return value
    return int(number_) if number_.is_integer() and "." not in value and "e" not in value.lower() else number_


def _picture(fleet: Fleet, pictures: Pictures) -> Picture | None:
    if not len(fleet.frame) or fleet.logs > 10 * DRAWN:
        return None
    wide, narrow = (new_figure((width, min(2.0 + 0.24 * fleet.logs, 14.0))) for width in (9.2, NARROW[0]))
    for figure in (wide, narrow):
        plot_fleet(fleet, figure=figure)
    told = f"A line a log; bands: {LEVEL:.0%}."
    return Picture(pictures.whole(wide), said(fleet.sentence), told, pictures.whole(narrow))


def _fits(fleet: Fleet) -> Section:
    rows = [
        (
            words(row["log"], limit=60),
            words(row["regime"], limit=40),
            words("yes" if row["converged"] else "no", mark=not row["converged"]),
            *_interval(row, "fixed_point"),
            number(_digits(row.get("r2"), ".2f")),
            words(row["verdict"], limit=300),
        )
        for row in fleet.good("fit")
    ]
    heads = head("log", Cell("law", term="law"), "converged", Cell("fixed point", term="fixed point"), f"{LEVEL:.0%}",
                 Cell("R²", term="R²"), "verdict")  # fmt: skip
    return _section("fit", "Fits", heads, rows)


def _forecasts(fleet: Fleet) -> Section:
    found = sorted(fleet.good("forecast"), key=lambda row: -(row.get("gain_50") or 0.0))
    rows = [
        (
            words(row["log"], limit=60),
            *_interval(row, "now"),
            *_interval(row, "at_horizon"),
            number(_digits(row.get("until"), "g")),
            number("" if row.get("p_gain") is None else probability_text(row["p_gain"])),
            words(row["verdict"], limit=300),
        )
        for row in found
    ]
    level = f"{LEVEL:.0%}"
    heads = head("log", "now", level, Cell("at the horizon", term="horizon"), level, "step", "P(gain)", "verdict")
    return _section("forecast", "Forecasts, the largest expected gain first", heads, rows)


def _diagnoses(fleet: Fleet) -> Section:
    found = sorted(
        fleet.good("diagnose"), key=lambda row: (-SEVERITY.get(str(row.get("status")), 0), row.get("p_healthy") or 0.0)
    )
    rows = []
    for row in found:
        p = row.get(f"p_{row['answer']}")
        answer = label_of(str(row["answer"]))
        rows.append(
            (
                words(row["log"], limit=60),
                words(row.get("status") or "", mark=row.get("status") in ALARMING),
                words(answer, term=answer),
                number("" if p is None else probability_text(p)),
                words(row.get("to_do") or "", limit=300),
                words(row["verdict"], limit=400),
            )
        )
    heads = head(
        "log", Cell("status", term="status"), "answer", Cell("probability", term="probability"), "to do", "verdict"
    )
    return _section("diagnose", "Diagnoses, the worst first", heads, rows)


def _errors(fleet: Fleet) -> Section:
    lines = tuple(f"{row['log']} ({row['task']}): {row['error']}" for row in fleet.records if row["error"])
    title, question = "Errors", "Which logs have no numbers, and why?"
    if not lines:
        return Section("errors", title, question, answer="All of them have.", tone="good")
    parts = (Part("Why", tuple(said(x, 400) for x in lines[:_SHOWN])),)
    return Section(
        "errors", title, question, answer=f"{len(lines)} rows of {len(fleet.frame)}.", tone="doubt", parts=parts
    )


def _section(key: str, caption: str, heads: tuple[Cell, ...], rows: Sequence[tuple[Cell, ...]]) -> Section:
    title, question = next((t, q) for k, t, q, _ in _SECTIONS if k == key)
    cut = f"The first {_SHOWN} of {len(rows)} rows." if len(rows) > _SHOWN else f"{len(rows)} rows."
    table = PageTable(caption, heads, tuple(rows[:_SHOWN]))
    return Section(key, title, question, answer=cut, tables=(table,), terms=("interval",))


def _interval(row: dict[str, Any], name: str) -> tuple[Cell, Cell]:
    low, middle, high = (row.get(f"{name}_{q}") for q in ("5", "50", "95"))
    if middle is None:
        return number(""), number("")
    return number(_digits(middle)), number(f"[{_digits(low)}, {_digits(high)}]")


def _digits(value: Any, form: str = ".3g") -> str:
    return "" if value is None else digits(float(value), form)


_SECTIONS = (
    ("fit", "Fits", "Where would each reward settle?", _fits),
    ("forecast", "What is left", "Where does each go from here?", _forecasts),
    ("diagnose", "What is wrong", "Which runs are failing?", _diagnoses),
    ("errors", "Errors", "Which logs have no numbers, and why?", _errors),
)
