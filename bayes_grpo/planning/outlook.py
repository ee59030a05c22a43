"""Predictive draws of the next run, from the present run's curve and the exponents of the settings.

The reward at the end of a run of t steps, its schedule stretched over them, is

    R(t) = plateau + (start − plateau)·exp(−rate'·m·t),    rate' = rate·∏ (s'/s)^a,

where m is the mean learning rate over the highest one. R(t) shifts by Σ c·log(s'/s), in log-odds of its place in the
reward's range, or in standard deviations of the rows without a range. So the predictive spread grows with the change
of settings and stays within the range. The normal priors of the exponents a and c are learned from pairs of public
runs: `exponents.json`, made by `benchmarks.lab.learners.exponents`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from bayes_grpo.common.sampling import seed_of, spread
from bayes_grpo.families.readings import regime_draws
from bayes_grpo.families.recipes import seed_prior
from bayes_grpo.forecasting.fits import forecast_priors
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.series import Series

EXPONENTS_PATH = Path(__file__).with_name("exponents.json")
LEAST_SD = {"group_size": 0.7, "prompts_per_step": 0.7}
"""Least spread of the rate's exponent, from the first 120 decisions of `benchmarks/plans.py`: public runs seldom
changed these settings alone."""
_DRAWS = 1000
_STRETCH = 0.8
"""Standard deviation of the extrapolation error beyond the run's own length, log-odds per e-fold of the length; from
the first 120 simulated decisions of `benchmarks/plans.py`."""
_ONSET = 0.1
"""Share of a run's length over which the shift by other settings builds up."""
_EDGE = 0.01
"""Minimum distance from the ends of the range for shifts in log-odds, as a share of the range."""


class NormalPrior(NamedTuple):
    """Normal prior of an exponent."""

    centre: float
    sd: float


class LearnedExponents(NamedTuple):
    """Priors pooled over public runs.

    Attributes:
        rate: Setting → exponent of the response rate. All public runs use Adam, which divides by a gradient that is
            mostly noise, so more completions per step learn faster.
        level: Setting → shift of the level per e-fold of the setting, log-odds.
        run_sd: Standard deviation between runs of equal settings, log-odds.
    """

    rate: Mapping[str, NormalPrior]
    level: Mapping[str, NormalPrior]
    run_sd: float


@cache
def learned_exponents() -> LearnedExponents:
    """The priors that come with the package."""
    kept = json.loads(EXPONENTS_PATH.read_text(encoding="utf-8"))
    rate = {name: NormalPrior(*own["rate"]) for name, own in kept["exponents"].items()}
    rate |= {name: rate[name]._replace(sd=max(rate[name].sd, least)) for name, least in LEAST_SD.items()}
    level = {name: NormalPrior(*own["plateau"]) for name, own in kept["exponents"].items()}
    return LearnedExponents(rate, level, float(kept["apart"]))


class Exponents(NamedTuple):
    """Draws of a setting's exponents, shape (draws,) each; that of the level in log-odds per e-fold of the setting."""

    rate: np.ndarray
    level: np.ndarray


def exponent_draws(names: Sequence[str], size: int, adam: bool, seed: int) -> dict[str, Exponents]:
    """Draws of the exponents of settings.

    Args:
        names: Settings.
        size: Number of draws.
        adam: Whether the optimizer divides by the gradient's size; where it does not, theory expects the same speed
            whatever the number of completions.
        seed: Seed.
    """
    out, known = {}, learned_exponents()
    for name in names:
        rng, rate, level = np.random.default_rng(seed_of(seed, name)), known.rate[name], known.level[name]
        if not adam and name in LEAST_SD:
            rate = rate._replace(centre=0.0)
        out[name] = Exponents(*(b.centre + b.sd * rng.standard_normal(size) for b in (rate, level)))
    return out


@dataclass(frozen=True, eq=False)
class Base:
    """Draws of the present run's curve, shape (draws,) each.

    Attributes:
        rate: Response rate at the highest learning rate, 1/step; 0 for a draw without a trend.
        plateau: Plateau of the reward.
        start: Initial reward.
        single: What one run adds to the mean over seeds, reward: its seed and its fluctuation at the end.
        pair_noise: Difference between two runs of equal settings beyond that, standard normal.
        stretch: Extrapolation error beyond the run's length, log-odds per e-fold of it.
    """

    rate: np.ndarray
    plateau: np.ndarray
    start: np.ndarray
    single: np.ndarray
    pair_noise: np.ndarray
    stretch: np.ndarray

    def __len__(self) -> int:
        return len(self.rate)


