"""The distribution of a law's parameters over runs, learned from the posteriors of many logs.

In scale-free coordinates (see `bayes_grpo.learning.learn`) the parameters of log l of repository r are

    phi[l, o] ~ N(centre[r] + slopes · covariates[l, o], spread²),   centre[r] ~ N(mean, between²),

where o counts the lengths at which the log is cut off (a user's log is unfinished); the cuts of a log share its
weight of one. Each log enters by draws from its posterior under a weak prior, which is divided out draw by draw, as in
Hogg, Myers and Bovy 2010 (https://doi.org/10.1088/0004-637X/725/2/2166). Sampled by Gibbs' method: one draw of
every log, then conjugate updates; half-Cauchy priors of the spreads by Makalic and Schmidt 2016
(https://doi.org/10.1109/LSP.2015.2503725). What a log of an unseen repository should expect has the variance
spread² + between² and the uncertainty of mean and slopes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SWEEPS, BURN_IN = 400, 150
_MEAN_SD, _SLOPE_SD, _SPREAD_SCALE = 5.0, 0.5, 0.5
"""Weak priors of the population: sd of means and of slopes, scale of the half-Cauchy of the spreads."""
_SPREAD_FLOOR = 0.05
_GROUPS_NEEDED = 3
"""With fewer repositories their spread cannot be learned, and logs are taken as independent."""


@dataclass(frozen=True, eq=False)
class Member:
    """One log on its way into a population.

    Attributes:
        group: Its repository.
        draws: Posterior draws in scale-free coordinates at each cut, shape (cuts, draws, p).
        weak: Log density of the weak prior that was fitted with at each draw, up to a constant, shape (draws,).
        covariates: Covariates at each cut, shape (cuts, k); NaN where unknown.
    """

    group: str
    draws: np.ndarray
    weak: np.ndarray
    covariates: np.ndarray


@dataclass(frozen=True, eq=False)
class Population:
    """Posterior means of what was learned, each of shape (p,) unless said otherwise.

    Attributes:
        mean: Mean over repositories at the centres of the covariates.
        slopes: Shape (k, p).
        spread: Sd between the logs of a repository, and between the cuts of a log.
        between: Sd between repositories; zero where they are too few to tell.
        error: Sd of `mean`.
        centres: Mean of each covariate over the logs that have it, shape (k,).
        logs: Number of logs.
        groups: Number of repositories.
    """

    mean: np.ndarray
    slopes: np.ndarray
    spread: np.ndarray
    between: np.ndarray
    error: np.ndarray
    centres: np.ndarray
    logs: int
    groups: int

    def predictive(self, covariates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of a log of an unseen repository, each (p,), at covariates of shape (k,), NaN where unknown."""
        away = np.nan_to_num(covariates - self.centres)
        return self.mean + away @ self.slopes, np.sqrt(self.spread**2 + self.between**2 + self.error**2)


