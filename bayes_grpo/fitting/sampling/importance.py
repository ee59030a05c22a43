"""A posterior for what is used and not reported: forecasts, refits, weights. A tenth of a second where NUTS takes ten.

Adaptive importance sampling (`bayes_grpo.fitting.sampling.adaptive`) needs no gradient and no warm-up, and gives the
marginal likelihood with it. It is trusted where the weights' Pareto k-hat, their effective size and two halves of the
points agree that it can be; where not, NUTS is run, and the points are spread anew about its draws.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.draws import Draws, draws_at
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings, weighted_points
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.sample import sample_posterior
from bayes_grpo.fitting.sampling.target import Target
from bayes_grpo.fitting.sampling.weighted import WeightDiagnostics, WeightedPoints


def fast_posterior(
    target: Target,
    *,
    seed: int = 0,
    settings: ImportanceSettings | None = None,
    start: np.ndarray | None = None,
    sampler: SamplerSettings | None = None,
    fallback: bool = True,
) -> Draws:
    """A posterior for a score or a forecast and not for a report.

    Args:
        target: Regime, priors and rows.
        seed: Seed of all randomness.
        settings: How many points to spend.
        start: Draws of a posterior that is expected to be close, in the sampler's coordinates, shape (n, p).
        sampler: Settings of NUTS where it is needed.
        fallback: Whether to run NUTS where the points cannot be trusted.

    Returns:
        Draws, marginal likelihood and checks.
    """
    settings = settings or ImportanceSettings()

    def drawn(part: str) -> np.ndarray:
        return points.resampled(settings.draws, np.random.default_rng(seed_of(seed, part)))

    def weighted(part: str, start: np.ndarray | None = None) -> tuple[WeightedPoints, WeightDiagnostics]:
        return weighted_points(target, seed_of(seed, part), settings, start)

    points, found = weighted("points", start)
    if start is not None and not found.passed:
        points, found = weighted("afresh")
    z, nuts, usable = drawn("draws"), "", found.passed
    if fallback and not usable:
        chains = sample_posterior(target, seed=seed, sampler=sampler).draws
        points, found = weighted("about", chains.points)
        usable = chains.usable or found.passed
        nuts, z = f"NUTS: {chains.diagnostics.sentence}", drawn("again") if found.passed else chains.points
    note = " ".join(x for x in (found.sentence, nuts) if x)
    return draws_at(target, z[None], found, log_evidence=points.log_evidence, usable=usable, note=note)
