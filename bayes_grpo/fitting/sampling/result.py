"""What sampling a regime on rows gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.nuts import Chain
from bayes_grpo.fitting.sampling.posterior import DrawSummary
from bayes_grpo.regimes.parameters import Prior

if TYPE_CHECKING:
    pass


class Posterior(NamedTuple):
    """What sampling a regime on rows gave.

    Attributes:
        priors: Priors that were used.
        draws: Sampled parameters in their units, shape (chains, draws) each.
        chain: The sampler's output.
        summary: Linear parameters, curves and leave-one-out conditionals, padded rows.
        convergence: The checks.
        effective: Effective size of the importance weights where the draws were resampled by them, because the
            sampler that `convergence` describes mixed badly; None for the sampler's own draws.
    """

    priors: dict[str, Prior]
    draws: dict[str, np.ndarray]
    chain: Chain
    summary: DrawSummary
    convergence: Convergence
    effective: float | None = None

    @property
    def usable(self) -> bool:
        """Whether the draws serve as weights and for paths."""
        return self.effective is not None or self.convergence.usable
