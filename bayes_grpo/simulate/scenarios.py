"""Scenarios: named families of runs with random settings, each with a known truth.

A run's settings depend on the scenario, the seed and the run's number alone, so the first runs of a larger
set are those of a smaller one. Every scenario states its ranges where it draws them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.reduction import critical_gain, onset_of_oscillation
from bayes_grpo.simulate.policies import Environment, bernoulli_bandit, contextual_bandit, softmax_bandit
from bayes_grpo.simulate.settings import Numbers, RefreshModel, Structure
from bayes_grpo.simulate.trainer_log import settings_of, trainer_state
from bayes_grpo.simulate.training import Trajectory, simulate
from bayes_grpo.simulate.truth import Truth, truth_of

# Group sizes at a constant number of completions a step; few pairs, because each compiles its own program.
_GROUPS = ((4, 32), (8, 16), (16, 8))


class ScenarioDraw(NamedTuple):
    """Settings of one run before it is simulated."""

    structure: Structure
    numbers: Numbers
    environment: Environment


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """One run of a set: its number there, the seed of its sampling, its settings, and what came of them."""

    scenario: str
    index: int
    seed: int
    structure: Structure
    numbers: Numbers
    environment: Environment
    trajectory: Trajectory
    truth: Truth

    @property
    def settings(self) -> dict[str, Any]:
        """The trainer's settings by their canonical names, as a sidecar states them."""
        return settings_of(self.structure, self.numbers)

    def log(self, logging_steps: int | None = None) -> tuple[dict[str, Any], int]:
        """The content of its `trainer_state.json`, and the steps averaged into a row; 1 if None."""
        steps = 1 if logging_steps is None else logging_steps
        n_prompts = self.environment.train.reference_logit.shape[0]
        return trainer_state(self.trajectory, self.structure, n_prompts, steps), steps

    def record(self) -> dict[str, Any]:
        """The simulator's truth, JSON-ready."""
        return {
            "scenario": self.scenario,
            "index": self.index,
            "seed": self.seed,
            **self.truth.to_dict(),
            "structure": dict(vars(self.structure)),
            "numbers": {name: float(value) for name, value in self.numbers._asdict().items()},
            "true_reward": self.trajectory.true_reward.tolist(),
            "gold_reward": self.trajectory.gold_reward.tolist(),
            "eval_step": self.trajectory.eval_step.tolist(),
            "true_eval_reward": self.trajectory.true_eval_reward.tolist(),
        }


def simulate_scenario(name: str, n: int, seed: int) -> list[SimulatedRun]:
    """Simulates runs of a scenario.

    Args:
        name: One of `SCENARIOS`.
        n: Number of runs, at least 1.
        seed: Seed of settings and sampling, at least 0.

    Returns:
        ``n`` runs in order of their number.

    Raises:
        SettingError: Unknown scenario, or a count or seed that is out of range.
    """
    if name not in SCENARIOS:
        raise SettingError(f"expected one of {', '.join(SCENARIOS)}, found {name!r}", parameter="scenario")
    if n < 1 or n != int(n):
        raise SettingError(f"number of runs: expected a whole number of at least 1, found {n!r}")
    if seed < 0 or seed != int(seed):
        raise SettingError(f"expected a whole number of at least 0, found {seed!r}", parameter="seed")
    draws, seeds = [], []
    for index in range(n):
        rng = np.random.default_rng([int(seed), zlib.crc32(name.encode()), index])
        draws.append(SCENARIOS[name](rng))
        seeds.append(int(rng.integers(2**31)))
    runs: dict[int, SimulatedRun] = {}
    for structure in dict.fromkeys(draw.structure for draw in draws):
        members = [index for index, draw in enumerate(draws) if draw.structure == structure]
        numbers = Numbers(*map(np.array, zip(*(draws[i].numbers for i in members), strict=True)))
        environment = jax.tree.map(lambda *leaves: np.stack(leaves), *(draws[i].environment for i in members))
        batch = simulate(structure, numbers, environment, [seeds[i] for i in members])
        for row, index in enumerate(members):
            trajectory = jax.tree.map(lambda leaf, row=row: leaf[row], batch)
            draw = draws[index]
            truth = truth_of(trajectory, draw.environment.train)
            runs[index] = SimulatedRun(
                name, index, seeds[index], structure, draw.numbers, draw.environment, trajectory, truth
            )
    return [runs[index] for index in range(n)]


