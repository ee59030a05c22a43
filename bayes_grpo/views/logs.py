"""The contents of a log as a document."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import PurePath

import numpy as np

from bayes_grpo.common.document import Cell, Document, Drawing, Tabular, number, section, shows, table, words
from bayes_grpo.common.intervals import digits
from bayes_grpo.common.text import clean, counted, listed
from bayes_grpo.logs.run import LoggedColumn, Run
from bayes_grpo.logs.signals import STANDARD, UNDEFINED
from bayes_grpo.logs.unused import grouped_by_reason
from bayes_grpo.views.plots.logs import plot_run

_NAMED = 12
"""Keys that are named for one reason; JSON has all."""
_FEW = 6
"""Unused keys up to which the first screen names them."""
_CAUTIONS = 3
"""Notes that the first screen shows."""
_PARTS = 12
"""Parts of the reward that the table names; JSON has all."""
_KINDS = {"rewards": "part of the reward", "environments": "environment"}
"""Prefix before "/" in the name of a part → what it is."""


@shows(Run)
def log_document(s: Run) -> Document:
    """Rows and columns first, then settings, notes and what was not used; a figure of the signals."""
    assumed = [
        f"{name} {_short(x.value)}"
        for name, x in s.settings.items()
        if x.value not in (None, "unknown") and x.provenance == "assumed"
    ]
    unread = [name for name, x in s.settings.items() if x.value is None and name not in s.signals]
    files = ", ".join(PurePath(x).name for x in clean(s.source, 200).split("; "))
    reward = s.columns["reward"]
    ratio = 0.25 * (1 + len(s.signals))
    plot = Drawing(partial(plot_run, s), "Reward and signals as logged, by step", ratio=ratio)
    return Document(
        title=clean(s.name, 200),
        answer=f"{clean(s.name, 200)}: {extent(s)}.",
        why=f"Read as {s.format} from {files}, with {counted(len(s.signals), 'further signal')}."
        + (f" The reward goes from {reward.first:.3g} to {reward.last:.3g}." if s.has_reward else "")
        + _lost(s)
        + "".join(f" The file holds {len(s.trainings)} trainings: {x.name} is read." for x in s.trainings if x.taken)
        + "".join(f" Note: {clean(note, 200)}." for note in s.cautions[:_CAUTIONS]),
        do="" if s.has_reward or s.has_eval else "name the reward's column (--column reward=KEY).",
        table=columns(s),
        plot=plot if s.has_reward or s.has_eval else None,
        sections=(
            section("Trainings in the file", tables=(trainings(s),) if s.trainings else ()),
            section("Settings", tables=(settings(s),)),
            section(
                "Not recognized",
                *(f"{x}: maybe {listed(k)} (--column {x}={clean(k[0])})" for x, k in s.suggested.items()),
            ),
            section("Notes", *(clean(note, 200) for note in s.notes)),
            section(
                "Not used", *(f"{why}: {listed(keys, _NAMED)}" for why, keys in grouped_by_reason(s.unused).items())
            ),
        ),
        assumed=f"{listed(assumed, 6)} (not in the log; set them with --set or bayes_grpo.toml)" if assumed else "",
        unchecked=_unread(unread, list(s.unused), {name: keys[0] for name, keys in s.suggested.items()}),
        docs="how/log",
    )


def _lost(s: Run) -> str:
    """Which columns have rows that are no number, and at which steps."""
    text = ""
    for name in ("reward", *s.signals):
        rows = s.not_finite(name)
        if rows.any():
            steps = listed([f"{step:g}" for step in s.step[rows]], 3)
            text += f" {name} is NaN or infinite in {counted(int(rows.sum()), 'row')} (step {steps})."
    return text


def extent(s: Run) -> str:
    """Rows, steps and evaluations."""
    steps = f", steps {s.step[0]:g} to {s.step[-1]:g}" if len(s.step) else ""
    return f"{counted(len(s.step), 'row')}{steps}, {counted(len(s.eval_step), 'evaluation')}"


def _unread(settings: list[str], keys: list[str], maybe: dict[str, str]) -> str:
    parts = [f"Not in the log: {listed(settings, 5)}"] if settings else []
    parts += [f"Unused keys: {listed(keys) if len(keys) <= _FEW else len(keys)}"] if keys else []
    parts += [f"Maybe: {listed((f'--column {x}={k}' for x, k in maybe.items()), 3)}"] if maybe else []
    return ". ".join(parts)


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else clean(value, 40)


def _is_the_reward(s: Run, values: np.ndarray) -> bool:
    """True if a part, shape (n,), is the reward of every row, which varies: no other part has a weight."""
    varies = len(np.unique(s.reward[np.isfinite(s.reward)])) > 1
    return varies and np.allclose(values, s.reward, rtol=1e-6, atol=0.0, equal_nan=True)


def columns(s: Run) -> Tabular:
    """Columns that were recognized, then the parts of the reward, with their ranges."""

    def line(name: str, x: LoggedColumn) -> tuple[object, ...]:
        ends = (number(digits(v)) for v in (x.low, x.high, x.first, x.last))
        word = s.definitions.get(name, STANDARD)
        defined = "" if word in (STANDARD, UNDEFINED) else f" ({word})"
        before, _, title = name.partition("/")
        kind = _KINDS.get(before, "")
        if kind and name in equal_to_reward:
            kind = "equals the reward in every row"
        key = ("" if x.key == name else x.key) + defined
        if kind:
            key = f"{key} ({kind})" if key else kind
        return words(title if kind else name), words(key, limit=120), x.finite, *ends

    equal_to_reward = {f"rewards/{name}" for name, values in s.components.items() if _is_the_reward(s, values)}
    shown = {name: x for name, x in s.columns.items() if s.has_eval or name != "eval_reward"}
    parts = dict(islice(s.parts.items(), _PARTS))
    hidden = len(s.parts) - len(parts)
    heads = ("column", "key in the log", "values", "lowest", "highest", "first", "last")
    note = f"{counted(hidden, 'further part')} of the reward: --json lists all" if hidden else ""
    return table("Logged", heads, (line(*x) for x in (shown | parts).items()), note)


def trainings(s: Run) -> Tabular:
    """All trainings in the file, of which one was read."""
    rows = (
        (words(x.name, mark=x.taken), x.rows, number(digits(x.first_step)), number(digits(x.last_step)), x.rewards,
         "read" if x.taken else "")
        for x in s.trainings
    )  # fmt: skip
    return table("Trainings", ("training", "rows", "first step", "last step", "rewards", ""), rows)


def settings(s: Run) -> Tabular:
    """Settings that are known, with where they come from."""
    rows = (
        (
            name,
            words(_short(x.value), limit=80),
            words(x.provenance, mark=x.provenance == "assumed"),
            words(x.note),
        )
        for name, x in s.settings.items()
        if x.value is not None
    )
    return table("Settings", ("setting", "value", Cell("origin", term="origin"), "why"), rows)
