"""Decisions about the next run in the laboratory: regret of what `plan` recommends, beside simple rules.

    python benchmarks/plans.py --decisions 120 --cache folder

Each decision is about one simulated run of 120 updates on a contextual bandit, heavy ball or Adam, at a learning rate
that may be far too small or too large. The candidates are half, same and double of group size and learning rate, all at
the completions of the present run. The truth of a candidate is the exact mean training reward at its end, mean over 16
seeds; regret is that of the best candidate less that of the chosen one. The best of twelve means is itself a little
lucky, the same for every rule. How often a candidate fails is the share of its seeds that lose what they had gained.
Done decisions are kept in the cache, so that a second call goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.files import written_whole
from bayes_grpo.common.results import json_safe
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.planning.plan import plan
from bayes_grpo.simulate.policies import contextual_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import simulate
from benchmarks.common import keep, say

SEED = 23
STEPS, PROMPTS, SEEDS, LAST = 120, 4, 16, 5
SIZES = (4, 8, 16)
RATES = {"heavy_ball": (0.003, 0.6), "adam": (0.01, 1.0)}
"""Learning rates of the present runs, drawn evenly in their logarithm."""
LAGS = (1, 1, 4, 16)
"""Updates between refreshes of the sampling policy, whose gradient is late in full: too much rate is unstable there."""
FACTORS = (0.5, 1.0, 2.0)
FASTER = (0.5, 1.0, math.sqrt(2.0), 2.0)
"""Factors on the learning rate: a plan puts a rung between the present one and twice that."""
LOST, LEAST = 0.5, 0.05
"""A run failed whose end has lost this share of what it had gained, and at least so much reward."""
RULES = ("plan", "largest gain", "keep", "double G", "double rate")


def cached(folder: Path, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file of the cache holds, made where there is none."""
    path = folder / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = make()
    found["seconds"] = time.perf_counter() - begin
    found["cpu_seconds"] = resource.getrusage(resource.RUSAGE_SELF).ru_utime - used
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(json_safe(found)) + "\n", encoding="utf-8")
    say(f"{name}: {found['seconds']:.0f} s")
    return json_safe(found)


def reliability(p: np.ndarray, happened: np.ndarray, bins: int = 10) -> tuple[list[dict[str, float]], float]:
    """Reliability table and expected calibration error, over equal bins of the probability."""
    rows, error = [], 0.0
    place = np.minimum((p * bins).astype(int), bins - 1)
    for i in range(bins):
        inside = place == i
        if inside.any():
            rows.append(
                {"said": float(p[inside].mean()), "seen": float(happened[inside].mean()), "n": int(inside.sum())}
            )
            error += inside.mean() * abs(rows[-1]["said"] - rows[-1]["seen"])
    return rows, float(error)


