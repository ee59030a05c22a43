"""What the curve says under one law: the fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.fitting.summary import CONTRACTION_LIMIT, Summary, SummaryRow
from bayes_grpo.report.answer import Answer, Fitted
from bayes_grpo.report.page import Cell, PageTable, Part, Picture, Section, head, number, said, words
from bayes_grpo.report.sections.common import SMALL, drawn, estimate, new_figure, nothing, panels, span, untitled
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.fitting import plot_curve, plot_quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEY, TITLE, QUESTION = "fit", "The curve", "How does the reward move, and where would it settle?"
_CHANCES = ("growth", "overdamped", "oscillatory", "unstable")


def curve(found: Answer[Fitted], pictures: Pictures) -> Section:
    """The section on the fit."""
    if found.value is None:
        return nothing(KEY, TITLE, QUESTION, found.reason)
    summary = found.value.summary
    meanings = {r.name.replace("_", " "): _meaning(r) for r in summary.rows}
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=said(summary.verdict),
        tone="" if summary.convergence.passed else "alarm",
        pictures=(_curve(found.value, pictures), *_quantities(found.value, pictures)),
        tables=(_table(summary), _probabilities(summary)),
        parts=_parts(summary),
        terms=("interval", "unforced law", "underlying reward", "law", "R²", "noise"),
        explained=meanings,
    )


def _curve(found: Fitted, pictures: Pictures) -> Picture:
    fit, summary = found
    about = summary.about
    alt = (
        f"The logged {about.reward} by optimizer step with the curve of the law {fit.regime.name}: "
        f"{said(summary.verdict, 400)}"
    )
    caption = (
        "Dots: logged rows. Orange: the law without the pushes of single steps. Blue: the underlying reward. Grey: "
        f"where logged rows should fall. Bands: {summary.interval_level:.0%}."
    )

    def draw(figure: Figure) -> None:
        untitled(plot_curve(fit, summary.interval_level, figure.add_subplot()))

    return drawn(pictures, draw, alt, caption)


def _quantities(found: Fitted, pictures: Pictures) -> tuple[Picture, ...]:
    fit, summary = found
    names = fit.regime.shown or tuple(p.name for p in fit.regime.parameters[:3])
    figure = new_figure((SMALL[0] * len(names), SMALL[1] * 0.9))
    told = []
    for i, name in enumerate(names):
        plot_quantity(fit, name, summary.interval_level, figure.add_subplot(1, len(names), i + 1))
        row = next((r for r in summary.rows if r.name == name), None)
        where = "" if row is None else f", {row.posterior.median:.3g} {span(row.posterior, '.3g')}"
        told.append((i, f"Posterior against prior of {name.replace('_', ' ')}{where}", ""))
    return panels(pictures, figure, told)


def _table(summary: Summary) -> PageTable:
    level = f"{summary.interval_level:.0%}"

    def line(r: SummaryRow) -> tuple[Cell, ...]:
        share = "" if math.isnan(r.contraction) else f"{max(r.contraction, 0.0):.0%}"
        moved = "" if math.isnan(r.prior_sensitivity) else f"{r.prior_sensitivity:.2f} / {r.likelihood_sensitivity:.2f}"
        name = r.name.replace("_", " ")
        return (
            words(name, term=name),
            *estimate(r.posterior),
            words(r.unit),
            number(span(r.prior, ".3g")),
            number(share + (" (mostly prior)" if r.mostly_prior else ""), mark=r.mostly_prior),
            number(moved),
        )

    heads = head(
        "quantity",
        "median",
        Cell(f"{level} interval", term="interval"),
        "unit",
        Cell("prior", term="prior"),
        Cell("contraction", term="contraction"),
        Cell("sensitivity: prior / data", term="sensitivity"),
    )
    return PageTable(f"Quantities of the law {summary.regime}", heads, tuple(map(line, summary.rows)))


def _probabilities(summary: Summary) -> PageTable:
    b = summary.bayes_r2
    rows = [
        (words(name, term="" if name == "growth" else name), number(probability_text(summary.probabilities[name])))
        for name in _CHANCES
        if name in summary.probabilities
    ]
    rows += [
        (words("R² of the mean law", term="R²"), number(f"{summary.r2:.3f}")),
        (words("R² of the underlying reward", term="R²"), number(f"{summary.r2_latent:.3f}")),
        (words("Bayesian R²", term="R²"), number(f"{b.median:.3f} {span(b, '.3f')}")),
    ]
    heads = head(Cell("what", term="probability"), "probability or share")
    return PageTable("Probabilities, and how much the law explains", heads, tuple(rows))


def _parts(summary: Summary) -> tuple[Part, ...]:
    parts = []
    if summary.warnings:
        tone = "doubt" if summary.convergence.passed else "alarm"
        parts.append(Part("What not to believe", summary.warnings, tone))
    tell = _would_tell(summary)
    if tell:
        parts.append(Part("What would tell", tell))
    parts.append(Part("Sampler", (summary.convergence.sentence, f"Seed {summary.seed}; {summary.mass_note}.")))
    return tuple(parts)


def _would_tell(summary: Summary) -> tuple[str, ...]:
    """What would decide where the log does not."""
    out, known = [], {r.name: r for r in summary.rows}
    growth = summary.probabilities.get("growth")
    noise, start, end = (known.get(x) for x in ("observation_sd", "initial_reward", "fixed_point"))
    if growth is not None and max(growth, 1.0 - growth) < 0.95 and noise and start and end:
        move, sd = abs(end.posterior.median - start.posterior.median), noise.posterior.median
        if 0.0 < move < 5.0 * sd:
            out.append(
                f"Whether the reward moves at all: a row's noise, {sd:.2g}, is as large as the movement in question, "
                f"{move:.2g}. Four times the completions a step halve it; so do four times the rows."
            )
        else:
            out.append("Whether the reward moves: more rows, or a held-out reward every few steps.")
    untold = [r.name.replace("_", " ") for r in summary.rows if r.mostly_prior]
    if untold:
        out.append(
            f"{', '.join(untold[:6]).capitalize()}: less than {CONTRACTION_LIMIT:.0%} of the prior is gone. Rows where "
            "the curve bends (the first steps logged one by one), a longer log, or a prior from other runs "
            "(--prior corpus) would tell."
        )
    return tuple(out)


def _meaning(r: SummaryRow) -> str:
    return f"{said(r.meaning)}{f', in {r.unit}' if r.unit else ''}."
