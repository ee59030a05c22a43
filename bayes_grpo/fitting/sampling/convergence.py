"""Convergence checks of a sampler's draws: rank R-hat, bulk and tail ESS, divergences, E-BFMI.

R-hat and ESS as in Vehtari et al. 2021 (https://doi.org/10.1214/20-BA1221), E-BFMI as in Betancourt 2016
(https://arxiv.org/abs/1604.00695), all by ArviZ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_grpo.common import imports
from bayes_grpo.common.results import Result

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
BFMI_LIMIT = 0.3


@dataclass(frozen=True)
class ParameterCheck:
    """Checks of one parameter: R-hat, bulk ESS and tail ESS."""

    rhat: float
    ess_bulk: float
    ess_tail: float


@dataclass(frozen=True)
class Convergence(Result):
    """Whether the draws can be trusted, and why not.

    Attributes:
        parameters: Checks of each parameter.
        divergences: Divergent transitions after warm-up, all chains.
        ebfmi: Smallest energy Bayesian fraction of missing information over the chains.
        retried: Whether these are the draws of the one retry.
    """

    parameters: Mapping[str, ParameterCheck]
    divergences: int
    ebfmi: float
    retried: bool

    also_in_json = ("passed", "reasons")

    @property
    def reasons(self) -> tuple[str, ...]:
        """What fails, one clause each; empty where every check holds."""
        reasons = []
        for name, c in self.parameters.items():
            if not c.rhat <= RHAT_LIMIT:
                reasons.append(f"R-hat of {name} is {c.rhat:.3f} (limit {RHAT_LIMIT})")
            smallest = min(c.ess_bulk, c.ess_tail)
            if not smallest >= ESS_LIMIT:
                reasons.append(f"ESS of {name} is {smallest:.0f} (limit {ESS_LIMIT:.0f})")
        if self.divergences:
            reasons.append(f"{self.divergences} divergent transitions (limit 0)")
        if not self.ebfmi >= BFMI_LIMIT:
            reasons.append(f"E-BFMI is {self.ebfmi:.2f} (limit {BFMI_LIMIT})")
        return tuple(reasons)

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return not self.reasons

    @property
    def worst(self) -> ParameterCheck:
        """Largest R-hat and smallest ESS over the parameters."""
        checks = self.parameters.values()
        return ParameterCheck(
            rhat=max(c.rhat for c in checks),
            ess_bulk=min(c.ess_bulk for c in checks),
            ess_tail=min(c.ess_tail for c in checks),
        )

    @property
    def usable(self) -> bool:
        """Whether the draws serve as weights and for paths: looser than for reported parameters."""
        worst = self.worst
        return worst.rhat <= 1.05 and min(worst.ess_bulk, worst.ess_tail) >= 100 and self.divergences <= 20

    @property
    def sentence(self) -> str:
        """One line with the numbers."""
        w = self.worst
        numbers = (
            f"R-hat ≤ {w.rhat:.3f}, ESS ≥ {w.ess_bulk:.0f} (bulk) and {w.ess_tail:.0f} (tail), "
            f"{self.divergences} divergences, E-BFMI ≥ {self.ebfmi:.2f}"
        )
        again = " after one retry" if self.retried else ""
        if self.passed:
            return f"Converged{again}: {numbers}."
        return f"NOT CONVERGED{again}: {'; '.join(self.reasons)} ({numbers})."


def check_convergence(
    draws: Mapping[str, Any],
    energy: np.ndarray,
    diverging: np.ndarray,
    retried: bool,
) -> Convergence:
    """Checks draws of every parameter, their energies and divergences, all of shape (chains, draws)."""
    stats = imports.statistics()
    checks = {
        name: ParameterCheck(
            rhat=float(stats.rhat(x)),
            ess_bulk=float(stats.ess(x, method="bulk")),
            ess_tail=float(stats.ess(x, method="tail", prob=(0.05, 0.95))),
        )
        for name, x in ((name, np.asarray(x)) for name, x in draws.items())
    }
    ebfmi = float(np.min(stats.bfmi(np.asarray(energy))))
    return Convergence(checks, int(np.sum(diverging)), ebfmi, retried)
