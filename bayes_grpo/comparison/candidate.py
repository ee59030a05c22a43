"""A regime as a comparison weighs it: smoothed draws of its fast posterior; what is reported of it is a `Fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.importance import fast_posterior
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.fitting.smoothed import SmoothedDraws, smoothed_at
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.prepared import PreparedRows

CANDIDATE_POINTS = ImportanceSettings(effective=2000.0, draws=1500)
"""Points and draws of a regime that is weighed."""


def candidate_on(
    regime: Regime,
    rows: PreparedRows,
    *,
    priors: Mapping[str, Any] | None = None,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
) -> SmoothedDraws:
    """A regime's posterior on rows.

    Args:
        regime: The regime.
        rows: Rows.
        priors: Overrides, parameter → (median, spread).
        seed: Seed of all randomness.
        sampler: Settings of NUTS, which is run where the fast posterior cannot be trusted.

    Returns:
        The posterior with its curves and conditionals.

    Raises:
        FitError: The law cannot be put on these rows, or no sampler reached its posterior.
        PriorError: An override is impossible.
    """
    target = target_of(regime, rows, priors)
    found = fast_posterior(target, seed=seed_of(seed, "law"), settings=CANDIDATE_POINTS, sampler=sampler)
    if not found.usable:
        raise FitError(f"did not converge; {found.note}")
    return smoothed_at(found, seed_of(seed, "levels"))
