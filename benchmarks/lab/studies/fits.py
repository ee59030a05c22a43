"""Recovery of curvature, damping and fixed point from a network's logs by `fit` (`lab_dynamics` e)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayes_grpo import Fit, Provenance, Run, Setting, Settings, fit
from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.common.intervals import interval
from bayes_grpo.dynamics.reduction import critical_gain, mean_lag, onset_of_oscillation, oscillator_coefficients
from benchmarks.common import say
from benchmarks.lab.curvature import RewardSpectrum, balancing_reference, leading_modes, reward_spectrum
from benchmarks.lab.studies.cases import Case, relisted, run

GROUP_SIZE, WINDOW, STEPS = 8, 12, 1536
PROMPTS = (4, 32, 256)
QUANTITIES = ("curvature", "damping", "damping_ratio", "fixed_point")
FITS = 96
"""Runs of a kind. Without lag the damping is known, and nothing is there to recover: that is one run in three."""


def as_run(name: str, reward: np.ndarray, rate: float | np.ndarray, window: int, **settings: Any) -> Run:
    """A log of window means of the reward, with settings that the user states; ``rate`` may have one for each step."""
    rows, rates = (
        np.broadcast_to(x, reward.shape)[: len(reward) // window * window].reshape(-1, window).mean(axis=1)
        for x in (reward, rate)
    )
    step = window * np.arange(1.0, len(rows) + 1.0)
    stated = {"total_steps": len(reward), "logging_window": window, "reward_low": 0.0, "reward_high": 1.0} | settings
    return Run(
        name=name,
        source=f"{name}.json",
        format="made",
        log_hash="0" * 64,
        step=step,
        reward=rows,
        window=np.full(len(rows), float(window)),
        signals={"learning_rate": rates},
        eval_step=np.zeros(0),
        eval_reward=np.zeros(0),
        settings=Settings(**{k: Setting(v, Provenance.USER) for k, v in stated.items()}),
    )


def drawn_settings(case: Case, curvature: float, rng: np.random.Generator) -> dict[str, float]:
    """Momentum, staleness and learning rate of one run, as wide as the priors of the fit where the run is stable."""
    interval, exposure = int(rng.choice((1, 2, 4))), 1.0 / (1.0 + np.exp(-1.5 * rng.standard_normal()))
    while True:
        time = STEPS / 5.0 * np.exp(rng.standard_normal())
        for _ in range(20):
            mu = rng.uniform(0.3, 0.97)
            rate = (1.0 - mu) / time / curvature
            steady = rate * case.rates[0] < 0.6 * critical_gain(round(mu, 2), interval, "hold")
            if steady and rate * curvature < 0.8 * float(onset_of_oscillation(mu)):
                return {
                    "momentum": mu,
                    "learning_rate": rate,
                    "refresh_interval": interval,
                    "lag_exposure": exposure,
                }


def late_share(case: Case, way: np.ndarray) -> float:
    """Share of the reward's answer to a push that is late under importance ratios."""
    late, whole = (case.point.reward_gradient @ case.point.product(way, part=part) for part in ("sampling", "all"))
    return float(late / whole)


def courses(gain: np.ndarray, momentum: float) -> np.ndarray:
    """Ways of a heavy ball from 1 at rest to 0 in means over windows, one for each gain, shape (gains, rows)."""
    out = np.empty((len(gain), STEPS))
    now = before = np.ones(len(gain))
    for t in range(STEPS):
        out[:, t] = now.real
        now, before = now + momentum * (now - before) - gain * now, now
    return out.reshape(len(gain), -1, WINDOW).mean(axis=2)


def seen_curvature(spectrum: RewardSpectrum, rate: float, momentum: float) -> float:
    """Curvature of the one mode whose course is most like the reward's over the length of a run, levels left free.

    The reward is carried by many modes. Its slope at the first step is that of their mean rate; later the slow ones
    are left, so what one mode can say of the whole course is less.
    """
    # Arnoldi's rates without a share in the answer are no modes; complex ones come in pairs.
    felt = np.abs(spectrum.shares) > 1e-6
    parts = np.real(spectrum.shares[felt])
    whole = parts @ courses(rate * np.real(spectrum.rates[felt]), momentum)
    tried = spectrum.curvature * np.geomspace(0.1, 3.0, 300)
    one = courses(rate * tried, momentum)
    one, whole = one - one.mean(axis=1, keepdims=True), whole - whole.mean()
    like = (one @ whole) ** 2 / (one**2).sum(axis=1)
    return float(tried[np.argmax(like)])


