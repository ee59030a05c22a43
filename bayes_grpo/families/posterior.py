"""The posterior of a family: nodes of every run, the family's numbers, nodes where the family needs them, once more.

Nodes that were drawn under a weak prior are few where a family expects a run to be. So a first, short look at the
family says where that is, nodes are drawn anew under priors twice as wide as what is expected there, and
the family is sampled on these. How many nodes carry a run's weight is checked at the family's draws; where they are too
few, three times as many are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayes_grpo.common.draws import spread
from bayes_grpo.common.programs import over_draws
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.families.evidence import LIKELIHOOD_NODES, Scale, informed, run_likelihood
from bayes_grpo.families.model import CHAINS, FamilyDraws, FamilyPriors, Runs, log_weights, sample_family
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.table import RowTable

WIDER = 2.0
"""Width of the priors of the second nodes, over what the family expects."""
LEAST_NODES = 10.0
"""Nodes that have to carry the weight of every run at a typical draw of the family."""
FINER = 3
"""Times as many nodes where they are too few: many short logs that say little each."""
_LOOKS = 64
"""Draws of the family at which nodes are counted."""


@dataclass(frozen=True, eq=False)
class FamilyPosterior:
    """What the runs of a family say together.

    Attributes:
        draws: The family's numbers.
        convergence: Checks of their chains.
        runs: The runs with their nodes, padded.
        alone: Draws of each run's coordinates by itself, under weak priors, shape (n, nodes, p).
        nodes: Nodes that carry each run's weight, mean over draws, shape (n,).
        warnings: What samplers of single runs said.
    """

    draws: FamilyDraws
    convergence: Convergence
    runs: Runs
    alone: np.ndarray
    nodes: np.ndarray
    warnings: tuple[str, ...]

    @property
    def thin(self) -> bool:
        """Whether some run's weight lies on too few nodes."""
        return bool(np.min(self.nodes) < LEAST_NODES)


@dataclass(frozen=True, eq=False)
class Together:
    """Runs that are looked at together.

    Attributes:
        regime: The law of all.
        tables: Rows of each run, n of them.
        scale: Origin and unit of the levels.
        priors: Priors of the family.
        x: Settings, shape (n, k).
        offset: What is known to move the traits besides, shape (n, P).
        study: Study of each run, shape (n,).
    """

    regime: Regime
    tables: Sequence[RowTable]
    scale: Scale
    priors: FamilyPriors
    x: np.ndarray
    offset: np.ndarray
    study: np.ndarray

    @property
    def studies(self) -> int:
        """Number of studies."""
        return int(self.study.max()) + 1


def family_posterior(
    together: Together, seed: int = 0, tell: Callable[[str], None] = lambda _: None, chains: int = CHAINS
) -> FamilyPosterior:
    """Samples a family.

    Args:
        together: The runs.
        seed: Seed.
        tell: Called with a short phrase at every stage.
        chains: Number of chains.

    Returns:
        The posterior with its checks.

    Raises:
        FitError: The law cannot be put on the rows of some run.
    """
    n, warnings = len(together.tables), []

    def nodes(words: str, count: int, expected: tuple[np.ndarray, np.ndarray] | None = None) -> Runs:
        out = []
        warnings.clear()
        for i, table in enumerate(together.tables):
            tell(f"{words}: run {i + 1} of {n}")
            priors = None
            if expected is not None:
                priors = informed(together.regime, expected[0][i], expected[1][i], together.scale)
            found = run_likelihood(together.regime, table, together.scale, priors, count, seed_of(seed, words, i))
            if found.warning:
                warnings.append(f"run {i + 1}, {words}: {found.warning}")
            out.append(found.likelihood)
        return Runs.of(out, together.x, together.offset, together.study)

    first = nodes("each run by itself", LIKELIHOOD_NODES)
    tell("a first look at the family")
    draws, _ = sample_family(first, together.priors, together.studies, seed_of(seed, "first"), chains=1)
    carrying, attempt = np.zeros(n), ""
    runs = first
    for attempt, count in (
        ("the runs as the family expects them", LIKELIHOOD_NODES),
        ("the same, more finely", FINER * LIKELIHOOD_NODES),
    ):
        runs = nodes(attempt, count, expected_traits(together, draws.flat()))
        carrying = effective_nodes(runs, draws.flat())[:n]
        if carrying.min() >= LEAST_NODES:
            break
    tell("the family")
    draws, checks = sample_family(runs, together.priors, together.studies, seed_of(seed, attempt), chains)
    carrying = effective_nodes(runs, draws.flat())[:n]
    return FamilyPosterior(draws, checks, runs, np.asarray(first.u)[:n], carrying, tuple(warnings))


def expected_at(runs: Runs | Together, draws: FamilyDraws) -> np.ndarray:
    """Expected traits of every run at every draw of the family, shape (draws, n, P)."""
    return draws.mean[:, None] + np.asarray(runs.x) @ draws.slopes + runs.offset + draws.effect[:, runs.study]


def expected_traits(together: Together, draws: FamilyDraws) -> tuple[np.ndarray, np.ndarray]:
    """Centre and width of the priors under which the second nodes of every run are drawn, both of shape (n, P)."""
    expected = expected_at(together, draws)
    spread_ = np.sqrt((draws.spread**2).mean(axis=0))
    return expected.mean(axis=0), WIDER * np.sqrt(expected.var(axis=0) + spread_**2)


def effective_nodes(runs: Runs, draws: FamilyDraws) -> np.ndarray:
    """Effective number of nodes of every run, mean over some draws of the family, shape (n,)."""
    log_weight = weights_at(runs, draws, spread(len(draws.mean), _LOOKS))
    weight = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
    return (weight.sum(axis=-1) ** 2 / (weight**2).sum(axis=-1)).mean(axis=0)


def weights_at(runs: Runs, draws: FamilyDraws, picks: np.ndarray) -> np.ndarray:
    """Log weights of the nodes of every run at some draws, shape (picks, n, nodes)."""
    given = (expected_at(runs, draws)[picks], draws.spread[picks])
    with jax.enable_x64(True):
        return over_draws(_weights_program, (), 16, given, runs)


def _weights_program() -> Any:
    def one(given: Any, runs: Runs) -> Any:
        return log_weights(runs, *given)

    return jax.vmap(one, in_axes=(0, None))
