"""The distribution of a law's parameters over runs, learned from the posteriors of many logs.

In scale-free coordinates (see `bayes_grpo.learning.coordinates`) the parameters of log l of repository r are

    phi[l, o] ~ N(centre[r] + slopes · covariates[l, o], spread²),   centre[r] ~ N(mean, between²),

where o counts the lengths at which the log is cut off (a user's log is unfinished); the cuts of a log share its
weight of one. Each log enters by draws from its posterior under a weak prior, which is divided out draw by draw, as in
Hogg, Myers and Bovy 2010 (https://doi.org/10.1088/0004-637X/725/2/2166). The draws of a log are averaged over, the
rest is sampled by NUTS (`bayes_grpo.learning.population_model`). What a log of an unseen repository should expect has
the variance spread² + between² and the uncertainty of mean and slopes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.learning.population_model import LogSums, PopulationLogs, sample_population

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
        convergence: Checks of the draws it comes from; None where it was read from a file.
    """

    mean: np.ndarray
    slopes: np.ndarray
    spread: np.ndarray
    between: np.ndarray
    error: np.ndarray
    centres: np.ndarray
    logs: int
    groups: int
    convergence: Convergence | None = None

    def predictive(self, covariates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of a log of an unseen repository, each (p,), at covariates of shape (k,), NaN where unknown."""
        away = np.nan_to_num(covariates - self.centres)
        return self.mean + away @ self.slopes, np.sqrt(self.spread**2 + self.between**2 + self.error**2)


def learn_population(members: Sequence[Member], uses: np.ndarray, seed: int = 0) -> Population:
    """Learns a population by NUTS; seconds for a hundred logs, and the program is compiled once.

    Args:
        members: The logs, at least two, with equally many draws.
        uses: Whether a parameter depends on a covariate, shape (k, p), boolean.
        seed: Seed.

    Returns:
        The population, with the checks of its draws.
    """
    covariates = np.concatenate([m.covariates for m in members])
    known = np.isfinite(covariates)
    centres = np.where(known, covariates, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    names = sorted({m.group for m in members})
    together = len(names) >= _GROUPS_NEEDED
    group = np.array([names.index(m.group) if together else 0 for m in members])
    used = uses.any(axis=1)  # a covariate that no parameter uses costs nothing
    parts = [LogSums.of(m.draws, m.weak, np.nan_to_num(m.covariates - centres)[:, used]) for m in members]
    draws, checks = sample_population(PopulationLogs.of(parts, group), uses[used], len(names) if together else 1, seed)
    slopes = np.zeros(uses.shape)
    slopes[used] = draws.slopes.mean(axis=(0, 1))
    return Population(
        mean=draws.mean.mean(axis=(0, 1)),
        slopes=slopes,
        spread=np.sqrt((draws.spread**2).mean(axis=(0, 1))),
        between=np.sqrt((draws.between**2).mean(axis=(0, 1))),
        error=draws.mean.std(axis=(0, 1)),
        centres=centres,
        logs=len(members),
        groups=len(names),
        convergence=checks,
    )


def population_log_score(population: Population, member: Member) -> float:
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
