"""Stiffness measured from sampled batches of the deep laboratory: against enumeration, and against where runs leave.

    python -m benchmarks.lab.studies.probing [--quick]

Small transformers at interior fixed points of a KL penalty, as `lab_dynamics` has them. Each is probed with drawn
batches; from one probe each, thresholds in the learning rate and in the refresh interval are foretold, and
only then runs of the exact mean update are made across them, by bisection. Beside them stands what the curvature that
the reward shows would have said.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from bayes_grpo.dynamics.reduction import critical_gain
from bayes_grpo.probing.estimate import Probe
from bayes_grpo.probing.probe import probe
from bayes_grpo.simulate.settings import Structure
from benchmarks.common import keep, say
from benchmarks.lab.enumerated_training import Places, follow
from benchmarks.lab.enumeration import Listing, list_completions
from benchmarks.lab.learners.held_policies import HeldPolicy, held_policies
from benchmarks.lab.network import Network
from benchmarks.lab.probed import drawn_updates
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.studies.cases import numbers_of
from benchmarks.lab.studies.thresholds import LEFT, PUSH
from benchmarks.lab.tasks import make_task

PARTS, GROUP = 8, 8
BATCHES = (64, 256, 1024)
"""Prompts of a batch, eight completions each."""
CHOSEN = 256
"""Prompts of the batch from which thresholds are foretold."""
SETTINGS = ((0.0, 1), (0.5, 4), (0.9, 8))
"""Momentum and refresh interval of the crossings in the learning rate."""
REFRESHED = ((0.0, 12), (0.5, 16), (0.9, 24))
"""Momentum of the crossings in the refresh interval, and where the learning rate is set to put the threshold."""
STEPS, EVERY, ROUNDS = 480, 16, 6
RATIOS = np.exp(np.linspace(-1.0, 1.0, 21))
"""Learning rates over the foretold threshold at which P(stable) is asked."""


@cache
def relisted(listing: Listing, **structure: Any) -> Listing:
    """A listing with other static settings; the same one for the same settings, so that it compiles once."""
    return replace(listing, lab=replace(listing.lab, structure=replace(listing.lab.structure, **structure)))


def policies(quick: bool) -> list[HeldPolicy]:
    """Policies from early to late in their learning, of several networks, at two temperatures."""
    out, task = [], make_task("modular_sum", size=3)
    # Groups of eight in the exact update too: their own mean shortens advantages by an eighth.
    structure = Structure(advantage="mean", update="sampled", group_size=GROUP)
    for network in (Network(1, 16, 2, 16),) if quick else (Network(1, 16, 2, 16), Network(1, 32, 2, 64)):
        lab = Lab(structure, network, "constant", limit=2)
        exact = replace(lab, structure=replace(structure, update="expected"))
        listing = list_completions(exact, task, LabNumbers())
        out += held_policies(
            lab,
            listing,
            task,
            numbers_of(),
            seeds=range(1 if quick else 2),
            successes=(0.3,) if quick else (0.3, 0.6, None),
            temperatures=(1.0,) if quick else (1.0, 3.5),
        )
    return out


def probed(held: HeldPolicy, prompts: int, seed: int) -> Probe:
    """A probe of one drawn batch."""
    sampled = relisted(held.listing, update="sampled", prompts_per_step=prompts // PARTS, group_size=GROUP)
    return probe(drawn_updates(sampled, held.point, seed, PARTS))


def leaves(held: HeldPolicy, rate: np.ndarray, momentum: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Whether runs of the exact mean update leave the fixed point after a small push."""
    listing = relisted(held.listing, n_steps=STEPS)
    way = held.point.product(held.point.product(np.random.default_rng(0).standard_normal(len(held.point.parameters))))
    start = held.point.parameters + PUSH * way / np.linalg.norm(way)
    places = Places(held.point.reference, held.point.parameters, np.zeros((0, len(start))))
    numbers = numbers_of(learning_rate=rate, momentum=momentum, refresh_interval=interval)
    numbers = numbers._replace(temperature=float(held.point.numbers.temperature))
    size = follow(listing, numbers, start, np.zeros(len(rate), int), places, every=EVERY, double=True).away
    quarter = size.shape[1] // 4
    early, late = size[:, quarter : 2 * quarter].max(axis=1), size[:, -quarter:].max(axis=1)
    return ~(np.max(size, axis=1) < LEFT) | (late > early)


