"""Bayesian model averaging of a run's latent reward at a step, and of its plateau, over two regimes.

The latent reward is the smoothed reward given all rows. Its deviation from the regime counts as a difference between
seeds. Rising and flat runs are both common, and a regime with a trend finds trends in noise. So each run is fitted with
the exponential and the flat regime, weighted by marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.fitting.draws import Draws, fast_posterior, smoothed_at
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.target import target_of, values_of_draws
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.series import Series

_REGIMES = ("exponential", "flat")
SAMPLER = SamplerSettings(num_chains=4, num_warmup=200, num_samples=250)
"""Settings of NUTS where a fast posterior cannot be trusted."""
_DRAWS = 400


@dataclass(frozen=True, eq=False)
class RunReading:
    """Posterior draws of a run over both regimes.

    ``latent`` is its reward at the rows, shape (draws, T), ``plateau`` where it would settle at its highest learning
    rate, shape (draws,).
    """

    run: Run
    table: Series
    latent: np.ndarray
    plateau: np.ndarray

    @property
    def last(self) -> float:
        """Its last step."""
        return float(self.table.step[-1])

    def at(self, step: float) -> np.ndarray:
        """The latent reward at the row nearest to a step, shape (draws,)."""
        return self.latent[:, int(np.argmin(np.abs(self.table.step - step)))]


def regime_draws(table: Series, size: int, seed: int) -> list[tuple[Draws, int]]:
    """Draws of both regimes, and the number of ``size`` draws for each by marginal likelihood."""
    found: list[Draws] = []
    rows = table.evenly_noisy()
    points = ImportanceSettings(effective=1000.0, draws=size)
    for name in _REGIMES:
        regime = get_regime(name)
        try:
            target = target_of(regime, rows, arrays=shared(rows))
            found.append(fast_posterior(target, seed=seed_of(seed, name), settings=points, sampler=SAMPLER))
        except FitError:
            if name == _REGIMES[-1]:
                raise
    evidence = np.array([f.log_evidence for f in found])
    share = np.exp(evidence - evidence.max())
    counts = np.round(size * share / share.sum()).astype(int)
    return list(zip(found, counts.tolist(), strict=True))


def reading_of(run: Run, table: Series, seed: int = 0) -> RunReading:
    """Reads a run; a `FitError` where no regime can be fitted to its rows."""
    found = regime_draws(table, _DRAWS, seed)
    latents = []
    plateaus = []
    rng = np.random.default_rng(seed_of(seed, "latent"))
    for f, count in found:
        if count:
            z = f.points[np.linspace(0, f.size - 1, count).astype(int)]
            draws = Draws(f.target, values_of_draws(f.target, z[None]), z[None], f.diagnostics)
            drawn = smoothed_at(draws, seed_of(seed, "levels", f.regime.name))
            mean, var = drawn.latent[0], drawn.latent_var[0]
            # One number for all rows of a draw: rows near each other swing together.
            latents.append(mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal((count, 1)))
            plateaus.append(drawn.draws.flat("fixed_point"))
    return RunReading(run, table, np.concatenate(latents), np.concatenate(plateaus))
