"""Truth of a simulated run: its exact rewards, and how it failed, if it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.simulate.policies import PromptSet
from bayes_grpo.simulate.training import Trajectory

FailureMode = Literal["reward_hacking", "advantage_degeneracy", "policy_concentration", "dynamical_instability"]


@dataclass(frozen=True)
class Truth(Result):
    """How a run failed, judged from true quantities, or None; exact mean rewards at the end, and the best gold one."""

    failure_mode: FailureMode | None
    final_reward: float
    final_gold_reward: float
    best_gold_reward: float


def truth_of(trajectory: Trajectory, prompts: PromptSet) -> Truth:
    """The truth record of one run (no leading axis) on its training prompts."""
    gold = np.asarray(trajectory.gold_reward)
    return Truth(
        failure_mode=_failure_mode(trajectory, prompts),
        final_reward=float(trajectory.true_reward[-1]),
        final_gold_reward=float(gold[-1]),
        best_gold_reward=float(gold.max()),
    )


def _failure_mode(trajectory: Trajectory, prompts: PromptSet) -> FailureMode | None:
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
