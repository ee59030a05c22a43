"""Weighted points of a law's posterior, and whether they can be used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.fitting.sampling.adaptive import AdaptiveSampler, Care
from bayes_grpo.fitting.sampling.batch import log_likelihoods
from bayes_grpo.fitting.sampling.posterior import PriorNumbers
from bayes_grpo.fitting.sampling.weighted import WeightedDraws
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

LEAST_EFFECTIVE = 400.0
"""Effective size of the weights from which draws are taken, as for the ESS of chains."""
PARETO_K = 0.7
"""Above this sums of weights cannot be trusted (Vehtari et al. 2024, https://jmlr.org/papers/v25/19-556.html)."""
APART = 0.25
"""Posterior standard deviations by which the means of two halves of the points may differ."""


@dataclass(frozen=True)
class Trust:
    """Whether weighted points can be used.

    Attributes:
        effective: Effective size of the weights.
        pareto_k: Shape of their upper tail.
        apart: Largest distance between the means of two halves of the points, in posterior standard deviations.
        power: Power of the likelihood that was reached; 1 for the posterior.
        rounds: Batches of points.
    """

    effective: float
    pareto_k: float
    apart: float
    power: float
    rounds: int

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the points cannot be used, one clause each; empty where they can."""
        out = []
        if self.power < 1.0:
            out.append(f"{self.rounds} batches of points did not reach the posterior")
        if not self.effective >= LEAST_EFFECTIVE:
            out.append(f"the effective size of the weights is {self.effective:.0f} (limit {LEAST_EFFECTIVE:.0f})")
        if not self.pareto_k <= PARETO_K:
            out.append(f"their Pareto k is {self.pareto_k:.2f} (limit {PARETO_K})")
        if not self.apart <= APART:
            out.append(f"the means of two halves lie {self.apart:.2f} posterior sd apart (limit {APART})")
        return tuple(out)

    @property
    def passed(self) -> bool:
        """Whether the points can be used."""
        return not self.reasons


def weighted_posterior(
    regime: Regime,
    prior: PriorNumbers,
    rows: Rows,
    seed: int,
    care: Care | None = None,
    start: np.ndarray | None = None,
) -> tuple[WeightedDraws, Trust]:
    """Weighted points of a posterior, and whether they can be used.

    Args:
        regime: The regime.
        prior: Priors as numbers.
        rows: Padded rows.
        seed: Seed.
        care: How many points to spend.
        start: Draws of a posterior that is expected to be close, shape (n, p).

    Returns:
        The points and their checks.
    """
    sampler = AdaptiveSampler(len(regime.sampled), seed, care, start)
    while not sampler.done:
        z = sampler.ask()
        sampler.tell(z, log_likelihoods(regime, z, prior, rows))
    return sampler.points, trust_of(sampler)


def trust_of(sampler: AdaptiveSampler) -> Trust:
    """Checks of an adaptive sampler's points."""
    points = sampler.points
    means = [points.half(i).moments()[0] for i in (0, 1)]
    spread = np.sqrt(np.diag(points.moments()[1]))
    apart = float(np.max(np.abs(means[0] - means[1]) / np.maximum(spread, 1e-12)))
    return Trust(points.effective, points.pareto_k, apart, sampler.power, sampler.rounds)
