"""What a finite group changes: the drift under its own standard deviation, and how many groups have any spread."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike


def group_drift_factor(success_rate: ArrayLike, group_size: int, ddof: Literal[0, 1] = 0) -> np.ndarray:
    """Drift of a finite group relative to G → ∞ under std-normalized advantages, by the exact binomial sum.

    With k successes the group's gradient is σ̂² / s, where σ̂ is the population and s the chosen standard
    deviation; its mean over k relative to √(p(1 − p)) is E[σ̂]/√(p(1 − p)) for ``ddof=0`` and √((G − 1)/G)
    times that for ``ddof=1``. This is the residual G-dependence of arXiv 2606.30789 v2.

    Args:
        success_rate: p, in (0, 1), any shape.
        group_size: G, at least 2.
        ddof: 0 for the population, 1 for the sample standard deviation.

    Returns:
        Factors in (0, 1), of the shape of ``success_rate``.
    """
    size = int(group_size)
    p = np.asarray(success_rate, dtype=np.float64)
    k = np.arange(size + 1)
    log_choose = np.concatenate([[0.0], np.cumsum(np.log((size - k[:-1]) / (k[:-1] + 1.0)))])
    log_p, log_q = np.log(p)[..., None], np.log1p(-p)[..., None]
    probability = np.exp(log_choose + k * log_p + (size - k) * log_q)
    std = np.sqrt(k * (size - k)) / size
    return (probability @ std) / np.sqrt(p * (1.0 - p)) * np.sqrt((size - ddof) / size)
