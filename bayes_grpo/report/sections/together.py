"""Several runs on one axis: their curves, which of them is highest now and at the horizon, and their forecasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, probability_text
from bayes_grpo.common.text import drawable
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.logs.run import Run
from bayes_grpo.report.answer import Answer, Fitted, Forecasted
from bayes_grpo.report.page import Cell, Lead, PageTable, Part, Picture, Section, head, number, said, words
from bayes_grpo.report.sections.common import drawn, estimate, nothing
from bayes_grpo.report.svg import Pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUN_COLOURS = ("#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#0e7490", "#b45309", "#be185d", "#475569")
LINES = ("-", "--", "-.", ":")
"""Runs differ by their line as well as by their colour."""
BANDS = 8
"""Runs whose bands are drawn; more would hide each other."""
ONE_SCALE = "Rewards are compared as they are: this holds for runs of one reward function."


class OneOf(NamedTuple):
    """A run among others, with what was found of it.

    Attributes:
        name: Its name on the page.
        run: The run.
        parts: "fit", "forecast" and "diagnosis".
    """

    name: str
    run: Run
    parts: Mapping[str, Answer[Any]]

    @property
    def fitted(self) -> Fitted | None:
        """Its fit."""
        return self.parts["fit"].value

    @property
    def forecasted(self) -> Forecasted | None:
        """Its forecast."""
        return self.parts["forecast"].value

    @property
    def failed(self) -> bool:
        """Whether its fit did not converge."""
        return self.fitted is not None and not self.fitted.summary.convergence.passed


def highest(runs: Sequence[OneOf], now: bool) -> dict[str, float]:
    """Probability of each run to have the highest underlying reward, now or at the horizon; draws are independent.

    Empty where fewer than two runs have a forecast.
    """
    known = [(x.name, x.forecasted.forecast) for x in runs if x.forecasted is not None]
    if len(known) < 2:
        return {}
    size = min(len(f.latent_now) for _, f in known)
    # Draws of one forecast are ordered by law, and so they are shuffled before they meet those of another.
    order = [np.random.default_rng(i).permutation(len(f.latent_now))[:size] for i, (_, f) in enumerate(known)]
    values = [(f.latent_now if now else f.latent[:, -1])[o] for (_, f), o in zip(known, order, strict=True)]
    best = np.argmax(np.array(values), axis=0)
    return {name: float(np.mean(best == i)) for i, (name, _) in enumerate(known)}


def leads(runs: Sequence[OneOf], until: float) -> tuple[Lead, ...]:
    """The three sentences at the top."""
    return (
        _highest_lead("Which is ahead", runs, "now", highest(runs, now=True), curves_key()),
        _highest_lead("Which will be", runs, f"at step {until:g}", highest(runs, now=False), "forecasts"),
        _wrong_lead(runs),
    )


def curves_key() -> str:
    """Anchor of the section with the curves."""
    return SECTIONS[0][0]


def _highest_lead(label: str, runs: Sequence[OneOf], when: str, chances: Mapping[str, float], key: str) -> Lead:
    if not chances:
        reasons = "; ".join(f"{x.name}: {x.parts['forecast'].reason}" for x in runs if x.forecasted is None)
        return Lead(label, said(f"Cannot be told: fewer than two runs have a forecast. {reasons}"), "", "doubt", key)
    best = max(chances, key=lambda name: chances[name])
    p = chances[best]
    known = {x.name: x.forecasted.summary for x in runs if x.forecasted is not None}
    s = known[best].now if when == "now" else known[best].at_horizon
    text = f"{s.median:.3g} [{s.low:.3g}, {s.high:.3g}] ({s.level:.0%})"
    if p < 0.8:
        near = sorted(chances, key=lambda name: -chances[name])[:3]
        listed = ", ".join(f"{name} {probability_text(chances[name])}" for name in near)
        sentence = f"The logs cannot tell which run has the highest underlying reward {when}: {listed}."
    else:
        sentence = f"{best} has the highest underlying reward {when}, {text}."
    return Lead(label, sentence, f"P({best}) {probability_text(p)}", "doubt" if p < 0.8 else "", key)


def _wrong_lead(runs: Sequence[OneOf]) -> Lead:
    label, known = "What is wrong", [(x.name, x.parts["diagnosis"].value) for x in runs]
    told = [(name, d) for name, d in known if d is not None]
    if not told:
        return Lead(label, f"Cannot be told: {runs[0].parts['diagnosis'].reason}", "", "doubt", "diagnoses")
    ill = [(name, d) for name, d in told if d.top.alarming]
    healthy = sum(not d.top.alarming and d.answer == "healthy" for _, d in told)
    text = f"{healthy} of {len(told)} runs are most probably healthy"
    if ill:
        listed = "; ".join(f"{name}: {label_of(d.leads)} ({probability_text(d.own[d.leads])})" for name, d in ill[:4])
        return Lead(label, f"{text}. {listed}.", f"{len(ill)} of {len(told)} failing", "alarm", "diagnoses")
    worst = max(told, key=lambda x: max(x[1].own[m] for m in MODES))
    mode = max(MODES, key=lambda m: worst[1].own[m])
    chance = f"P({label_of(mode)}) {probability_text(worst[1].own[mode])}"
    return Lead(
        label, f"{text}, and none shows a failure; the likeliest one is in {worst[0]}.", chance, "", "diagnoses"
    )


def curves(runs: Sequence[OneOf], pictures: Pictures) -> Section:
    """The section with all curves on one axis."""
    shown = [x for x in runs if x.fitted is not None]
    key, title, question, _ = SECTIONS[0]
    if not shown:
        return nothing(key, title, question, "; ".join(f"{x.name}: {x.parts['fit'].reason}" for x in runs))
    ends = "; ".join(f"{x.name}: {said(x.fitted.summary.verdict, 200)}" for x in shown if x.fitted is not None)
    caption = (
        f"Lines: the underlying reward of each run, and beyond the dots its forecast. Bands: {LEVEL:.0%}. {ONE_SCALE}"
    )
    lost = [f"{x.name}: {x.parts['fit'].reason}" for x in runs if x.fitted is None]
    return Section(
        key,
        title,
        question,
        answer="Each run's reward without the noise of its rows, and its forecast.",
        pictures=(
            drawn(pictures, lambda figure: _draw(figure, shown), f"Curves of {len(shown)} runs. {ends}", caption),
        ),
        parts=(
            Part("Each run by itself", tuple(f"{x.name}: {_verdict(x)}" for x in shown)),
            *((Part("Not shown", tuple(lost), "doubt"),) if lost else ()),
        ),
        terms=("underlying reward", "interval"),
    )


def _verdict(x: OneOf) -> str:
    return "" if x.fitted is None else said(x.fitted.summary.verdict, 500)


def _draw(figure: Figure, runs: Sequence[OneOf]) -> None:
    axes = figure.add_subplot()
    for i, x in enumerate(runs):
        _draw_run(
            axes, x, RUN_COLOURS[i % len(RUN_COLOURS)], LINES[(i // len(RUN_COLOURS) + i) % len(LINES)], i < BANDS
        )
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("reward")
    axes.legend(loc="best", fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_run(axes: Axes, x: OneOf, colour: str, line: str, band: bool) -> None:
    if x.fitted is None:
        return
    fit, tails = x.fitted.fit, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    step = fit.step()
    latent = fit.trajectories("latent").reshape(-1, len(step))
    if band:
        axes.fill_between(step, *np.quantile(latent, tails, axis=0), color=colour, alpha=0.2, lw=0)
    label = drawable(x.name, 40).lstrip("_")
    axes.plot(step, np.median(latent, axis=0), color=colour, lw=1.6, ls=line, label=label)
    axes.plot(step[-1], np.median(latent[:, -1]), "o", color=colour, ms=4)
    if x.forecasted is None:
        return
    f = x.forecasted.forecast
    ahead = np.concatenate([[f.now], f.step])
    paths = np.concatenate([f.latent_now[:, None], f.latent], axis=1)
    if band:
        axes.fill_between(ahead, *np.quantile(paths, tails, axis=0), color=colour, alpha=0.1, lw=0)
    axes.plot(ahead, np.median(paths, axis=0), color=colour, lw=1.1, ls=line, alpha=0.8)


def forecasts(runs: Sequence[OneOf], pictures: Pictures) -> Section:
    """The section with all forecasts in one table."""
    key, title, question, _ = SECTIONS[1]
    shown = [x for x in runs if x.forecasted is not None]
    if not shown:
        return nothing(key, title, question, "; ".join(f"{x.name}: {x.parts['forecast'].reason}" for x in runs))
    now, then = highest(runs, now=True), highest(runs, now=False)

    def line(x: OneOf) -> tuple[Cell, ...]:
        if x.forecasted is None:
            return (words(x.name, limit=40), words(x.parts["forecast"].reason), *[number("")] * 8)
        s = x.forecasted.summary
        return (
            words(x.name, limit=40),
            *estimate(s.now),
            *estimate(s.at_horizon),
            *estimate(s.remaining_gain, ".2g"),
            number(probability_text(s.p_gain)),
            number(probability_text(now[x.name]) if x.name in now else ""),
            number(probability_text(then[x.name]) if x.name in then else ""),
        )

    level, until = f"{LEVEL:.0%}", shown[0].forecasted.summary.until if shown[0].forecasted is not None else 0.0
    heads = head(
        "run", "now", level, f"at step {until:g}", level, Cell("gain", term="remaining gain"), level, "P(gain)",
        "P(highest now)", "P(highest then)",
    )  # fmt: skip
    return Section(
        key,
        title,
        question,
        answer=ONE_SCALE,
        pictures=(_forest(shown, pictures, until),),
        tables=(PageTable(f"Forecasts to step {until:g}, {level} intervals", heads, tuple(map(line, runs))),),
        terms=("underlying reward", "horizon", "interval", "probability"),
    )


def _forest(runs: Sequence[OneOf], pictures: Pictures, until: float) -> Picture:
    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for i, x in enumerate(runs):
            if x.forecasted is not None:
                s = x.forecasted.summary
                _dot(axes, s.now, i - 0.14, "#6b7280", "now" if i == 0 else "")
                _dot(axes, s.at_horizon, i + 0.14, RUN_COLOURS[0], f"at step {until:g}" if i == 0 else "")
        axes.set_yticks(range(len(runs)), [drawable(x.name, 24) for x in runs], fontsize=8)
        axes.set_ylim(len(runs) - 0.5, -0.5)
        axes.set_xlabel("underlying reward")
        axes.legend(fontsize=8, frameon=False, loc="best")
        axes.spines[["top", "right"]].set_visible(False)

    listed = "; ".join(
        f"{x.name}: {said(x.forecasted.summary.sentence, 160)}" for x in runs if x.forecasted is not None
    )
    caption = f"Underlying reward now (open) and at step {until:g} (full), with {LEVEL:.0%} intervals."
    return drawn(pictures, draw, f"Reward now and at step {until:g}. {listed}", caption)


def _dot(axes: Axes, i: Interval, at: float, colour: str, label: str) -> None:
    face = colour if colour == RUN_COLOURS[0] else "none"
    axes.plot([i.low, i.high], [at, at], color=colour, lw=1.6, solid_capstyle="butt")
    axes.plot(i.median, at, "o", ms=5, mec=colour, mfc=face, label=label or "_")


SECTIONS: tuple[tuple[str, str, str, Callable[[Sequence[OneOf], Pictures], Section]], ...] = (
    ("curves", "The curves", "How do the runs move beside each other?", curves),
    ("forecasts", "What is left", "Where does each go from here?", forecasts),
)
"""Key, title, question and maker of each."""
