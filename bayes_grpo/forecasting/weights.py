"""Weights of the laws of a forecast, from how well each predicted every row before it was there.

The log marginal likelihood of a law is the sum of its leave-future-out scores, one row ahead, from the first row on:
log p(y₁…yₙ) = Σ log p(yₜ | y₁…yₜ₋₁). It comes with the fast posterior (`bayes_grpo.fitting.sampling.adaptive`), so
that no law is fitted a second time. Weights go with prior weight times
marginal likelihood (Kass and Raftery 1995, https://doi.org/10.1080/01621459.1995.10476572). A share is then kept for
the laws with a trend, by their prior weights: rows can refute "no trend" for good, but never that a trend is still to
come, and the law that described the past best need not be the one for what comes (none of them is true).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayes_grpo.regimes.base import Regime

FLAT_SHARE = 0.3
"""Prior weight of "no trend"; the laws with one share the rest."""
SHRINKAGE = 0.2
"""Share of the final weights that stays with the laws that have a trend, whatever the rows say."""


def prior_weights(regimes: Sequence[Regime]) -> dict[str, float]:
    """Weights before any row: `FLAT_SHARE` for laws without a trend, equal weights among each kind."""
    trend = {r.name: r.has_trend for r in regimes}
    moving, still = sum(trend.values()), len(trend) - sum(trend.values())
    share = FLAT_SHARE if moving and still else float(still > 0)
    return {name: (1.0 - share) / moving if moves else share / still for name, moves in trend.items()}


def forecast_weights(
    log_evidence: Mapping[str, float],
    prior: Mapping[str, float],
    trending: Mapping[str, bool],
    shrinkage: float = SHRINKAGE,
) -> dict[str, float]:
    """Weights of the laws.

    Args:
        log_evidence: Log marginal likelihood of each law on the same rows.
        prior: Prior weight of each law.
        trending: Whether the law has a trend.
        shrinkage: Share that stays with the laws that have one, by their prior weights.

    Returns:
        Weights that sum to 1, in the order of ``log_evidence``.
    """
    names = list(log_evidence)
    start = np.array([prior[name] for name in names])
    start = start / start.sum()
    score = np.array([log_evidence[name] for name in names]) + np.log(start)
    score = np.where(np.isfinite(score), score, -np.inf)
    if not np.isfinite(score).any():
        return dict(zip(names, start.tolist(), strict=True))
    weight = np.exp(score - score.max())
    weight = weight / weight.sum()
    kept = start * np.array([trending[name] for name in names])
    if kept.sum() > 0:
        weight = (1.0 - shrinkage) * weight + shrinkage * kept / kept.sum()
    return dict(zip(names, weight.tolist(), strict=True))
