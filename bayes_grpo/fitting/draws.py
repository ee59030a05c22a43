"""`Draws`: a posterior of a regime on rows, however it was sampled; what every room downstream takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.fitting.sampling.batch import level_draws
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.nuts import Chain
from bayes_grpo.fitting.sampling.target import Target, values_of_draws
from bayes_grpo.fitting.sampling.weighted import WeightDiagnostics
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.prepared import PreparedRows


@dataclass(frozen=True, eq=False)
class Draws:
    """Equally weighted draws of a posterior; those of importance sampling are one chain.

    Attributes:
        target: Regime, priors and rows.
        values: Parameters in their units, shape (chains, draws) each; the linear ones once they are drawn.
        z: The same in the sampler's coordinates, shape (chains, draws, p); p is 0 for draws of a fit, which keeps their
            values alone.
        diagnostics: Checks of the chains, or of the weights that the draws were taken by.
        chains: What NUTS said of every draw; None for importance sampling.
        log_evidence: Log marginal likelihood of the rows; NaN for chains, which do not tell it.
        usable: Whether the draws can be used.
        note: Why they should not be used, or what was done to get them; empty where all went well.
    """

    target: Target
    values: Mapping[str, np.ndarray]
    z: np.ndarray
    diagnostics: Convergence | WeightDiagnostics
    chains: Chain | None = None
    log_evidence: float = float("nan")
    usable: bool = True
    note: str = ""

    @property
    def regime(self) -> Regime:
        """The law."""
        return self.target.regime

    @property
    def rows(self) -> PreparedRows:
        """Rows of the log."""
        return self.target.rows

    @property
    def priors(self) -> Mapping[str, Prior]:
        """Priors that were used, by parameter."""
        return self.target.priors

    @property
    def size(self) -> int:
        """Number of draws, of all chains together."""
        return next(iter(self.values.values())).size

    @property
    def points(self) -> np.ndarray:
        """Draws of all chains in the sampler's coordinates, shape (size, p)."""
        return self.z.reshape(-1, self.z.shape[-1])

    def flat(self, name: str) -> np.ndarray:
        """Draws of a parameter, of all chains one after another, shape (size,)."""
        return self.values[name].ravel()

    def initial(self) -> np.ndarray:
        """Draws of the initial reward, shape (size,); NaN for a law without a start."""
        return self.flat("initial_reward") if self.regime.has_trend else np.full(self.size, np.nan)

    def sampled(self, picks: np.ndarray | None = None) -> np.ndarray:
        """Sampled parameters as a compiled program takes them, shape (picks, p).

        Args:
            picks: Indices of draws; all if None.
        """
        whole = np.stack([self.flat(p.name) for p in self.regime.sampled], axis=-1)
        return whole if picks is None else whole[picks]

    def with_levels(self, seed: int) -> Draws:
        """The same with the linear parameters drawn given the rows and each draw of the others."""
        drawn = level_draws(self.target, self.points, np.random.default_rng(seed))
        return replace(self, values=dict(self.values) | {k: v.reshape(self.z.shape[:-1]) for k, v in drawn.items()})


def draws_at(
    target: Target,
    z: np.ndarray,
    diagnostics: Convergence | WeightDiagnostics,
    *,
    chains: Chain | None = None,
    log_evidence: float = float("nan"),
    usable: bool = True,
    note: str = "",
) -> Draws:
    """Draws out of coordinates that a sampler has found, shape (chains, draws, p); the rest as in `Draws`."""
    values = values_of_draws(target, z)
    return Draws(target, values, z, diagnostics, chains, log_evidence, usable, note)
