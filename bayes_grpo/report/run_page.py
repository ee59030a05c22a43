"""`report_run`: everything about one run on one page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.progress import teller
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.common.text import plain
from bayes_grpo.fitting.result import Fit
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.summary import RunSummary, describe_run
from bayes_grpo.report.answer import Answer, Found
from bayes_grpo.report.assembly import glossary_of, guarded, made_line, making
from bayes_grpo.report.leads import alert, leads, top_of
from bayes_grpo.report.manual import docs_base
from bayes_grpo.report.page import Page, Picture, Section
from bayes_grpo.report.result import Report
from bayes_grpo.report.sections import ahead, curve, laws, residuals, steady, wrong
from bayes_grpo.report.sections.logged import KEY, QUESTION, TITLE, logged
from bayes_grpo.report.settings import PARTS, ReportSettings
from bayes_grpo.report.svg import Pictures
from bayes_grpo.report.work import COST, Left, Tell, answers

_NAME_LIMIT = 120
"""Characters of a run's name that a page shows."""
_PICTURES = 3.0
"""Seconds that the pictures take."""


def report_run(
    run: RunLike | None = None,
    *,
    fit: Fit | None = None,
    settings: ReportSettings | None = None,
    progress: Tell | None = None,
) -> Report:
    """Puts everything that is known of a run on one page.

    The parts are computed side by side, and each is drawn while others are computed. What cannot be computed is a line
    with the reason.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of; None where there is a fit alone, from which the page
            says what it can.
        fit: A fit that was made before, in place of a new one.
        settings: What is asked for: horizon, costs, seed, parts to leave out.
        progress: Called at every stage with a short phrase and the share of the work that is done.

    Returns:
        The page.

    Raises:
        SettingError: Neither a run nor a fit.
    """
    if run is None and fit is None:
        raise SettingError("report: expected a log or a fit, found neither")
    run = None if run is None else as_run(run)
    begin = time.perf_counter()
    settings = settings or ReportSettings()
    left = Left(teller(progress), sum(COST[name] for name in PARTS) + _PICTURES)
    left.begin("reading the log")
    pictures, found, made = Pictures(), {}, {}
    summary = None if run is None else describe_run(run)
    with making():
        if run is not None and summary is not None:
            made[KEY] = guarded(partial(logged, run, summary, pictures), KEY, TITLE, QUESTION)
        for name, answer in answers(run, settings, fit, left=left):
            found[name] = answer
            if name in _GIVEN:  # what is told under the top line waits for it
                continue
            module = _MODULES[name]
            draw = partial(_section, name, answer, found, pictures)
            made[module.KEY] = guarded(draw, module.KEY, module.TITLE, module.QUESTION)
        known = Found(**found)
        for name in _GIVEN:
            module = _MODULES[name]
            draw = partial(module.section, known, pictures)
            made[module.KEY] = guarded(draw, module.KEY, module.TITLE, module.QUESTION)
        hero = _hero(found["forecast"], pictures)
    sections = tuple(made[key] for key in _ORDER if key in made)
    page = Page(
        title=_title(summary, fit),
        about=_about(summary, fit),
        leads=leads(known),
        sections=sections,
        alert=alert(known),
        top=None if known.top is None else top_of(known.top),
        hero=hero,
        glossary=glossary_of(sections),
        made=made_line(settings.seed, time.perf_counter() - begin),
        docs=docs_base(settings.docs),
        links=settings.links,
    )
    left.end("writing the page", _PICTURES)
    fitted = known.fit.value
    failed = fitted is not None and not fitted.summary.convergence.passed
    return Report(page, pictures.stylesheet(), _results(summary, known, page), failed)


_MODULES: dict[str, Any] = {
    "fit": curve, "laws": laws, "check": residuals, "forecast": ahead, "diagnosis": wrong, "stability": steady,
}  # fmt: skip
_GIVEN = ("forecast", "stability")
"""Parts whose sections are told given how the run stands."""
_ORDER = (KEY, *(_MODULES[name].KEY for name in PARTS))


def _section(name: str, answer: Answer[Any], found: Mapping[str, Answer[Any]], pictures: Pictures) -> Section:
    if name == "check":
        fitted = found["fit"].value if "fit" in found else None  # a check comes after its fit
        return residuals.residuals(answer, None if fitted is None else fitted.fit, pictures)
    draw: dict[str, Callable[..., Section]] = {"fit": curve.curve, "laws": laws.laws, "diagnosis": wrong.wrong}
    return draw[name](answer, pictures)


def _hero(answer: Answer[Any], pictures: Pictures) -> Picture | None:
    """The picture below the three sentences: the log and what is left."""
    with suppress(Exception):  # its section says why it cannot be drawn
        return None if answer.value is None else ahead.fan(answer.value, pictures)
    return None


def _title(summary: RunSummary | None, fit: Fit | None) -> str:
    name = summary.name if summary is not None else fit.about.run if fit is not None else ""
    return plain(name, _NAME_LIMIT).strip() or "A run without a name"


def _about(summary: RunSummary | None, fit: Fit | None) -> str:
    if summary is None:
        about = None if fit is None else fit.about
        return "" if about is None else f"{about.rows} rows up to step {about.last_step:g}, from a saved fit"
    steps = "" if summary.last_step is None else f" up to step {summary.last_step:g}"
    files = ", ".join(PurePath(x).name for x in summary.source.split("; "))  # folders are nobody else's business
    return plain(f"{summary.rows} rows{steps}, {summary.eval_rows} held-out rewards; {summary.format}, {files}", 300)


def _results(summary: RunSummary | None, found: Found, page: Page) -> dict[str, Any]:
    """The same results as data: each part's own dictionary, or the reason why there is none."""

    def part(answer: Answer[Any], content: Callable[[Any], Any]) -> dict[str, Any]:
        out = {"reason": answer.reason, "seconds": answer.seconds}
        return out if answer.value is None else out | content(answer.value)

    def forecasted(value: Any) -> dict[str, Any]:
        decision = None if value.decision is None else value.decision.to_dict()
        return value.summary.to_dict() | {"decision": decision, "until_from": value.until_from}

    return json_safe(
        {
            "run": page.title,
            "top": None if found.top is None else found.top.to_dict(),
            "sentences": [{"about": x.label, "sentence": x.sentence, "probability": x.chance} for x in page.leads],
            "log": None if summary is None else summary.to_dict(),
            "fit": part(found.fit, lambda v: v.summary.to_dict()),
            "laws": part(found.laws, lambda v: v.to_dict()),
            "check": part(found.check, lambda v: v.to_dict()),
            "forecast": part(found.forecast, forecasted),
            "diagnosis": part(found.diagnosis, lambda v: v.to_dict()),
            "stability": part(found.stability, lambda v: v.report.to_dict() | {"note": v.note}),
        }
    )
