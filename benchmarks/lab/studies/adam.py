"""The rule of the refresh interval for Adam, on a network at a fixed point (`lab_dynamics` adam).

Adam scales each parameter's update by 1/(√v̂ + ε), so the curvature that counts is that of the scaled drift, and its
average of gradients makes a step of η one of (1 − β₁) η: the rule reads η K K_ref < 1, whatever β₁, and the exact
threshold is that of a frozen gradient at the gain (1 − β₁) η K. Two questions. Is it so where v̂ is known? Without noise
it fades at the fixed point, the scale is 1/ε, and the threshold is as sharp as without Adam. And where v̂ is that of the
gradients' noise, as in every run that somebody trains? There v̂ sees what the instability does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayes_grpo.dynamics.reduction import critical_gain
from benchmarks.common import bisected, say
from benchmarks.lab.curvature import balancing_reference, leading_modes, local
from benchmarks.lab.studies.cases import Case, relisted, run
from benchmarks.lab.studies.thresholds import LEFT, pushed

MOMENTA, INTERVALS = (0.0, 0.5, 0.9), (1, 4, 16)
EPSILON = 10.0
"""ε of the runs without noise: their gradients are too small for it until they have left."""
WARMUP = 96
"""Steps of its warm-up: by its end the correction of the bias is over."""
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Learning rates of the runs with noise, over the critical one."""
BETA2 = 0.99
NOISY = ((0.0, 4), (0.5, 4), (0.9, 4), (0.9, 16))


def without_noise(case: Case, quick: bool) -> list[dict[str, Any]]:
    """Measured thresholds where ε is the scale, by bisection, beside rule and exact threshold.

    Every gain is (1 − β₁) η K/ε with K of the stiffest mode. The rate is warmed up: Adam's correction of its bias makes
    first steps up to 1/(1 − β₁) times as long, which can throw a policy far from a point that would hold it. Beside
    them stand, for K_ref = 1, runs without a warm-up.
    """
    momentum, interval = (x.ravel() for x in np.meshgrid(MOMENTA, INTERVALS, indexing="ij"))
    warm = np.ones(len(momentum), bool)
    momentum, interval = np.append(momentum, MOMENTA), np.append(interval, np.ones(len(MOMENTA), int))
    warm = np.append(warm, np.zeros(len(MOMENTA), bool))
    if quick:
        momentum, interval, warm = momentum[-1:], interval[-1:], warm[-1:]
    listing = relisted(case, n_steps=160 if quick else 960, optimizer="adam")
    start, seeds = pushed(case), np.zeros(len(momentum), int)
    exact = np.array([critical_gain(float(m), int(s), "hold") for m, s in zip(momentum, interval, strict=True)])

    def leaves(gain: np.ndarray) -> np.ndarray:
        rate = gain * EPSILON / ((1.0 - momentum) * case.rates[0])
        settings = {"momentum": momentum, "refresh_interval": interval, "adam_epsilon": EPSILON}
        settings["warmup_steps"] = np.where(warm, WARMUP, 0)
        path = run(case, listing, start, seeds, every=16, double=True, learning_rate=rate, **settings)
        size, quarter = path.away, path.away.shape[1] // 4
        early, late = size[:, quarter : 2 * quarter].max(axis=1), size[:, -quarter:].max(axis=1)
        return ~(np.max(size, axis=1) < LEFT) | (late > early)

    found = bisected(leaves, 0.3 * exact, 3.0 * exact, 2 if quick else 9)
    rows = []
    for m, s, w, g, e in zip(momentum, interval, warm, found, exact, strict=True):
        rule = (1.0 - m) / s
        row = {"momentum": m, "interval": s, "measured": g, "rule": rule, "hold": e, "over_hold": g / e}
        rows.append({k: float(v) for k, v in (row | {"over_rule": g / rule}).items()} | {"warm": bool(w)})
        setting = f"β₁ {m:g} K_ref {s}{'' if w else ', no warm-up'}"
        print(f"{case.name}: Adam without noise, {setting}: over exact {g / e:.4f}, over rule {g / rule:.2f}")
    return rows


