"""A forecast as a document."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bayes_grpo.analysis.result import forecast_action
from bayes_grpo.common.document import (
    Cell,
    Document,
    Drawing,
    Section,
    Sparkline,
    Tabular,
    Tone,
    chance,
    number,
    ranged,
    section,
    sentence_case,
    shows,
    table,
    words,
)
from bayes_grpo.common.intervals import Interval, digits, percent
from bayes_grpo.forecasting.expected import Horizon
from bayes_grpo.forecasting.forecast import Forecast
from bayes_grpo.forecasting.level import LEVEL_NAME
from bayes_grpo.forecasting.references import REFERENCES_NAME
from bayes_grpo.forecasting.summary import ForecastSummary, summarize_forecast
from bayes_grpo.views.plots.forecasting import plot_forecast

_NAMES = {REFERENCES_NAME: "reference runs", LEVEL_NAME: "last value"}
"""Forecasters that are no regime, in words."""


@shows(Forecast)
def forecast_document(f: Forecast) -> Document:
    """The summary of a forecast with its fan."""
    document = forecast_summary_document(summarize_forecast(f))
    plot = Drawing(partial(plot_forecast, f), f"The log and the forecast. {document.answer}", ratio=0.42)
    return replace(document, plot=plot, series=Sparkline(f.logged_step.tolist(), f.logged.tolist()))


@shows(ForecastSummary)
def forecast_summary_document(s: ForecastSummary) -> Document:
    """Where the reward will be, with what probability it gains, and what the forecast averages over."""
    horizon = Horizon(s.until, s.until_from).sentence
    until = f"step {s.until:g}"
    counts = f" ({s.threshold_from})" if s.threshold_from else ""
    chances = [f"{percent(s.p_gain)} chance of a gain above {s.threshold:.2g}{counts}"]
    chances += [f"{percent(p)} of a {n}" for n, p in (("collapse", s.p_collapse), ("take-off", s.p_takeoff)) if p > 0.0]
    return Document(
        title=s.about.run,
        about=f"{s.about.rows} rows of {s.about.signal} up to step {s.about.last_step:g}",
        answer=sentence_case(f"{s.outlook.words}."),
        why=f"Underlying reward {s.reward_text(s.at_horizon)} at {until}, {ranged(s.now)} now ({s.interval_level:.0%} "
        f"intervals). {', '.join(chances)}.{f' {s.so_far}' if s.so_far else ''}",
        do=forecast_action(s.p_gain, s.threshold, s.until).sentence,
        tone=_tone(s),
        table=_quantities(s),
        sections=(
            section("Target reward", *(x.sentence for x in s.reach)),
            section("The end", tables=(_end(s),)),
            section(
                "Regimes",
                "Averaged with weights " + ", ".join(f"{name} {w:.2f}" for name, w in _weights(s)) + ".",
                f"P(curve has peaked) = {percent(s.p_peaked)}.",
            ),
            section("Assumed", horizon, *s.assumed),
            section("Notes", *s.notes),
        ),
        assumed="; ".join(x.rstrip(".") for x in (horizon, _references(s), *s.assumed) if x),
        unchecked=_cautions(s),
        docs="how/forecast",
    )


def _cautions(s: ForecastSummary) -> str:
    """Limits of the forecast: a horizon too far ahead, and regimes that it does without."""
    far = "" if s.far is None else s.far.sentence
    text = "; ".join(x for x in (_excluded_regimes(s), far) if x)
    return f"Caution: {text}." if text else ""


def _excluded_regimes(s: ForecastSummary) -> str:
    """Regimes that the forecast does without, and why, a clause; "" without any."""
    if not s.not_converged:
        return ""
    verb = "is" if len(s.not_converged) == 1 else "are"
    return f"{' and '.join(s.not_converged)} did not converge and {verb} left out"


def weights_section(s: ForecastSummary, hint: str) -> Section:
    """Regimes that a forecast averages over, by weight, as a section of a page; the hint says how to learn more."""
    weights = _weights(s)
    listed = ", ".join(f"{name} {percent(w)}" for name, w in weights[:3])
    rows = ((name, number(f"{w:.2f}")) for name, w in weights)
    note = "Regimes by how well each predicted every row before it came; the last value as learned from other runs."
    lost = _excluded_regimes(s)
    return section(
        "Regimes",
        f"{sentence_case(lost)}." if lost else "",
        hint,
        tables=(table("Weights of the forecast", ("regime", "weight"), rows, note),),
        lead=f"The forecast averages over {listed}.",
    )


def _weights(s: ForecastSummary) -> list[tuple[str, float]]:
    """Forecasters in words, with their weights, largest first."""
    counted = {k: w for k, w in s.weights.items() if k != REFERENCES_NAME or w > 0.0}
    return [(_NAMES.get(k, k), w) for k, w in sorted(counted.items(), key=lambda x: -x[1])]


def _references(s: ForecastSummary) -> str:
    """Which other runs the forecast rests on."""
    if s.reference_runs is None or not s.reference_runs.count:
        return ""
    used = s.reference_runs
    what = f"{percent(used.share)} of the paths follow them" if used.share else "the forecast gives them no weight"
    return f"{used.named}, {what}" + ("" if used.order_share is None else ", and they share this run's data order")


def _quantities(s: ForecastSummary) -> Tabular:
    until = f"step {s.until:g}"
    now = s.about.last_step
    rows: list[tuple[object, ...]] = [
        (words("underlying reward now", term="underlying reward"), s.now),
        (words(f"underlying reward at {until}", term="underlying reward"), s.at_horizon),
        (words(f"logged reward at {until}", term="noise"), s.row_at_horizon),
        (words(f"gain by {until}", term="remaining gain"), s.remaining_gain),
        *((f"step of reward {x.reward:g}", _step(x.step, now)) for x in s.reach),
    ]
    heads = ("quantity", Cell(f"median [{s.interval_level:.0%} interval]", term="interval"))
    return table(f"Forecast to {until}", heads, rows)


def _end(s: ForecastSummary) -> Tabular:
    chances = (("gain", s.p_gain), ("peaked", s.p_peaked), ("collapse", s.p_collapse), ("take-off", s.p_takeoff))
    rows: list[tuple[object, ...]] = [
        ("fixed point, constant learning rate", s.at_infinity),
        ("reward in the end, remaining schedule", s.final),
        ("gain until the end", s.final_gain),
        *((f"P({name})", chance(p)) for name, p in chances),
    ]
    return table("Beyond the horizon", ("quantity", f"median [{s.interval_level:.0%} interval]"), rows)


def _step(i: Interval, now: float) -> Cell:
    """Median and interval of a step; one in the past is so for all ends of its interval."""
    if i.high <= now:
        return number("reached")
    middle, low, high = ("now" if x <= now else digits(x) for x in (i.median, i.low, i.high))
    return number(f"{middle} [{low}, {high}]")


def _tone(s: ForecastSummary) -> Tone:
    if s.p_peaked > 0.5 and s.now.median - s.at_horizon.median > s.threshold:
        return "alarm"
    return "doubt" if s.outlook.direction == "unclear" else ""
