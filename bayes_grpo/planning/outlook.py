"""Predictive draws of the next run, from the present run's curve and the exponents of the settings.

The reward at the end of a run of t steps, its schedule stretched over them, is

    R(t) = plateau + (start − plateau)·exp(−rate'·m·t),    rate' = rate·∏ (s'/s)^a,

where m is the mean learning rate over the highest one. The priors of the exponents come from pairs of public runs
(`bayes_grpo.planning.lessons`). R(t) shifts by Σ c·log(s'/s), in log-odds of its place in the reward's range, or in
standard deviations of the rows without a range. So the predictive spread grows with the change of settings and stays
within the range. A run near its failure threshold loses reward before it fails
(`bayes_grpo.planning.lessons.Nearing`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from bayes_grpo.common.intervals import spread
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.families.readings import weighted_laws
from bayes_grpo.families.recipes import seed_prior
from bayes_grpo.forecasting.priors import forecast_priors
from bayes_grpo.planning.difficulty import Difficulty
from bayes_grpo.planning.lessons import VARIANCE, Belief, Lessons
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.table import RowTable

_DRAWS = 1000
STRETCH = 0.8
"""Standard deviation of the extrapolation error beyond the run's own length, log-odds per e-fold of the length; from
the first 120 simulated decisions of `benchmarks/plans.py`."""
ONSET = 0.1
"""Share of a run's length over which the shift by other settings builds up."""
EDGE = 0.01
"""Minimum distance from the ends of the range for shifts in log-odds, as a share of the range."""


@dataclass(frozen=True, eq=False)
class Base:
    """Draws of the present run's curve, shape (draws,) each.

    Attributes:
        rate: Response rate at the highest learning rate, 1/step; 0 for a draw without a trend.
        plateau: Plateau of the reward.
        start: Initial reward.
        fluctuation: Stationary standard deviation of the latent reward.
        seed: Difference of another seed, reward.
        swing: Standard normal draws of the fluctuation at the end of a run.
        stretch: Extrapolation error beyond the run's length, log-odds per e-fold of it.
    """

    rate: np.ndarray
    plateau: np.ndarray
    start: np.ndarray
    fluctuation: np.ndarray
    seed: np.ndarray
    swing: np.ndarray
    stretch: np.ndarray

    def __len__(self) -> int:
        return len(self.rate)


class LearnedExponents(NamedTuple):
    """Draws of a setting's exponents, shape (draws,) each; that of the level in log-odds per e-fold of the setting."""

    rate: np.ndarray
    fluctuation_variance: np.ndarray
    level: np.ndarray


@dataclass(frozen=True, eq=False)
class Outcome:
    """What settings lead to, shape (draws,) each.

    Attributes:
        rate: Response rate at the highest learning rate, 1/step.
        plateau: Where the curve settles.
        start: Where it begins.
        fluctuation: Stationary standard deviation of the latent reward.
        shift: Shift of the curve, log-odds of the place in the reward's range.
        stretch: Move per e-fold of the length beyond the present run's, log-odds.
        length: Steps of the present run; the shift builds up within `ONSET` of them.
        reward: Where the reward can lie.
        unit: Standard deviation of the rows, reward.
    """

    rate: np.ndarray
    plateau: np.ndarray
    start: np.ndarray
    fluctuation: np.ndarray
    shift: np.ndarray
    stretch: np.ndarray
    length: float
    reward: RewardRange
    unit: float

    def at(self, exposure: np.ndarray | float) -> np.ndarray:
        """Expected reward after steps at the highest learning rate, shape (draws,) or (draws, steps)."""
        t = np.asarray(exposure, float)
        own = (self.rate, self.plateau, self.start, self.shift, self.stretch)
        rate, plateau, start, shift, stretch = (x[:, None] if t.ndim else x for x in own)
        level = plateau + (start - plateau) * np.exp(-rate * t)
        beyond = np.log(np.maximum(t / self.length, 1.0))
        away = shift * (1.0 - np.exp(-t / (ONSET * self.length))) + stretch * beyond
        return saturated(level, away, self.reward, self.unit)


