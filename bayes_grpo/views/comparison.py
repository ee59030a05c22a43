"""A comparison of regimes as a document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.comparison.result import Comparison, ComparisonLine
from bayes_grpo.views.document import (
    Cell,
    Document,
    Drawing,
    Tabular,
    head,
    number,
    percent,
    section,
    sentence_case,
    shows,
    split,
    words,
)
from bayes_grpo.views.plots.comparison import plot_comparison


@shows(Comparison)
def comparison_document(c: Comparison) -> Document:
    """Which regimes the rows favor, their scores, and what would tell the rest apart."""
    answer, why = split(sentence_case(c.sentence, 900))
    left = remaining(c)
    names = ", ".join(x.regime for x in left)
    if len(left) > 1:
        answer, why = f"{len(left)} of {len(c.lines)} regimes fit equally well: {names}.", f"{answer} {why}".strip()
    do = "" if len(left) < 2 else f"Average over them (forecast does); {_would_tell(c, left)}"
    return Document(
        title=c.about.run,
        about=f"{c.about.rows} rows of {c.about.signal}, steps {c.about.first_step:g} to {c.about.last_step:g}",
        answer=answer,
        why=why,
        do=do,
        tone="doubt" if len(left) != 1 else "",
        table=_table(c),
        plot=Drawing(
            partial(plot_comparison, c),
            "Rows and curve of every regime, and the differences in their scores: "
            + "; ".join(f"{x.regime} {x.difference:.1f} ± {x.difference_se:.1f}" for x in c.lines),
            ratio=0.62,
        ),
        sections=(
            section("Scores", tables=(_scores(c),)),
            section("Damping", *(f"{name}: {_damping(p)}." for name, p in c.damping.items())),
            section("Cautions", *c.cautions, tone="doubt"),
            section("Left out", *(f"{name}: {why}" for name, why in c.left_out.items())),
        ),
        unchecked=c.cautions[0] if c.cautions else "",
        docs="how/compare",
    )


def remaining(c: Comparison) -> list[ComparisonLine]:
    """Regimes that neither score speaks against."""
    return [x for x in c.lines if "worse" not in (x.verdict, x.verdict_ahead)]


def _verdict(x: ComparisonLine) -> str:
    ahead = x.verdict_ahead
    text = f"{x.verdict}, {ahead} ahead" if ahead in ("best", "worse") and ahead != x.verdict else x.verdict
    return text + (f", {x.high_k} rows with high Pareto k" if x.high_k else "")


def _difference(x: ComparisonLine) -> str:
    return "" if x.verdict == "best" else f"{x.difference:.1f} ± {x.difference_se:.1f}"


def _ahead(x: ComparisonLine) -> str:
    if math.isnan(x.lfo):
        return ""
    return "best" if x.verdict_ahead == "best" else f"{x.lfo_difference:.1f} ± {x.lfo_difference_se:.1f}"


def _table(c: Comparison) -> Tabular:
    rows = tuple(
        (words(x.regime, term=x.regime), number(_difference(x)), number(_ahead(x)), words(_verdict(x))) for x in c.lines
    )
    heads = head("regime", Cell("elpd difference", term="elpd"), Cell("rows ahead", term="rows ahead"), "verdict")
    note = "± one standard error; below 4 is no difference. Rows ahead: leave-future-out."
    return Tabular("Regimes, best first", heads, rows, note)


def _scores(c: Comparison) -> Tabular:
    rows = tuple(
        (
            words(x.regime),
            number(f"{x.elpd:.1f}"),
            number("" if math.isnan(x.p_worse) else probability_text(x.p_worse)),
            number(f"{x.weight:.2f}"),
            number(f"{x.r2 + 0.0:.2f}"),
            number("" if math.isnan(x.growth) else probability_text(x.growth)),
        )
        for x in c.lines
    )
    heads = head(
        "regime", "elpd", Cell("P(worse)", term="P(worse)"), Cell("weight", term="weight"), "R²", "P(growth)",
    )  # fmt: skip
    note = "Stacking weights are arbitrary among near-equal regimes."
    return Tabular("Scores of the regimes", heads, rows, note)


def _damping(p: Mapping[str, float]) -> str:
    shares = ", ".join(f"{k} {percent(p[k])}" for k in ("overdamped", "oscillatory", "unstable"))
    unseen = p["oscillatory"] > 0.5 and p["half_period_seen"] < 0.5
    return shares + (" (less than half a period in the data: a slow start, no oscillation)" if unseen else "")


def _would_tell(c: Comparison, left: list[ComparisonLine]) -> str:
    """Where the curves of the remaining regimes differ most, beside the noise of a row."""
    curves = np.array([c.posteriors[x.regime].curve_mean for x in left])
    apart = np.ptp(curves, axis=0)
    i = int(np.argmax(apart))
    draws = c.posteriors[left[0].regime].draws
    noise = float(np.median(draws.values["observation_sd"]))
    step = float(draws.rows.table.step[i])
    return f"their curves differ most near step {step:g}, by {apart[i]:.2g}; the noise of a row is {noise:.2g}."
