"""The paths of a run: its rewards, signals and the parts of its reward, each fitted once, on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Setting
from bayes_grpo.logs.signals import SIGNALS, STANDARD
from bayes_grpo.rows.known_noise import expected_noise
from bayes_grpo.rows.reward_range import RewardRange, both_ends
from bayes_grpo.rows.series import ExpectedNoise
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.path import EVALUATION_PRIOR, LEAST_PATH_ROWS, SignalPath, fit_path
from bayes_grpo.signals.thresholds import THRESHOLDS

SIZE_FLOORS: Mapping[str, float] = {"grad_norm": 1e-9, "kl": 1e-5, "loss": 1e-6}
"""Signals that may be below 0 or far below 1 and whose size is fitted in logarithms, with the least that counts."""
LIVE = ("grad_norm",)
"""Signals whose rows of 0 are left out: where no group has variance there is no gradient to measure."""
_SEEDS = tuple(SIGNALS)


@dataclass(frozen=True, eq=False)
class RunPaths:
    """The paths of a run.

    Attributes:
        run: The run.
        reward: Of the train reward, or of the evaluation reward where fewer than two train rewards are logged.
        held_out: Of the gold or evaluation reward of a run that logs train rewards too; None without one.
        held_out_name: "gold" or "evaluation".
        uses_eval: Whether `reward` is the evaluation reward.
        ends: Range of the reward, with both ends or none.
    """

    run: Run
    reward: SignalPath
    held_out: SignalPath | None
    held_out_name: str
    uses_eval: bool
    ends: RewardRange

    @classmethod
    def of(cls, run: Run) -> RunPaths | None:
        """The paths of a run; None where neither reward has two values."""
        evaluation = Logged.of(run.eval_step, run.eval_reward)
        gold = Logged.of(run.step, run.values("gold_reward"))
        uses_eval = np.isfinite(run.reward).sum() < LEAST_PATH_ROWS <= evaluation.rows
        reward = reward_path(run, evaluation=uses_eval)
        if reward is None:
            return None
        ends = both_ends(reward.logged.value, dict(run.settings.items()))
        name, other = "evaluation", evaluation
        if gold.rows > evaluation.rows:
            name, other = "gold", gold
        held_out = None
        if not uses_eval:
            held_out = fit_path(other.step, other.value, seed=2, prior=EVALUATION_PRIOR, robust=False)
        return cls(run, reward, held_out, name, uses_eval, ends)

    @cached_property
    def signals(self) -> dict[str, SignalPath]:
        """Canonical name → path of every signal that has one, in its own unit."""
        found = {name: self._signal(name, values) for name, values in self.run.signals.items()}
        return {name: path for name, path in found.items() if path is not None}

    @cached_property
    def components(self) -> dict[str, SignalPath]:
        """Reward function → path of its mean."""
        return self._parts(self.run.components, 100)

    @cached_property
    def environments(self) -> dict[str, SignalPath]:
        """Environment → path of its mean."""
        return self._parts(self.run.environments, 200)

    @property
    def score(self) -> SignalPath | None:
        """The path that chooses a checkpoint: of the evaluation or gold reward; None where none is logged."""
        return self.reward if self.uses_eval else self.held_out

    @property
    def reward_key(self) -> str:
        """Canonical name of the reward."""
        return "eval_reward" if self.uses_eval else "reward"

    @property
    def held_out_key(self) -> str:
        """Canonical name of the reward that `held_out` is of."""
        return "gold_reward" if self.held_out_name == "gold" else "eval_reward"

    def _signal(self, name: str, values: np.ndarray) -> SignalPath | None:
        seed = 10 + _SEEDS.index(name) if name in _SEEDS else 9
        floor = self._log_floor(name)
        if floor is None:
            return fit_path(self.run.step, values, seed=seed)
        size = np.abs(values)
        if name in LIVE:
            size = np.where((size > 0.0) & ~self._without_variance, size, np.nan)
        return fit_path(self.run.step, np.maximum(size, floor), seed=seed, unit="factor")

    def _log_floor(self, name: str) -> float | None:
        """Smallest size that counts of a signal whose changes are ratios; None where they are differences."""
        if name in SIZE_FLOORS or name not in SIGNALS:
            return SIZE_FLOORS.get(name)
        signal = SIGNALS[name]
        defined = signal.defined(self.run.definitions.get(name, STANDARD))
        return None if defined is not None and defined.negative else signal.log_floor

    @cached_property
    def _without_variance(self) -> np.ndarray:
        """Rows that are known to have no group with variance, shape (rows,)."""
        spread = self.run.values("reward_std")
        share = self.run.values("frac_reward_zero_std")
        return (spread == 0.0) | (share >= 1.0)

    def _parts(self, columns: Mapping[str, np.ndarray], first_seed: int) -> dict[str, SignalPath]:
        counted = may_be_counted(dict(self.run.settings.items()))
        found = {
            name: fit_path(self.run.step, values, seed=first_seed + i, counted=counted)
            for i, (name, values) in enumerate(columns.items())
        }
        return {name: path for name, path in found.items() if path is not None}


def reward_path(run: Run, evaluation: bool) -> SignalPath | None:
    """Path of a run's train or evaluation reward; None with fewer than two values."""
    logged = Logged.of(run.eval_step, run.eval_reward) if evaluation else Logged.of(run.step, run.reward)
    if logged.rows < LEAST_PATH_ROWS:
        return None
    settings = dict(run.settings.items())
    ends = both_ends(logged.value, settings)
    if evaluation:
        return fit_reward(logged, ends, evaluation)
    return fit_reward(logged, ends, noise=expected_noise(run), counted=may_be_counted(settings))


