"""Slow starts of a network: which law is favoured, by what makes them slow (`lab_dynamics` d)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo import compare
from bayes_grpo.common.errors import BayesGrpoWarning
from benchmarks.common import say
from benchmarks.lab.enumerated_training import policy
from benchmarks.lab.enumeration import all_logits
from benchmarks.lab.studies.cases import Case, relisted, run
from benchmarks.lab.studies.fits import as_run

EXPLANATIONS = {
    "inertia": ("oscillator",),
    "p(1 - p)": ("bernoulli", "logistic"),
    "relaxation at the logged rate": ("exponential",),
    "sigmoid": ("sigmoid",),
    "none": ("flat",),
}
"""Laws that are compared on slow starts, by what makes the start slow. Laws follow the logged learning rate, so under a
warm-up plain relaxation starts slowly too."""
LAWS = tuple(law for laws in EXPLANATIONS.values() for law in laws)
SLOW = {"inertia of 0.5 steps": (0.0, 0.0), "inertia of 9.5 steps": (0.9, 0.0), "warm-up": (0.0, 0.5)}
"""What slow starts are given: momentum, and warm-up over the steps."""
SIZES = {16: 12, 256: 6}
"""Prompts of a step, and runs with them."""
START_LOOK = 2
"""Look of the supervised training at which slow starts begin: one completion in seven is right."""


def explained(verdicts: dict[str, str]) -> str:
    """What makes a start slow, by the verdicts on the laws: "cannot tell" unless all others are worse."""
    left = [
        name for name, laws in EXPLANATIONS.items() if any(verdicts.get(law) in ("best", "cannot tell") for law in laws)
    ]
    return left[0] if len(left) == 1 else "cannot tell"


def slow_starts(case: Case, momentum: float, warmup: float, prompts: int, quick: bool) -> dict[str, Any]:
    """Comparisons of laws on runs from a low success rate.

    Args:
        case: The network.
        momentum: Heavy ball.
        warmup: Share of the steps.
        prompts: Of a step: sixteen times as many make a quarter of the noise.
        quick: One short run.
    """
    steps, runs = (32, 1) if quick else (320, SIZES[prompts])
    theta = case.ladder[START_LOOK]
    logits = all_logits(policy(case.listing, jnp.asarray(theta)), case.listing)
    reference = tuple(np.asarray(x, float) for x in jax.device_get(logits))
    settings: dict[str, Any] = {
        "reference": reference,
        "momentum": momentum,
        "kl_weight": 0.01,
        "warmup_steps": round(warmup * steps),
    }
    # The rate at which a noise-free run is half way up after a third of the steps.
    rates = np.geomspace(1e-3, 0.05, 12) * (1.0 - momentum)
    trial = run(case, relisted(case, n_steps=steps), theta, np.zeros(12, int), learning_rate=rates, **settings)
    half = np.array([np.argmax(x > 0.5) if (x > 0.5).any() else steps for x in trial.latent])
    chosen = int(np.argmin(np.abs(half - steps / 3)))
    rate = float(rates[chosen])
    listing = relisted(case, n_steps=steps, update="sampled", group_size=8, prompts_per_step=prompts)
    path = run(case, listing, theta, np.arange(runs), learning_rate=np.full(runs, rate), **settings)
    logged = rate * np.minimum(np.arange(1.0, steps + 1.0) / max(settings["warmup_steps"], 1), 1.0)
    rows = []
    for i, reward in enumerate(path.reward):
        log = as_run(
            f"slow {i}", reward, logged, 4, momentum=momentum, momentum_convention="heavy_ball", refresh_interval=1
        )
        found = compare(log, LAWS[:1] if quick else LAWS, lfo=False, seed=i)
        verdicts = {x.regime: str(x.verdict) for x in found.table}
        rows.append(
            {
                "best": found.best,
                "explained": explained(verdicts),
                "weights": {x.regime: x.weight for x in found.table},
                "difference": {x.regime: x.difference for x in found.table},
                "verdicts": verdicts,
            }
        )
        say(f"d: momentum {momentum:g}, warm-up {warmup:g}, run {i}: {found.best}, {rows[-1]['explained']}")
    every = max(1, steps // 80)
    return {
        "momentum": momentum,
        "warmup": warmup,
        "prompts": prompts,
        "rate": rate,
        "half_way": int(half[chosen]),
        "inertial_time": (1.0 + momentum) / 2.0 / (1.0 - momentum),
        "first_reward": float(path.latent[:, 0].mean()),
        "last_reward": float(path.latent[:, -1].mean()),
        "course": {
            "step": list(range(every, steps + 1, every)),
            "reward": path.latent.mean(axis=0)[every - 1 :: every].tolist(),
        },
        "best": _counts([r["best"] for r in rows]),
        "explained": _counts([r["explained"] for r in rows]),
        "mean_weight": {law: float(np.mean([r["weights"].get(law, 0.0) for r in rows])) for law in LAWS},
        "runs": rows,
    }


def _counts(words: list[str]) -> dict[str, int]:
    return {word: words.count(word) for word in sorted(set(words))}


def section_d(cases: Sequence[Case], quick: bool) -> dict[str, Any]:
    """Slow starts: which law is favoured on runs from a low success rate, by what they were given."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    out: dict[str, Any] = {}
    for prompts in list(SIZES)[: 1 if quick else None]:
        for name, (momentum, warmup) in list(SLOW.items())[: 1 if quick else None]:
            found = slow_starts(cases[0], momentum, warmup, prompts, quick)
            out[f"{name}, {prompts} prompts"] = found
            print(name, {k: v for k, v in found.items() if k not in ("runs", "course")}, flush=True)
    return out | {"total": total(out)}


def total(found: dict[str, Any]) -> dict[str, Any]:
    """Counts over all runs."""
    rows = [row for x in found.values() for row in x["runs"]]
    return {
        "runs": len(rows),
        "explained": _counts([row["explained"] for row in rows]),
        "best": _counts([row["best"] for row in rows]),
    }
