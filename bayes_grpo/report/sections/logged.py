"""What was logged, and what had to be assumed."""

from __future__ import annotations

from bayes_grpo.logs.run import Run
from bayes_grpo.logs.summary import RunSummary, SeriesSummary
from bayes_grpo.report.page import Cell, PageTable, Part, Picture, Section, head, number, words
from bayes_grpo.report.sections.common import SMALL, digits, new_figure, panels
from bayes_grpo.report.svg import Pictures
from bayes_grpo.views.plots.logs import plot_run

KEY, TITLE, QUESTION = "logged", "The log", "What was logged, and what had to be assumed?"
_MOST = 12
"""Signals of which a picture is shown."""


def logged(run: Run, summary: RunSummary, pictures: Pictures) -> Section:
    """The section on the log itself."""
    counts = f"{summary.reward.finite} rows of the train reward, {summary.evals.finite} held-out rewards"
    steps = "" if summary.first_step is None else f", steps {summary.first_step:g} to {summary.last_step:g}"
    unknown = [k for k, s in summary.settings.items() if s.provenance == "assumed" and s.value is not None]
    assumed = f" Nobody stated {_listed(unknown)}: assumed." if unknown else " Nothing had to be assumed."
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=f"{counts}{steps}, read as {summary.format}.{assumed}",
        pictures=_pictures(run, pictures),
        tables=(_columns(summary), _settings(summary)),
        parts=(Part("What the reader did", summary.notes),) if summary.notes else (),
        terms=("window", "held-out reward"),
    )


def _pictures(run: Run, pictures: Pictures) -> tuple[Picture, ...]:
    if not (run.has_reward or run.has_eval):
        return ()
    figure = new_figure((SMALL[0], SMALL[1] * (1 + len(run.signals))))
    plot_run(run, figure=figure)
    told = []
    for i, axes in enumerate(figure.axes[: 1 + _MOST]):
        name = axes.get_ylabel().replace("_", " ")
        axes.set_title(name, loc="left")
        axes.set_ylabel("")
        axes.set_xlabel("optimizer step", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        told.append((i, f"{name.capitalize()} as logged, by optimizer step", ""))
    return panels(pictures, figure, told)


def _columns(summary: RunSummary) -> PageTable:
    def line(name: str, s: SeriesSummary) -> tuple[Cell, ...]:
        ends = (s.low, s.high, s.first, s.last)
        numbers = (number("" if x is None else digits(x)) for x in ends)
        return (words(name.replace("_", " ")), words(s.key, limit=80), number(s.finite), *numbers)

    rows = {"reward": summary.reward, **summary.signals, "held-out reward": summary.evals}
    return PageTable(
        "Columns of the log",
        head("column", "key in the log", "values", "lowest", "highest", "first", "last"),
        tuple(line(name, s) for name, s in rows.items()),
    )


def _settings(summary: RunSummary) -> PageTable:
    def value(x: object) -> str:
        return "not known" if x is None else f"{x:g}" if isinstance(x, float) else f"{x}"

    return PageTable(
        "Settings that the dynamics depend on",
        head("setting", "value", Cell("origin", term="origin"), "why"),
        tuple(
            (
                words(name.replace("_", " "), term="momentum" if name == "momentum" else ""),
                words(value(s.value), limit=80),
                words("" if s.value is None else s.provenance, mark=s.provenance == "assumed" and s.value is not None),
                words(s.note),
            )
            for name, s in summary.settings.items()
        ),
    )


def _listed(names: list[str]) -> str:
    shown = [name.replace("_", " ") for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
