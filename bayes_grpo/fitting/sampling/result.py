"""What sampling a regime on rows gave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.nuts import Chain
from bayes_grpo.fitting.sampling.posterior import DrawSummary
from bayes_grpo.regimes.parameters import Prior


class Posterior(NamedTuple):
    """What sampling a regime on rows gave.

    Attributes:
        priors: Priors that were used.
        draws: Sampled parameters in their units, shape (chains, draws) each.
        chain: The sampler's output.
        summary: Linear parameters, curves and leave-one-out conditionals, padded rows.
        convergence: The checks.
    """

    priors: dict[str, Prior]
    draws: dict[str, np.ndarray]
    chain: Chain
    summary: DrawSummary
    convergence: Convergence