def base_of_run(table: RowTable, reward: RewardRange, seed: int) -> Base:
    """Draws of a run's curve: exponential and flat, weighted by marginal likelihood, priors as for forecasts.

    Args:
        table: Its rows.
        reward: Where the reward can lie.
        seed: Seed.

    Raises:
        FitError: No regime applies to the rows.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    for f, count in weighted_laws(table, _DRAWS, seed, forecast_priors):
        if not count:
            continue
        values = {k: x.ravel() for k, x in f.with_levels(seed_of(seed, "levels", f.regime.name)).values.items()}
        inside = np.flatnonzero((values["fixed_point"] >= reward.low) & (values["fixed_point"] <= reward.high))
        total = inside if len(inside) else np.arange(f.size)
        picks = total[spread(len(total), count, repeat=True)]
        level = np.clip(values["fixed_point"][picks], reward.low, reward.high)
        start = np.clip(values.get("initial_reward", values["fixed_point"])[picks], reward.low, reward.high)
        rate = 1.0 / values["relaxation_time"][picks] if "relaxation_time" in values else np.zeros(count)
        parts.append((rate, level, start, values["fluctuation_sd"][picks]))
    rng = np.random.default_rng(seed_of(seed, "order"))
    order = rng.permutation(sum(len(p[0]) for p in parts))
    return _with_seeds(tuple(np.concatenate(x)[order] for x in zip(*parts, strict=True)), table.scale, rng)


def _with_seeds(own: Sequence[np.ndarray], unit: float, rng: np.random.Generator) -> Base:
    prior, n = seed_prior(), len(own[0])
    seed_effect = unit * np.exp(prior.centre + prior.width * rng.standard_normal(n)) * rng.standard_normal(n)
    rate, plateau, start, fluctuation = own
    swing, stretch = rng.standard_normal(n), STRETCH * rng.standard_normal(n)
    return Base(rate, plateau, start, fluctuation, seed_effect, swing, stretch)


def run_effects(lessons: Lessons, size: int, seed: int) -> np.ndarray:
    """Draws of the difference between two runs of equal settings, log-odds, shape (size,)."""
    return lessons.run_sd * np.random.default_rng(seed_of(seed, "apart")).standard_normal(size)


def prior_exponents(
    lessons: Lessons, names: Sequence[str], size: int, adam: bool, seed: int
) -> dict[str, LearnedExponents]:
    """Exponents of settings by their priors alone.

    Args:
        lessons: What others' runs teach.
        names: Settings.
        size: Number of draws.
        adam: Whether the optimizer divides by the gradient's size; where it does not, theory expects the same speed
            whatever the number of completions.
        seed: Seed.
    """
    out = {}
    for name in names:
        rng, known = np.random.default_rng(seed_of(seed, name)), lessons.exponents[name]
        rate, plateau = known["rate"], known["plateau"]
        if not adam and name in ("group_size", "prompts_per_step"):
            rate = Belief(0.0, rate.sd)
        drawn = (b.centre + b.sd * rng.standard_normal(size) for b in (rate, VARIANCE[name], plateau))
        out[name] = LearnedExponents(*drawn)
    return out


def saturated(level: np.ndarray, shift: np.ndarray, reward: RewardRange, unit: float) -> np.ndarray:
    """Levels moved on a scale that ends where the reward does.

    Args:
        level: Levels, reward.
        shift: By how much, in log-odds of the place in the reward's range; without a range in units.
        reward: Where the reward can lie.
        unit: Standard deviation of the rows, reward.
    """
    if not (math.isfinite(reward.low) and math.isfinite(reward.high)):
        return level + unit * shift
    place = np.clip((level - reward.low) / (reward.high - reward.low), EDGE, 1.0 - EDGE)
    moved = expit(logit(place) + shift)
    # What lies beyond the edge stays where it is: only the way that was moved counts.
    return level + (reward.high - reward.low) * (moved - place)


def outcome(
    base: Base,
    exponents: Mapping[str, LearnedExponents],
    log_ratio: Mapping[str, float],
    reward: RewardRange,
    difficulty: Difficulty | None,
    sizes: tuple[int, int] | None,
    *,
    unit: float,
    length: float,
    nearing: np.ndarray | None = None,
) -> Outcome:
    """What settings lead to.

    Args:
        base: The present run.
        exponents: Exponents of every setting that is moved.
        log_ratio: Logarithm of every setting over the present one.
        reward: Where the reward can lie.
        difficulty: Of the prompts, for the factor of finite groups; None where it plays no part.
        sizes: Group size now and then; None where they are not known.
        unit: Standard deviation of the rows, reward.
        length: Steps of the present run, at the highest learning rate.
        nearing: What levels lose or gain as settings near or leave the border at which runs fail, log-odds, shape
            (draws,); None where nothing is known of it.
    """
    rate, log_variance = base.rate.copy(), np.zeros(len(base))
    shift = np.zeros(len(base)) if nearing is None else nearing
    for name, x in log_ratio.items():
        if x != 0.0:
            e = exponents[name]
            rate *= np.exp(e.rate * x)
            log_variance += e.fluctuation_variance * x
            shift = shift + e.level * x
    if difficulty is not None and sizes is not None and sizes[0] != sizes[1]:
        rate *= difficulty.drift(sizes[1]) / difficulty.drift(sizes[0])
    fluctuation = base.fluctuation * np.exp(0.5 * log_variance)
    return Outcome(rate, base.plateau, base.start, fluctuation, shift, base.stretch, length, reward, unit)
