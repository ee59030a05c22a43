"""`report_run`: everything about one run on one page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from bayes_grpo.analysis.analyze import Tell, analyze
from bayes_grpo.analysis.result import Analysis, Part
from bayes_grpo.analysis.settings import PARTS
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.progress import teller
from bayes_grpo.common.results import json_safe
from bayes_grpo.fitting.result import Fit
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.summary import RunSummary, describe_run
from bayes_grpo.report.page import page_of
from bayes_grpo.report.result import Report, sentences_of
from bayes_grpo.report.settings import ReportSettings
from bayes_grpo.views.document import Document


def report_run(
    run: RunLike | None = None,
    *,
    fit: Fit | None = None,
    settings: ReportSettings | None = None,
    progress: Tell | None = None,
) -> Report:
    """Puts everything that is known of a run on one page; what cannot be computed is a line with the reason.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of; None where there is a fit alone, from which the page
            says what it can.
        fit: A fit that was made before, in place of a new one.
        settings: Horizon, costs, seed, parts to leave out.
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
    tell = teller(progress)
    tell("reading the log", 0.0)
    summary = None if run is None else describe_run(run)
    parts = [name for name in PARTS if name not in settings.without]
    found = analyze(run, parts, settings=settings, fit=fit, progress=tell)
    document = page_of(run, summary, found, fit)
    document = replace(document, made=made_line(settings.seed, time.perf_counter() - begin), links=settings.links)
    tell("writing the page", 1.0)
    fitted = found.fit.value
    failed = fitted is not None and not fitted.summary.convergence.passed
    return Report(document, _results(summary, found, document), failed, settings.docs_base)


def made_line(seed: int, seconds: float) -> str:
    """The line at the end of a page."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return f"bayes-grpo {version('bayes-grpo')}, {when}, seed {seed}, {seconds:.0f} s."


def _results(summary: RunSummary | None, found: Analysis, page: Document) -> dict[str, Any]:
    """The same results as data: each part's own dictionary, or the reason why there is none."""

    def part(answer: Part[Any], content: Callable[[Any], Any]) -> dict[str, Any]:
        out = {"reason": answer.reason, "seconds": answer.seconds}
        return out if answer.value is None else out | content(answer.value)

    def forecasted(value: Any) -> dict[str, Any]:
        decision = None if value.decision is None else value.decision.to_dict()
        return value.summary.to_dict() | {"decision": decision, "until_from": value.forecast.until_from}

    return json_safe(
        {
            "run": page.title,
            "top": None if found.top is None else found.top.to_dict(),
            "sentences": sentences_of(page),
            "log": None if summary is None else summary.to_dict(),
            "fit": part(found.fit, lambda v: v.summary.to_dict()),
            "regimes": part(found.regimes, lambda v: v.to_dict()),
            "check": part(found.check, lambda v: v.to_dict()),
            "forecast": part(found.forecast, forecasted),
            "diagnosis": part(found.diagnosis, lambda v: v.to_dict()),
            "stability": part(found.stability, lambda v: v.report.to_dict() | {"note": v.note}),
        }
    )
