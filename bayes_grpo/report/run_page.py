"""`report_run`: everything about one run on one page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from bayes_grpo.analysis.analyze import PARTS, AnalysisSettings, analyze
from bayes_grpo.analysis.result import Analysis, Part
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.progress import StageProgress, or_silent
from bayes_grpo.common.results import json_safe
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.report.page import page_of
from bayes_grpo.report.result import Report
from bayes_grpo.views.document import Document


def report_run(
    run: RunLike,
    *,
    settings: AnalysisSettings | None = None,
    without: Sequence[str] = (),
    progress: StageProgress | None = None,
) -> Report:
    """Puts everything that is known of a run on one page; what cannot be computed is a line with the reason.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of.
        settings: Horizon, costs, seed and all else of the analysis.
        without: Names in `bayes_grpo.analysis.analyze.PARTS` that are left out, for a faster page.
        progress: Called at every stage with a short phrase and the share of the work that is done.

    Returns:
        The page.

    Raises:
        SettingError: An unknown part.
    """
    unknown = [name for name in without if name not in PARTS]
    if unknown:
        raise SettingError(f"--without: expected some of {', '.join(PARTS)}, found {unknown[0]!r}")
    begin = time.perf_counter()
    settings, progress = settings or AnalysisSettings(), or_silent(progress)
    progress("reading the log", 0.0)
    run = as_run(run)
    found = analyze(run, [name for name in PARTS if name not in without], settings=settings, progress=progress)
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    made = f"bayes-grpo {version('bayes-grpo')}, {when}, seed {settings.seed}, {time.perf_counter() - begin:.0f} s."
    document = replace(page_of(run, found), made=made)
    progress("writing the page", 1.0)
    fitted = found.fit.value
    failed = fitted is not None and not fitted.summary.convergence.passed
    return Report(document, _results(run, found, document), failed)


def _results(run: Run, found: Analysis, page: Document) -> dict[str, Any]:
    """The same results as data: each part's own dictionary, or the reason why there is none."""

    def part(answer: Part[Any], content: Callable[[Any], Any]) -> dict[str, Any]:
        out = {"reason": answer.reason, "seconds": answer.seconds}
        return out if answer.value is None else out | content(answer.value)

    return json_safe(
        {
            "run": page.title,
            "status": found.status,
            "sentences": [{"about": p.label, "sentence": p.sentence, "probability": p.chance} for p in page.points],
            "log": run,
            "fit": part(found.fit, lambda v: v.summary.to_dict()),
            "regimes": part(found.regimes, lambda v: v.to_dict()),
            "check": part(found.check, lambda v: v.to_dict()),
            "forecast": part(found.forecast, lambda v: v.summary.to_dict() | {"decision": v.decision}),
            "diagnosis": part(found.diagnosis, lambda v: v.to_dict()),
            "stability": part(found.stability, lambda v: v.report.to_dict() | {"note": v.note}),
        }
    )
