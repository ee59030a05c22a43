"""Group size on a network: mean trajectory and stationary variance of the latent reward (`lab_dynamics` c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from benchmarks.common import say
from benchmarks.lab.curvature import balancing_reference, local
from benchmarks.lab.enumerated_training import drift
from benchmarks.lab.enumeration import Listing, enumerated_reading
from benchmarks.lab.groups import group_drift_factor
from benchmarks.lab.measure import log_log_slope
from benchmarks.lab.studies.cases import KL_WEIGHT, Case, relisted, run
from benchmarks.lab.studies.thresholds import bases

GROUP_SIZES = (2, 4, 8, 16, 64)
PROMPTS = 8
GAIN, MOMENTUM = 0.1, 0.5
START_LOOK = 4
"""Look of the supervised training at which runs towards the fixed point begin."""


def stationary(case: Case, size: int, quick: bool) -> np.ndarray:
    """Variance of the latent reward of each run about its mean over all, shape (runs,).

    The reference moves with G, so that the fixed point stays.
    """
    steps, runs = (32, 2) if quick else (1200, 10)
    listing = relisted(case, n_steps=steps, update="sampled", group_size=size, prompts_per_step=PROMPTS)
    reference = balancing_reference(listing, case.point.numbers, case.point.parameters)
    rate = GAIN / case.rates[0]
    path = run(
        case,
        listing,
        case.point.parameters,
        np.arange(runs),
        every=4,
        reference=reference,
        learning_rate=rate,
        momentum=MOMENTUM,
    )
    late = path.latent[:, path.latent.shape[1] // 4 :]
    return np.mean((late - late.mean()) ** 2, axis=1)


def predicted(case: Case, size: int, quick: bool) -> float:
    """Stationary variance of the latent reward by the drift and the gradients' covariance at the fixed point.

    Leading modes under heavy ball, driven by white noise: a discrete Lyapunov equation.
    """
    draws, count = (20, 4) if quick else (1500, 40)
    listing = relisted(case, n_steps=1, update="sampled", group_size=size, prompts_per_step=PROMPTS)
    reference = balancing_reference(listing, case.point.numbers, case.point.parameters)
    point = local(listing, case.point.numbers, reference, case.point.parameters)
    left, right = bases(point, count)
    path = run(
        case,
        listing,
        point.parameters,
        np.arange(draws),
        reference=reference,
        probes=left,
        learning_rate=1.0,
        momentum=0.0,
    )
    rate, one = GAIN / case.rates[0], np.eye(count)
    noise = np.zeros((2 * count, 2 * count))
    noise[:count, :count] = rate**2 * np.cov(path.along[:, 0].T)
    decay = left @ np.array([point.product(v) for v in right]).T
    step = np.block([[(1.0 + MOMENTUM) * one - rate * decay, -MOMENTUM * one], [one, 0.0 * one]])
    spread = solve_discrete_lyapunov(step, noise)[:count, :count]
    felt = right @ point.reward_gradient
    return float(felt @ spread @ felt)


def approach(case: Case, size: int, runs: int, quick: bool, update: str = "sampled") -> np.ndarray:
    """Latent reward on the way to the fixed point, reference unmoved, shape (runs, looks)."""
    listing = relisted(case, n_steps=16 if quick else 160, update=update, group_size=size, prompts_per_step=PROMPTS)
    start, rate = case.ladder[START_LOOK], GAIN / case.rates[0]
    return run(case, listing, start, np.arange(runs), every=4, learning_rate=rate, momentum=MOMENTUM).latent


def spread_drift(case: Case, size: int, quick: bool) -> dict[str, float]:
    """First drift of the reward under normalised advantages, over that of infinite groups: measured and predicted.

    The prediction weighs each prompt's drift by its own E[σ_G]; beside it is the one of the mean success rate.
    """
    theta = case.ladder[START_LOOK]
    settings: dict[str, Any] = {"learning_rate": 1e-5, "momentum": 0.0, "kl_weight": 0.0}
    runs = 4 if quick else 64
    drawn = relisted(case, n_steps=16, update="sampled", advantage="std", group_size=size, prompts_per_step=PROMPTS)
    free = relisted(case, n_steps=16, update="infinite_group", advantage="std")
    begin = _reward(case, theta)
    path = run(case, drawn, theta, np.arange(runs), every=16, double=True, **settings).latent[:, -1] - begin
    whole = run(case, free, theta, [0], every=16, double=True, **settings).latent[0, -1] - begin
    success = _successes(case, theta)
    scale = group_drift_factor(success, size, 1) / np.sqrt(success * (1.0 - success))
    scaled = replace(relisted(case, n_steps=16), reward=case.listing.reward * scale[:, None])
    numbers = case.point.numbers._replace(base=case.point.numbers.base._replace(kl_weight=np.asarray(0.0)))
    slope = local(case.listing, numbers, case.point.reference, theta).reward_gradient
    rate = settings["learning_rate"] * 16
    predicted = rate * slope @ _drift(scaled, numbers, case, theta) / whole
    return {
        "measured": float(path.mean() / whole),
        "standard_error": float(path.std(ddof=1) / np.sqrt(runs) / abs(whole)),
        "predicted": float(predicted),
        "by_mean_success": float(group_drift_factor(success.mean(), size, 1)),
    }


def _drift(listing: Listing, numbers: Any, case: Case, theta: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        far = jax.tree.map(jnp.asarray, case.point.reference)
        scalars = jax.tree.map(jnp.asarray, numbers)
        reading = enumerated_reading(far, listing, scalars.temperature)
        return np.asarray(drift(listing, scalars, reading, jnp.asarray(theta, float)))


def _reward(case: Case, theta: np.ndarray) -> float:
    return local(case.listing, case.point.numbers, case.point.reference, theta).reward


def _successes(case: Case, theta: np.ndarray) -> np.ndarray:
    """Success rate of every prompt."""
    own = case.listing.reward
    return np.array(
        [
            len(own)
            * _reward(
                replace(case, listing=replace(case.listing, reward=own * (np.arange(len(own)) == i)[:, None])), theta
            )
            for i in range(len(own))
        ]
    )


def section_c(cases: Sequence[Case], quick: bool) -> dict[str, Any]:
    """Group size."""
    case = cases[0]
    sizes = (2, 8) if quick else GROUP_SIZES
    say(f"c: {case.name}")
    variance = {g: stationary(case, g, quick) for g in sizes}
    mean = np.array([variance[g].mean() for g in sizes])
    rng = np.random.default_rng(0)
    slopes = []
    for _ in range(400):
        again = [rng.choice(variance[g], len(variance[g])).mean() for g in sizes]
        slopes.append(log_log_slope(sizes, again))
    slope, (low, high) = log_log_slope(sizes, mean), np.quantile(slopes, [0.05, 0.95])
    print(f"\n{case.name}: stationary variance of the latent reward by G {dict(zip(sizes, mean, strict=True))}")
    linear = {g: predicted(case, g, quick) for g in sizes}
    print(f"by the linearised drift {linear}, slope {log_log_slope(sizes, list(linear.values())):.3f}")
    print(f"log-log slope {slope:.3f}, 90% interval {low:.3f} to {high:.3f}")
    large = approach(case, 10**6, 1, quick, "expected")[0]
    rows = []
    for g in sizes:
        runs = approach(case, g, 2 if quick else 16, quick)
        exact = approach(case, g, 1, quick, "expected")[0]
        error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
        way = abs(large[-1] - large[0])
        row = {
            "group_size": g,
            "largest_gap_to_infinite": float(np.abs(runs.mean(axis=0) - large).max() / way),
            "largest_gap_to_exact": float(np.abs(runs.mean(axis=0) - exact).max() / way),
            "exact_gap_to_infinite": float(np.abs(exact - large).max() / way),
            "standard_error": float(error.max() / way),
        }
        rows.append(row | {f"spread_{k}": v for k, v in spread_drift(case, g, quick).items()})
        print({k: round(v, 4) for k, v in rows[-1].items()})
    return {
        "slope": float(slope),
        "slope_low": float(low),
        "slope_high": float(high),
        "variance": {str(g): float(v) for g, v in zip(sizes, mean, strict=True)},
        "linear_variance": {str(g): v for g, v in linear.items()},
        "linear_slope": log_log_slope(sizes, list(linear.values())),
        "mean_trajectory": rows,
        "kl_weight": KL_WEIGHT,
    }
