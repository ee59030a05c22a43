"""What the law misses in its rows: the check."""

from __future__ import annotations

from bayes_grpo.checking.result import Check, Finding
from bayes_grpo.fitting.result import Fit
from bayes_grpo.report.answer import Answer
from bayes_grpo.report.page import Cell, PageTable, Part, Picture, Section, head, number, said, words
from bayes_grpo.report.sections.common import SMALL, digits, new_figure, nothing, panels
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.checking import plot_check

KEY, TITLE, QUESTION = "check", "The check", "What does this law miss in its rows?"
_PANELS = (
    "Leave-one-out residuals by optimizer step",
    "Size of the one-step residuals along the run",
    "How often rows are smaller than a given share of what was expected, less the diagonal",
    "Autocorrelation of the one-step residuals by lag",
    "Spectrum of the one-step residuals",
    "Pareto k of every row",
)


def residuals(found: Answer[Check], fit: Fit | None, pictures: Pictures) -> Section:
    """The section on the check."""
    if found.value is None or fit is None:
        return nothing(KEY, TITLE, QUESTION, found.reason)
    check = found.value
    failed = "" if check.converged else "The fit did not converge, so do not rely on this. "
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=failed + said(check.sentence),
        tone="doubt" if check.misses or not check.converged else "good",
        pictures=_pictures(check, fit, pictures),
        tables=(_table(check),),
        parts=(Part("Finding by finding", tuple(f.sentence for f in check.findings)),),
        terms=("residual", "PIT", "Pareto k"),
    )


def _pictures(check: Check, fit: Fit, pictures: Pictures) -> tuple[Picture, ...]:
    figure = new_figure((SMALL[0] * 3, SMALL[1] * 2))
    plot_check(fit, check, figure=figure)
    for axes in figure.axes:
        axes.set_title(axes.get_title(loc="left").partition(" (")[0], fontsize=9, loc="left")
    caption = "Grey: where right laws lie."
    told = [(i, f"{alt}. {check.sentence}", caption if i == 0 else "") for i, alt in enumerate(_PANELS)]
    return panels(pictures, figure, told)


def _table(check: Check) -> PageTable:
    def line(f: Finding) -> tuple[Cell, ...]:
        return (
            words(f.name, term=f.name),
            number(digits(f.statistic, ".3g")),
            number(digits(f.expected, ".3g")),
            number(digits(f.limit, ".3g")),
            number(f"{f.tail:.3f}" if f.tail >= 0.001 else "< 0.001", mark=f.name in check.misses),
            words("missed" if f.name in check.misses else "fits", mark=f.name in check.misses),
        )

    heads = head(
        "check",
        "statistic",
        "median if right",
        "95% below if right",
        Cell("tail probability", term="tail probability"),
        "verdict",
    )
    return PageTable(
        "Four checks, held to one chance in twenty of a false alarm together", heads, tuple(map(line, check.findings))
    )
