"""Settings of simulated runs with known failures, drawn by families far wider than the named scenarios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from bayes_grpo.dynamics.reduction import critical_gain, onset_of_oscillation
from bayes_grpo.simulate.policies import Environment, bernoulli_bandit, contextual_bandit, softmax_bandit
from bayes_grpo.simulate.scenarios import lagged_numbers
from bayes_grpo.simulate.settings import Numbers, Structure

STEPS = 300
GROUPS = ((2, 8), (4, 2), (8, 1), (8, 16), (16, 8))  # few, because each compiles its own program


class SimulatedDraw(NamedTuple):
    """Settings of a run before it is simulated."""

    structure: Structure
    numbers: Numbers
    environment: Environment


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _structure(rng: np.random.Generator, **fields: Any) -> Structure:
    size, prompts = GROUPS[rng.integers(len(GROUPS))]
    usual: dict[str, Any] = {"n_steps": STEPS, "group_size": size, "prompts_per_step": prompts, "eval_every": 10}
    return Structure(**usual | fields)


def _climb(rng: np.random.Generator) -> SimulatedDraw:
    """Contextual policy over a wide range of difficulty, rate and penalty."""
    adam = rng.random() < 0.5
    structure = _structure(rng, optimizer="adam" if adam else "ema", schedule="linear" if adam else "constant")
    numbers = Numbers(
        learning_rate=log_uniform(rng, 0.002, 0.05) if adam else log_uniform(rng, 0.03, 0.6),
        momentum=0.9,
        kl_weight=log_uniform(rng, 0.005, 0.5),
        warmup_steps=int(rng.integers(0, 31)),
    )
    environment = contextual_bandit(
        rng,
        difficulty_mean=rng.uniform(-0.5, 3.0),
        difficulty_sd=rng.uniform(0.8, 2.6),
        memory_scale=rng.uniform(0.05, 0.3),
        true_positive_rate=rng.uniform(0.8, 1.0),
    )
    return SimulatedDraw(structure, numbers, environment)


def _late(rng: np.random.Generator) -> SimulatedDraw:
    """Bandit that takes off late, where p(1 - p) leaves little to learn from."""
    structure = Structure(n_steps=STEPS, group_size=8, prompts_per_step=16, advantage="mean", optimizer="ema",
                          eval_every=10)  # fmt: skip
    start, fixed = rng.uniform(-4.0, -2.5), rng.uniform(0.5, 3.0)
    numbers = Numbers(
        learning_rate=(1.0 + np.exp(-start)) / rng.uniform(40.0, 250.0),
        momentum=0.9,
        kl_weight=(1.0 - 1.0 / 8.0) / (fixed - start),
    )
    return SimulatedDraw(structure, numbers, bernoulli_bandit(start, start))


def _flat(rng: np.random.Generator) -> SimulatedDraw:
    """Bandit at its fixed point."""
    structure = _structure(rng, advantage="mean")
    reward = rng.uniform(0.05, 0.95)
    logit, weight = float(np.log(reward / (1.0 - reward))), rng.uniform(0.2, 1.0)
    reference = logit - (1.0 - 1.0 / structure.group_size) / weight
    numbers = Numbers(learning_rate=log_uniform(rng, 0.001, 0.1), momentum=rng.uniform(0.0, 0.9), kl_weight=weight)
    return SimulatedDraw(structure, numbers, bernoulli_bandit(logit, reference))


def _barely(rng: np.random.Generator) -> SimulatedDraw:
    """Contextual policy with far too small a rate."""
    draw = _climb(rng)
    return draw._replace(numbers=draw.numbers._replace(learning_rate=draw.numbers.learning_rate * 0.04))


def _settled(rng: np.random.Generator) -> SimulatedDraw:
    """Contextual policy held near its start by a strong penalty."""
    draw = _climb(rng)
    return draw._replace(numbers=draw.numbers._replace(kl_weight=rng.uniform(2.0, 8.0)))


def _ringing(rng: np.random.Generator) -> SimulatedDraw:
    """Underdamped yet stable bandit: healthy once it has rung out."""
    mu, interval = rng.uniform(0.85, 0.95), int(rng.choice([1, 2, 4]))
    onset = float(onset_of_oscillation(mu))
    highest = min(30.0, 0.5 * critical_gain(mu, interval, "hold") / onset)
    gain = onset * rng.uniform(min(3.0, 0.8 * highest), highest)
    return _lagged(rng, mu, interval, "hold", gain)


def _hacked(rng: np.random.Generator) -> SimulatedDraw:
    """An exploit that is found on the way: the gold reward rises, then turns over."""
    structure = _structure(rng, optimizer="adam")
    numbers = Numbers(learning_rate=log_uniform(rng, 0.008, 0.05), momentum=0.9, kl_weight=log_uniform(rng, 0.01, 0.08))
    environment = contextual_bandit(
        rng,
        difficulty_mean=rng.uniform(0.5, 2.5),
        difficulty_sd=rng.uniform(1.5, 3.5),
        true_positive_rate=rng.uniform(0.55, 0.85),
        exploit_logit=rng.uniform(-4.0, -2.0),
        exploit_strength=rng.uniform(1.5, 3.5),
        exploit_reward=rng.uniform(0.85, 1.0),
    )
    return SimulatedDraw(structure, numbers, environment)


def _hollow(rng: np.random.Generator) -> SimulatedDraw:
    """An exploit on tasks that the policy cannot solve: the gold reward stays on the floor."""
    structure = _structure(rng, optimizer="adam")
    numbers = Numbers(learning_rate=log_uniform(rng, 0.004, 0.04), momentum=0.9, kl_weight=log_uniform(rng, 0.005, 0.1))
    environment = contextual_bandit(
        rng,
        difficulty_mean=rng.uniform(4.0, 8.0),
        difficulty_sd=rng.uniform(0.5, 1.5),
        exploit_logit=rng.uniform(-2.5, 0.5),
        exploit_strength=rng.uniform(0.8, 2.5),
        exploit_reward=rng.uniform(0.5, 1.0),
    )
    return SimulatedDraw(structure, numbers, environment)


def _degenerate(rng: np.random.Generator) -> SimulatedDraw:
    """Prompts too hard, too easy, or groups too small for a mixture of both."""
    cause = str(rng.choice(["too_hard", "too_hard", "too_easy", "too_small"]))
    fields = {"group_size": 2, "prompts_per_step": 8} if cause == "too_small" else {}
    structure = _structure(rng, **fields)
    lead = rng.uniform(2.0, 8.0)
    mean, sd = {"too_hard": (lead, rng.uniform(0.3, 3.0)), "too_easy": (-lead - 0.5, rng.uniform(0.3, 3.0)),
                "too_small": (rng.uniform(-2.0, 2.0), lead + 1.0)}[cause]  # fmt: skip
    numbers = Numbers(learning_rate=log_uniform(rng, 0.003, 0.05), momentum=0.5, kl_weight=rng.uniform(0.02, 0.2))
    return SimulatedDraw(structure, numbers, contextual_bandit(rng, difficulty_mean=mean, difficulty_sd=sd))


def _concentrated(rng: np.random.Generator) -> SimulatedDraw:
    """A good arm takes all before the best is seen."""
    structure = Structure(n_steps=STEPS, group_size=int(rng.choice([4, 8])), prompts_per_step=4, eval_every=10)
    arms = 10
    reward, logits = rng.uniform(0.02, 0.2, arms), rng.normal(0.0, 0.3, arms)
    reward[0], logits[0] = rng.uniform(0.85, 1.0), rng.uniform(-6.0, -3.5)
    reward[1], logits[1] = rng.uniform(0.15, 0.65), rng.uniform(0.0, 1.5)
    numbers = Numbers(learning_rate=log_uniform(rng, 0.05, 0.6), momentum=rng.uniform(0.3, 0.8))
    return SimulatedDraw(structure, numbers, softmax_bandit(reward, logits))


def _poor(rng: np.random.Generator) -> SimulatedDraw:
    """Poor arms only, but for one that is hardly ever tried, and a large step: chance picks what to lock in."""
    structure = Structure(n_steps=STEPS, group_size=8, prompts_per_step=4, eval_every=10)
    arms = 10
    reward, logits = rng.uniform(0.0, 0.12, arms), rng.normal(0.0, 0.4, arms)
    reward[0], logits[0] = rng.uniform(0.8, 1.0), rng.uniform(-8.0, -5.0)
    numbers = Numbers(learning_rate=log_uniform(rng, 0.2, 1.5), momentum=rng.uniform(0.3, 0.9))
    return SimulatedDraw(structure, numbers, softmax_bandit(reward, logits))


def _unstable(rng: np.random.Generator) -> SimulatedDraw:
    """Bandit above the exact threshold of its lag model; cut early, it shows one rise and one fall."""
    model: Literal["hold", "delay"] = "hold" if rng.random() < 0.7 else "delay"
    mu = rng.uniform(0.3, 0.95)
    interval = int(rng.choice([4, 8, 16, 32])) if model == "hold" else 8
    # Far above it the policy is thrown to certainty, where nothing moves: a collapse.
    excess = log_uniform(rng, 2.5, 12.0) if rng.random() < 0.4 else rng.uniform(1.05, 2.5)
    return _lagged(rng, mu, interval, model, critical_gain(mu, interval, model) * excess)


def _lagged(
    rng: np.random.Generator, momentum: float, interval: int, model: Literal["hold", "delay"], gain: float
) -> SimulatedDraw:
    structure = Structure(n_steps=STEPS, group_size=8, prompts_per_step=16, advantage="mean", refresh=model,
                          eval_every=10)  # fmt: skip
    logit, distance = rng.uniform(-0.3, 1.2), rng.uniform(1.2, 2.2)
    weight = (1.0 - 1.0 / 8.0) / distance
    numbers = lagged_numbers(logit, weight, gain, momentum, interval)
    return SimulatedDraw(structure, numbers, bernoulli_bandit(logit - distance, logit - distance))


SIMULATED_FAMILIES: dict[str, Callable[[np.random.Generator], SimulatedDraw]] = {
    "climb": _climb,
    "late": _late,
    "flat": _flat,
    "barely": _barely,
    "settled": _settled,
    "ringing": _ringing,
    "hacked": _hacked,
    "hollow": _hollow,
    "degenerate": _degenerate,
    "concentrated": _concentrated,
    "poor": _poor,
    "unstable": _unstable,
}
"""Family → draws the settings of one run."""

SIMULATED_SHARES = {
    "climb": 5,
    "late": 1,
    "flat": 2,
    "barely": 2,
    "settled": 1,
    "ringing": 1,
    "hacked": 3,
    "hollow": 2,
    "degenerate": 2,
    "concentrated": 3,
    "poor": 2,
    "unstable": 5,
}  # fmt: skip
"""Family → how many of its runs stand beside one of the rarest."""
