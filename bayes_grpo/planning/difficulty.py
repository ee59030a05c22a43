"""How hard a run's prompts are for it: a Beta distribution of their success rates, as far as a log shows it.

The mean is the mean reward of the rows, a share of successes. How far prompts differ shows in the share of groups
without spread that a log has, or in the spread within groups; where nothing says it, all
prompts are taken to be of one difficulty, which says too few useless groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import betaln
from scipy.stats import beta

from bayes_grpo.dynamics.groups import group_drift_factor
from bayes_grpo.logs.run import Run

_LEAST, _MOST = 0.02, 500.0
"""Range of the Beta's a + b: from prompts that are solved or not to prompts of one difficulty."""
PLACES = 64
"""Quantiles that stand for the Beta."""


@dataclass(frozen=True)
class Difficulty:
    """Success rates over prompts.

    Attributes:
        mean: Mean success rate.
        concentration: a + b of the Beta; infinite where all prompts are alike.
        source: What its spread was fitted to: "frac_reward_zero_std", "reward_std" or "level".
    """

    mean: float
    concentration: float
    source: str

    @property
    def sentence(self) -> str:
        """Where it comes from, in words."""
        if self.source == "level":
            return (
                "useless groups: from the reward's level alone, as if all prompts were equally hard, so there are more "
                "of them (log frac_reward_zero_std)"
            )
        return f"useless groups: success rates over prompts about {self.mean:.2f}, spread fitted to {self.source}"

    def useless(self, group_size: int) -> float:
        """Share of groups without spread, E[p^G + (1 − p)^G]."""
        return useless_share(self.mean, self.concentration, group_size)

    def drift(self, group_size: int) -> float:
        """Speed of the drift over that of G → ∞ under advantages over the group's standard deviation."""
        p = np.clip(self._places(), 1e-3, 1.0 - 1e-3)
        weight = np.sqrt(p * (1.0 - p))
        return float(np.average(group_drift_factor(p, group_size, 1), weights=weight))

    def _places(self) -> np.ndarray:
        if math.isinf(self.concentration):
            return np.array([self.mean])
        a, b = self.mean * self.concentration, (1.0 - self.mean) * self.concentration
        return beta.ppf((np.arange(PLACES) + 0.5) / PLACES, a, b)


def useless_share(mean: float, concentration: float, group_size: int) -> float:
    """Share of groups without spread under a Beta of success rates.

    Args:
        mean: Mean success rate, in (0, 1).
        concentration: a + b; infinite for one success rate.
        group_size: G.
    """
    if math.isinf(concentration):
        return mean**group_size + (1.0 - mean) ** group_size
    a, b = mean * concentration, (1.0 - mean) * concentration
    whole = betaln(a, b)
    return float(math.exp(betaln(a + group_size, b) - whole) + math.exp(betaln(a, b + group_size) - whole))


def difficulty_of(run: Run, share: bool, group_size: int | None) -> Difficulty | None:
    """The difficulty that a log shows; None where its reward is no share of successes.

    Args:
        run: The run.
        share: Whether its rewards all lie in [0, 1].
        group_size: G; None where it is not known.
    """
    if not (share and run.has_reward):
        return None
    mean = float(np.nanmean(run.reward))
    if not 0.0 < mean < 1.0:
        return None
    seen = _mean(run, "frac_reward_zero_std")
    if seen is not None and group_size is not None and group_size >= 2:
        return Difficulty(mean, _solved(lambda n: useless_share(mean, n, group_size) - seen), "frac_reward_zero_std")
    within = _mean(run, "reward_std")
    if within is not None and run.settings.reward_std_kind.value == "within":
        # E[p(1 − p)] = m(1 − m) n/(n + 1): what of the variance of rewards lies within prompts.
        inside = within**2 / (mean * (1.0 - mean))
        return Difficulty(mean, _solved(lambda n: inside - n / (n + 1.0)), "reward_std")
    return Difficulty(mean, math.inf, "level")


def _mean(run: Run, name: str) -> float | None:
    values = run.signals.get(name)
    if values is None or not np.isfinite(values).any():
        return None
    return float(np.nanmean(values))


def _solved(f: Callable[[float], float]) -> float:
    """Concentration at which a function that falls with it is 0, or the end of the range where it is not."""
    if f(_LEAST) <= 0.0:
        return _LEAST
    return _MOST if f(_MOST) >= 0.0 else float(root_scalar(f, bracket=(_LEAST, _MOST)).root)