def may_be_counted(settings: Mapping[str, Setting]) -> bool:
    """True if a row may be of so few completions that its successes are counted; their number is mostly unknown."""
    group = settings["group_size"].explicit
    prompts = settings["prompts_per_step"].explicit
    return not (group and prompts) or group * prompts <= THRESHOLDS.counted


def fit_reward(
    logged: Logged,
    ends: RewardRange,
    evaluation: bool = False,
    noise: ExpectedNoise | None = None,
    counted: bool = False,
) -> SignalPath | None:
    """Path of a reward.

    Args:
        logged: Its rows.
        ends: Its range, with both ends or none.
        evaluation: Whether it is an evaluation reward.
        noise: Standard deviation that a row is expected to have, where the log says so.
        counted: Whether its rows may be of few completions, as in `fit_path`; those of an evaluation never are.
    """
    prior = EVALUATION_PRIOR if evaluation else None
    return fit_path(
        logged.step,
        logged.value,
        seed=2 if evaluation else 1,
        prior=prior,
        low=ends.low,
        high=ends.high,
        robust=not evaluation,
        noise=noise,
        counted=counted and not evaluation,
    )


def never_changes(path: SignalPath) -> bool:
    """True if an evaluation reward is the same every time, as of a policy that no update reaches.

    At 0 or 1 it says nothing: none, or all, may be solved by a policy that still moves.
    """
    logged = path.logged
    return logged.constant and logged.rows >= THRESHOLDS.direct_rows and float(logged.value[-1]) not in (0.0, 1.0)


def best_checkpoint(paths: RunPaths) -> float | None:
    """Step of the best evaluation or gold reward, by the posterior mean; None where no score can choose.

    Step 0, before any update, is an answer. None can choose where none differs, or where all count as zero and none
    has fallen: the best is then the luckiest of equals.
    """
    path = paths.score
    if path is None or path.logged.constant:
        return None
    hollow = path.unit == "share" and float(np.median(path.best)) < THRESHOLDS.material
    if hollow and float(path.fell()[:, -1].mean()) < THRESHOLDS.probable:
        return None
    return float(path.last_step[int(path.mean.argmax())])


class SpentRate(NamedTuple):
    """A learning rate at which the policy no longer moves: its share of its peak, and since which step it is 0."""

    share: float
    zero_step: float | None


def spent_rate(run: Run) -> SpentRate | None:
    """The learning rate of a run where it is spent; None where it is not, or was not logged.

    A rate that warms up is below its peak too, so only what comes after the peak counts.
    """
    rate = Logged.of(run.step, run.values("learning_rate"))
    if rate.rows < 2 or not rate.value.max() > 0.0:
        return None
    relative = rate.value / rate.value.max()
    if relative[-1] > THRESHOLDS.rate_spent:
        return None
    moving = np.flatnonzero(relative > _ZERO_RATE)[-1]
    zero = None if moving == rate.rows - 1 else float(rate.step[moving + 1])
    return SpentRate(float(relative[-1]), zero)


_ZERO_RATE = 1e-4
"""Share of its peak up to which a learning rate is 0."""