def decision(number: int) -> dict[str, Any]:
    """One decision: what the plan says, and the truth of every candidate."""
    rng = np.random.default_rng([SEED, number])
    optimizer: Any = tuple(RATES)[number % 2]
    size, (low, high) = SIZES[number // 2 % len(SIZES)], RATES[optimizer]
    rate = float(np.exp(rng.uniform(math.log(low), math.log(high))))
    environment = contextual_bandit(rng, difficulty_mean=rng.uniform(0.2, 1.5), difficulty_sd=rng.uniform(1.0, 2.0))
    numbers = Numbers(
        momentum=0.9, kl_weight=rng.uniform(0.0, 0.6), refresh_interval=int(rng.choice(LAGS)), lag_exposure=1.0
    )
    truth: dict[str, float] = {}
    fails: dict[str, float] = {}
    present: Run | None = None
    for factor in FACTORS:
        steps = round(STEPS / factor)
        structure = Structure(
            n_steps=steps, group_size=round(size * factor), prompts_per_step=PROMPTS, optimizer=optimizer
        )
        rates = np.repeat(rate * np.array(FASTER), SEEDS)
        seeds = 100_000 * number + 1000 * round(2 * factor) + np.arange(len(rates))
        found = simulate(structure, numbers._replace(learning_rate=rates), environment, seeds)
        paths = np.asarray(found.true_reward)
        ends = paths[:, -LAST:].mean(axis=1)
        smooth = np.stack([np.convolve(path, np.full(LAST, 1.0 / LAST), "valid") for path in paths])
        best = smooth.max(axis=1)
        lost = best - ends > np.maximum(LOST * (best - paths[:, 0]), LEAST)
        shape = (len(FASTER), SEEDS)
        truth |= {_key(factor, k): float(x) for k, x in zip(FASTER, ends.reshape(shape).mean(axis=1), strict=True)}
        fails |= {_key(factor, k): float(x) for k, x in zip(FASTER, lost.reshape(shape).mean(axis=1), strict=True)}
        if factor == 1.0:
            present = _run(structure, found, SEEDS * FASTER.index(1.0), rate, int(numbers.refresh_interval))
    if present is None:
        raise RuntimeError("no present run")
    told = plan(
        present,
        group_size=[size * f for f in FACTORS],
        prompts_per_step=[PROMPTS],
        refresh_interval=[int(numbers.refresh_interval)],
        learning_rate=[rate * f for f in FACTORS],
        seed=number,
    )
    likely = [c for c in told.candidates if c.failure_risk <= max(told.risk, told.kept.failure_risk)]
    names = {
        "plan": _name(told.recommended.settings, size, rate),
        "largest gain": _name(max(likely, key=lambda c: c.expected_gain).settings, size, rate),
        "keep": "1 1",
        "double G": "2 1",
        "double rate": "1 2",
    }
    gains = {
        _name(c.settings, size, rate): [c.expected_gain, c.gain.low, c.gain.high, c.p_better, c.failure_risk]
        for c in told.candidates
    }
    return {
        "optimizer": optimizer,
        "rate": rate,
        "refresh_interval": int(numbers.refresh_interval),
        "group_size": size,
        "verdict": told.verdict,
        "truth": truth,
        "fails": fails,
        "chosen": names,
        "gains": gains,
    }


def _name(settings: Mapping[str, float], size: int, rate: float) -> str:
    factor = settings["learning_rate"] / rate
    return _key(settings["group_size"] / size, min(FASTER, key=lambda k: abs(k - factor)))


def _key(group: float, rate: float) -> str:
    return f"{group:g} {rate:.3g}"


def _run(structure: Structure, found: Any, at: int, rate: float, lag: int) -> Run:
    """One of the simulated runs as a log of every step."""
    steps = np.arange(1.0, structure.n_steps + 1.0)
    stated = {
        "group_size": structure.group_size,
        "prompts_per_step": structure.prompts_per_step,
        "momentum": 0.9,
        "momentum_convention": structure.momentum_convention,
        "refresh_interval": lag,
        "reward_low": 0.0,
        "reward_high": 1.0,
    }
    return Run(
        name="present",
        source="present",
        format="simulated",
        log_hash="present",
        step=steps,
        reward=np.asarray(found.reward[at], float),
        window=np.ones(len(steps)),
        signals={
            "frac_reward_zero_std": np.asarray(found.frac_reward_zero_std[at], float),
            "learning_rate": np.full(len(steps), rate),
        },
        eval_step=np.zeros(0),
        eval_reward=np.zeros(0),
        settings=Settings(**{k: Setting(v, Provenance.USER) for k, v in stated.items()}),
    )


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Regret of every rule, and how good the plan's probabilities and intervals are."""
    out: dict[str, Any] = {"decisions": len(found), "seeds": SEEDS}
    for part, some in (("all", found), *((o, [f for f in found if f["optimizer"] == o]) for o in RATES)):
        best = np.array([max(f["truth"].values()) for f in some])
        regret = {rule: best - np.array([f["truth"][f["chosen"][rule]] for f in some]) for rule in RULES} | {
            "mean of the grid": best - np.array([np.mean(list(f["truth"].values())) for f in some])
        }
        out[part] = {
            rule: {"regret": float(x.mean()), "error": float(x.std(ddof=1) / math.sqrt(len(x)))}
            for rule, x in regret.items()
        }
        against = {rule: regret[rule] - regret["plan"] for rule in RULES if rule != "plan"}
        out[part]["less regret than"] = {
            rule: {"mean": float(x.mean()), "error": float(x.std(ddof=1) / math.sqrt(len(x)))}
            for rule, x in against.items()
        }
    others = [(f["gains"][c], f["truth"][c] - f["truth"]["1 1"]) for f in found for c in f["gains"] if c != "1 1"]
    p, gain = np.array([g[3] for g, _ in others]), np.array([t for _, t in others])
    rows, error = reliability(p, gain > 0)
    chances = [(f["gains"][c][4], f["fails"][c]) for f in found if f["fails"]["1 1"] < 0.5 for c in f["gains"]]
    told, shares = (np.array(x) for x in zip(*chances, strict=True))
    bins = np.digitize(told, [0.02, 0.05, 0.1, 0.2, 0.4])
    out["fails"] = {
        "recommended": float(np.mean([f["fails"][f["chosen"]["plan"]] for f in found])),
        "recommended_where_present_holds": float(
            np.mean([f["fails"][f["chosen"]["plan"]] for f in found if f["fails"]["1 1"] < 0.5])
        ),
        "keep": float(np.mean([f["fails"]["1 1"] for f in found])),
        "double rate": float(np.mean([f["fails"]["1 2"] for f in found])),
        "ece": float(sum(abs((told - shares)[bins == b].sum()) for b in set(bins.tolist())) / len(told)),
        "reliability": [
            {
                "told": float(told[bins == b].mean()),
                "failed": float(shares[bins == b].mean()),
                "count": int((bins == b).sum()),
            }
            for b in sorted(set(bins.tolist()))
        ],
    }
    out["coverage"] = float(np.mean([g[1] <= t <= g[2] for g, t in others]))
    out["p_better"] = {"ece": error, "reliability": rows}
    out["verdicts"] = {v: sum(f["verdict"] == v for f in found) for v in ("change", "keep")}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=120)
    parser.add_argument("--first", type=int, default=0, help="number of the first; below 240 spreads were set by them")
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    found = [
        cached(options.cache, f"{i:03d}", lambda i=i: decision(i))
        for i in range(options.first, options.first + options.decisions)
    ]
    result = summary(found)
    if len(found) >= 100:
        keep("plans", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
