"""A comparison of regimes as a document."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from bayes_grpo.common.document import (
    Cell,
    Document,
    Drawing,
    Tabular,
    chance,
    number,
    section,
    sentence_case,
    shows,
    table,
)
from bayes_grpo.comparison.result import Comparison, ComparisonLine
from bayes_grpo.views.plots.fitting import plot_comparison


@shows(Comparison)
def comparison_document(c: Comparison) -> Document:
    """Which regimes the rows favor, their scores, and where the rest differ."""
    left = c.remaining
    answer, reason = _answer(c)
    why = " ".join(x for x in (reason, *c.break_sentences) if x)
    return Document(
        title=c.about.run,
        about=f"{c.about.rows} rows of {c.about.signal}, steps {c.about.first_step:g} to {c.about.last_step:g}",
        answer=answer,
        why=why,
        do="" if len(left) < 2 else f"average over them (forecast does); {_differ_most(c, left)}",
        tone="doubt" if len(left) != 1 else "",
        table=_regimes(c),
        plot=Drawing(partial(plot_comparison, c), f"The curve of every regime on the rows. {answer}", ratio=0.5),
        sections=(
            section("Scores", tables=(_scores(c),)),
            section("Cautions", *c.cautions, tone="doubt"),
            section("Left out", *(f"{name}: {why}" for name, why in c.left_out.items())),
        ),
        docs="how/compare",
    )


def _answer(c: Comparison) -> tuple[str, str]:
    """Which regimes are left, and why; the longer half of the verdict where one sentence has both."""
    found = c.verdict
    left = c.remaining
    if len(left) > 1:
        names = ", ".join(x.regime for x in left)
        reason = found.further if len(left) == len(c.table) else found.main
        return f"{len(left)} of {len(c.table)} regimes fit equally well: {names}.", sentence_case(f"{reason}.")
    if len(left) == 1:
        return found.sentence, ""
    return f"{found.main}.", f"{found.further}."


def _regimes(c: Comparison) -> Tabular:
    def line(x: ComparisonLine) -> tuple[object, ...]:
        best = x.verdict == "best"
        ahead = x.verdict_ahead
        scored = "" if math.isnan(x.lfo) else f"{x.lfo_difference:.1f} ± {x.lfo_difference_se:.1f}"
        known = "best by leave-one-out" if best and ahead == "worse" else x.verdict
        verdict = f"{known}, {ahead} ahead" if ahead in ("best", "worse") and ahead != x.verdict else known
        return (
            x.regime,
            number("" if best else f"{x.difference:.1f} ± {x.difference_se:.1f}"),
            number("best" if scored and ahead == "best" else scored),
            verdict + (f", {x.high_k} rows with high Pareto k" if x.high_k else ""),
        )

    heads = ("regime", Cell("elpd difference", term="elpd"), Cell("rows ahead", term="rows ahead"), "verdict")
    note = "elpd: leave-one-out log score ± standard error; below 4 is no difference."
    if any(not math.isnan(x.lfo) for x in c.table):
        note += " Rows ahead: leave-future-out."
    return table("Regimes, best first", heads, map(line, c.table), note)


def _scores(c: Comparison) -> Tabular:
    rows = (
        (
            x.regime,
            number(f"{x.elpd:.1f}"),
            chance(x.p_worse),
            chance(x.p_worse_ahead),
            number(f"{x.weight:.2f}"),
            number(f"{x.r2 + 0.0:.2f}"),
        )
        for x in c.table
    )
    heads = (
        "regime", "elpd", Cell("P(worse)", term="P(worse)"), "P(worse) ahead", Cell("weight", term="weight"), "R²",
    )  # fmt: skip
    return table("Scores of the regimes", heads, rows, "Stacking weights are arbitrary among near-equal regimes.")


def _differ_most(c: Comparison, left: tuple[ComparisonLine, ...]) -> str:
    """Where the curves of the remaining regimes differ most, compared with the noise of a row."""
    curves = np.array([c.posteriors[x.regime].curve_mean for x in left])
    spread = np.ptp(curves, axis=0)
    i = int(np.argmax(spread))
    draws = c.posteriors[left[0].regime].draws
    noise = float(np.median(draws.values["observation_sd"]))
    step = float(draws.rows.step[i])
    return f"their curves differ most near step {step:g}, by {spread[i]:.2g}; the noise of a row is {noise:.2g}."
