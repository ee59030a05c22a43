"""Thresholds and onset of oscillation on a network, measured by runs and beside the theory (`lab_dynamics` a and b)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayes_grpo.dynamics.reduction import critical_gain, onset_of_oscillation, published_threshold
from benchmarks.common import bisected, say
from benchmarks.lab.curvature import leading_modes
from benchmarks.lab.studies.cases import Case, relisted, run

MOMENTA, INTERVALS = (0.0, 0.5, 0.9), (1, 2, 4, 8, 16)
HIGHEST_GAIN = 3.99
"""2 (1 + μ) < 4 bounds every threshold."""
LEFT = 1e-3
"""A policy this far from its fixed point has left it; pushes are ten thousand times smaller."""
PUSH = 1e-7
CLEAR = 1e-6
"""Share of the push by which a mode must pass its fixed point: below are rounding and the drift's second order."""


def pushed(case: Case, seed: int = 0) -> np.ndarray:
    """The fixed point with a small push: the drift's answer to the drift's answer to a random one.

    What no completion feels is not in it, and every mode that can be felt is, the stiff ones more.
    """
    way = case.point.product(case.point.product(np.random.default_rng(seed).standard_normal(case.left.shape[1])))
    return case.point.parameters + PUSH * way / np.linalg.norm(way)


def measured_thresholds(case: Case, momentum: np.ndarray, interval: np.ndarray, quick: bool) -> np.ndarray:
    """Smallest gains η K at which noise-free runs leave the fixed point; K the stiffest mode's.

    Args:
        case: The network.
        momentum: Heavy ball, shape (n,).
        interval: K_ref, shape (n,).
        quick: Short runs, few rounds.

    Returns:
        Shape (n,).
    """
    listing = relisted(case, n_steps=160 if quick else 960)
    start, seeds = pushed(case), np.zeros(len(momentum), int)
    rule = published_threshold(momentum, interval)

    def leaves(gain: np.ndarray) -> np.ndarray:
        settings = {"momentum": momentum, "refresh_interval": interval}
        path = run(case, listing, start, seeds, every=16, double=True, learning_rate=gain / case.rates[0], **settings)
        size, quarter = path.away, path.away.shape[1] // 4
        early, late = size[:, quarter : 2 * quarter].max(axis=1), size[:, -quarter:].max(axis=1)
        # A run that left may be back by now, at another network with the same policy and less curvature.
        return ~(np.max(size, axis=1) < LEFT) | (late > early)

    return bisected(leaves, 0.4 * rule, np.minimum(60.0 * rule, HIGHEST_GAIN), 2 if quick else 11)


def thresholds(case: Case, quick: bool) -> dict[str, Any]:
    """Measured thresholds in the refresh interval beside four predictions."""
    mu, interval = (x.ravel() for x in np.meshgrid(MOMENTA, INTERVALS, indexing="ij"))
    found = measured_thresholds(case, mu, interval, quick)
    ratio = case.reward.curvature / case.rates[0]
    print(f"\n{case.name}: thresholds of ηK, gradients taken where completions were written, K of the stiffest mode")
    print(
        f"{'mu':>4} {'K_ref':>5} {'measured':>9} {'rule':>8} {'hold':>8} {'delay':>8} {'meas/hold':>9} {'by reward':>9}"
    )
    rows = []
    for m, s, g in zip(mu, interval, found, strict=True):
        hold, late = (critical_gain(float(m), int(s), model) for model in ("hold", "delay"))
        rule = float(published_threshold(m, s))
        row = {"momentum": m, "interval": s, "measured": g, "rule": rule, "hold": hold, "delay": late}
        row |= {"over_hold": g / hold, "over_hold_by_reward": g * ratio / hold}
        rows.append({k: float(v) for k, v in row.items()})
        print(f"{m:4.1f} {s:5d} {g:9.5f} {rule:8.5f} {hold:8.5f} {late:8.5f} {g / hold:9.4f} {g * ratio / hold:9.4f}")
    away = np.abs([r["over_hold"] - 1.0 for r in rows])
    by_reward = np.abs([r["over_hold_by_reward"] - 1.0 for r in rows])
    return {
        "rows": rows,
        "within_a_tenth": int((away < 0.1).sum()),
        "within_a_tenth_by_reward": int((by_reward < 0.1).sum()),
        "largest_error": float(away.max()),
        "rule_was_stable": int(sum(r["rule"] <= r["measured"] * 1.01 for r in rows)),
    }