class RewardScale(NamedTuple):
    """On which scale rewards of a run move.

    Attributes:
        range: Where the reward can lie.
        unit: Standard deviation of the rows, reward.
        length: Steps of the run at its highest learning rate.
    """

    range: RewardRange
    unit: float
    length: float

    def moved(self, level: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Levels moved by a shift in log-odds of their place in the range; without a range in units."""
        low, high = self.range.low, self.range.high
        if not (math.isfinite(low) and math.isfinite(high)):
            return level + self.unit * shift
        place = np.clip((level - low) / (high - low), _EDGE, 1.0 - _EDGE)
        # What lies beyond the edge stays where it is: only the way that was moved counts.
        return level + (high - low) * (expit(logit(place) + shift) - place)


def base_of_run(table: Series, reward: RewardRange, seed: int) -> Base:
    """Draws of a run's curve: exponential and flat, weighted by marginal likelihood, priors as for forecasts.

    Args:
        table: Its rows.
        reward: Where the reward can lie.
        seed: Seed.

    Raises:
        FitError: No regime applies to the rows.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    for f, count in regime_draws(table, _DRAWS, seed, forecast_priors):
        if not count:
            continue
        values = {k: x.ravel() for k, x in f.sample_marginalized(seed_of(seed, "levels", f.regime.name)).values.items()}
        inside = np.flatnonzero((values["fixed_point"] >= reward.low) & (values["fixed_point"] <= reward.high))
        total = inside if len(inside) else np.arange(f.size)
        picks = total[spread(len(total), count, repeat=True)]
        level = np.clip(values["fixed_point"][picks], reward.low, reward.high)
        start = np.clip(values.get("initial_reward", values["fixed_point"])[picks], reward.low, reward.high)
        rate = 1.0 / values["relaxation_time"][picks] if "relaxation_time" in values else np.zeros(count)
        parts.append((rate, level, start, values["fluctuation_sd"][picks]))
    rng = np.random.default_rng(seed_of(seed, "order"))
    order = rng.permutation(sum(len(p[0]) for p in parts))
    rate, plateau, start, fluctuation = (np.concatenate(x)[order] for x in zip(*parts, strict=True))
    prior, n = seed_prior(), len(order)
    seeds = table.scale * np.exp(prior.centre + prior.width * rng.standard_normal(n)) * rng.standard_normal(n)
    single = seeds + fluctuation * rng.standard_normal(n)
    stretch, pair_noise = _STRETCH * rng.standard_normal(n), rng.standard_normal(n)
    return Base(rate, plateau, start, single, pair_noise, stretch)


def expected_reward(
    base: Base, exponents: Mapping[str, Exponents], log_ratio: Mapping[str, float], exposure: float, scale: RewardScale
) -> np.ndarray:
    """Expected reward under other settings, mean over seeds, shape (draws,).

    Args:
        base: The present run.
        exponents: Exponents of every setting that is moved.
        log_ratio: Logarithm of every setting over the present one.
        exposure: Steps at the highest learning rate.
        scale: Scale of the rewards.
    """
    rate, shift = base.rate, np.zeros(len(base))
    for name, x in log_ratio.items():
        if x != 0.0:
            rate = rate * np.exp(exponents[name].rate * x)
            shift = shift + exponents[name].level * x
    level = base.plateau + (base.start - base.plateau) * np.exp(-rate * exposure)
    shift = shift * (1.0 - math.exp(-exposure / (_ONSET * scale.length)))
    return scale.moved(level, shift + base.stretch * math.log(max(exposure / scale.length, 1.0)))


def reward_of_one_run(base: Base, mean: np.ndarray, run_sd: float, scale: RewardScale) -> np.ndarray:
    """Reward of a single run, shape (draws,).

    Args:
        base: The present run.
        mean: Mean over seeds, shape (draws,).
        run_sd: Standard deviation between runs of equal settings, log-odds.
        scale: Scale of the rewards.
    """
    one = scale.moved(mean, run_sd * base.pair_noise) + base.single
    return np.clip(one, scale.range.low, scale.range.high)