def learn_population(members: Sequence[Member], uses: np.ndarray, seed: int = 0) -> Population:
    """Learns a population by Gibbs sampling; about a second for a hundred logs.

    Args:
        members: The logs, at least two.
        uses: Whether a parameter depends on a covariate, shape (k, p), boolean.
        seed: Seed.

    Returns:
        The population.
    """
    rng = np.random.default_rng(seed)
    cuts = np.array([len(m.draws) for m in members])
    owner = np.repeat(np.arange(len(members)), cuts)  # log of each cut
    weight = 1.0 / cuts[owner]
    covariates = np.concatenate([m.covariates for m in members])
    known = np.isfinite(covariates)
    centres = np.where(known, covariates, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    covariates = np.where(known, covariates - centres, 0.0)
    draws = np.concatenate([m.draws for m in members])  # (cases, draws, p)
    weak = np.stack([m.weak for m in members])
    names = sorted({m.group for m in members})
    together = len(names) >= _GROUPS_NEEDED
    group = np.array([names.index(m.group) if together else 0 for m in members])[owner]
    groups, p = (len(names) if together else 1), draws.shape[-1]
    picked = draws.mean(axis=1)
    mean, slopes = picked.mean(axis=0), np.zeros((covariates.shape[1], p))
    spread2, between2 = np.maximum(picked.var(axis=0), 0.01), np.full(p, 0.1 if together else 0.0)
    centre = np.tile(mean, (groups, 1))
    aux_spread, aux_between = np.ones(p), np.ones(p)
    first = np.concatenate([[0], np.cumsum(cuts)[:-1]])
    cases = np.arange(len(owner))
    kept = []
    for sweep in range(SWEEPS):
        # One draw of every log, given the population.
        expected = centre[group] + covariates @ slopes
        score = -0.5 * np.einsum("cdp,p->cd", (draws - expected[:, None]) ** 2, 1.0 / spread2) * weight[:, None]
        score = np.add.reduceat(score, first) - weak
        chosen = np.argmax(score + rng.gumbel(size=score.shape), axis=1)
        phi = draws[cases, chosen[owner]]
        # Slopes, one covariate after the other; a slope that is not used stays zero.
        for k in range(len(slopes)):
            rest = phi - centre[group] - covariates @ slopes + np.outer(covariates[:, k], slopes[k])
            precision = (weight * covariates[:, k] ** 2).sum() / spread2 + 1.0 / _SLOPE_SD**2
            located = (weight * covariates[:, k]) @ rest / spread2 / precision
            slopes[k] = np.where(uses[k], located + rng.standard_normal(p) / np.sqrt(precision), 0.0)
        # Centres of the repositories and their mean.
        rest = phi - covariates @ slopes
        total = np.bincount(group, weight, groups)
        sums = np.stack([np.bincount(group, weight * rest[:, j], groups) for j in range(p)], axis=1)
        if together:
            precision = total[:, None] / spread2 + 1.0 / between2
            centre = (sums / spread2 + mean / between2) / precision
            centre = centre + rng.standard_normal((groups, p)) / np.sqrt(precision)
            precision = groups / between2 + 1.0 / _MEAN_SD**2
            mean = centre.sum(axis=0) / between2 / precision + rng.standard_normal(p) / np.sqrt(precision)
            between2 = _variance(rng, ((centre - mean) ** 2).sum(axis=0), groups, aux_between)
            aux_between = _auxiliary(rng, between2)
        else:
            precision = total[0] / spread2 + 1.0 / _MEAN_SD**2
            mean = sums[0] / spread2 / precision + rng.standard_normal(p) / np.sqrt(precision)
            centre = mean[None]
        residual = weight @ (phi - centre[group] - covariates @ slopes) ** 2
        spread2 = np.maximum(_variance(rng, residual, len(members), aux_spread), _SPREAD_FLOOR**2)
        aux_spread = _auxiliary(rng, spread2)
        if sweep >= BURN_IN:
            kept.append((mean, slopes.copy(), spread2, between2))
    means, all_slopes, spreads, betweens = (np.stack(x) for x in zip(*kept, strict=True))
    return Population(
        mean=means.mean(axis=0),
        slopes=all_slopes.mean(axis=0),
        spread=np.sqrt(spreads.mean(axis=0)),
        between=np.sqrt(betweens.mean(axis=0)),
        error=means.std(axis=0),
        centres=centres,
        logs=len(members),
        groups=len(names),
    )


def log_score(population: Population, member: Member) -> float:
    """Log of the density that a population gives a log which it has not seen, averaged over the log's cuts.

    The likelihood of the log is known by its draws alone, so that scores of one log can be compared between
    populations, but not between logs.
    """
    scores = []
    for draws, covariates in zip(member.draws, member.covariates, strict=True):
        mean, sd = population.predictive(covariates)
        density = -0.5 * (((draws - mean) / sd) ** 2).sum(axis=1) - np.log(sd).sum() - member.weak
        scores.append(np.logaddexp.reduce(density) - np.log(len(density)))
    return float(np.mean(scores))


def _variance(rng: np.random.Generator, squares: np.ndarray, n: float, auxiliary: np.ndarray) -> np.ndarray:
    """Draw of a variance given n squared deviations, under a half-Cauchy prior of its root."""
    return (0.5 * squares + 1.0 / auxiliary) / rng.gamma(0.5 * (n + 1.0), size=squares.shape)


def _auxiliary(rng: np.random.Generator, variance: np.ndarray) -> np.ndarray:
    return (1.0 / variance + 1.0 / _SPREAD_SCALE**2) / rng.gamma(1.0, size=variance.shape)
