"""A forecast as a document."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from bayes_grpo.analysis.advice import UNCHANGED
from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.forecasting.horizon import Horizon
from bayes_grpo.forecasting.reach import Reached
from bayes_grpo.forecasting.result import Forecast
from bayes_grpo.forecasting.summary import ForecastSummary, summarize_forecast
from bayes_grpo.views.document import (
    Cell,
    Document,
    Drawing,
    Series,
    Tabular,
    digits,
    estimate,
    head,
    number,
    percent,
    ranged,
    section,
    sentence_case,
    shows,
    words,
)
from bayes_grpo.views.plots.forecasting import plot_forecast


@shows(Forecast)
def forecast_document(f: Forecast) -> Document:
    """The summary of a forecast with its fan."""
    document = forecast_summary_document(summarize_forecast(f))
    plot = Drawing(partial(plot_forecast, f), f"The log and the forecast. {document.answer}", ratio=0.42)
    return replace(document, plot=plot, series=Series(f.logged_step.tolist(), f.logged.tolist()))


@shows(ForecastSummary)
def forecast_summary_document(s: ForecastSummary) -> Document:
    """Where the reward will be, with what probability it gains, and what the forecast averages over."""
    course = sentence_case(s.sentence.removeprefix(UNCHANGED)).partition(": ")[0]
    horizon = Horizon(s.until, s.until_from).sentence
    until = f"step {s.until:g}"
    chances = [f"P(gain > {s.threshold:.2g} by {until}) = {percent(s.p_gain)}"]
    chances += [f"{n} {percent(p)}" for n, p in (("collapse", s.p_collapse), ("take-off", s.p_takeoff)) if p > 0.0]
    fell = s.now.median - s.at_horizon.median
    weights = sorted(s.weights.items(), key=lambda x: -x[1])
    return Document(
        title=s.about.run,
        about=f"{s.about.rows} rows of {s.about.signal} up to step {s.about.last_step:g}",
        answer=f"{course}.",
        why=f"Underlying reward {ranged(s.at_horizon)} at {until}, {ranged(s.now)} now; {'; '.join(chances)} "
        f"({s.interval_level:.0%} intervals).",
        tone="alarm" if s.p_peaked > 0.5 and fell > s.threshold else "doubt" if "cannot tell" in course else "",
        table=_table(s),
        sections=(
            section("Asked", *(x.sentence for x in s.reach)),
            section("The end", tables=(_end(s),)),
            section(
                "Regimes",
                "Averaged with weights " + ", ".join(f"{name} {w:.2f}" for name, w in weights) + ".",
                f"P(curve has peaked) = {percent(s.p_peaked)}.",
            ),
            section("Assumed", horizon, *s.assumed),
            section("Notes", *s.notes),
        ),
        assumed="; ".join(x.rstrip(".") for x in (horizon, *s.assumed) if x),
        docs="how/forecast",
    )


def _table(s: ForecastSummary) -> Tabular:
    until = f"step {s.until:g}"
    named = (
        ("underlying reward now", "underlying reward", s.now),
        (f"underlying reward at {until}", "underlying reward", s.at_horizon),
        (f"logged row at {until}", "noise", s.row_at_horizon),
        (f"gain by {until}", "remaining gain", s.remaining_gain),
    )
    rows = [(words(name, term=term), *estimate(value)) for name, term, value in named]
    rows += [(words(f"step of reward {x.reward:g}"), *_steps(x.step, s.about.last_step)) for x in s.reach]
    heads = head("quantity", "median", Cell(f"{s.interval_level:.0%} interval", term="interval"))
    return Tabular(f"Forecast to {until}", heads, tuple(rows))


def _end(s: ForecastSummary) -> Tabular:
    named = (
        ("fixed point, constant learning rate", s.at_infinity),
        ("reward in the end, remaining schedule", s.final),
        ("gain until the end", s.final_gain),
    )
    rows = [(words(name), *_shown(s, value)) for name, value in named[:2]] + [
        (words(named[2][0]), *estimate(named[2][1]))
    ]
    rows += [(words(f"step of {x.share:.0%} of the final gain"), *_reached(x, s.about.last_step)) for x in s.reached]
    chances = (("gain", s.p_gain), ("peaked", s.p_peaked), ("collapse", s.p_collapse), ("take-off", s.p_takeoff))
    rows += [(words(f"P({name})"), number(probability_text(p)), number("")) for name, p in chances]
    return Tabular("Beyond the horizon", head("quantity", "median", f"{s.interval_level:.0%} interval"), tuple(rows))


def _shown(s: ForecastSummary, value: Interval) -> tuple[Cell, Cell]:
    """A level; one above all rows is what a regime says and no row has shown."""
    if value.median <= s.highest:
        return estimate(value)
    return number("not seen"), number(f"above {s.highest:.3g}, the highest row")


def _reached(x: Reached, now: float) -> tuple[Cell, Cell]:
    return _steps(x.step, now)


def _steps(i: Interval, now: float) -> tuple[Cell, Cell]:
    """Median and interval of a step; one that is past already is so for all of the interval's ends."""
    if math.isnan(i.median):
        return number("no trend"), number("")
    if i.high <= now:
        return number("reached"), number("")

    def step(x: float) -> str:
        return "now" if x <= now else digits(x)

    return number(step(i.median)), number(f"[{step(i.low)}, {step(i.high)}]")
