"""`report_runs`: several runs or seeds on one page, their curves on one axis, their numbers in one table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.progress import teller
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.common.text import plain
from bayes_grpo.families.compare_runs import compare_runs
from bayes_grpo.families.family import family
from bayes_grpo.families.index import index_of
from bayes_grpo.forecasting.horizon import horizon_of
from bayes_grpo.logs.reading import PathLike, RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.report.answer import Answer
from bayes_grpo.report.assembly import glossary_of, guarded, made_line, making
from bayes_grpo.report.manual import docs_base
from bayes_grpo.report.page import Lead, Page
from bayes_grpo.report.result import Report
from bayes_grpo.report.sections import apart, effects, order, recipes, together
from bayes_grpo.report.sections.together import OneOf
from bayes_grpo.report.settings import ReportSettings
from bayes_grpo.report.svg import Pictures
from bayes_grpo.report.work import COST, Left, Tell, answered, answers

_ORDER = (
    together.curves_key(),
    order.KEY,
    recipes.KEY,
    effects.KEY,
    *(key for key, *_ in (*together.SECTIONS[1:], *apart.SECTIONS)),
)
"""Sections in the order of the page."""
_PARTS = ("fit", "forecast", "diagnosis")
"""What is computed of every run."""
_NAME_LIMIT = 40
"""Characters of a run's name."""


def report_runs(
    runs: Sequence[RunLike],
    *,
    settings: ReportSettings | None = None,
    against: Sequence[RunLike] = (),
    vary: Sequence[str] = (),
    index: PathLike | Mapping[str, Mapping[str, Any]] | None = None,
    unread: Mapping[str, str] | None = None,
    progress: Tell | None = None,
) -> Report:
    """Puts several runs on one page, beside each other.

    All are forecast to one step, so that they can be compared there.

    Args:
        runs: The runs, or what `bayes_grpo.read_log` makes them of; two or more.
        settings: What is asked for.
        against: Runs of another recipe, B, each a seed; ``runs`` are then those of A. Of two runs without any, the
            first is A and the second B.
        vary: Settings that differ between the runs, for the exponents with which quantities follow them; see `family`.
        index: What the logs do not state of these settings; see `family`.
        unread: Log → why it could not be read; named on the page.
        progress: Called at every stage with a short phrase and the share of the work that is done.

    Returns:
        The page.

    Raises:
        SettingError: Fewer than two runs.
    """
    known = index_of(index)
    runs, against = ([known.stated(as_run(x)) for x in side] for side in (runs, against))
    everyone = [*runs, *against]
    if len(everyone) < 2 or not runs:
        raise SettingError(f"report: expected two runs or more to compare, found {len(everyone)}; report_run takes one")
    begin = time.perf_counter()
    settings = settings or ReportSettings()
    asked = _questions(runs, against, vary, index, settings)
    left = Left(teller(progress), len(everyone) * sum(COST[name] for name in _PARTS) + 10.0 * len(asked) + 2.0)
    until = (
        settings.until
        if settings.until is not None
        else max(horizon_of(dict(r.settings.items()), _last(r)).until for r in everyone)
    )
    ask = settings.until_step(until)
    found, pictures = [], Pictures()
    with making():
        names = names_of(everyone)
        for run, name in zip(everyone, names, strict=True):
            left.begin(name)
            found.append(OneOf(name, run, dict(answers(run, ask, parts=_PARTS, left=left))))
        drawn = {
            key: guarded(partial(make, found, pictures), key, title, question)
            for key, title, question, make in (*together.SECTIONS, *apart.SECTIONS)
        }
        alike = partial(order.section, found, settings.signal, pictures)
        drawn[order.KEY] = guarded(alike, order.KEY, order.TITLE, order.QUESTION)
        sides = (names[: len(names) - max(len(against), 1)], names[len(names) - max(len(against), 1) :])
        own: list[Lead] = []
        joint: dict[str, Answer[Any]] = {}
        for module, ask_of in asked:
            left.begin(module.TITLE)
            answer = joint[module.KEY] = answered(ask_of)
            draw = partial(module.section, answer, sides, pictures)
            drawn[module.KEY] = guarded(draw, module.KEY, module.TITLE, module.QUESTION)
            own.append(module.lead(answer))
            left.end(module.TITLE, 10.0)
    sections = tuple(drawn[key] for key in _ORDER if key in drawn)
    alerts = [f"{plain(name, 80)} could not be read: {plain(reason, 200)}" for name, reason in (unread or {}).items()]
    alerts += [f"{x.name}: the fit did not converge." for x in found if x.failed]
    page = Page(
        title=", ".join(x.name for x in found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else ""),
        about=f"{len(found)} runs beside each other, forecast to step {until:g}",
        leads=(*own, *together.leads(found, until)),
        sections=sections,
        alert=" ".join(alerts),
        glossary=glossary_of(sections),
        made=made_line(settings.seed, time.perf_counter() - begin),
        docs=docs_base(settings.docs),
    )
    left.end("writing the page", 2.0)
    failed = any(x.failed for x in found)
    return Report(page, pictures.stylesheet(), _results(found, joint, page, until, unread or {}), failed)


def _questions(
    runs: Sequence[Run], against: Sequence[Run], vary: Sequence[str], index: Any, settings: ReportSettings
) -> list[tuple[ModuleType, Callable[[], Any]]]:
    """What is asked of the runs together: the section's module, and what computes its answer."""
    out: list[tuple[ModuleType, Callable[[], Any]]] = []
    signal, seed = settings.signal, settings.seed
    if against or len(runs) == 2:
        a, b = (runs, against) if against else (runs[:1], runs[1:])
        out.append((recipes, partial(compare_runs, a, b, signal=signal, seed=seed)))
    if vary:
        everyone = [*runs, *against]
        out.append((effects, partial(family, everyone, vary, index=index, signal=signal, seed=seed)))
    return out


def names_of(runs: Sequence[Run]) -> list[str]:
    """Short names that tell the runs apart: those of the logs, numbered where they are the same."""
    short = [plain(run.name, _NAME_LIMIT).strip() or "run" for run in runs]
    return [f"{x} ({short[: i + 1].count(x)})" if short.count(x) > 1 else x for i, x in enumerate(short)]


def _last(run: Run) -> float:
    return max((float(x[-1]) for x in (run.step, run.eval_step) if len(x)), default=1.0)


def _results(
    found: Sequence[OneOf], joint: Mapping[str, Answer[Any]], page: Page, until: float, unread: Mapping[str, str]
) -> dict[str, Any]:
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
            **{key: part(answer, lambda v: v.to_dict()) for key, answer in joint.items()},
            "highest_now": together.highest(found, now=True),
            "highest_at_horizon": together.highest(found, now=False),
            "unread": dict(unread),
        }
    )
