"""Learns how much stiffer the stiffest direction is than the reward shows.

    python -m benchmarks.lab.learners.stiffness

Small transformers at interior fixed points of a KL penalty, from early to late in their learning and at several
temperatures: the largest decay rate of the exact mean update over the relative slope of the reward's answer to a push
(`benchmarks.lab.curvature`), without looking at any reward curve. The ratio of a further policy is taken to be
log-normal; policies of one network are alike, so its spread is that of networks and policies together, with what the
few of them leave open of the mean.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from bayes_grpo.simulate.settings import Numbers, Structure
from benchmarks.common import keep
from benchmarks.lab.enumeration import list_completions
from benchmarks.lab.learners.held_policies import held_policies
from benchmarks.lab.network import Network
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import make_task

NETWORKS = (Network(1, 16, 2, 16), Network(1, 32, 2, 64))
_SEEDS = 2
SUCCESSES: tuple[float | None, ...] = (0.3, 0.6, None)
"""Success rates of the policies; None for the end of their supervised training."""
TEMPERATURES = (1.0, 3.5)


def ratios() -> list[dict[str, Any]]:
    """Ratio of every policy whose penalty can hold it where it is."""
    out = []
    task = make_task("modular_sum", size=3)
    structure = Structure(advantage="mean", update="sampled")
    base = Numbers(kl_weight=1.0, lag_exposure=1.0, clip_low=np.inf, clip_high=np.inf)
    for network in NETWORKS:
        lab = Lab(structure, network, "constant", limit=2)
        listing = list_completions(
            replace(lab, structure=replace(structure, update="infinite_group")), task, LabNumbers()
        )
        held = held_policies(
            lab,
            listing,
            task,
            LabNumbers(base=base),
            seeds=range(_SEEDS),
            successes=SUCCESSES,
            temperatures=TEMPERATURES,
        )
        out += [
            {
                "width": network.width,
                "seed": x.seed,
                "reward": x.point.reward,
                "temperature": x.temperature,
                "stiffest": x.stiffest,
                "shown": x.shown,
                "ratio": x.stiffest / x.shown,
            }
            for x in held
        ]
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    found = ratios()
    logs = np.log([x["ratio"] for x in found])
    table = {
        "centre": round(float(logs.mean()), 3),
        "sd": round(float(logs.std(ddof=1)) * math.sqrt(1.0 + 1.0 / len(logs)), 3),
        "policies": len(logs),
    }
    low, middle, high = np.exp(np.quantile(logs, [0.0, 0.5, 1.0]))
    keep("learn_stiffness", table | {"least": low, "median": middle, "most": high, "ratios": found})
    print(json.dumps(table))


if __name__ == "__main__":
    main()
