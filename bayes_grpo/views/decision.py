"""A decision about stopping as a document."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.document import Cell, Document, Tabular, number, section, shows, table, words
from bayes_grpo.common.intervals import percent
from bayes_grpo.common.sampling import spread
from bayes_grpo.common.text import amount
from bayes_grpo.decision.result import Decision

_SHOWN = 8
"""Stopping steps in the table besides the recommended one; JSON has all."""


@shows(Decision)
def decision_document(d: Decision) -> Document:
    """When to stop, and what each step is worth."""
    answer, *rest = d.sentences
    return Document(
        title="When to stop",
        answer=answer,
        why=" ".join(rest) or f"Going on pays: {percent(d.probability_pays)}.",
        table=_values(d),
        sections=(
            section("Checkpoints", "" if d.choice is None or d.stops_now else d.choice.sentence),
            section(
                "Values",
                f"In the unit of the costs given: {amount(d.value_per_reward)} a unit of reward, "
                f"{amount(d.cost_per_step)} a step.",
            ),
            section("Warnings", *d.warnings, tone="doubt"),
        ),
        assumed="; ".join(d.assumed),
        docs="how/stop",
    )


def _values(d: Decision) -> Tabular:
    picks = np.unique(spread(len(d.step), _SHOWN))
    picks = np.unique(np.append(picks, int(np.argmin(np.abs(d.step - d.recommended)))))
    rows = (
        (
            number(f"{'now, ' if i == 0 else ''}{d.step[i]:g}"),
            number(f"{d.gain[i]:+.3f}"),
            number(f"{amount(float(d.net[i]))} [{amount(float(d.net_low[i]))}, {amount(float(d.net_high[i]))}]"),
            words("recommended" if d.step[i] == d.recommended else "", mark=True),
        )
        for i in picks
    )
    net = f"net value, unit of the costs [{d.level:.0%}]"
    heads = ("stop at step", "expected gain", Cell(net, term="net value"), "")
    return table("What stopping at a step is worth", heads, rows)