def section_a(cases: Sequence[Case], quick: bool) -> dict[str, Any]:
    """Stability thresholds."""
    out: dict[str, Any] = {}
    for case in cases:
        say(f"a: {case.name}")
        spectrum = {"rates": [float(x) for x in case.rates], "reward_curvature": case.reward.curvature}
        print(f"\n{case.name}: reward {case.point.reward:.3f}, residual {case.point.residual:.1e}, rates {case.rates}")
        print(f"reward's curvature {case.reward.curvature:.3f}, its modes {case.shares()}")
        found = thresholds(case, quick)
        out[case.name] = {
            "reward": case.point.reward,
            "residual": case.point.residual,
            "spectrum": spectrum | {"reward_modes": case.shares()},
            "exposed": found,
        }
    return out | totals([out[case.name]["exposed"]["rows"] for case in cases])


def totals(cases: list[list[dict[str, float]]]) -> dict[str, float]:
    """How often the exact threshold holds within a tenth in the worst case, by the stiffest mode and by the reward."""
    rows = [row for case in cases for row in case]

    def held(name: str) -> int:
        return min(sum(abs(row[name] - 1.0) <= 0.1 for row in case) for case in cases)

    return {
        "settings": held("over_hold"),
        "held_by_reward": held("over_hold_by_reward"),
        "largest_error": max(abs(row["over_hold"] - 1.0) for row in rows),
        "most_cautious": max(row["measured"] / row["rule"] for row in rows),
    }


def section_b(cases: Sequence[Case], quick: bool) -> dict[str, Any]:
    """Onset of oscillation without lag: of the stiffest mode, and of the reward."""
    out: dict[str, Any] = {}
    mu = np.array(MOMENTA)
    wanted = onset_of_oscillation(mu)
    for case in cases:
        listing = relisted(case, n_steps=32 if quick else 480)
        _, right = leading_modes(case.point, 1)
        reward = case.point.reward_gradient

        def crosses(gain: np.ndarray, way: np.ndarray, probe: np.ndarray, case: Case = case, listing: Any = listing):
            start = case.point.parameters + PUSH * way / np.linalg.norm(way)
            seeds, rate = np.zeros(len(mu), int), gain / case.rates[0]
            path = run(case, listing, start, seeds, double=True, probes=probe[None], learning_rate=rate, momentum=mu)
            x = path.along[..., 0] / (probe @ (start - case.point.parameters))
            return (x < -CLEAR).any(axis=1) | ~np.isfinite(x).all(axis=1)

        rounds = 3 if quick else 10
        bounds = (0.2 * wanted, np.minimum(20.0 * wanted, HIGHEST_GAIN))
        mode = bisected(lambda g, f=crosses: f(g, right[0].real, case.left[0]), *bounds, rounds)  # noqa: B023
        seen = bisected(lambda g, f=crosses: f(g, reward, reward), *bounds, rounds)  # noqa: B023
        scale = case.reward.curvature / case.rates[0]
        print(f"\n{case.name}: onset of oscillation over (1 − √μ)², μ {MOMENTA}")
        by_reward = np.round(seen * scale / wanted, 3)
        print(f"stiffest mode {np.round(mode / wanted, 4)}; the reward by its own curvature {by_reward}")
        out[case.name] = {
            f"momentum {m:g}": {"stiffest": float(a / w), "reward": float(b * scale / w)}
            for m, w, a, b in zip(mu, wanted, mode, seen, strict=True)
        }
        out[case.name]["largest_error"] = float(np.abs(mode / wanted - 1.0).max())
    return out
