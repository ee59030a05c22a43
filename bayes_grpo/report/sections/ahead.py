"""Where the reward goes from here, and whether going on is worth it: forecast and decision."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bayes_grpo.accounts.advice import given
from bayes_grpo.common.intervals import probability_text
from bayes_grpo.decision.budget import amount
from bayes_grpo.decision.result import Decision, Stopping
from bayes_grpo.diagnosis.status import TopLine
from bayes_grpo.forecasting.reach import Reached
from bayes_grpo.forecasting.summary import ForecastSummary
from bayes_grpo.report.answer import Forecasted, Found
from bayes_grpo.report.page import Cell, PageTable, Part, Picture, Section, Tone, head, number, said, words
from bayes_grpo.report.sections.common import (
    SMALL,
    digits,
    drawn,
    estimate,
    new_figure,
    nothing,
    panels,
    span,
    untitled,
)
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.decision import draw_best_step, draw_net_value, mark_stop
from bayes_grpo.views.plots.forecasting import plot_forecast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEY, TITLE, QUESTION = "forecast", "What is left", "Where does the reward go from here, and is it worth going on?"
ASK = (
    "To be told, give --cost-per-step (or --gpu-hours-per-step, or --gpus where the log has the time of a step) and "
    "--value-per-reward; or --gain, for the steps that "
    "a gain takes."
)
_SHOWN = 9
"""Stopping steps in the table."""


def section(found: Found, pictures: Pictures) -> Section:
    """The section on forecast and decision, given how the run stands."""
    answer, top = found.forecast, found.top
    if answer.value is None:
        return nothing(KEY, TITLE, QUESTION, answer.reason)
    f = answer.value
    stopping = None if f.decision is None else f.decision.stopping
    tables = [_numbers(f.summary), _weights(f.summary)]
    shown = [fan(f, pictures)]
    if stopping is not None:
        shown += _stopping_pictures(stopping, pictures)
        tables.insert(1, _stopping_table(stopping))
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=said(given(top, f.summary.sentence))
        + ("" if f.decision is None else f" {said(given(top, f.decision.sentence), 900)}"),
        tone=tone_of(f.summary),
        pictures=tuple(shown),
        tables=tuple(tables),
        parts=_parts(f),
        terms=("underlying reward", "interval", "horizon", "law", *(("net value", "regret") if stopping else ())),
    )


def fan(f: Forecasted, pictures: Pictures) -> Picture:
    """The fan over the log, with the plateau beside it on a screen."""
    stopping = None if f.decision is None else f.decision.stopping

    def draw(figure: Figure) -> None:
        plot_forecast(f.forecast, figure=figure)
        untitled(figure.axes[0])
        if stopping is not None:
            mark_stop(figure, stopping)

    def narrow(figure: Figure) -> None:
        draw(figure)
        fan_axes, plateau = figure.axes
        plateau.remove()
        fan_axes.set_subplotspec(figure.add_gridspec(1, 1)[0, 0])
        for legend in list(figure.legends):  # there is no room for it; the line below says what is what
            legend.remove()

    caption = (
        f"Dots: logged rows. Blue: the underlying reward to come, {f.summary.interval_level:.0%} and 50%. Grey: where "
        "logged rows should fall. Beside it, on a wide screen: where it ends."
        + (" Red: where to stop." if stopping is not None else "")
    )
    return drawn(pictures, draw, f"The log and the forecast: {said(f.summary.sentence)}", caption, narrow)


def tone_of(s: ForecastSummary) -> Tone:
    """How the forecast's sentence is marked."""
    fell = s.now.median - s.at_horizon.median
    if s.p_peaked > 0.5 and fell > s.threshold:
        return "alarm"
    return "doubt" if s.sentence.startswith("this log cannot tell") else ""


def _numbers(s: ForecastSummary) -> PageTable:
    until = f"step {s.until:g}"
    rows = [
        (words(name, term=term), *estimate(value))
        for name, term, value in (
            ("underlying reward now", "underlying reward", s.now),
            (f"underlying reward at {until}", "underlying reward", s.at_horizon),
            (f"logged row at {until}", "noise", s.row_at_horizon),
            ("remaining gain until then", "remaining gain", s.remaining_gain),
            ("reward at infinity, constant learning rate", "fixed point", s.at_infinity),
            ("reward in the end, remaining schedule", "", s.final),
            ("gain until the end", "", s.final_gain),
        )
    ]
    rows += [(words(f"step of {r.share:.0%} of the final gain"), *_reached(r, s.about.last_step)) for r in s.reached]
    chances = (
        (f"P(gain until {until} > {s.threshold:.3g})", "remaining gain", s.p_gain),
        ("P(curve has peaked)", "peaked", s.p_peaked),
        ("P(collapse until then)", "collapse", s.p_collapse),
        ("P(take-off until then)", "take-off", s.p_takeoff),
    )
    rows += [(words(name, term=term), number(probability_text(p)), number("")) for name, term, p in chances]
    heads = head("quantity", "median", Cell(f"{s.interval_level:.0%} interval", term="interval"))
    return PageTable(f"The forecast until {until}", heads, tuple(rows))


