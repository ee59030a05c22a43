"""What is true of a simulated run: its fixed point, its curvature and how it failed, if it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.dynamics.reduction import effective_learning_rate
from bayes_grpo.dynamics.thresholds import spectral_radius
from bayes_grpo.simulate.fixed_points import find_fixed_point
from bayes_grpo.simulate.policies import Environment, PromptSet
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import Trajectory

FailureMode = Literal["reward_hacking", "advantage_degeneracy", "policy_concentration", "dynamical_instability"]


@dataclass(frozen=True)
class Truth(Result):
    """Truth record of a run; None where there is none.

    Attributes:
        fixed_point: Mean training reward at the fixed point.
        curvature: See `FixedPoint`.
        curvature_spectrum: See `FixedPoint`.
        reward_share: See `FixedPoint`.
        gain: Peak g = η K, with the momentum convention's factor.
        growth_per_step: Spectral radius of the linearised run at peak learning rate; above 1 is unstable.
        failure_mode: How the run failed, judged from true quantities, or None.
        final_reward: Exact mean training reward at the end.
        final_gold_reward: Exact mean gold reward at the end.
        best_gold_reward: Highest exact gold reward on the way.
    """

    fixed_point: float | None
    curvature: float | None
    curvature_spectrum: tuple[float, ...]
    reward_share: float | None
    gain: float | None
    growth_per_step: float | None
    failure_mode: FailureMode | None
    final_reward: float
    final_gold_reward: float
    best_gold_reward: float


def truth_of(trajectory: Trajectory, structure: Structure, numbers: Numbers, environment: Environment) -> Truth:
    """The truth record of one run (no leading axis, scalar settings)."""
    last = np.asarray(trajectory.parameters, dtype=np.float64)[-max(structure.n_steps // 4, 1) :].mean(axis=0)
    scale = None
    if structure.optimizer == "adam":  # its updates have the scale 1/(√v̂ + ε)
        unbiased = trajectory.final_second_moment / (1.0 - float(numbers.adam_beta2) ** structure.n_steps)
        scale = 1.0 / (np.sqrt(np.asarray(unbiased, dtype=np.float64)) + float(numbers.adam_epsilon))
    # A run that was thrown to certainty says nothing about where it was going: then the start does.
    point = find_fixed_point(structure, numbers, environment, last, scale) or find_fixed_point(
        structure, numbers, environment, None, scale
    )
    gain = growth = None
    if point is not None:
        mu, exposure = float(numbers.momentum), float(numbers.lag_exposure)
        rate = effective_learning_rate(float(numbers.learning_rate), mu, structure.momentum_convention)
        gain = rate * point.curvature
        growth = spectral_radius(gain, mu, int(numbers.refresh_interval), structure.refresh, exposure)
    gold = np.asarray(trajectory.gold_reward)
    return Truth(
        fixed_point=point and point.reward,
        curvature=point and point.curvature,
        curvature_spectrum=() if point is None else point.spectrum,
        reward_share=point and point.reward_share,
        gain=gain,
        growth_per_step=growth,
        failure_mode=failure_mode(trajectory, environment.train),
        final_reward=float(trajectory.true_reward[-1]),
        final_gold_reward=float(gold[-1]),
        best_gold_reward=float(gold.max()),
    )


def failure_mode(trajectory: Trajectory, prompts: PromptSet) -> FailureMode | None:
    """Judges a run from what only a simulator knows: exact rewards and the best reachable one.

    * dynamical instability: in the last third the true reward still swings by more than 0.2, there and back;
    * reward hacking: the gold reward ends more than 0.1 below its best, the training reward above its value
      there;
    * policy concentration: entropy below a tenth of its start, true reward more than 0.1 below the best
      arm's;
    * advantage degeneracy: over the first quarter more than 70% of the groups have no spread, and the true
      reward gains less than 0.1 in all.

    The first that applies, in this order, or None.
    """
    reward = np.asarray(trajectory.true_reward, dtype=np.float64)
    gold = np.asarray(trajectory.gold_reward, dtype=np.float64)
    late = reward[-max(len(reward) // 3, 1) :]
    # Only clear excursions count, a quarter of the range to either side, so that jitter on a slope does not.
    away = late - 0.5 * (late.max() + late.min())
    side = np.sign(away[np.abs(away) > 0.25 * np.ptp(late)])
    if np.ptp(late) > 0.2 and np.count_nonzero(np.diff(side)) >= 2:
        return "dynamical_instability"
    peak = int(np.argmax(gold))
    if gold[-1] < gold[peak] - 0.1 and reward[-1] > reward[peak]:
        return "reward_hacking"
    best = float(np.asarray(prompts.reward_probability).max(axis=-1).mean())
    if trajectory.entropy[-1] < 0.1 * trajectory.entropy[0] and reward[-1] < best - 0.1:
        return "policy_concentration"
    early = trajectory.frac_reward_zero_std[: max(len(reward) // 4, 1)]
    degenerate = float(np.mean(early)) > 0.7 and reward[-1] - reward[0] < 0.1
    return "advantage_degeneracy" if degenerate else None
