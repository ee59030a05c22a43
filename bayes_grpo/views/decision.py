"""A decision about stopping as a document."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.document import Cell, Document, Tabular, number, section, shows, table, words
from bayes_grpo.common.intervals import percent
from bayes_grpo.common.sampling import spread
from bayes_grpo.common.text import amount
from bayes_grpo.decision.result import Decision

_TABLE_STEPS = 8
"""Stopping steps in the table, evenly spread; JSON has all."""


@shows(Decision)
def decision_document(d: Decision) -> Document:
    """When to stop, and what each step is worth."""
    answer, *rest = d.sentences
    later = d.recommended is not None and not d.stops_now  # the answer names no checkpoint then
    return Document(
        title="When to stop",
        answer=answer,
        why=" ".join(rest) or f"Going on pays: {percent(d.probability_pays)}.",
        table=_values(d),
        sections=(
            section("Checkpoints", d.choice.sentence if later and d.choice is not None else ""),
            section("Values", _costs(d)),
            section("Warnings", *d.warnings, tone="doubt"),
        ),
        assumed="; ".join(d.assumed),
        docs="how/stop",
    )


def _costs(d: Decision) -> str:
    """Cost and value that were given; "" without a cost."""
    if d.cost_per_step is None:
        return ""
    worth = f"{amount(d.value_per_reward)} a unit of reward"
    return f"In the unit of the costs given: {worth}, {amount(d.cost_per_step)} a step."


def _values(d: Decision) -> Tabular:
    """What a stop is worth at evenly spread steps and the one of interest; without a cost the expected gain alone."""
    step = d.pays_at if d.recommended is None else d.recommended
    places = np.unique(np.append(spread(len(d.step), _TABLE_STEPS), int(np.argmin(np.abs(d.step - step)))))
    steps = [number(f"{'now, ' if i == 0 else ''}{d.step[i]:g}") for i in places]
    if d.recommended is None:
        low = d.net_low / d.value_per_reward
        high = d.net_high / d.value_per_reward
        gains = (number(f"{d.gain[i]:+.3f} [{low[i]:+.3f}, {high[i]:+.3f}]") for i in places)
        heads = ("stop at step", f"expected gain [{d.level:.0%}]")
        return table("Reward gained by a stop at a step", heads, zip(steps, gains, strict=True))
    rows = (
        (
            shown,
            number(f"{d.gain[i]:+.3f}"),
            number(f"{amount(float(d.net[i]))} [{amount(float(d.net_low[i]))}, {amount(float(d.net_high[i]))}]"),
            words("recommended" if d.step[i] == d.recommended else "", mark=True),
        )
        for shown, i in zip(steps, places, strict=True)
    )
    net = f"net value, unit of the costs [{d.level:.0%}]"
    heads = ("stop at step", "expected gain", Cell(net, term="net value"), "")
    return table("What stopping at a step is worth", heads, rows)
