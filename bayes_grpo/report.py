"""`report_run`: everything about one run on one page, the results behind it as data, and its file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayes_grpo.analysis.analyze import PARTS, AnalysisSettings, analyze
from bayes_grpo.analysis.result import Analysis, Part
from bayes_grpo.common.document import Document, Drawing, shows
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.files import atomic_write
from bayes_grpo.common.results import Displayed, json_safe
from bayes_grpo.common.runtime import StageProgress, or_silent
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run

if TYPE_CHECKING:
    from bayes_grpo.views.html import FigureImage


@dataclass(frozen=True, eq=False)
class Report(Displayed):
    """A page.

    Attributes:
        document: What it shows.
        results: What it rests on, ready for JSON.
        failed: Whether a fit on it did not converge.
        images: Its figures that were drawn already, for an earlier draft.
    """

    document: Document
    results: Mapping[str, Any]
    failed: bool = False
    images: dict[Drawing, FigureImage | None] = field(default_factory=dict, repr=False)

    @property
    def sentence(self) -> str:
        """The sentences at its top."""
        return " ".join((*self.document.first_lines, *(p.sentence for p in self.document.points)))

    def html(self) -> str:
        """The whole page: one file that asks for nothing from outside."""
        from bayes_grpo.views.html import html_of

        return html_of(self.document, self.images)

    def to_dict(self) -> dict[str, Any]:
        """The results behind the page, ready for JSON."""
        return dict(self.results)


@shows(Report)
def report_document(report: Report) -> Document:
    """The document of a page."""
    return report.document


def save_report(report: Report, path: str | Path) -> Path:
    """Writes a page whole or not at all.

    Returns:
        The path written.

    Raises:
        OutputError: The place cannot be written to.
    """
    with atomic_write(path) as temporary:
        temporary.write_text(report.html(), encoding="utf-8")
    return Path(path)


def report_run(
    run: RunLike,
    *,
    settings: AnalysisSettings | None = None,
    without: Sequence[str] = (),
    full: bool = False,
    progress: StageProgress | None = None,
    first: Callable[[str], object] | None = None,
    draft: Callable[[Report], object] | None = None,
) -> Report:
    """Puts everything that is known of a run on one page; what cannot be computed is a line with the reason.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of.
        settings: Horizon, costs, seed and all else of the analysis.
        without: Names in `bayes_grpo.analysis.analyze.PARTS` that are left out, for a faster page.
        full: Whether all regimes are compared by leave-one-out and leave-future-out too, as `bayes_grpo.compare` does.
            Without it the page has the weights of the forecast's regimes, which cost nothing more.
        progress: Called at every stage with a short phrase and the share of the work that is done.
        first: Called with the first line of the page as soon as the run is diagnosed, before anything is sampled.
        draft: Called with a page that lacks what takes longest, once its status, figure and forecast are there.

    Returns:
        The page.

    Raises:
        SettingError: An unknown part.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> report_run(run, without=["fit", "check", "forecast", "stability"]).failed
        False
    """
    unknown = [name for name in without if name not in PARTS]
    if unknown:
        raise SettingError(f"expected some of {', '.join(PARTS)}, found {unknown[0]!r}", parameter="without")
    begin = time.perf_counter()
    settings = settings or AnalysisSettings()
    progress = or_silent(progress)
    progress("reading the log", 0.0)
    run = as_run(run)
    left_out = [*without, *(() if full else ("regimes",))]
    wanted = [name for name in PARTS if name not in left_out]
    # Before the rest, whose imports alone take longer.
    early = analyze(run, [name for name in wanted if name == "diagnosis"], settings=settings)
    from bayes_grpo.views.view import view

    if first is not None and early.diagnosis.value is not None:
        first(view(early.diagnosis.value).first_lines[0])
    from bayes_grpo.views.page import NOT_COMPARED, PENDING, page_of

    known: dict[str, Part[Any]] = {"diagnosis": early.diagnosis}
    if not full and "regimes" not in without:
        known["regimes"] = Part(reason=NOT_COMPARED)
    images: dict[Drawing, FigureImage | None] = {}

    def page(found: Analysis) -> Report:
        found = replace(found, **known)
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        made = f"bayes-grpo {version('bayes-grpo')}, {when}, seed {settings.seed}, {time.perf_counter() - begin:.0f} s."
        document = replace(page_of(run, found), made=made)
        fitted = found.fit.value
        failed = fitted is not None and not fitted.summary.convergence.passed
        return Report(document, _results(run, found, document), failed, images)

    # The forecast before the fit, which takes longer: its page is there while the chains run.
    known["forecast"] = analyze(
        run, [x for x in wanted if x == "forecast"], settings=settings, progress=progress
    ).forecast
    rest = [name for name in wanted if name not in known]
    under_way = None if draft is None else lambda: draft(page(Analysis(**dict.fromkeys(rest, PENDING))))
    found = analyze(run, rest, settings=settings, progress=progress, meanwhile=under_way)
    progress("writing the page", 1.0)
    return page(found)


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
            "stability": part(found.stability, lambda v: v.to_dict()),
        }
    )
