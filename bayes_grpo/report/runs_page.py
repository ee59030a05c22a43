"""`report_runs`: several runs on one page, their curves on one axis, their numbers in one table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from bayes_grpo.analysis.analyze import Tell, analyze
from bayes_grpo.analysis.result import Analysis, Part
from bayes_grpo.common.errors import BayesGrpoWarning, SettingError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.progress import teller
from bayes_grpo.common.results import json_safe
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.families.compare_runs import compare_runs
from bayes_grpo.families.family import family
from bayes_grpo.families.members import setting_text, settings_that_differ
from bayes_grpo.forecasting.horizon import horizon_of
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.report.result import Report, sentences_of
from bayes_grpo.report.run_page import made_line
from bayes_grpo.report.settings import ReportSettings
from bayes_grpo.views.document import (
    TONES,
    Document,
    Drawing,
    Point,
    Section,
    Tabular,
    Tone,
    chance,
    section,
    sentence_case,
    table,
    view,
    words,
)
from bayes_grpo.views.plots.overview import plot_runs, plot_signals

_PARTS = ("fit", "forecast", "diagnosis")
"""What is computed of every run."""
_NAME, _SIGNALS = 40, 12
"""Characters of a run's name, and signals that are drawn."""
_SCALE = "Rewards are compared as they are, which holds for runs of one reward function."


class OneOf(NamedTuple):
    """A run among others: its name on the page, the run, and its analysis."""

    name: str
    run: Run
    analysis: Analysis

    def part(self, name: str) -> Any:
        """The value of a part; None without one."""
        return getattr(self.analysis, name).value


def report_runs(
    runs: Sequence[RunLike],
    *,
    settings: ReportSettings | None = None,
    against: Sequence[RunLike] = (),
    vary: Sequence[str] = (),
    unread: Mapping[str, str] | None = None,
    progress: Tell | None = None,
) -> Report:
    """Puts several runs on one page, all forecast to one step.

    Args:
        runs: The runs, or what `bayes_grpo.read_log` makes them of; two or more.
        settings: Horizon, costs, seed, parts to leave out.
        against: Runs of another recipe, B, each a seed; ``runs`` are then those of A. Of two runs without any, the
            first is A and the second B.
        vary: Settings that differ between the runs, for their effects; see `family`.
        unread: Log → why it could not be read; named on the page.
        progress: Called at every stage with a short phrase and the share of the work that is done.

    Returns:
        The page.

    Raises:
        SettingError: Fewer than two runs.
    """
    begin = time.perf_counter()
    runs, against = ([as_run(x) for x in side] for side in (runs, against))
    everyone = [*runs, *against]
    if len(everyone) < 2 or not runs:
        raise SettingError(f"report: expected two runs or more to compare, found {len(everyone)}; report_run takes one")
    settings = settings or ReportSettings()
    questions: dict[str, Any] = {}
    shared = {"signal": settings.signal, "seed": settings.seed}
    if against or len(runs) == 2:
        sides = (runs, against) if against else (runs[:1], runs[1:])
        questions["better"] = partial(compare_runs, *sides, **shared)
    if vary:
        questions["effects"] = partial(family, everyone, vary, **shared)
    tell, shares = teller(progress), len(everyone) + len(questions)
    ends = (horizon_of(dict(r.settings.items()), _last(r)).until for r in everyone)
    until = settings.until if settings.until is not None else max(ends)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)
        names, ask = names_of(everyone), settings.until_step(until)
        parts = [name for name in _PARTS if name not in settings.without]
        found = []
        for i, (run, name) in enumerate(zip(everyone, names, strict=True)):

            def of_all(phrase: str, share: float = 0.0, i: int = i, name: str = name) -> None:
                tell(f"{name}: {phrase}", (i + share) / shares)

            found.append(OneOf(name, run, analyze(run, parts, settings=ask, progress=of_all)))
        joint: dict[str, Part[Any]] = {}
        for i, (key, compute) in enumerate(questions.items(), len(found)):
            tell(key, i / shares)
            joint[key] = Part.of(compute)
        document = _document(found, joint, until, settings, unread or {}, time.perf_counter() - begin)
    failed = any(_unconverged(x) for x in found)
    return Report(document, _results(found, joint, document, until, unread or {}), failed, settings.docs_base)


def names_of(runs: Sequence[Run]) -> list[str]:
    """Short names of the runs: those of the logs, numbered where they are the same."""
    short = [plain(run.name, _NAME).strip() or "run" for run in runs]
    return [f"{x} ({short[: i + 1].count(x)})" if short.count(x) > 1 else x for i, x in enumerate(short)]


