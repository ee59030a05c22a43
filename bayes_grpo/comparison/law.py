"""A law as a comparison weighs it: draws of its fast posterior, and what they say of every row given all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayes_grpo.common.draws import spread
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.data import TRAJECTORIES
from bayes_grpo.fitting.replicates import measured_again
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.fitting.sampling.fast import fast_posterior
from bayes_grpo.fitting.sampling.nuts import SamplerSettings, summarise
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.padding import padded, shared
from bayes_grpo.rows.table import RowTable

LAW_CARE = Care(effective=2000.0, draws=1500)
"""Points and draws of a law that is weighed."""


@dataclass(frozen=True, eq=False)
class Law:
    """A law's posterior on a log, for its scores and its picture; what is reported of its parameters is a `Fit`.

    Attributes:
        regime: The law.
        table: Rows, T of them.
        priors: Priors that were used, by parameter.
        draws: Every parameter in its unit, the levels included, shape (draws,) each.
        curve: The unforced law, shape (draws, T).
        latent: Mean of the latent reward given all rows, shape (draws, T).
        latent_var: Its variance, shape (draws, T).
        left_out: Log density of every row given all others, shape (draws, T).
        efficiency: Effective draws over draws, at most 1.
        note: What was done where the first points could not be trusted; empty where they could.
        seed: Seed of the draws.
    """

    regime: Regime
    table: RowTable
    priors: Mapping[str, Prior]
    draws: Mapping[str, np.ndarray]
    curve: np.ndarray
    latent: np.ndarray
    latent_var: np.ndarray
    left_out: np.ndarray
    efficiency: float
    note: str
    seed: int

    @property
    def curve_mean(self) -> np.ndarray:
        """Posterior mean of the unforced law, shape (T,)."""
        return self.curve.mean(axis=0)

    @property
    def latent_mean(self) -> np.ndarray:
        """Posterior mean of the latent reward, shape (T,)."""
        return self.latent.mean(axis=0)

    def curves(self) -> np.ndarray:
        """Evenly spread draws of the unforced law, shape (trajectories, T)."""
        return self.curve[self._picks]

    def rows(self) -> np.ndarray:
        """The same draws of this run, measured again, shape (trajectories, T)."""
        picks, table = self._picks, self.table
        rng, noise = np.random.default_rng(seed_of(self.seed, "rows")), self.draws["observation_sd"][picks]
        return measured_again(self.latent[picks], self.latent_var[picks], noise, table.weight, rng)[1]

    @property
    def _picks(self) -> Any:
        return spread(len(self.draws["observation_sd"]), TRAJECTORIES)


def law_on(
    regime: Regime,
    table: RowTable,
    *,
    priors: Mapping[str, Any] | None = None,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
) -> Law:
    """A law's posterior on rows.

    Args:
        regime: The law.
        table: Rows.
        priors: Overrides, parameter → (median, spread).
        seed: Seed of all randomness.
        sampler: Settings of NUTS, which is run where the fast posterior cannot be trusted.

    Returns:
        The posterior with its curves and conditionals.

    Raises:
        FitError: The law cannot be put on these rows, or no sampler reached its posterior.
        PriorError: An override is impossible.
    """
    found = fast_posterior(
        regime, table, shared(table), priors=priors, seed=seed_of(seed, "law"), care=LAW_CARE, sampler=sampler
    )
    if not found.usable:
        raise FitError(f"did not converge; {found.sentence}")
    with jax.enable_x64(True):
        summary = summarise(regime, seed_of(seed, "levels"), found.z[None], found.numbers, padded(table))
    levels = {p.name: np.asarray(summary.linear)[0, :, i] for i, p in enumerate(regime.linear)}
    trust, total = found.trust, len(found.z)

    def logged(x: Any) -> np.ndarray:
        return np.asarray(x)[0, :, : len(table.y)]

    return Law(
        regime=regime,
        table=table,
        priors=found.priors,
        draws=found.values() | levels,
        curve=logged(summary.curve),
        latent=logged(summary.latent),
        latent_var=logged(summary.latent_var),
        left_out=logged(summary.loo_log_density),
        efficiency=min(1.0, trust.effective / total) if trust.passed else 1.0,
        note=found.sentence,
        seed=seed,
    )
