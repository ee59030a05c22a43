"""Learns how often events come that no law of the reward knows, and writes the package's numbers.

    python -m benchmarks.lab.learners.hazard RUNS ... --lab FOLDER ... [--out hazard.json]

RUNS are folders with the logs in csv/ and an index.csv with the columns run_id and repo; --lab are folders of
laboratory runs as `lab_logs` writes them. A log is looked at after 30, 50 and 70% of its rows. The forecasts of one
repository count as `MOST_ROWS` at most, and the laboratory's as those of one repository. What is printed of a
repository was learned without it. Rates that depend on signs of the rows before said no more (`docs/decisions.md`).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from bayes_grpo import forecasting
from bayes_grpo.common.files import atomic_write
from bayes_grpo.forecasting.events import HAZARDS, EventRates, Rate, chances
from benchmarks.common import keep
from benchmarks.lab.learners.hazard_cases import Case, events_counted, lab_cases, public_cases

_TARGET = Path(forecasting.__file__).with_name("event_rates.json")
BASE_MEDIAN, BASE_SD = 0.05, 1.5
"""Prior of a rate: lognormal with this median, in 1 / rows seen, and this standard deviation of its log."""
_LOG_RATES = (-12.0, 3.0)
QUANTILES = 11


def learn_hazard(cases: Sequence[Case], provenance: Mapping[str, Any] | None = None) -> EventRates:
    """The most probable rates of all events that ever came, and their sizes, as the package takes them.

    Args:
        cases: Origins of many logs.
        provenance: What is said of where they come from.
    """
    weight, rates = events_counted(cases), {}
    for event in HAZARDS:
        possible = [i for i, c in enumerate(cases) if event in c.possible and c.ahead > 0.0]
        came = [i for i, c in enumerate(cases) if c.event == event]
        if not came:
            continue
        sizes, of = np.array([cases[i].size for i in came]), weight[came]
        order = np.argsort(sizes)
        share = (np.cumsum(of[order]) - 0.5 * of[order]) / of.sum()
        quantiles = np.interp(np.linspace(0.0, 1.0, QUANTILES), share, sizes[order])
        rate = _rate(event, [cases[i] for i in possible], weight[possible])
        rates[event] = Rate(round(rate, 6), np.round(quantiles, 4))
    return EventRates(rates, dict(provenance or {}))


def content_of(rates: EventRates) -> dict[str, Any]:
    """The numbers as the package's file holds them; `shipped_event_rates` reads them."""
    numbers = {name: {"rate": x.rate, "sizes": x.sizes.tolist()} for name, x in rates.rates.items()}
    return {"provenance": dict(rates.provenance), "rates": numbers}


def _rate(event: str, cases: Sequence[Case], weight: np.ndarray) -> float:
    came = np.array([c.event == event for c in cases])
    ahead = np.array([c.ahead for c in cases])

    def loss(log_rate: float) -> float:
        hazard = np.exp(log_rate) * ahead
        log_likelihood = np.where(came, np.log(-np.expm1(-hazard)), -hazard)
        away = (log_rate - np.log(BASE_MEDIAN)) / BASE_SD
        return 0.5 * away**2 - float(weight @ log_likelihood)

    found: Any = minimize_scalar(loss, bounds=_LOG_RATES, method="bounded", options={"xatol": 1e-8})
    return float(np.exp(found.x))


def stated(rates: EventRates, case: Case) -> dict[str, float]:
    """Event → probability that it comes, and comes first, as a forecast would say."""
    return chances({name: rates.rates[name].rate for name in case.possible if name in rates.rates}, case.ahead)


def nested(cases: Sequence[Case]) -> list[dict[str, float]]:
    """Probabilities of every case by numbers learned without its repository."""
    by_repo = {repo: learn_hazard([c for c in cases if c.repo != repo]) for repo in {c.repo for c in cases}}
    return [stated(by_repo[c.repo], c) for c in cases]


def judged(cases: Sequence[Case], given: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """How often events came among forecasts that they could meet, and how probable they were said to be.

    Args:
        cases: Origins.
        given: Event → probability of every case.
    """
    weight, out = events_counted(cases), {}
    for event in HAZARDS:
        own = [i for i, p in enumerate(given) if event in p]
        if not own:
            continue
        came = np.array([cases[i].event == event for i in own])
        p = np.clip([given[i][event] for i in own], 1e-9, 1.0 - 1e-9)
        score = np.log(np.where(came, p, 1.0 - p))
        out[event] = {
            "events": int(came.sum()),
            "forecasts": len(own),
            "log_score": float(np.average(score, weights=weight[own])),
            "stated": float(np.average(p, weights=weight[own])),
            "frequency": float(np.average(came, weights=weight[own])),
        }
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--lab", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=_TARGET)
    options = parser.parse_args()
    public = public_cases(options.runs)
    cases = public + lab_cases(options.lab)
    events = Counter(c.event for c in cases if c.event)
    logs = len({c.log for c in cases})
    print(
        f"{len(cases)} forecasts of {logs} logs of {len({c.repo for c in cases})} repositories; events {dict(events)}"
    )
    told = nested(cases)
    result = {"forecasts": len(cases), "logs": logs}
    result |= {"all": judged(cases, told), "public": judged(public, told[: len(public)])}
    about = {
        "made by": "benchmarks/lab/learners/hazard.py",
        "repositories": len({c.repo for c in public}),
        "logs": len({c.log for c in public}),
        "laboratory runs": logs - len({c.log for c in public}),
        "forecasts": len(cases),
    }
    hazard = learn_hazard(cases, about)
    with atomic_write(options.out) as temporary:
        temporary.write_text(json.dumps(content_of(hazard), indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result | content_of(hazard), indent=1))
    if options.out == _TARGET:
        keep("learn_hazard", result)


if __name__ == "__main__":
    main()