def _reached(r: Reached, now: float) -> tuple[Cell, Cell]:
    def step(x: float) -> str:
        if math.isnan(x):
            return "no trend"
        return "never" if math.isinf(x) else "by now" if x <= now else f"{x:.4g}"

    return number(step(r.step.median)), number(f"[{step(r.step.low)}, {step(r.step.high)}]")


def _weights(s: ForecastSummary) -> PageTable:
    rows = sorted(s.weights.items(), key=lambda x: -x[1])
    heads = head(Cell("law", term="law"), Cell("weight", term="weight"))
    lines = tuple((words(k, term="level" if k == "level" else ""), number(f"{w:.2f}")) for k, w in rows)
    return PageTable("Laws that the forecast averages over", heads, lines, folded=True)


def _stopping_pictures(stopping: Stopping, pictures: Pictures) -> tuple[Picture, ...]:
    figure = new_figure((SMALL[0] * 2, SMALL[1] * 1.3))
    left, right = figure.subplots(1, 2)
    draw_net_value(left, stopping)
    draw_best_step(right, stopping)
    for axes in (left, right):
        axes.set_xlabel("stop at optimizer step", fontsize=8)
        axes.set_ylabel("")
    left.set_title(
        "net value of stopping there" + (f" ({stopping.unit})" if stopping.unit else ""), fontsize=9, loc="left"
    )
    right.set_title("probability that the best step lies here", fontsize=9, loc="left")
    told = [
        (0, f"Expected net value by stopping step. {stopping.sentence}", ""),
        (
            1,
            f"Where the best stopping step lies in hindsight: {stopping.best_step.median:g} {span(stopping.best_step)}",
            "",
        ),
    ]
    return panels(pictures, figure, told)


def _stopping_table(stopping: Stopping) -> PageTable:
    n = len(stopping.step)
    chosen = int(abs(stopping.step - stopping.recommended).argmin())
    picks = sorted({round(i * (n - 1) / (_SHOWN - 1)) for i in range(_SHOWN)} | {chosen})
    rows = tuple(
        (
            number(f"{'now, ' if i == 0 else ''}{stopping.step[i]:g}"),
            number(f"{stopping.gain[i]:+.3f}"),
            number(amount(float(stopping.net[i]))),
            number(f"[{amount(float(stopping.net_low[i]))}, {amount(float(stopping.net_high[i]))}]"),
            words(("recommended" if stopping.limit is None else "best fixed step") if i == chosen else "", mark=True),
        )
        for i in picks
    )
    heads = head(
        "stop at step", "expected gain", Cell("net value", term="net value"), f"{stopping.level:.0%} interval", ""
    )
    return PageTable("What stopping at a step is worth", heads, rows)


def _parts(f: Forecasted) -> tuple[Part, ...]:
    s, decision = f.summary, f.decision
    parts = [] if decision is not None else [Part("Is it worth it?", (ASK,))]
    if decision is not None and decision.warnings:
        parts.append(Part("What not to believe", tuple(said(x) for x in decision.warnings), "doubt"))
    if decision is not None and decision.stopping is not None:
        parts.append(Part("Regret", (_regret(decision),)))
    tell = _would_tell(s)
    if tell:
        parts.append(Part("What would tell", tell))
    rest = (f"Horizon: step {s.until:g} ({f.until_from}).", *(f"Assumed: {x}" for x in s.assumed), *s.notes)
    return (*parts, Part("What it rests on", rest))


def _regret(decision: Decision) -> str:
    stopping = decision.stopping
    if stopping is None:
        return ""
    prices = f"{amount(stopping.value_per_reward)} a unit of reward, {amount(stopping.cost_per_step)} a step."
    taken = "" if stopping.choice is None or stopping.stops_now else f" {stopping.choice.sentence}"
    return f"{stopping.regrets}{taken} {prices}"


def _would_tell(s: ForecastSummary) -> tuple[str, ...]:
    if max(s.p_gain, 1.0 - s.p_gain) >= 0.8:
        return ()
    noise = 0.5 * (s.row_at_horizon.high - s.row_at_horizon.low)
    sure = 0.5 * (s.at_horizon.high - s.at_horizon.low)
    return (
        f"Whether the gain exceeds {s.threshold:.2g}: the underlying reward at step {s.until:g} is known to ± "
        f"{sure:.2g}, a logged row to ± {noise:.2g}. The rows between now and then would tell, and so would a "
        "held-out reward on many prompts now; a nearer horizon (--until) is surer.",
    )


def left_of(f: Forecasted, top: TopLine | None) -> str:
    """Sentence for the top of the page: what is left, and whether it is worth it, given how the run stands."""
    sentence = said(given(top, f.summary.sentence), 500)
    if f.decision is None:
        needed = "a cost and a value (--cost-per-step or --gpus, and --value-per-reward)"
        return f"{sentence} Whether it is worth it needs {needed}."
    first = said(given(top, f.decision.sentence), 500).partition(". ")[0].rstrip(".")
    return f"{sentence} {first}."


def chance_of(f: Forecasted) -> str:
    """The probability of that sentence."""
    stopping = None if f.decision is None else f.decision.stopping
    if stopping is not None:
        return f"P(going on pays) {probability_text(stopping.probability_pays)}"
    return f"P(gain > {digits(f.summary.threshold, '.2g')}) {probability_text(f.summary.p_gain)}"