def recovered(case: Case, kind: str, runs: int, quick: bool) -> dict[str, Any]:
    """Fits of runs that start a small push off the fixed point, compared with what is known of it.

    Args:
        case: The network.
        kind: "mode" pushes along one mode, the one by which the reward's gradient is answered most, so that the reward
            decays at one rate; "gradient" along the reward's gradient, with many.
        runs: How many.
        quick: Short ones.
    """
    point = case.point
    way, curvature = point.reward_gradient, case.reward.curvature
    if kind == "mode":
        rates, right = leading_modes(point, 6 if quick else 60)
        left = leading_modes(point, len(rates), transposed=True)[1]
        felt = np.abs((left @ way) * (right @ way) / np.einsum("mp,mp->m", left, right)) * (np.imag(rates) == 0)
        curvature, way = float(rates[np.argmax(felt)].real), right[np.argmax(felt)].real
    way = way / float(way @ point.reward_gradient)
    spectrum, share = reward_spectrum(point, way, steps=20 if quick else 80), late_share(case, way)
    rng = np.random.default_rng(7)
    drawn = [drawn_settings(case, curvature, rng) for _ in range(runs)]
    push = rng.choice([-1.0, 1.0], runs) * rng.uniform(0.04, 0.1, runs)
    noise = 0.5 * 0.35 * np.abs(push) * np.exp(rng.standard_normal(runs))
    wanted = point.reward * (1.0 - point.reward) / (noise**2 * GROUP_SIZE * WINDOW)
    prompts = np.array([min(PROMPTS, key=lambda b: abs(np.log(b / w))) for w in wanted])
    found: list[dict[str, Any]] = []
    for size in PROMPTS:
        own = np.flatnonzero(prompts == size)
        if not len(own):
            continue
        listing = relisted(case, n_steps=STEPS, update="sampled", group_size=GROUP_SIZE, prompts_per_step=size)
        reference = balancing_reference(listing, point.numbers, point.parameters)
        numbers: dict[str, Any] = {k: np.array([drawn[i][k] for i in own]) for k in drawn[0]}
        start = point.parameters + push[own, None] * way
        path = run(case, listing, start, own, every=STEPS, reference=reference, **numbers)
        for i, reward in zip(own, path.reward, strict=True):
            settings = drawn[i]
            log = as_run(
                f"run {i}",
                reward,
                settings["learning_rate"],
                WINDOW,
                momentum=settings["momentum"],
                momentum_convention="heavy_ball",
                refresh_interval=settings["refresh_interval"],
                group_size=GROUP_SIZE,
                prompts_per_step=size,
            )
            seen = seen_curvature(spectrum, settings["learning_rate"], settings["momentum"])
            row = compared(fit(log, "reduction", seed=int(i)), settings, point.reward, (curvature, seen), share)
            found.append({"run": int(i), "push": float(push[i]), **row})
            if len(found) % 8 == 0:
                say(f"e: {kind}, {len(found)} of {runs} fitted")
        if quick:
            break
    out = covered(found) | {"curvature": curvature, "way": float(np.linalg.norm(way))}
    print(f"{case.name}, pushed along {kind}: { ({k: v for k, v in out.items() if k != 'fits'}) }", flush=True)
    return out


