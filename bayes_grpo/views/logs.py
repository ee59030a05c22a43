"""What a log holds as a document."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import PurePath

from bayes_grpo.common.text import counted, listed
from bayes_grpo.logs.reward_key import grouped_by_reason
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.summary import RunSummary, SeriesSummary, describe_run
from bayes_grpo.views.document import Cell, Document, Drawing, Tabular, digits, number, section, shows, table, words
from bayes_grpo.views.plots.logs import plot_run

_NAMED = 12
"""Keys that are named for one reason; JSON has all."""


@shows(Run)
def run_document(run: Run) -> Document:
    """The summary of a run with a figure of its signals."""
    document = log_document(describe_run(run))
    if not (run.has_reward or run.has_eval):
        return document
    plot = Drawing(
        partial(plot_run, run),
        "Reward and signals as logged, by step",
        ratio=0.25 * (1 + len(run.signals)),
    )
    return replace(document, plot=plot)


@shows(RunSummary)
def log_document(s: RunSummary) -> Document:
    """Rows and columns first, then settings, notes and what was not used."""
    known = {name: x for name, x in s.settings.items() if x.value is not None}
    assumed = [name for name, x in known.items() if x.provenance == "assumed"]
    unread = [name for name in s.settings if name not in known and name not in s.signals]
    files = ", ".join(PurePath(x).name for x in s.source.split("; "))
    ends = [x for x in (s.reward.first, s.reward.last) if x is not None]
    return Document(
        title=s.name,
        answer=f"{s.sentence.rstrip('.')}.",
        why=f"Read as {s.format} from {files}, with {counted(len(s.signals), 'further signal')}."
        + (f" The reward goes from {ends[0]:.3g} to {ends[1]:.3g}." if ends else "")
        + "".join(f" The file holds {len(s.trainings)} trainings: {x.name} is read." for x in s.trainings if x.taken),
        do="" if s.reward.finite or s.evals.finite else "name the reward's column (--column reward=KEY).",
        table=columns(s),
        sections=(
            section("Trainings in the file", tables=(trainings(s),) if s.trainings else ()),
            section("Settings", tables=(settings(s),)),
            section(
                "Not recognized", *(f"{x}: maybe {listed(k)} (--column {x}={k[0]})" for x, k in s.suggested.items())
            ),
            section("Notes", *s.notes),
            section(
                "Not used", *(f"{why}: {listed(keys, _NAMED)}" for why, keys in grouped_by_reason(s.unused).items())
            ),
        ),
        assumed=f"{listed(assumed, 6)} (not in the log; set them with --set or bayes_grpo.toml)" if assumed else "",
        unchecked=_unread(unread, len(s.unused)),
        docs="how/log",
    )


def _unread(settings: list[str], keys: int) -> str:
    parts = [f"{listed(settings, 5)} (not in the log)"] if settings else []
    parts += [f"{keys} keys of the log were not used"] if keys else []
    return "; ".join(parts)


def columns(s: RunSummary) -> Tabular:
    """Columns that were recognized, with their ranges."""

    def line(name: str, x: SeriesSummary) -> tuple[object, ...]:
        ends = (number(digits(v)) for v in (x.low, x.high, x.first, x.last))
        return name, words("" if x.key == name else x.key, limit=80), x.finite, *ends

    evaluated = {"eval_reward": s.evals} if s.evals.finite else {}
    heads = ("column", "key in the log", "values", "lowest", "highest", "first", "last")
    return table("Logged", heads, (line(*x) for x in ({"reward": s.reward, **s.signals} | evaluated).items()))


def trainings(s: RunSummary) -> Tabular:
    """All trainings in the file, of which one was read."""
    rows = (
        (words(x.name, mark=x.taken), x.rows, number(digits(x.first_step)), number(digits(x.last_step)), x.rewards,
         "read" if x.taken else "")
        for x in s.trainings
    )  # fmt: skip
    return table("Trainings", ("training", "rows", "first step", "last step", "rewards", ""), rows)


def settings(s: RunSummary) -> Tabular:
    """Settings that are known, with where they come from."""
    rows = (
        (
            name,
            words(f"{x.value:g}" if isinstance(x.value, float) else x.value, limit=80),
            words(x.provenance, mark=x.provenance == "assumed"),
            x.note,
        )
        for name, x in s.settings.items()
        if x.value is not None
    )
    return table("Settings", ("setting", "value", Cell("origin", term="origin"), "why"), rows)
