"""A posterior for what is used and not reported: forecasts, refits, weights. A tenth of a second where NUTS takes ten.

Adaptive importance sampling (`bayes_grpo.fitting.sampling.adaptive`) needs no gradient and no warm-up, and gives the
marginal likelihood with it. It is trusted where the weights' Pareto k-hat, their effective size and two halves of the
points agree that it can be; where not, NUTS is run, and the points are spread anew about its draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.fitting.sampling.batch import level_draws
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.points import Trust, weighted_posterior
from bayes_grpo.fitting.sampling.posterior import PriorNumbers, prior_numbers, values_of_draws
from bayes_grpo.fitting.sampling.sample import sample_posterior
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable


@dataclass(frozen=True, eq=False)
class FastPosterior:
    """Draws of a regime's posterior for what is used and not reported.

    Attributes:
        regime: The regime.
        priors: Priors that were used.
        numbers: The same as numbers.
        rows: Rows, as they were sampled.
        z: Equally weighted draws in the sampler's coordinates, shape (draws, p).
        log_evidence: Log marginal likelihood of the rows.
        trust: Whether the weighted points can be used.
        nuts: What NUTS said where it was needed; empty where it was not.
        usable: Whether the draws can be used: those of the weighted points, or of NUTS.
    """

    regime: Regime
    priors: dict[str, Prior]
    numbers: PriorNumbers
    rows: Rows
    z: np.ndarray
    log_evidence: float
    trust: Trust
    nuts: str
    usable: bool

    @property
    def sentence(self) -> str:
        """Why the draws should not be used, or what was done to get them; empty where all went well."""
        why = "; ".join(self.trust.reasons)
        return " ".join(x for x in (f"{why[0].upper()}{why[1:]}." if why else "", self.nuts) if x)

    def values(self) -> dict[str, np.ndarray]:
        """Sampled parameters in their units, shape (draws,) each."""
        with jax.enable_x64(True):
            return values_of_draws(self.regime, self.z, self.numbers, self.rows)

    def levels(self, seed: int) -> dict[str, np.ndarray]:
        """Linear parameters of each draw, drawn given the rows, shape (draws,) each."""
        rng = np.random.default_rng(seed)
        return level_draws(self.regime, self.z, self.numbers, self.rows, rng)


def fast_posterior(
    regime: Regime,
    table: RowTable,
    rows: Rows,
    *,
    priors: Mapping[str, Any] | None = None,
    seed: int = 0,
    care: Care | None = None,
    start: np.ndarray | None = None,
    sampler: SamplerSettings | None = None,
    fallback: bool = True,
) -> FastPosterior:
    """A posterior for a score or a forecast and not for a report.

    Args:
        regime: The regime.
        table: Rows of the log.
        rows: The same rows in any padding.
        priors: Overrides, parameter → (median, spread).
        seed: Seed of all randomness.
        care: How many points to spend.
        start: Draws of a posterior that is expected to be close, in the sampler's coordinates, shape (n, p).
        sampler: Settings of NUTS where it is needed.
        fallback: Whether to run NUTS where the points cannot be trusted.

    Returns:
        Draws, marginal likelihood and checks.

    Raises:
        FitError: The law cannot be put on these rows.
        PriorError: An override is impossible.
    """
    regime.check(table)
    resolved = resolve_priors(regime, table, priors)
    with jax.enable_x64(True):
        prior = prior_numbers(regime, resolved)
    points, trust = weighted_posterior(regime, prior, rows, seed_of(seed, "points"), care, start)
    if start is not None and not trust.passed:
        points, trust = weighted_posterior(regime, prior, rows, seed_of(seed, "afresh"), care)
    size = (care or Care()).draws
    z, nuts, usable = points.resampled(size, np.random.default_rng(seed_of(seed, "draws"))), "", trust.passed
    if fallback and not usable:
        y = np.isfinite(np.asarray(rows.y))
        holed = replace(regime, missing_anywhere=regime.missing_anywhere or bool(np.any(y[1:] & ~y[:-1])))
        found = sample_posterior(holed, table, priors=priors, seed=seed, sampler=sampler, rows=rows)
        chains = np.reshape(found.chain.z, (-1, z.shape[1]))
        points, trust = weighted_posterior(regime, prior, rows, seed_of(seed, "about"), care, chains)
        nuts, usable = f"NUTS: {found.convergence.sentence}", found.convergence.usable or trust.passed
        z = points.resampled(size, np.random.default_rng(seed_of(seed, "again"))) if trust.passed else chains
    return FastPosterior(regime, resolved, prior, rows, z, points.log_evidence, trust, nuts, usable)