def compared(
    result: Fit, settings: dict[str, float], fixed_point: float, curvatures: tuple[float, float], share: float
) -> dict[str, Any]:
    """A fit beside the truth: medians, whether 90% intervals hold it, errors in posterior standard deviations.

    Args:
        result: The fit.
        settings: Of the run.
        fixed_point: The reward there.
        curvatures: Of the reward's slope at the start, and of its whole course (`seen_curvature`).
        share: Share of the answer that is late under importance ratios.
    """
    exposure = settings["lag_exposure"] + (1.0 - settings["lag_exposure"]) * share
    lag = mean_lag(settings["refresh_interval"], "hold") * exposure
    row: dict[str, Any] = {"converged": bool(result.convergence.passed), "exposure": float(exposure)}
    for ending, curvature in zip(("", "_seen"), curvatures, strict=True):
        m, c, k = oscillator_coefficients(settings["learning_rate"], curvature, settings["momentum"], lag)
        true = {"curvature": curvature, "damping": c, "damping_ratio": c / (2.0 * np.sqrt(m * k))}
        for name, value in (true if ending else true | {"fixed_point": fixed_point}).items():
            low, high, middle = (getattr(interval(result.draws(name)), x) for x in ("low", "high", "median"))
            sd = float(np.std(result.draws(name)))
            if sd > 1e-9 * abs(middle):  # what is known without the log is not recovered from it
                row[name + ending] = {
                    "truth": float(value),
                    "median": middle,
                    "covered": bool(low <= value <= high),
                    "error_in_sd": (middle - float(value)) / sd,
                }
    return row


def covered(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverage, errors and their size in posterior standard deviations over fits."""
    out: dict[str, Any] = {
        "runs": len(found),
        "fits": [_short(f) for f in found],
        "converged": sum(f["converged"] for f in found),
    }
    for name in (*QUANTITIES, *(f"{x}_seen" for x in QUANTITIES[:-1])):
        own = [f[name] for f in found if name in f]
        if own:
            z = [x["error_in_sd"] for x in own]
            out[f"{name}_runs"], out[f"{name}_coverage"] = len(own), float(np.mean([x["covered"] for x in own]))
            out[f"{name}_median_error"] = float(np.median([x["median"] / x["truth"] - 1.0 for x in own]))
            out[f"{name}_mean_z"], out[f"{name}_sd_z"] = float(np.mean(z)), float(np.std(z))
    for place, sign in (("above", 1.0), ("below", -1.0)):
        own = [f["curvature"] for f in found if f["push"] * sign > 0]
        out[f"curvature_median_error_{place}"] = float(
            np.median([x["median"] / x["truth"] - 1.0 for x in own] or [0.0])
        )
    lagging = [f for f in found if "damping" in f]
    for place, inside in (("inside", True), ("outside", False)):
        own = [f["damping"]["covered"] for f in lagging if (0.0 <= f["exposure"] <= 1.0) == inside]
        out[f"damping_{place}_runs"], out[f"damping_{place}_covered"] = len(own), sum(own)
    return out


def _short(x: Any) -> Any:
    """A fit for the stored result: five digits, and what is only counted left out."""
    if isinstance(x, dict):
        return {k: _short(v) for k, v in x.items() if not k.endswith("_seen")}
    return float(f"{x:.5g}") if isinstance(x, float) else x


def reasons(found: dict[str, Any]) -> dict[str, str]:
    """Why intervals miss more than one truth in ten."""
    f, m = found["gradient"], found["mode"]
    return {
        "curvature": (
            "The reward is carried by many modes: it decays ever more slowly, and its slope at the first step, which "
            f"gives K, is above that of its course. K was held by {f['curvature_coverage']:.0%}; the K of the one "
            f"mode most like the course by {f['curvature_seen_coverage']:.0%}, its damping ratio by "
            f"{f['damping_ratio_seen_coverage']:.0%} instead of {f['damping_ratio_coverage']:.0%}."
        ),
        "damping": (
            "Under importance ratios the network's lag can be less than none, where the law's exposure ends at 0: "
            f"held in {f['damping_outside_covered']} of {f['damping_outside_runs']} runs there, in "
            f"{f['damping_inside_covered']} of {f['damping_inside_runs']} elsewhere."
        ),
        "mode": (
            f"Pushed along one mode the policy goes {m['way'] / f['way']:.0f} times as far for the same reward, where "
            "the drift is no longer linear: from above the fixed point K is off by "
            f"{m['curvature_median_error_above']:+.0%}, from below by {m['curvature_median_error_below']:+.0%}; it was "
            f"held by {m['curvature_coverage']:.0%}."
        ),
    }


def section_e(cases: Sequence[Case], quick: bool) -> dict[str, Any]:
    """Recovery of curvature, damping, damping ratio and fixed point by 90% intervals."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    runs = 1 if quick else FITS
    found = {kind: recovered(cases[-1], kind, runs, quick) for kind in ("gradient", "mode")}
    return found if quick else found | {"reasons": reasons(found)}