def with_noise(case: Case, quick: bool) -> dict[str, Any]:
    """Where runs on drawn batches come to rest, by the second moment of the gradients that they have.

    The critical rate is foretold from the second moment at the fixed point, where the gradient is noise alone. Beside
    each rate stands the gain over the critical one, by the second moment of the run itself: η times the curvature that
    Adam has made of the drift on the way.
    """
    n_runs, steps, size = (1, 32, 4) if quick else (4, 640, 64)
    listing = relisted(
        case, n_steps=steps, update="sampled", optimizer="adam", prompts_per_step=size, group_size=8 if quick else 64
    )
    reference = balancing_reference(listing, case.point.numbers, case.point.parameters)
    point = local(listing, case.point.numbers, reference, case.point.parameters)

    def curvature(squared: np.ndarray) -> float:
        return float(leading_modes(point, 1, 1.0 / (np.sqrt(squared) + 1e-8))[0][0].real)

    settings: dict[str, Any] = {"every": 16, "reference": reference, "adam_beta2": BETA2}
    still = run(case, listing, point.parameters, np.arange(n_runs), learning_rate=1e-9, momentum=0.0, **settings)
    noise = curvature(still.squared_gradient.mean(axis=0))
    rows = []
    for m, s in NOISY[:1] if quick else NOISY:
        rate = critical_gain(m, s, "hold") / ((1.0 - m) * noise)
        for share in SHARES[:1] if quick else SHARES:
            path = run(
                case,
                listing,
                point.parameters,
                np.arange(n_runs),
                learning_rate=share * rate,
                momentum=m,
                refresh_interval=s,
                **settings,
            )
            own = curvature(path.squared_gradient.mean(axis=0))
            half = path.away.shape[1] // 2
            row = {"momentum": m, "interval": s, "share": share, "rate": share * rate, "rule": 1.0 / (noise * s)}
            row |= {"gain_over_critical": share * own / noise, "away": float(path.away[:, half:].mean())}
            rows.append({k: float(v) for k, v in row.items()})
        print(
            f"{case.name}: Adam with noise, β₁ {m:g} K_ref {s}: gains over the critical one",
            [round(r["gain_over_critical"], 3) for r in rows[-len(SHARES) :]],
            "away",
            [round(r["away"], 4) for r in rows[-len(SHARES) :]],
            flush=True,
        )
    return {"curvature": noise, "rows": rows}


def section_adam(cases: Sequence[Case], quick: bool) -> dict[str, Any]:
    """Adam's thresholds."""
    out: dict[str, Any] = {}
    for case in cases:
        say(f"adam: {case.name}")
        quiet = without_noise(case, quick)
        out[case.name] = {"without_noise": quiet, "with_noise": with_noise(case, quick)}
    return out if quick else out | totals(out)


def totals(found: dict[str, Any]) -> dict[str, float]:
    """How well the exact threshold holds without noise, and where noise and instability bring the gain."""
    quiet = [row for x in found.values() for row in x["without_noise"]]
    noisy = [row for x in found.values() for row in x["with_noise"]["rows"]]
    warm, cold = ([row for row in quiet if row["warm"] is kind] for kind in (True, False))
    fast = [row["gain_over_critical"] for row in noisy if row["share"] == max(SHARES)]
    return {
        "settings": len(warm) // len(found),
        "largest_error": max(abs(row["over_hold"] - 1.0) for row in warm),
        "least_over_rule": min(row["over_rule"] for row in quiet),
        "least_over_hold_without_warmup": min(row["over_hold"] for row in cold),
        "fastest_share": max(SHARES),
        "least_gain_at_fastest": min(fast),
        "highest_gain_at_fastest": max(fast),
    }
