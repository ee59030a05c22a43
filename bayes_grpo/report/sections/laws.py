"""Which law of the curve the log supports: the comparison."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.comparison.result import CLEAR, Comparison, ComparisonLine
from bayes_grpo.report.answer import Answer
from bayes_grpo.report.page import Cell, PageTable, Part, Picture, Section, head, number, said, words
from bayes_grpo.report.sections.common import SMALL, new_figure, nothing, panels
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.comparison import plot_comparison

KEY, TITLE, QUESTION = "laws", "The law", "Which law does the curve follow?"
_SHOWN = 4
"""Laws whose curve is shown, the best ones."""


class CurveDifference(NamedTuple):
    """Where the laws that are left differ most: at a step, by so much, in units of a row's noise."""

    step: float
    size: float
    noise: float


def laws(found: Answer[Comparison], pictures: Pictures) -> Section:
    """The section on the laws."""
    if found.value is None:
        return nothing(KEY, TITLE, QUESTION, found.reason)
    c = found.value
    left = standing(c)
    parts = []
    if len(left) > 1:
        parts.append(Part("What would tell", (_would_tell(c, left),)))
    if c.cautions:
        parts.append(Part("What not to believe", tuple(said(x) for x in c.cautions), "doubt"))
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=said(c.sentence, 900),
        tone="doubt" if len(left) > 1 else "",
        pictures=_pictures(c, pictures),
        tables=(_table(c),),
        parts=tuple(parts),
        terms=("law",),
        explained={x.regime: said(x.title) + "." for x in c.lines},
    )


def standing(c: Comparison) -> list[ComparisonLine]:
    """Laws against which neither score speaks."""
    return [x for x in c.lines if "worse" not in (x.verdict, x.verdict_ahead)]


def _pictures(c: Comparison, pictures: Pictures) -> tuple[Picture, ...]:
    n = len(c.lines)
    rows = -(-n // (2 if n > 1 else 1))
    figure = new_figure((SMALL[0] * 3.05, max(SMALL[1] * 2.2, SMALL[1] * rows)))
    plot_comparison(c, figure=figure)
    differences, weights = len(figure.axes) - 2, len(figure.axes) - 1
    best = c.lines[0]
    told = [
        (
            differences,
            "Difference in expected log predictive density from the best law, with one standard error: "
            + "; ".join(f"{x.regime} {x.difference:.1f} ± {x.difference_se:.1f}" for x in c.lines),
            f"Grey: no difference. Best law: {best.regime}.",
        ),
        (
            weights,
            "Weights of the laws: " + ", ".join(f"{x.regime} {x.weight:.2f}" for x in c.lines),
            "Full bars: share in the best mixture. Pale: share in forecasts.",
        ),
    ]
    told += [
        (
            i,
            f"Rows and curve of the law {x.regime}, which explains {x.r2:.2f} of their variance",
            f"{said(x.title)}." + (f" Bands: {LEVEL:.0%}." if i == 0 else ""),
        )
        for i, x in enumerate(c.lines[:_SHOWN])
    ]
    for axes in figure.axes[: min(_SHOWN, n)]:
        axes.set_xlabel("optimizer step", fontsize=8)
    return panels(pictures, figure, told)


def _table(c: Comparison) -> PageTable:
    def line(x: ComparisonLine) -> tuple[Cell, ...]:
        verdict = x.verdict
        if x.verdict_ahead in ("best", "worse") and x.verdict_ahead != verdict:
            verdict += f", {x.verdict_ahead} ahead"
        return (
            words(x.regime, term=x.regime),
            number(f"{x.elpd:.1f}"),
            number("" if x.verdict == "best" else f"{x.difference:.1f} ± {x.difference_se:.1f}"),
            number("" if math.isnan(x.p_worse) else probability_text(x.p_worse)),
            number(f"{x.weight:.2f}"),
            number(f"{x.r2:.2f}"),
            number("" if math.isnan(x.lfo) else f"{x.lfo_difference:.1f} ± {x.lfo_difference_se:.1f}"),
            number("" if math.isnan(x.growth) else probability_text(x.growth)),
            words(verdict + (f", {x.high_k} rows with high Pareto k" if x.high_k else "")),
        )

    heads = head(
        Cell("law", term="law"),
        Cell("elpd", term="elpd"),
        "difference ± error",
        Cell("P(worse)", term="P(worse)"),
        Cell("weight", term="weight"),
        Cell("R²", term="R²"),
        Cell("rows ahead: difference", term="rows ahead"),
        "P(growth)",
        "verdict",
    )
    return PageTable("Laws, the best first", heads, tuple(map(line, c.lines)))


def differ_most(c: Comparison, left: list[ComparisonLine]) -> CurveDifference:
    """Where the curves of laws differ most among the rows, and a row's noise."""
    curves = np.array([c.posteriors[x.regime].curve_mean for x in left])
    apart = np.ptp(curves, axis=0)
    i = int(np.argmax(apart))
    first = c.posteriors[left[0].regime].draws
    noise = float(np.median(first.values["observation_sd"]))
    return CurveDifference(float(first.rows.table.step[i]), float(apart[i]), noise)


def _would_tell(c: Comparison, left: list[ComparisonLine]) -> str:
    names = ", ".join(x.regime for x in left[:6])
    step, size, noise = differ_most(c, left)
    text = (
        f"Between {names} the scores differ by less than {CLEAR:g}, or by less than their errors. Their curves differ "
        f"most near step {step:g}, by {size:.2g}, where one row has a noise of {noise:.2g}."
    )
    last = c.about.last_step
    if step > last - 0.15 * (last - c.about.first_step):
        return f"{text} Rows after the last one would tell."
    return (
        f"{text} Rows there would tell: another seed of the same run, logged step by step at that place. The laws' "
        "forecasts are averaged until then."
    )