def _healthy(rng: np.random.Generator) -> ScenarioDraw:
    """Contextual policy, reward 0.15–0.35 growing to an interior fixed point of about 0.7–0.9."""
    group_size, prompts = _GROUPS[rng.integers(3)]
    adam = rng.random() < 0.5
    structure = Structure(
        n_steps=400,
        group_size=group_size,
        prompts_per_step=prompts,
        optimizer="adam" if adam else "ema",
        schedule="linear" if adam else "constant",
        eval_every=20,
    )
    numbers = Numbers(
        learning_rate=rng.uniform(0.012, 0.02) if adam else rng.uniform(0.12, 0.3),
        momentum=0.9,
        kl_weight=rng.uniform(0.35, 0.5),
        warmup_steps=rng.integers(0, 21),
    )
    environment = contextual_bandit(rng, difficulty_mean=rng.uniform(0.2, 0.8), difficulty_sd=rng.uniform(1.8, 2.4))
    return ScenarioDraw(structure, numbers, environment)


def _slow_start(rng: np.random.Generator) -> ScenarioDraw:
    """Bandit that begins at a reward of 0.01–0.05, where p(1 − p) leaves little to learn from."""
    structure = Structure(
        n_steps=400, group_size=8, prompts_per_step=16, advantage="mean", optimizer="ema", eval_every=20
    )
    start = rng.uniform(-4.5, -3.0)
    fixed_point = rng.uniform(1.0, 2.0)
    # While p is small dp/dt = η p², so that the take-off comes 1/(η p₀) steps in, without the KL penalty.
    take_off = rng.uniform(80.0, 130.0)
    numbers = Numbers(
        learning_rate=(1.0 + np.exp(-start)) / take_off,
        momentum=0.9,
        kl_weight=_kl_weight_for(structure, fixed_point - start),
    )
    return ScenarioDraw(structure, numbers, bernoulli_bandit(start, start))


def _oscillatory(rng: np.random.Generator) -> ScenarioDraw:
    """Bandit at 10–40 times the onset of oscillation and at most 0.6 of the exact threshold of the hold."""
    mu = rng.uniform(0.85, 0.95)
    interval = int(rng.choice([1, 2, 4]))
    highest = min(40.0, 0.6 * critical_gain(mu, interval, "hold") / float(onset_of_oscillation(mu)))
    gain = float(onset_of_oscillation(mu)) * rng.uniform(min(10.0, 0.8 * highest), highest)
    return _lagged_bandit(rng, mu, interval, "hold", gain, n_steps=200)


def _unstable(rng: np.random.Generator) -> ScenarioDraw:
    """Bandit at 1.2–1.8 times the exact threshold of its lag model, K_ref of 4 or 8."""
    mu = rng.uniform(0.5, 0.9)
    interval = int(rng.choice([4, 8]))
    model: RefreshModel = "hold" if rng.random() < 0.5 else "delay"
    gain = critical_gain(mu, interval, model) * rng.uniform(1.2, 1.8)
    return _lagged_bandit(rng, mu, interval, model, gain, n_steps=300)


def _reward_hacking(rng: np.random.Generator) -> ScenarioDraw:
    """Contextual policy with an exploit arm that the proxy always rewards and the gold reward never does."""
    group_size, prompts = _GROUPS[rng.integers(3)]
    structure = Structure(n_steps=400, group_size=group_size, prompts_per_step=prompts, optimizer="adam", eval_every=20)
    numbers = Numbers(learning_rate=rng.uniform(0.02, 0.035), momentum=0.9, kl_weight=rng.uniform(0.02, 0.06))
    environment = contextual_bandit(
        rng,
        difficulty_mean=rng.uniform(1.0, 2.0),
        difficulty_sd=rng.uniform(2.5, 3.5),
        true_positive_rate=rng.uniform(0.6, 0.75),
        exploit_logit=rng.uniform(-3.5, -2.5),
        exploit_strength=rng.uniform(2.0, 3.0),
    )
    return ScenarioDraw(structure, numbers, environment)


