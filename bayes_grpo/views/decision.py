"""A decision about stopping as a document."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bayes_grpo.common.intervals import spread
from bayes_grpo.decision.budget import amount
from bayes_grpo.decision.result import Decision, Stopping
from bayes_grpo.views.document import (
    Cell,
    Document,
    Tabular,
    number,
    percent,
    section,
    shows,
    split,
    table,
    words,
)

_SHOWN = 8
"""Stopping steps in the table besides the recommended one; JSON has all."""


@shows(Stopping)
def stopping_document(s: Stopping) -> Document:
    """The decision about one run without its warnings."""
    return decision_document(Decision(s, None))


@shows(Decision)
def decision_document(d: Decision) -> Document:
    """When to stop, what each step is worth, and what a wrong choice loses."""
    answer, rest = split(d.sentence)
    s, regrets = d.stopping, list[str]()
    if s is not None:
        best, unit = s.best_step, f"in {s.unit}" if s.unit else "in the unit of the costs given"
        regrets = [
            f"Best step in hindsight {best.median:g} [{best.low:g}, {best.high:g}] ({s.level:.0%}).",
            s.regrets,
            "" if s.choice is None or s.stops_now else s.choice.sentence,
            f"Values {unit}: {amount(s.value_per_reward)} a unit of reward, {amount(s.cost_per_step)} a step.",
        ]
    return Document(
        title="When to stop",
        answer=answer,
        why=rest or ("" if s is None else f"Going on pays: {percent(s.probability_pays)}."),
        table=None if s is None else _values(s),
        sections=(
            section("Regret", *regrets, d.cost_told and f"Cost from the log: {d.cost_told}"),
            section("Warnings", *d.warnings, tone="doubt"),
        ),
        assumed="; ".join(d.assumed),
        docs="how/stop",
    )


def _values(s: Stopping) -> Tabular:
    picks = np.unique(spread(len(s.step), _SHOWN))
    picks = np.unique(np.append(picks, int(np.argmin(np.abs(s.step - s.recommended)))))
    rows = (
        (
            number(f"{'now, ' if i == 0 else ''}{s.step[i]:g}"),
            number(f"{s.gain[i]:+.3f}"),
            number(f"{amount(float(s.net[i]))} [{amount(float(s.net_low[i]))}, {amount(float(s.net_high[i]))}]"),
            number(f"{s.best[i:j].sum():.2f}"),
            words("recommended" if s.step[i] == s.recommended else "", mark=True),
        )
        for i, j in pairwise((*picks, len(s.step)))
    )
    net = f"net value, {s.unit} [{s.level:.0%}]" if s.unit else f"net value, unit of the costs [{s.level:.0%}]"
    heads = ("stop at step", "expected gain", Cell(net, term="net value"), "P(best)", "")
    return table("What stopping at a step is worth", heads, rows, "P(best): the best step lies before the next row.")
