"""Thresholds and onset of oscillation on a network, measured by runs and beside the theory (`lab_dynamics` a and b)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.dynamics.reduction import critical_gain, onset_of_oscillation, published_threshold
from benchmarks.common import say
from benchmarks.lab.curvature import Local, balancing_reference, leading_modes
from benchmarks.lab.studies.cases import Case, relisted, run

MOMENTA, INTERVALS = (0.0, 0.5, 0.9), (1, 2, 4, 8, 16)
HIGHEST_GAIN = 3.99
"""2 (1 + μ) < 4 bounds every threshold."""
LEFT = 1e-3
"""A policy this far from its fixed point has left it; pushes are ten thousand times smaller."""
PUSH = 1e-7
CLEAR = 1e-6
"""Share of the push by which a mode must pass its fixed point: below are rounding and the drift's second order."""


def bisected(above: Callable[[np.ndarray], np.ndarray], low: ArrayLike, high: ArrayLike, rounds: int) -> np.ndarray:
    """Boundary of ``above`` between two positive bounds, many cases at once, by halving the ratio."""
    low, high = np.log(np.asarray(low, float)), np.log(np.asarray(high, float))
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        is_above = above(np.exp(middle))
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return np.exp(0.5 * (low + high))


def pushed(case: Case, seed: int = 0) -> np.ndarray:
    """The fixed point with a small push: the drift's answer to the drift's answer to a random one.

    What no completion feels is not in it, and every mode that can be felt is, the stiff ones more.
    """
    way = case.point.product(case.point.product(np.random.default_rng(seed).standard_normal(case.left.shape[1])))
    return case.point.parameters + PUSH * way / np.linalg.norm(way)


def measured_thresholds(
    case: Case, momentum: np.ndarray, interval: np.ndarray, *, refresh: str = "hold", exposure: float = 1.0, quick: bool
) -> np.ndarray:
    """Smallest gains η K at which noise-free runs leave the fixed point; K the stiffest mode's.

    Args:
        case: The network.
        momentum: Heavy ball, shape (n,).
        interval: K_ref, shape (n,).
        refresh: "hold" or "delay".
        exposure: Share of the gradient taken where completions were written.
        quick: Short runs, few rounds.

    Returns:
        Shape (n,).
    """
    listing = relisted(case, n_steps=160 if quick else 960, refresh=refresh)
    start, seeds = pushed(case), np.zeros(len(momentum), int)
    rule = published_threshold(momentum, interval)

    def leaves(gain: np.ndarray) -> np.ndarray:
        settings = {"momentum": momentum, "refresh_interval": interval, "lag_exposure": exposure}
        path = run(case, listing, start, seeds, every=16, double=True, learning_rate=gain / case.rates[0], **settings)
        size, quarter = path.away, path.away.shape[1] // 4
        early, late = size[:, quarter : 2 * quarter].max(axis=1), size[:, -quarter:].max(axis=1)
        # A run that left may be back by now, at another network with the same policy and less curvature.
        return ~(np.max(size, axis=1) < LEFT) | (late > early)

    # Where nothing is late, ratios move the threshold to what it is without lag; lag alone keeps it below 60 rules.
    high = np.minimum(60.0 * rule, HIGHEST_GAIN) if exposure else np.full(len(rule), HIGHEST_GAIN)
    return bisected(leaves, 0.4 * rule, high, 2 if quick else 11)


def thresholds(case: Case, quick: bool) -> dict[str, Any]:
    """Measured thresholds in the refresh interval beside four predictions."""
    mu, interval = (x.ravel() for x in np.meshgrid(MOMENTA, INTERVALS, indexing="ij"))
    found = measured_thresholds(case, mu, interval, quick=quick)
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


def delays(case: Case, quick: bool) -> list[dict[str, float]]:
    """The same for policies that are a fixed number of steps old."""
    mu, interval = np.array([0.0, 0.5, 0.9, 0.9]), np.array([4, 4, 4, 8])
    if quick:
        mu, interval = mu[:1], interval[:1]
    found = measured_thresholds(case, mu, interval, refresh="delay", quick=quick)
    exact = [critical_gain(float(m), int(s), "delay") for m, s in zip(mu, interval, strict=True)]
    print(f"{case.name}: constant delay, measured over exact: {np.round(found / exact, 4)}")
    return [
        {"momentum": float(m), "interval": float(s), "measured": float(g), "over_delay": float(g / e)}
        for m, s, g, e in zip(mu, interval, found, exact, strict=True)
    ]


