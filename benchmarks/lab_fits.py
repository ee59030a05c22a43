"""Fits and comparisons of a network's logs: slow starts, recovery by `fit` (`lab_dynamics` d and e)."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo import Provenance, Run, Setting, Settings, compare, fit, summarize
from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.dynamics.reduction import critical_gain, mean_lag, onset_of_oscillation
from bayes_grpo.simulate.deep.curvature import balancing_reference, leading_modes
from bayes_grpo.simulate.deep.enumerated_training import policy
from bayes_grpo.simulate.deep.enumeration import all_logits
from benchmarks.common import say
from benchmarks.lab_cases import Case, relisted, run

LAWS = ("exponential", "oscillator", "bernoulli", "logistic", "sigmoid", "flat")
GROUP_SIZE, WINDOW, STEPS = 8, 12, 1536
PROMPTS = (4, 32, 256)
START_LOOK = 2
"""Look of the supervised training at which slow starts begin: one completion in seven is right."""
QUANTITIES = ("curvature", "damping", "fixed_point")


def as_run(name: str, reward: np.ndarray, rate: float, window: int, **settings: Any) -> Run:
    """A log of window means of the reward, with settings that the user states."""
    rows = reward[: len(reward) // window * window].reshape(-1, window).mean(axis=1)
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
        signals={"learning_rate": np.full(len(rows), float(rate))},
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
    share = late_share(case, way)
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
            result = fit(log, "reduction", seed=int(i))
            gain, exposure = settings["learning_rate"] * curvature, settings["lag_exposure"]
            lag = mean_lag(settings["refresh_interval"], "hold") * (exposure + (1.0 - exposure) * share)
            true = {
                "curvature": curvature,
                "damping": 1.0 - settings["momentum"] - gain * lag,
                "fixed_point": point.reward,
            }
            rows = {row.name: row.posterior for row in summarize(result).rows}
            row: dict[str, Any] = {"run": int(i), "converged": bool(result.convergence.passed)}
            for name in QUANTITIES:
                low, high, middle = (float(getattr(rows[name], x)) for x in ("low", "high", "median"))
                sd = float(np.std(result.draws(name)))
                if sd <= 1e-9 * abs(middle):  # without lag the damping is known, and nothing is there to recover
                    continue
                row[name] = {"truth": true[name], "median": middle, "covered": bool(low <= true[name] <= high)}
                row[name]["error_in_sd"] = (middle - true[name]) / sd
            found.append(row)
        say(f"e: {kind}, {len(found)} of {runs} fitted")
        if quick:
            break
    out: dict[str, Any] = {"runs": len(found), "fits": found, "converged": int(sum(f["converged"] for f in found))}
    out |= {"curvature": curvature}
    for name in QUANTITIES:
        own = [f[name] for f in found if name in f]
        if not own:
            continue
        error = [x["median"] / x["truth"] - 1.0 for x in own]
        z = [x["error_in_sd"] for x in own]
        out[f"{name}_runs"], out[f"{name}_coverage"] = len(own), float(np.mean([x["covered"] for x in own]))
        out[f"{name}_median_error"] = float(np.median(error))
        out[f"{name}_mean_z"], out[f"{name}_sd_z"] = float(np.mean(z)), float(np.std(z))
    print(
        f"{case.name}, pushed along {kind}: { ({k: round(v, 3) for k, v in out.items() if k != 'fits'}) }", flush=True
    )
    return out


def section_e(cases: list[Case], quick: bool) -> dict[str, Any]:
    """Recovery of curvature, damping and fixed point by 90% intervals."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    return {kind: recovered(cases[-1], kind, 1 if quick else 64, quick) for kind in ("mode", "gradient")}


def section_d(cases: list[Case], quick: bool) -> dict[str, Any]:
    """Slow starts: which law is favoured on runs from a low success rate."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    case, steps = cases[0], 32 if quick else 320
    theta = case.ladder[START_LOOK]
    logits = all_logits(policy(case.listing, jnp.asarray(theta)), case.listing)
    reference = tuple(np.asarray(x, float) for x in jax.device_get(logits))
    out: dict[str, Any] = {}
    for mu in (0.0, 0.9):
        free = relisted(case, n_steps=steps)
        # The rate at which a noise-free run is half way up after a third of the steps.
        rates = np.geomspace(1e-3, 0.05, 12) * (1.0 - mu)
        trial = run(
            case, free, theta, np.zeros(12, int), reference=reference, learning_rate=rates, momentum=mu, kl_weight=0.01
        )
        half = np.array([np.argmax(x > 0.5) if (x > 0.5).any() else steps for x in trial.latent])
        rate = float(rates[np.argmin(np.abs(half - steps / 3))])
        listing = relisted(case, n_steps=steps, update="sampled", group_size=8, prompts_per_step=16)
        runs = 1 if quick else 4
        path = run(
            case,
            listing,
            theta,
            np.arange(runs),
            reference=reference,
            learning_rate=np.full(runs, rate),
            momentum=mu,
            kl_weight=0.01,
        )
        rows = []
        for i, reward in enumerate(path.reward):
            log = as_run(
                f"slow {i}", reward, rate, 4, momentum=mu, momentum_convention="heavy_ball", refresh_interval=1
            )
            found = compare(log, LAWS[:1] if quick else LAWS, lfo=False, seed=i)
            rows.append(
                {
                    "best": found.best,
                    "weights": {x.regime: x.weight for x in found.lines},
                    "difference": {x.regime: x.difference for x in found.lines},
                    "verdicts": {x.regime: x.verdict for x in found.lines},
                    "oscillatory": dict(found.damping.get("oscillator", {})),
                }
            )
            say(f"d: mu {mu:g}, run {i}: {found.best}")
        best = [r["best"] for r in rows]
        inertia = mean = None
        if not quick:
            inertia = float(np.mean([r["verdicts"]["oscillator"] == "best" for r in rows]))
            mean = {law: float(np.mean([r["weights"].get(law, 0.0) for r in rows])) for law in LAWS}
        out[f"momentum {mu:g}"] = {
            "rate": rate,
            "half_way": int(half[np.argmin(np.abs(half - steps / 3))]),
            "inertial_time": (1.0 + mu) / 2.0 / (1.0 - mu),
            "first_reward": float(path.latent[:, 0].mean()),
            "last_reward": float(path.latent[:, -1].mean()),
            "best": {law: best.count(law) for law in set(best)},
            "mean_weight": mean,
            "oscillator_best": inertia,
            "runs": rows,
        }
        print({k: v for k, v in out[f"momentum {mu:g}"].items() if k != "runs"}, flush=True)
    return out