def _advantage_degeneracy(rng: np.random.Generator) -> ScenarioDraw:
    """Prompts too hard (behind by 6–8 logits), too easy (ahead by 6–8), or groups of 2 on mixed extremes."""
    cause = rng.choice(["too_hard", "too_easy", "too_small"])
    group_size, prompts = (2, 64) if cause == "too_small" else (8, 16)
    structure = Structure(n_steps=300, group_size=group_size, prompts_per_step=prompts, eval_every=20)
    lead = rng.uniform(6.0, 8.0)
    mean, sd = {"too_hard": (lead, 0.5), "too_easy": (-lead, 0.5), "too_small": (1.5, lead)}[str(cause)]
    numbers = Numbers(learning_rate=rng.uniform(0.01, 0.03), momentum=0.5, kl_weight=rng.uniform(0.05, 0.2))
    return ScenarioDraw(structure, numbers, contextual_bandit(rng, difficulty_mean=mean, difficulty_sd=sd))


def _policy_concentration(rng: np.random.Generator) -> ScenarioDraw:
    """Ten arms, no penalty, a large step: a good arm takes all before the best (below 0.5%) is seen."""
    structure = Structure(n_steps=300, group_size=8, prompts_per_step=4, eval_every=20)
    reward = rng.uniform(0.02, 0.2, 10)
    logits = rng.normal(0.0, 0.3, 10)
    reward[0] = rng.uniform(0.9, 1.0)
    logits[0] = rng.uniform(-5.0, -3.5)
    reward[1], logits[1] = rng.uniform(0.5, 0.7), rng.uniform(0.5, 1.0)
    numbers = Numbers(learning_rate=rng.uniform(0.2, 0.5), momentum=0.5)
    return ScenarioDraw(structure, numbers, softmax_bandit(reward, logits))


def _plateau(rng: np.random.Generator) -> ScenarioDraw:
    """Bandit that starts at its fixed point, a reward of 0.3–0.85, and stays."""
    group_size, prompts = _GROUPS[rng.integers(3)]
    structure = Structure(n_steps=300, group_size=group_size, prompts_per_step=prompts, advantage="mean", eval_every=20)
    reward = rng.uniform(0.3, 0.85)
    logit = float(np.log(reward / (1.0 - reward)))
    weight = rng.uniform(0.3, 1.0)
    # The fixed point lies (1 − 1/G)/β above the reference.
    reference = logit - (1.0 - 1.0 / group_size) / weight
    numbers = Numbers(learning_rate=rng.uniform(0.02, 0.1), momentum=0.5, kl_weight=weight)
    return ScenarioDraw(structure, numbers, bernoulli_bandit(logit, reference))


def _lagged_bandit(
    rng: np.random.Generator,
    momentum: float,
    interval: int,
    model: RefreshModel,
    gain: float,
    n_steps: int,
) -> ScenarioDraw:
    """Mean-only bandit of a given gain: fixed point 0.5–0.7, start 1.5–2 logits below, gradients all late."""
    structure = Structure(
        n_steps=n_steps,
        group_size=8,
        prompts_per_step=16,
        advantage="mean",
        refresh=model,
        eval_every=20,
    )
    logit = rng.uniform(0.0, 0.85)
    distance = rng.uniform(1.5, 2.0)
    weight = _kl_weight_for(structure, distance)
    numbers = lagged_numbers(logit, weight, gain, momentum, interval)
    return ScenarioDraw(structure, numbers, bernoulli_bandit(logit - distance, logit - distance))


def lagged_numbers(logit: float, weight: float, gain: float, momentum: float, interval: int) -> Numbers:
    """Numbers of a mean-only bandit whose gradients are all late, at the learning rate that gives it a gain.

    ``logit`` is that of its success rate at its fixed point, where the gain is learning rate times stiffness.
    """
    p = 1.0 / (1.0 + np.exp(-logit))
    return Numbers(
        learning_rate=gain / (weight * p * (1.0 - p)),
        momentum=momentum,
        refresh_interval=interval,
        lag_exposure=1.0,
        kl_weight=weight,
    )


def _kl_weight_for(structure: Structure, distance: float) -> float:
    """KL weight that puts a mean-only bandit's fixed point ``distance`` logits above its reference."""
    return (1.0 - 1.0 / structure.group_size) / distance


SCENARIOS: dict[str, Callable[[np.random.Generator], ScenarioDraw]] = {
    "healthy": _healthy,
    "slow_start": _slow_start,
    "oscillatory": _oscillatory,
    "unstable": _unstable,
    "reward_hacking": _reward_hacking,
    "advantage_degeneracy": _advantage_degeneracy,
    "policy_concentration": _policy_concentration,
    "plateau": _plateau,
}
"""Each scenario draws the settings of one run from a random generator."""