def bases(point: Local, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Real bases of the leading modes, shape (count, parameters) each: what finds their amplitudes, and the modes."""
    _, right = leading_modes(point, count)
    _, left = leading_modes(point, count, transposed=True)
    # A complex pair spans the same plane as its real and imaginary parts, so any real basis of the space will do.
    left, right = (
        np.linalg.svd(np.concatenate([np.real(x), np.imag(x)]), full_matrices=False)[2][:count] for x in (left, right)
    )
    return np.linalg.solve(left @ right.T, left), right


def parts(case: Case, count: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Rates of the leading modes, split by what moves: the point of the gradient, the policy that writes.

    Returns:
        Two matrices of shape (count, count); the rates are the eigenvalues of their sum.
    """
    left, right = bases(case.point, count)
    at, late = (left @ np.array([case.point.product(v, part=p) for v in right]).T for p in ("at", "sampling"))
    return at, late


def growth(at: np.ndarray, late: np.ndarray, rate: float, momentum: float, interval: int) -> float:
    """Growth a step of coupled modes under a held policy; `hold_map` for matrices."""
    n = len(at)
    one, none = np.eye(n), np.zeros((n, n))
    step = np.block(
        [[(1.0 + momentum) * one - rate * at, -momentum * one, -rate * late], [one, none, none], [none, none, one]]
    )
    renew = np.block([[one, none, none], [none, one, none], [one, none, none]])
    cycle = np.linalg.matrix_power(step, interval - 1) @ step @ renew
    return float(np.abs(np.linalg.eigvals(cycle)).max() ** (1.0 / interval))


def coupled_threshold(case: Case, momentum: float, interval: int) -> float:
    """Smallest gain of the stiffest mode at which coupled modes grow under importance ratios."""
    at, late = parts(case)
    gain = 0.05 * float(published_threshold(momentum, interval))
    while gain < HIGHEST_GAIN and growth(at, late, gain / case.rates[0], momentum, interval) <= 1.0 + 1e-9:
        gain *= 1.02
    return gain


def corrected(case: Case, quick: bool) -> dict[str, Any]:
    """Thresholds under importance ratios, where the gradient is taken at the current policy."""
    mu, interval = (x.ravel() for x in np.meshgrid(MOMENTA, (4, 16), indexing="ij"))
    if quick:
        mu, interval = mu[:1], interval[:1]
    found = measured_thresholds(case, mu, interval, exposure=0.0, quick=quick)
    rows = []
    for m, s, g in zip(mu, interval, found, strict=True):
        wanted = coupled_threshold(case, float(m), int(s))
        hold, free = critical_gain(float(m), int(s), "hold"), 2.0 * (1.0 + m)
        row = {"momentum": m, "interval": s, "measured": g, "predicted": wanted}
        row |= {"over_exposed": g / hold, "over_lag_free": g / free}
        rows.append({k: float(v) for k, v in row.items()})
        print(
            f"{case.name}: ratios, mu {m:g} K_ref {s}: {g:.4f}; {g / hold:.2f} of full exposure, {g / free:.3f} of no "
            f"lag, {g / wanted:.3f} of predicted"
        )
    at, late = parts(case)
    return {"late_share": float(late[0, 0] / (at + late)[0, 0]), "rows": rows}


def confirmed(case: Case, rows: list[dict[str, float]], quick: bool) -> list[dict[str, float]]:
    """Sampled runs below and above measured thresholds: how far the policy goes, beside far below."""
    chosen = [r for r in rows if (r["momentum"], r["interval"]) in ((0.0, 4.0), (0.5, 8.0), (0.9, 4.0), (0.9, 16.0))]
    n_runs, steps = (2, 32) if quick else (6, 320)
    listing = relisted(
        case, n_steps=steps, update="sampled", prompts_per_step=4 if quick else 64, group_size=4 if quick else 64
    )
    reference = balancing_reference(listing, case.point.numbers, case.point.parameters)
    out = []
    for row in chosen[:1] if quick else chosen:
        share = np.repeat([0.4, 0.85, 1.15, 1.5], n_runs)
        settings = {"momentum": row["momentum"], "refresh_interval": int(row["interval"])}
        path = run(
            case,
            listing,
            case.point.parameters,
            np.tile(np.arange(n_runs), 4),
            every=4,
            reference=reference,
            learning_rate=share * row["measured"] / case.rates[0],
            **settings,
        )
        far = np.median(path.away.max(axis=1).reshape(4, n_runs), axis=1)
        out.append({**settings, **{f"farthest at {s:g}": float(x) for s, x in zip(share[::n_runs], far, strict=True)}})
        print(f"{case.name}: sampled, mu {row['momentum']:g} K_ref {row['interval']:g}: farthest {np.round(far, 4)}")
    return out


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
            "delay": delays(case, quick),
            "importance_ratios": corrected(case, quick),
            "sampled": confirmed(case, found["rows"], quick),
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