def halved(above: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, whole: bool) -> np.ndarray:
    """Border between two bounds by halving their ratio; of whole numbers, halfway between the last two."""
    for _ in range(ROUNDS):
        middle = np.sqrt(low * high)
        asked = np.clip(np.round(middle), 1, None) if whole else middle
        hit = above(asked)
        low, high = np.where(hit, low, np.maximum(asked, low)), np.where(hit, np.minimum(asked, high), high)
    return np.sqrt(low * high)


def foretold(held: HeldPolicy, found: Probe) -> list[dict[str, float]]:
    """Thresholds that a probe foretells, with what the reward's curvature would have said."""
    out = []
    for momentum, interval in SETTINGS:
        gain = critical_gain(momentum, interval, "hold")
        row = {"kind": "learning rate", "momentum": momentum, "refresh": interval}
        out.append(row | {"foretold": gain / found.stiffest.mean, "by_reward": gain / held.shown})
    for momentum, wanted in REFRESHED:
        rate = critical_gain(momentum, wanted, "hold") / found.stiffest.mean
        row = {"kind": "refresh", "momentum": momentum, "rate": rate}
        out.append(
            row
            | {
                "foretold": border(momentum, rate * found.stiffest.mean),
                "by_reward": border(momentum, rate * held.shown),
            }
        )
    return out


