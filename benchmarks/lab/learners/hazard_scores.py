"""How good stated probabilities of events were: reliability, and log score against base rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.forecasting.events import COLLAPSE, HAZARDS
from benchmarks.lab.learners.hazard_cases import Case, events_counted

BINS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Thresholds of stated probabilities in the table of reliability."""


class Said(NamedTuple):
    """A probability that was stated of one event, and what came."""

    case: Case
    event: str
    probability: float
    weight: float

    @property
    def came(self) -> bool:
        """Whether the event came."""
        return self.case.event == self.event

    @property
    def log_score(self) -> float:
        """Log of the probability of what came, negative."""
        return float(np.log(self.probability if self.came else 1.0 - self.probability))


def reliability_text(cases: Sequence[Case], stated: Sequence[Mapping[str, float]]) -> list[Said]:
    """All statements, with the weight of their repositories."""
    return [
        Said(case, event, float(np.clip(p, 1e-9, 1.0 - 1e-9)), float(weight))
        for case, of, weight in zip(cases, stated, events_counted(cases), strict=True)
        for event, p in of.items()
    ]


def reliability(statements: Sequence[Said]) -> list[dict[str, float]]:
    """Stated probability beside frequency, by bins of the former; repositories count alike."""
    out = []
    for low, high in pairwise(BINS):
        own = [s for s in statements if low <= s.probability < high]
        if own:
            weight = np.array([s.weight for s in own])
            mean = [float(weight @ [float(v) for v in x] / weight.sum())
                    for x in ([s.probability for s in own], [s.came for s in own])]  # fmt: skip
            out.append({"from": low, "to": high, "cases": len(own), "events": sum(s.came for s in own),
                        "stated": mean[0], "frequency": mean[1]})  # fmt: skip
    return out


def compared(signs: Sequence[Said], base: Sequence[Said]) -> dict[str, float]:
    """Log score of rates with signs against base rates: mean gain, and its standard error over repositories.

    Where there is one repository alone, over its logs.
    """
    weight = np.array([s.weight for s in base])
    gain = weight * np.array([a.log_score - b.log_score for a, b in zip(signs, base, strict=True)])
    groups = np.array([s.case.repo for s in base])
    if len(set(groups)) == 1:
        groups = np.array([s.case.log for s in base])
    sums = np.array([gain[groups == g].sum() for g in np.unique(groups)])
    se = float(np.sqrt(np.sum((sums - sums.mean()) ** 2)))
    mean = [float(weight @ [s.log_score for s in x] / weight.sum()) for x in (signs, base)]
    return {"signs": mean[0], "base": mean[1], "gain": mean[0] - mean[1], "se": se / float(weight.sum())}


def judged(cases: Sequence[Case], given: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Prints and returns how good probabilities were.

    Args:
        cases: Origins.
        given: "base" and "signs" → event → probability of every case.
    """
    both = {kind: reliability_text(cases, stated) for kind, stated in given.items()}
    out: dict[str, Any] = {}
    for event in HAZARDS:
        own = {kind: [s for s in x if s.event == event] for kind, x in both.items()}
        if not own["base"]:
            continue
        score = compared(own["signs"], own["base"])
        events = sum(s.came for s in own["base"])
        print(f"\n{event}: {events} events in {len(own['base'])} forecasts that it can meet; log score "
              f"{score['signs']:.4f} with signs, {score['base']:.4f} by base rates, gain {score['gain']:+.4f} "
              f"± {score['se']:.4f}")  # fmt: skip
        out[event] = {"events": events, "forecasts": len(own["base"]), "log_score": score}
        for kind, x in own.items():
            table = reliability(x)
            out[event][kind] = table
            for line in table:
                print(f"  {kind:5s} stated {line['from']:.2f} to {line['to']:.2f}: mean {line['stated']:.3f}, came "
                      f"{line['frequency']:.3f} ({line['events']} of {line['cases']})")  # fmt: skip
    met = [s for s in both["base"] if s.came and s.event == COLLAPSE]
    before = {(s.case.log, s.case.origin): s.probability for s in both["signs"] if s.came and s.event == COLLAPSE}
    out["before_collapses"] = [
        {"log": s.case.log, "origin": s.case.origin, "base": s.probability,
         "signs": before[s.case.log, s.case.origin]} for s in met
    ]  # fmt: skip
    return out
