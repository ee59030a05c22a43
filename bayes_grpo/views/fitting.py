"""A fit as a document: where the reward goes, how fast, whether it overshoots, and how noisy it is."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from bayes_grpo.common.document import (
    Cell,
    Document,
    Drawing,
    Section,
    Tabular,
    chance,
    number,
    section,
    shows,
    span,
    table,
    words,
)
from bayes_grpo.common.text import listed
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sensitivity import SummaryRow
from bayes_grpo.fitting.summary import SPENT_SHARE, Summary, summarize

MAIN = ("fixed_point", "half_gain_step", "damping_ratio", "stiffness", "damping", "observation_sd")
"""Main quantities of a fit: plateau, rate, overshoot, the two terms of the regime, noise."""
PRIOR_BOUND = ("stiffness", "damping")
"""Of these a reader must know where they come from the prior, however many others do."""


@shows(Fit)
def fit_document(fit: Fit) -> Document:
    """The summary of a fit with its figure."""
    from bayes_grpo.views.plots.fitting import plot_fit  # a terminal shows the summary alone

    document = fit_summary_document(summarize(fit))
    return replace(
        document,
        plot=Drawing(partial(plot_fit, fit, document.answer), f"Rows and fitted curve. {document.answer}", ratio=0.45),
    )


@shows(Summary)
def fit_summary_document(s: Summary) -> Document:
    """Six quantities first; all of them, the checks of the sampler and the notes on request."""
    a = s.about
    weak = [r.name for r in s.rows if r.mostly_prior]
    return Document(
        title=a.run,
        about=f"{a.rows} rows of {a.signal}, steps {a.first_step:g} to {a.last_step:g}, regime {s.regime}",
        answer=s.answer,
        why=_reason(s),
        do=_next_step(s),
        tone="" if s.convergence.passed else "alarm",
        table=_main_quantities(s, len(weak)),
        sections=(
            section("All quantities", tables=(_all_quantities(s),)),
            _other_prior(s),
            section(
                "Fit",
                f"R² of the mean curve {s.r2:.3f}, of the underlying reward {s.r2_latent:.3f}.",
                s.convergence.sentence,
                s.measured,
                f"Seed {s.seed}.",
            ),
            section("Warnings", *s.warnings, tone="doubt"),
            section("Assumed settings", *s.assumed),
            section("Notes", *s.notes),
        ),
        assumed=_assumed(s),
        unchecked=_weakly_identified(weak, len(s.rows), a.rows),
        docs="how/fit",
    )


def _next_step(s: Summary) -> str:
    """Next step after a fit: how to get one, else the question that comes next."""
    if not s.convergence.passed:
        return "fit again with larger --num-samples and --num-warmup, or a simpler --regime."
    if s.rate_left <= SPENT_SHARE:
        over = "over" if s.schedule_ended else "nearly over"
        return f"choose the settings of the next run (bayes-grpo plan LOG); this schedule is {over}."
    if s.solved:
        return f"use harder prompts, or stop: the {s.about.reward} is at {min(s.level, 1.0):.0%} of its range."
    return "see where the rest of the schedule leads (bayes-grpo forecast LOG)."


def _reason(s: Summary) -> str:
    """The verdict without the answer: chances, a learning rate that has ended, and which rows were fitted."""
    start = s.window.start_step
    rows = "" if start is None else f"{s.window.reason} Fitted: the rows after step {start:.0f}."
    return " ".join(x for x in (s.why, s.constant_rate, rows) if x)


def _main_quantities(s: Summary, weak: int) -> Tabular:
    known = {r.name: r for r in s.rows}
    names = [n for n in MAIN if n in known] or [r.name for r in s.rows]
    marks = weak <= len(s.rows) // 2  # where most of it is weak, one line says so
    rows = (
        (
            words(_name(n), term=_name(n)),
            _posterior_cell(known[n]),
            known[n].unit,
            _mark(known[n], marks),
        )
        for n in names[:6]
    )
    heads = ("quantity", f"median [{s.interval_level:.0%} interval]", "unit", "")
    return table(f"Quantities of the regime {s.regime}", heads, rows)


def _posterior_cell(r: SummaryRow) -> object:
    return number(f"{r.posterior.median:.3g}") if r.fixed else r.posterior


def _mark(r: SummaryRow, weak: bool) -> str:
    if r.fixed:
        return "fixed"
    if r.name in PRIOR_BOUND and r.rests_on_prior:
        return "mostly the prior"
    if r.name in PRIOR_BOUND and r.moves_with_prior:
        return "prior-sensitive"
    return "weakly identified" if weak and r.mostly_prior else ""


def _other_prior(s: Summary) -> Section:
    """Medians under two priors of the damping ratio, side by side."""
    title, a = "Another prior", s.alternative
    if a is None:
        return section(title)
    name = _name(a.parameter)
    units = {r.name: r.unit for r in s.rows}
    effective = f"{a.effective:.0f} effective draws"
    if not a.usable:
        return section(title, f"Fit again with a {name} about {a.other:.2g}: reweighting leaves {effective}.")
    rows = (
        (words(_name(n), term=_name(n)), *(number(f"{x:.3g}") for x in a.medians[n]), units[n])
        for n in MAIN
        if n in a.medians
    )
    heads = ("median", f"{name} about {a.prior:.2g}", f"about {a.other:.2g}", "unit")
    note = f"The priors differ by one standard deviation; the second medians by reweighting ({effective})."
    return section(title, tables=(table(f"Medians under two priors of the {name}", heads, rows, note),))


def _all_quantities(s: Summary) -> Tabular:
    def line(r: SummaryRow) -> tuple[object, ...]:
        share = "" if math.isnan(r.contraction) else f"{max(r.contraction, 0.0):.0%}"
        moved = "" if math.isnan(r.prior_sensitivity) else f"{r.prior_sensitivity:.2f} / {r.likelihood_sensitivity:.2f}"
        prior = number("fixed" if r.fixed else span(r.prior, ".3g"))
        return _name(r.name), _posterior_cell(r), r.unit, prior, number(share, mark=r.mostly_prior), number(moved)

    chances = (
        (f"P({name})", chance(p), "", "", "", "")
        for name, p in s.probabilities.items()
        if name in ("growth", "overdamped", "oscillatory", "unstable")
    )
    heads = (
        "quantity", "median [interval]", "unit", Cell("prior", term="prior"), Cell("contraction", term="contraction"),
        Cell("sensitivity", term="sensitivity"),
    )  # fmt: skip
    note = "Sensitivity: power scaling of prior / data; above 0.05 the estimate is influenced."
    return table("All quantities", heads, (*map(line, s.rows), *chances), note)


def _assumed(s: Summary) -> str:
    if not s.assumed_settings:
        return ""
    known = [f"{name} {x.value}" for name, x in s.assumed_settings.items()]
    return f"{listed(known, 4)} (not in the log; set them with --set or bayes_grpo.toml)"


def _weakly_identified(weak: list[str], of: int, rows: int) -> str:
    if not weak:
        return ""
    if len(weak) > of // 2:
        return f"Weakly identified: {len(weak)} of {of} quantities stay close to their priors in {rows} rows"
    return f"Weakly identified (posterior close to prior): {', '.join(map(_name, weak))}"


def _name(name: str) -> str:
    return name.replace("_", " ")