def border(momentum: float, gain: float) -> float:
    """Refresh interval between the last that is stable at a gain and the next; 256 where that is."""
    low, high = 1, 256
    if gain >= critical_gain(momentum, 1, "hold"):
        return 0.5
    if gain < critical_gain(momentum, high, "hold"):
        return float(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gain < critical_gain(momentum, middle, "hold") else (low, middle)
    return math.sqrt(low * high)


def met(held: HeldPolicy, rows: list[dict[str, float]]) -> list[float]:
    """Where runs leave: learning rates and refresh intervals, in the order of the rows."""
    by_rate = [row for row in rows if row["kind"] == "learning rate"]
    by_refresh = [row for row in rows if row["kind"] == "refresh"]
    mu, refresh = (np.array([row[k] for row in by_rate]) for k in ("momentum", "refresh"))
    told = np.array([row["foretold"] for row in by_rate])
    rates = halved(lambda x: leaves(held, x, mu, refresh.astype(int)), told / 2.0, told * 2.0, False)
    mu, rate = (np.array([row[k] for row in by_refresh]) for k in ("momentum", "rate"))
    told = np.array([row["foretold"] for row in by_refresh])
    ends = halved(lambda x: leaves(held, rate, mu, x.astype(int)), np.maximum(told / 3.0, 1.0), told * 3.0, True)
    return [float(x) for x in (*rates, *ends)]


def calibration(p: np.ndarray, stable: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error over bins of equal width."""
    place = np.minimum((p * bins).astype(int), bins - 1)
    return float(
        sum(abs(p[place == b].mean() - stable[place == b].mean()) * np.mean(place == b) for b in set(place.tolist()))
    )


def asked(probes: list[tuple[HeldPolicy, Probe]], thresholds: dict[str, list[float]]) -> dict[str, Any]:
    """P(stable) at learning rates around what each probe foretells, beside where runs leave."""
    told, stable = [], []
    for held, found in probes:
        # Learning rates stand first in what was met; a policy that the chosen batch did not feel has no runs.
        for (momentum, interval), threshold in zip(SETTINGS, thresholds.get(held.name, []), strict=False):
            gain = critical_gain(momentum, interval, "hold")
            for rate in RATIOS * gain / found.stiffest.mean:
                told.append(found.stiffest.below(gain / rate))
                stable.append(rate < threshold)
    p, y = np.array(told), np.array(stable, float)
    return {
        "questions": len(y),
        "calibration_error": calibration(p, y),
        "brier": float(np.mean((p - y) ** 2)),
        "by_reward_alone": float(np.mean([(held.shown <= held.stiffest) for held, _ in probes])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one tiny policy; keeps nothing")
    options = parser.parse_args()
    held_ones = policies(options.quick)
    cases, chosen, everything = [], {}, []
    for held in held_ones:
        for prompts in BATCHES[:1] if options.quick else BATCHES:
            found = probe_row(held, prompts, 0, cases)
            if found.stiffest.detected:
                everything.append((held, found))
            if (prompts == CHOSEN or options.quick) and found.stiffest.detected:
                chosen[held.name] = found
    held_ones = [held for held in held_ones if held.name in chosen]
    predictions = {held.name: foretold(held, chosen[held.name]) for held in held_ones}
    runs, borders = [], {}
    for held in held_ones:
        say(f"runs: {held.name}")
        borders[held.name] = met(held, predictions[held.name])
        for row, value in zip(predictions[held.name], borders[held.name], strict=True):
            runs.append(
                row
                | {
                    "policy": held.name,
                    "met": value,
                    "over": value / row["foretold"],
                    "over_by_reward": value / row["by_reward"],
                }
            )
            print(
                f"{held.name}: {row['kind']}, μ {row['momentum']:g}: met over foretold {runs[-1]['over']:.3f}, "
                f"by the reward's curvature {runs[-1]['over_by_reward']:.3f}",
                flush=True,
            )
    out = {"cases": cases, "crossings": runs, "p_stable": asked(everything, borders)} | totals(cases, runs)
    print({k: v for k, v in out.items() if not isinstance(v, list)})
    if not options.quick:
        keep("lab_probing", out)


def probe_row(held: HeldPolicy, prompts: int, seed: int, cases: list[dict[str, Any]]) -> Probe:
    """A probe, with its line among the cases."""
    found = probed(held, prompts, seed)
    k = found.stiffest
    cases.append(
        {
            "policy": held.name,
            "completions": prompts * GROUP,
            "seed": seed,
            "stiffest": held.stiffest,
            "mean": k.mean,
            "crossed": k.crossed,
            "chosen": k.chosen,
            "over": k.mean / held.stiffest,
            "felt": k.detected,
            "inside": bool(k.interval.low <= held.stiffest <= k.interval.high),
            "shown": held.shown,
            "gradients": found.gradients,
        }
    )
    print(
        f"{held.name}: {prompts} prompts, seed {seed}: K over enumeration {k.mean / held.stiffest:.3f} "
        f"(other data {k.crossed / held.stiffest:.3f}, own {k.chosen / held.stiffest:.3f}; sd {k.sd / k.mean:.3f})",
        flush=True,
    )
    return found


def totals(cases: list[dict[str, Any]], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares that are asked for."""

    def near(values: list[float], factor: float) -> float:
        return float(np.mean([1.0 / factor <= x <= factor for x in values]))

    told = [c for c in cases if c["felt"]]
    out: dict[str, Any] = {
        "cases_in_all": len(cases),
        "told": len(told),
        "within_factor_of_all": near([c["over"] for c in cases], 1.25),
        "within_factor": near([c["over"] for c in told], 1.25),
        "inside": float(np.mean([c["inside"] for c in told])),
        "of_batches": {},
    }
    for n in sorted({c["completions"] for c in cases}):
        own = [c for c in told if c["completions"] == n]
        inside = float(np.mean([c["inside"] for c in own]))
        row = {"told": len(own), "within_factor": near([c["over"] for c in own], 1.25), "inside": inside}
        out["of_batches"][str(n)] = row
    for kind, name in (("learning rate", "learning_rate"), ("refresh", "refresh")):
        rows = [r for r in runs if r["kind"] == kind]
        out[name] = {
            "crossings": len(rows),
            "within_quarter": near([r["over"] for r in rows], 1.25),
            "within_quarter_by_reward": near([r["over_by_reward"] for r in rows], 1.25),
        }
    return out


if __name__ == "__main__":
    main()