def _document(
    found: list[OneOf], joint: Mapping[str, Part[Any]], until: float, settings: ReportSettings,
    unread: Mapping[str, str], seconds: float,
) -> Document:  # fmt: skip
    wrong = _wrong(found)
    lost = [f"{plain(name, 80)} could not be read: {plain(reason, 200)}" for name, reason in unread.items()]
    lost += [f"{x.name}: the fit did not converge." for x in found if _unconverged(x)]
    names = [x.name for x in found]
    lead = joint.get("better") or joint.get("effects")
    first = view(lead.value) if lead is not None and lead.value is not None else None
    titles = {"better": "Which recipe is better", "effects": "What settings do"}
    curves = [
        (x.name, getattr(x.part("fit"), "fit", None), getattr(x.part("forecast"), "forecast", None)) for x in found
    ]
    sections = [
        section("Not on this page", *lost, tone="alarm"),
        *(_joint(titles[key], answer) for key, answer in joint.items()),
        Section("Each run", (_SCALE,), (_table(found, until),), terms=("interval", "horizon")),
        _diagnoses(found),
        _settings(found),
        _signals(found),
    ]
    return Document(
        title=", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else ""),
        about=f"{len(names)} runs, forecast to step {until:g}",
        answer=wrong.sentence if first is None else first.answer,
        why=" ".join(lost) if lost else "" if first is None else first.why,
        tone="alarm" if lost else wrong.tone if first is None else first.tone,
        points=(wrong,),
        plot=Drawing(
            partial(plot_runs, curves), f"Underlying rewards of {len(names)} runs", f"Bands: {LEVEL:.0%}. {_SCALE}"
        ),
        sections=tuple(s for s in sections if not s.empty),
        docs="how/report",
        made=made_line(settings.seed, seconds),
        links=settings.links,
    )


def _last(run: Run) -> float:
    return max((float(x[-1]) for x in (run.step, run.eval_step) if len(x)), default=1.0)


def _unconverged(x: OneOf) -> bool:
    return x.part("fit") is not None and not x.part("fit").summary.convergence.passed


def _wrong(found: list[OneOf]) -> Point:
    known = [(x.name, x.part("diagnosis")) for x in found if x.part("diagnosis") is not None]
    if not known:
        return Point("What is wrong", f"Unknown: {found[0].analysis.diagnosis.reason}", tone="doubt")
    name, worst = max(known, key=lambda x: (x[1].top.alarming, x[1].failing))
    ill = sum(d.top.alarming for _, d in known)
    text = f"{ill} of {len(known)} runs fail, first {name}." if ill else f"No failure detected in {len(known)} runs."
    return Point("What is wrong", text, worst.failing, f"chance of a failure in {name}", TONES[worst.top.status])


def _joint(title: str, answer: Part[Any]) -> Section:
    if answer.value is None:
        return Section(title, missing=answer.reason)
    d = view(answer.value)
    made = d.folded(title)
    return replace(made, lines=(*made.lines, *(line for s in d.sections for line in s.lines)))


def _table(found: list[OneOf], until: float) -> Tabular:
    def line(x: OneOf) -> tuple[object, ...]:
        fitted, s, d = (x.part(name) for name in _PARTS)
        end = () if fitted is None else [r.posterior for r in fitted.summary.rows if r.name == "fixed_point"]
        known = ("", "", "") if s is None else (s.summary.now, s.summary.at_horizon, chance(s.summary.p_gain))
        status = words("" if d is None else d.top.status, mark=d is not None and d.top.alarming)
        return words(x.name, limit=_NAME), len(x.run.step), status, *known, *(end or ("",))

    heads = ("run", "rows", "status", "reward now", f"at step {until:g}", "P(gain)", "fixed point")
    return table(f"Runs, {LEVEL:.0%} intervals", heads, map(line, found))


def _diagnoses(found: list[OneOf]) -> Section:
    known = [(x.name, x.part("diagnosis")) for x in found if x.part("diagnosis") is not None]
    tone: Tone = "alarm" if any(d.top.alarming for _, d in known) else ""
    lines = (f"{name}: {d.top.status}, {label_of(d.top.finding)}. {sentence_case(d.sentence)}" for name, d in known)
    return section("What happened", *lines, tone=tone)


def _settings(found: list[OneOf]) -> Section:
    differ = settings_that_differ([x.run for x in found])
    rows = (
        (words(x.name, limit=_NAME), *(words(setting_text(v[i])) for v in differ.values())) for i, x in enumerate(found)
    )
    heads = ("run", *(n.replace("_", " ") for n in differ))
    tables = (table("Settings that differ", heads, rows),) if differ else ()
    return section("Settings", "" if differ else "No logged setting differs.", tables=tables)


def _signals(found: list[OneOf]) -> Section:
    having = {name: sum(name in x.run.signals for x in found) for x in found for name in x.run.signals}
    having["held_out_reward"] = sum(x.run.has_eval for x in found)
    names = sorted((n for n, k in having.items() if k > 1), key=lambda n: -having[n])[:_SIGNALS]
    runs = {x.name: x.run for x in found}
    plots = (Drawing(partial(plot_signals, runs, n), f"{n} by step", "", "small", ratio=0.66) for n in names)
    return Section("Signals", plots=tuple(plots))


def _results(
    found: list[OneOf], joint: Mapping[str, Part[Any]], page: Document, until: float, unread: Mapping[str, str]
) -> dict[str, Any]:
    def part(answer: Part[Any], content: Any) -> dict[str, Any]:
        return {"reason": answer.reason} | ({} if answer.value is None else content(answer.value))

    return json_safe(
        {
            "sentences": sentences_of(page),
            "until": until,
            "runs": {
                x.name: {
                    "fit": part(x.analysis.fit, lambda v: v.summary.to_dict()),
                    "forecast": part(x.analysis.forecast, lambda v: v.summary.to_dict()),
                    "diagnosis": part(x.analysis.diagnosis, lambda v: v.to_dict()),
                }
                for x in found
            },
            **{key: part(answer, lambda v: v.to_dict()) for key, answer in joint.items()},
            "unread": dict(unread),
        }
    )
