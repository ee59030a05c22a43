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
from bayes_grpo.simulate.deep.curvature import balancing_reference, leading_modes, local
from benchmarks.common import say
from benchmarks.lab_cases import Case, relisted, run
from benchmarks.lab_thresholds import LEFT, bisected, pushed

MOMENTA, INTERVALS = (0.0, 0.5, 0.9), (1, 4, 16)
EPSILON = 10.0
"""ε of the runs without noise: their gradients are too small for it until they have left."""
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Learning rates of the runs with noise, over the critical one."""
BETA2 = 0.99
NOISY = ((0.0, 4), (0.5, 4), (0.9, 4), (0.9, 16))


def without_noise(case: Case, quick: bool) -> list[dict[str, float]]:
    """Measured thresholds where ε is the scale, by bisection, beside rule and exact threshold.

    Every gain is (1 − β₁) η K/ε with K of the stiffest mode.
    """
    momentum, interval = (x.ravel() for x in np.meshgrid(MOMENTA, INTERVALS, indexing="ij"))
    if quick:
        momentum, interval = momentum[-1:], interval[-1:]
    listing = relisted(case, n_steps=160 if quick else 960, optimizer="adam")
    start, seeds = pushed(case), np.zeros(len(momentum), int)
    exact = np.array([critical_gain(float(m), int(s), "hold") for m, s in zip(momentum, interval, strict=True)])

    def leaves(gain: np.ndarray) -> np.ndarray:
        rate = gain * EPSILON / ((1.0 - momentum) * case.rates[0])
        settings = {"momentum": momentum, "refresh_interval": interval, "adam_epsilon": EPSILON}
        path = run(case, listing, start, seeds, every=16, double=True, learning_rate=rate, **settings)
        size, quarter = path.away, path.away.shape[1] // 4
        early, late = size[:, quarter : 2 * quarter].max(axis=1), size[:, -quarter:].max(axis=1)
        return ~(np.max(size, axis=1) < LEFT) | (late > early)

    found = bisected(leaves, 0.3 * exact, 3.0 * exact, 2 if quick else 9)
    rows = []
    for m, s, g, e in zip(momentum, interval, found, exact, strict=True):
        rule = (1.0 - m) / s
        row = {"momentum": m, "interval": s, "measured": g, "rule": rule, "hold": e, "over_hold": g / e}
        rows.append({k: float(v) for k, v in (row | {"over_rule": g / rule}).items()})
        print(f"{case.name}: Adam without noise, β₁ {m:g} K_ref {s}: over exact {g / e:.4f}, over rule {g / rule:.2f}")
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
    rows = [row for case in cases for row in out[case.name]["without_noise"]]
    noisy = [row for case in cases for row in out[case.name]["with_noise"]["rows"]]
    return out | {
        "settings": len(rows) // len(cases),
        "largest_error": max(abs(row["over_hold"] - 1.0) for row in rows),
        "least_over_rule": min(row["over_rule"] for row in rows),
        "highest_gain_with_noise": max(row["gain_over_critical"] for row in noisy),
    }
