"""What public runs say about the paper: one command a part, each kept for the page `docs/paper.md`.

    python -m benchmarks.paper fits --index runs/index.csv more/index.csv --cache CACHE
    python -m benchmarks.paper claims --index runs/index.csv more/index.csv --cache CACHE
    python -m benchmarks.paper checks --index runs/index.csv more/index.csv --cache CACHE

`fits` reads every run once, by every law, and keeps what it says; the others take seconds to minutes from there.
`claims` writes `paper_claims`, `checks` (other priors, every author left out, coverage on simulated families)
`paper_checks`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import keep, say
from benchmarks.paper.checks import all_checks, answer
from benchmarks.paper.claims import (
    QUANTITIES,
    Question,
    explained,
    margins,
    measured_alone,
    question_of,
    slow_starts,
    transfer_of,
)
from benchmarks.paper.fits import beside_of, kept, laws_of, readings_of
from benchmarks.paper.pooled import OF_LOGARITHMS
from benchmarks.paper.runs import PaperRun, public_runs, without_order

PARTS = ("fits", "claims", "checks")


def read_all(indices: list[Path], cache: Path) -> tuple[list[PaperRun], dict[str, dict[str, Any]]]:
    """The runs, and by name what each says: `laws_of` its rows, `readings_of` them without a shared order."""
    runs = public_runs(indices)

    def orders() -> dict[str, Any]:
        return {
            name: {"y": c.table.y.tolist(), "factor": c.factor, "share": c.share}
            for name, c in without_order(runs).items()
        }

    shared, found = kept(cache, "orders", orders), {}
    for i, r in enumerate(runs):
        own = shared.get(r.name)
        cleaned = r.table if own is None else replace(r.table, y=np.array(own["y"]))
        factor = 1.0 if own is None else own["factor"]
        laws = kept(cache / "laws", r.name, lambda r=r: laws_of(r.table))
        reading = kept(cache / "readings", r.name, lambda t=cleaned, f=factor: readings_of(t, f))
        beside = kept(cache / "beside", r.name, lambda r=r: beside_of(r.run, r.table))
        found[r.name] = {
            "laws": laws,
            "beside": beside,
            "reading": reading,
            "order": 0.0 if own is None else own["share"],
        }
        if i % 20 == 0:
            say(f"{i} of {len(runs)} runs")
    return runs, found


ASKED = (
    *(("group_size", q) for q in QUANTITIES),
    *(("learning_rate", q) for q in ("rate", "plateau", "trajectory", "fluctuation")),
    *(("model_size", q) for q in ("rate", "plateau", "trajectory")),
    *(("prompts_per_step", q) for q in ("rate", "trajectory", "fluctuation", "scatter")),
    *(("refresh", q) for q in ("rate", "plateau", "trajectory")),
)
"""Settings and what is asked of each."""
CORRECTED = (("group_size", "rate"), ("group_size", "fluctuation"))
"""What is asked once more with the factor of finite groups taken out."""


def questions(runs: list[PaperRun], found: dict[str, Any]) -> list[Question]:
    """Every question that three runs or more say something of, and whether a train reward tells of a held-out one."""
    asked = [question_of(runs, found, q, s) for s, q in ASKED]
    asked += [question_of(runs, found, q, s, finite=True) for s, q in CORRECTED]
    e, authors, _ = transfer_of(runs, found)
    asked.append(
        Question("held-out over train rate", "transfer", "", e, OF_LOGARITHMS, 0.0, len(e.x), authors, ("",) * len(e.x))
    )
    return [q for q in asked if q is not None]


def claims(runs: list[PaperRun], found: dict[str, Any]) -> dict[str, Any]:
    """All answers."""
    return {
        "runs": len(runs),
        "authors": len({r.author for r in runs}),
        "orders": {
            "runs": sum(f["order"] > 0 for f in found.values()),
            "authors": len({r.author for r in runs if found[r.name]["order"] > 0}),
        },
        "fit": explained(runs, found),
        "exponents": {q.name: answer(q) for q in questions(runs, found)},
        "measured_alone": measured_alone(runs),
        "slow": slow_starts(runs, found),
        "transfer": transfer_of(runs, found)[2],
        "refresh": margins(runs, found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--index", type=Path, nargs="+", default=[])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--known", type=int, default=120, help="families of known exponents")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    runs, found = read_all(options.index, options.cache)
    if options.part == "claims":
        keep("paper_claims", claims(runs, found))
    elif options.part == "checks":
        keep("paper_checks", all_checks(questions(runs, found), options.cache, options.known))


if __name__ == "__main__":
    main()
