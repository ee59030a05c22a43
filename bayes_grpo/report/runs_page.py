"""`report_runs`: several runs or seeds on one page, their curves on one axis, their numbers in one table."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.common.text import plain
from bayes_grpo.live.unit import horizon
from bayes_grpo.logs.run import Run
from bayes_grpo.report.answer import Answer
from bayes_grpo.report.assembly import glossary_of, guarded, made_line, making
from bayes_grpo.report.page import Page, Section
from bayes_grpo.report.result import Report
from bayes_grpo.report.sections import apart, together
from bayes_grpo.report.sections.together import OneOf
from bayes_grpo.report.settings import ReportSettings
from bayes_grpo.report.svg import Pictures
from bayes_grpo.report.work import COST, Left, Tell, answers

PARTS = ("fit", "forecast", "diagnosis")
"""What is computed of every run."""
NAME_LIMIT = 40
"""Characters of a run's name."""


def report_runs(
    runs: Sequence[Run],
    *,
    settings: ReportSettings | None = None,
    unread: Mapping[str, str] | None = None,
    more: Sequence[Section] = (),
    progress: Tell | None = None,
) -> Report:
    """Puts several runs on one page, beside each other.

    All are forecast to one step, so that they can be compared there.

    Args:
        runs: The runs, two or more.
        settings: What is asked for.
        unread: Log → why it could not be read; named on the page.
        more: Sections of other rooms, such as the probability that one run is better than another.
        progress: Called at every stage with a short phrase and the share of the work that is done.

    Returns:
        The page.

    Raises:
        SettingError: Fewer than two runs.
    """
    if len(runs) < 2:
        raise SettingError(f"report: expected two runs or more to compare, found {len(runs)}; report_run takes one")
    begin = time.perf_counter()
    settings = settings or ReportSettings()
    left = Left(progress, len(runs) * sum(COST[name] for name in PARTS) + 2.0)
    until = settings.until if settings.until is not None else max(horizon(r, _last(r))[0] for r in runs)
    ask = settings.until_step(until)
    found, pictures = [], Pictures()
    with making():
        for run, name in zip(runs, names_of(runs), strict=True):
            left.begin(name)
            found.append(OneOf(name, run, dict(answers(run, ask, parts=PARTS, left=left))))
        sections = tuple(
            guarded(partial(make, found, pictures), key, title, question)
            for key, title, question, make in (*together.SECTIONS, *apart.SECTIONS)
        )
    alerts = [f"{plain(name, 80)} could not be read: {plain(reason, 200)}" for name, reason in (unread or {}).items()]
    alerts += [f"{x.name}: the fit did not converge." for x in found if x.failed]
    sections = (*sections, *more)
    page = Page(
        title=", ".join(x.name for x in found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else ""),
        about=f"{len(found)} runs beside each other, forecast to step {until:g}",
        leads=together.leads(found, until),
        sections=sections,
        alert=" ".join(alerts),
        glossary=glossary_of(sections),
        made=made_line(settings.seed, time.perf_counter() - begin),
    )
    left.end("writing the page", 2.0)
    return Report(page, pictures.stylesheet(), _results(found, page, until, unread or {}), any(x.failed for x in found))


def names_of(runs: Sequence[Run]) -> list[str]:
    """Short names that tell the runs apart: those of the logs, numbered where they are the same."""
    short = [plain(run.name, NAME_LIMIT).strip() or "run" for run in runs]
    return [f"{x} ({short[: i + 1].count(x)})" if short.count(x) > 1 else x for i, x in enumerate(short)]


def _last(run: Run) -> float:
    return max((float(x[-1]) for x in (run.step, run.eval_step) if len(x)), default=1.0)


def _results(found: Sequence[OneOf], page: Page, until: float, unread: Mapping[str, str]) -> dict[str, Any]:
    def part(answer: Answer[Any], content: Any) -> dict[str, Any]:
        return {"reason": answer.reason} | ({} if answer.value is None else content(answer.value))

    return json_safe(
        {
            "sentences": [{"about": x.label, "sentence": x.sentence, "probability": x.chance} for x in page.leads],
            "until": until,
            "runs": {
                x.name: {
                    "fit": part(x.parts["fit"], lambda v: v.summary.to_dict()),
                    "forecast": part(x.parts["forecast"], lambda v: v.summary.to_dict()),
                    "diagnosis": part(x.parts["diagnosis"], lambda v: v.to_dict()),
                }
                for x in found
            },
            "highest_now": together.highest(found, now=True),
            "highest_at_horizon": together.highest(found, now=False),
            "unread": dict(unread),
        }
    )
