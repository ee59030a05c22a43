"""What an answer takes: runs of the deep laboratory at three group sizes, where the truth is known.

All runs begin at the same weights with the same settings but for the group size. The truth is the mean over all seeds;
a study has a few of them at every size, and steps up to a length. What it would say is asked of the same fits and the
same pooled model as the public runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.simulate.settings import Numbers
from benchmarks.lab.families import Draw
from benchmarks.lab.groups import group_drift_factor
from benchmarks.lab.runs import train_draws
from benchmarks.lab.settings import LabNumbers
from benchmarks.lab.setups import SETUPS, Setup
from benchmarks.paper.family_cases import run_of
from benchmarks.paper.fits import kept, laws_of, readings_of, said_of
from benchmarks.paper.pooled import LEAST, OF_LEVELS, OF_LOGARITHMS, Evidence, by_grid

SIZES = (4, 8, 16)
SEEDS = 16
STEPS = 300
LENGTHS = (50, 100, 200, 300)
DRAWN = (1, 2, 4, 8)
"""Seeds at every size that a study has."""
STUDIES = 24
"""Studies drawn of each design."""
QUANTITIES = ("rate", "plateau", "trajectory", "fluctuation")


def draws() -> list[Draw]:
    """Settings of all runs: a small transformer that learns to sort, Adam, eight prompts a step."""
    stem, out = SETUPS[0], []
    for size in SIZES:
        structure = replace(stem.lab.structure, n_steps=STEPS, group_size=size, schedule="constant", eval_every=STEPS)
        setup = Setup(stem.task, replace(stem.lab, structure=structure), stem.rate)
        base = Numbers(learning_rate=0.5 * stem.rate, momentum=0.9)
        numbers = LabNumbers(base=base)
        out += [
            Draw(
                "healthy",
                i,
                setup,
                numbers,
                success=0.2,
                warm_seed=0,
                clumsy=0.0,
                logging_steps=1,
                seed=1000 * size + i,
            )
            for i in range(SEEDS)
        ]
    return out


def trained() -> dict[str, Any]:
    """Rows of all runs, by group size."""
    out: dict[str, list[list[float]]] = {str(g): [] for g in SIZES}
    for run in train_draws(draws()):
        content, _ = run.log(1)
        rows = [h["reward"] for h in content["log_history"] if "reward" in h]
        out[str(run.draw.setup.lab.structure.group_size)].append(rows)
    return out


def lab_run(size: int, number: int, y: Sequence[float]) -> Run:
    """A run of the laboratory as a log."""
    step = np.arange(1.0, len(y) + 1.0)
    return run_of(f"G{size} seed {number}", step, np.asarray(y), group_size=size, prompts_per_step=8)


def read_at(size: int, number: int, y: Sequence[float]) -> dict[str, Any]:
    """What a run says up to a step."""
    table = rows_of(lab_run(size, number, y))
    return {"laws": laws_of(table), "reading": readings_of(table)}


def study(
    found: Mapping[tuple[int, int], Mapping[str, Any]], members: Sequence[tuple[int, int]], quantity: str, size: float
) -> dict[str, float] | None:
    """What a study says of the exponent of a quantity in the group size."""
    rows = []
    for g, i in members:
        f = found[g, i]
        if quantity == "trajectory":
            if f["reading"]:
                rows.append((f["reading"]["latent"][-1] / size, f["reading"]["error"][-1] / size, math.log(g)))
            continue
        name, part = {"rate": ("rate", "reading"), "plateau": ("fixed_point", "reading")}.get(
            quantity, ("fluctuation_sd", "laws")
        )
        said = said_of(f[part], name)
        if said is not None:
            scale = {"plateau": 1.0 / size, "fluctuation": 2.0}.get(quantity, 1.0)
            rows.append((scale * said.value, scale * said.error, math.log(g)))
    if len({r[2] for r in rows}) < 2:
        return None
    value, error, x = np.array(rows).T
    one = np.zeros(len(rows), int)
    priors = OF_LEVELS if quantity in ("plateau", "trajectory") else OF_LOGARITHMS
    # One author's one family: what it says of its own exponent, not of that of others.
    priors = priors._replace(author=1e-6, family=1e-6)
    return by_grid(Evidence(value, error, x - x.mean(), one, one, one), priors).told()


def power(cache: Path) -> dict[str, Any]:
    """What studies of every design would say, and what the truth is."""
    rewards = kept(cache, "lab_rewards", trained)
    means = {g: np.mean(rewards[str(g)], axis=0) for g in SIZES}
    x = np.log(SIZES) - np.log(SIZES).mean()
    out: dict[str, Any] = {"seeds": SEEDS, "sizes": list(SIZES), "designs": [], "truth": {}, "needed": {}}
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        found = {
            (g, i): kept(
                cache / f"lab_{length}", f"{g}_{i}", lambda g=g, i=i, n=length: read_at(g, i, rewards[str(g)][i][:n])
            )
            for g in SIZES
            for i in range(SEEDS)
        }
        success = {g: float(np.mean(means[g][:length])) for g in SIZES}
        ends = {g: float(np.mean(means[g][max(0, length - 20) : length])) for g in SIZES}
        size = float(np.mean(list(ends.values())))
        factor = [math.log(float(group_drift_factor(float(np.mean(list(success.values()))), g, 1))) for g in SIZES]
        everyone = [(g, i) for g in SIZES for i in range(SEEDS)]
        out["truth"][str(length)] = {
            "trajectory": float(np.polyfit(x, [ends[g] / size for g in SIZES], 1)[0]),
            "rate_expected": float(np.polyfit(x, factor, 1)[0]),
            "all_seeds": {q: study(found, everyone, q, size) for q in QUANTITIES},
        }
        for seeds in DRAWN:
            line: dict[str, Any] = {"length": length, "seeds": seeds}
            for q in QUANTITIES:
                told = []
                for _ in range(STUDIES):
                    members = [(g, int(i)) for g in SIZES for i in rng.choice(SEEDS, seeds, replace=False)]
                    said = study(found, members, q, size)
                    if said is not None:
                        told.append(said)
                line[q] = {
                    "studies": len(told),
                    "half_width": float(np.mean([0.5 * (t["high"] - t["low"]) for t in told])) if told else None,
                    "settled": float(np.mean([t["p_none"] >= 0.95 or t["p_none"] <= 0.05 for t in told]))
                    if told
                    else 0.0,
                }
            out["designs"].append(line)
            if seeds == DRAWN[-1]:
                # Half widths fall as the root of the seeds: so many give one of `LEAST`, beyond what was drawn.
                out["needed"][str(length)] = {
                    q: math.ceil(seeds * (line[q]["half_width"] / LEAST) ** 2) for q in QUANTITIES if line[q]["studies"]
                }
    return out
