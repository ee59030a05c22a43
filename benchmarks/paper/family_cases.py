"""Families of runs whose exponents are known: drawn from the law itself, or simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.simulate.policies import bernoulli_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import simulate

LENGTHS = (60, 100, 200)
VALUES = {
    "group_size": (2, 4, 8, 16, 32, 64),
    "learning_rate": (5e-7, 1e-6, 2e-6, 4e-6),
    "refresh_interval": (1, 2, 4, 8),
    "model_size": (0.5, 1.5, 4, 8, 14),
}
MIDDLE = {"group_size": 11.0, "learning_rate": 1.4e-6, "refresh_interval": 2.8, "model_size": 3.0}
PLANS = (
    ("group_size",),
    ("group_size", "learning_rate"),
    ("learning_rate", "refresh_interval"),
    ("model_size", "learning_rate"),
)


@dataclass(frozen=True, eq=False)
class Case:
    """A family with its truth.

    Attributes:
        runs: The runs, with their settings.
        vary: Varied settings.
        exponents: "quantity setting" → true exponent.
    """

    runs: list[Run]
    vary: tuple[str, ...]
    exponents: dict[str, float]


def case_of(number: int, seed: int = 0) -> Case:
    """A family of 4 to 12 runs; families of even number have no effect of the group size on rate and plateau."""
    rng = np.random.default_rng([seed, number])
    vary, n, length = PLANS[number // 2 % len(PLANS)], int(rng.integers(4, 13)), int(rng.choice(LENGTHS))
    still = number % 2 == 0
    true = _exponents(vary, rng, still)
    settings = _settings(vary, n, rng)
    x = {name: np.log(settings[name] / MIDDLE[name]) for name in vary}

    def moved(quantity: str) -> np.ndarray:
        return sum((true[f"{quantity} {name}"] * x[name] for name in vary), np.zeros(n))

    def apart(scale: float) -> np.ndarray:
        return abs(scale * rng.standard_normal()) * rng.standard_normal(n)

    time = length / 6.0 * np.exp(0.4 * rng.standard_normal() - moved("rate") + apart(0.4))
    fluctuation = 0.04 * np.exp(0.4 * rng.standard_normal() + 0.5 * moved("fluctuation_variance") + apart(0.3))
    noise = 0.05 * np.exp(0.4 * rng.standard_normal() + 0.5 * moved("observation_variance") + apart(0.3))
    plateau = rng.uniform(0.45, 0.7) * np.exp(moved("plateau")) + apart(0.06)
    start = rng.uniform(0.1, 0.3) * np.exp(moved("initial_reward")) + apart(0.06)
    runs = [
        draw_run(f"run{i}", length, (time[i], noise[i], fluctuation[i], plateau[i], start[i]), rng) for i in range(n)
    ]
    runs = [stated(run, **{name: float(settings[name][i]) for name in vary}) for i, run in enumerate(runs)]
    return Case(runs, vary, true)


def stated(run: Run, **settings: float) -> Run:
    """A run with settings that its log lacks."""
    return run.with_settings({name: Setting(x, Provenance.USER) for name, x in settings.items()})


def simulated_case(number: int, seed: int = 0) -> Case:
    """A family of real GRPO updates on a bandit with a KL penalty, group size and learning rate varied.

    The truth is measured on the exact mean update of every setting, without noise: the rate is one over the steps to
    1 − 1/e of the way, the plateau where it ends; exponents are least-squares slopes of their logarithms over the runs.
    """
    rng = np.random.default_rng([seed, 3, number])
    advantage = ("mean", "std")[number % 2]
    n, length = int(rng.integers(6, 13)), 200
    sizes = rng.choice([4, 8, 16, 32], size=int(rng.integers(2, 5)), replace=False)
    rates = float(np.exp(rng.uniform(-2.2, -1.4))) * np.array([0.5, 1.0, 2.0])[: int(rng.integers(2, 4))]
    size = np.concatenate([sizes, rng.choice(sizes, n - len(sizes))])
    rate = rng.permutation(np.concatenate([rates, rng.choice(rates, n - len(rates))]))
    start = rng.uniform(-2.0, -1.0)
    environment = bernoulli_bandit(start, start + 0.3, true_positive_rate=0.9, false_positive_rate=0.1)
    weight = rng.uniform(0.12, 0.2) if advantage == "mean" else rng.uniform(0.6, 1.0)
    runs, true_rate, plateau = [], np.zeros(n), np.zeros(n)
    for g in sorted(set(size.tolist())):
        who = np.flatnonzero(size == g)
        numbers = Numbers(learning_rate=rate[who], momentum=0.5, kl_weight=weight)
        shape = {"group_size": int(g), "prompts_per_step": 4, "advantage": advantage}
        exact = simulate(Structure(n_steps=1600, update="expected", **shape), numbers, environment, who)
        drawn = simulate(Structure(n_steps=length, **shape), numbers, environment, 100 * number + who)
        for k, i in enumerate(who):
            path = np.asarray(exact.true_reward[k], float)
            way = (path - path[0]) / (path[-1] - path[0])
            true_rate[i] = 1.0 / np.interp(1.0 - np.exp(-1.0), way[: np.argmax(way)], np.arange(np.argmax(way)))
            plateau[i] = path[-1]
            log = run_of(f"run{i}", np.arange(1.0, length + 1.0), np.asarray(drawn.reward[k], float))
            runs.append((i, stated(log, group_size=float(g), learning_rate=float(rate[i]))))
    x = np.stack([np.ones(n), np.log(size), np.log(rate)], axis=1)
    slopes = {q: np.linalg.lstsq(x, np.log(v), rcond=None)[0] for q, v in (("rate", true_rate), ("plateau", plateau))}
    names = ("group_size", "learning_rate")
    true = {f"{q} {name}": float(slopes[q][1 + j]) for q in slopes for j, name in enumerate(names)}
    return Case([run for _, run in sorted(runs, key=lambda x: x[0])], names, true)


def twelve_runs() -> Case:
    """Twelve runs of 200 rows: four group sizes by three learning rates, exponents as theory has them."""
    rng = np.random.default_rng(5)
    sizes, rates = np.tile([4.0, 8.0, 16.0, 32.0], 3), np.repeat([1e-6, 2e-6, 4e-6], 4)
    time = 40.0 * (2e-6 / rates) * np.exp(0.1 * rng.standard_normal(12))
    noise, fluctuation = 0.05 * (sizes / 11.0) ** -0.35, 0.04 * (sizes / 11.0) ** -0.5 * (rates / 2e-6) ** 0.5
    plateau, start = 0.7 + 0.02 * rng.standard_normal(12), 0.2 + 0.02 * rng.standard_normal(12)
    runs = [draw_run(f"run{i}", 200, (time[i], noise[i], fluctuation[i], plateau[i], start[i]), rng) for i in range(12)]
    runs = [stated(run, group_size=sizes[i], learning_rate=rates[i]) for i, run in enumerate(runs)]
    return Case(runs, ("group_size", "learning_rate"), {})


def draw_run(name: str, length: int, numbers: tuple[float, ...], rng: np.random.Generator) -> Run:
    """A run of the exponential law; numbers are time, measurement noise, fluctuation, plateau and start."""
    blank = run_of(name, np.arange(1.0, length + 1.0), np.linspace(0.0, 1.0, length))
    law = get_regime("exponential")
    names = ("relaxation_time", "observation_sd", "fluctuation_sd", "fixed_point", "initial_reward")
    with jax.enable_x64(True):
        drawn = law.distribution(dict(zip(names, numbers, strict=True)), padded(rows_of(blank)))
        y = np.asarray(drawn.sample(jax.random.key(int(rng.integers(2**31)))))[:length]
    return run_of(name, blank.step, y)


def run_of(name: str, step: np.ndarray, y: np.ndarray, **settings: Any) -> Run:
    """A run with these rows and settings."""
    return Run(
        name=name,
        source=name,
        format="simulated",
        log_hash=name,
        step=step,
        reward=y,
        window=np.ones(len(step)),
        signals={},
        eval_step=np.zeros(0),
        eval_reward=np.zeros(0),
        settings=Settings(**{k: Setting(v, Provenance.USER) for k, v in settings.items()}),
    )


def _exponents(vary: tuple[str, ...], rng: np.random.Generator, still: bool) -> dict[str, float]:
    """True exponents, about what theory expects."""
    out = {}
    for name in vary:
        rate = {"learning_rate": 1.0, "model_size": -0.3}.get(name, 0.0)
        out[f"rate {name}"] = rate + 0.4 * rng.standard_normal()
        out[f"fluctuation_variance {name}"] = {"group_size": -1.0, "learning_rate": 1.0}.get(name, 0.0)
        out[f"fluctuation_variance {name}"] += 0.4 * rng.standard_normal()
        out[f"observation_variance {name}"] = {"group_size": -0.7}.get(name, 0.0) + 0.3 * rng.standard_normal()
        out[f"plateau {name}"] = float(rng.choice([-0.2, 0.0, 0.1, 0.2]))
        out[f"initial_reward {name}"] = 0.2 * rng.standard_normal() if name == "model_size" else 0.0
    if "group_size" in vary and still:
        out["rate group_size"] = out["plateau group_size"] = 0.0
    elif "group_size" in vary:
        out["plateau group_size"] = float(rng.choice([-0.2, 0.2]))
        out["rate group_size"] = float(rng.choice([-0.2, 0.2]))
    return out


def _settings(vary: tuple[str, ...], n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Settings of each run, at least two values each; some runs share all of theirs."""
    out = {}
    for name in vary:
        few = rng.choice(VALUES[name], size=min(int(rng.integers(2, 5)), len(VALUES[name]), n), replace=False)
        picks = np.concatenate([few, rng.choice(few, n - len(few))])
        out[name] = rng.permutation(picks)
    return out
