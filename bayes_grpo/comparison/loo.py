"""Leave-one-out scores of a regime: PSIS on exact conditionals, with refits for a high Pareto k.

The pointwise terms are log p(y_t | all other rows, draw) from the smoother, never innovations: those condition on the
past alone. PSIS-LOO: Vehtari et al. 2017, https://doi.org/10.1007/s11222-016-9696-4.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_grpo.common import imports
from bayes_grpo.common.errors import ParetoKWarning
from bayes_grpo.common.pareto import smoothed_weights
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.draws import Draws, SmoothedDraws
from bayes_grpo.fitting.sampling.batch import log_likelihoods
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.sample import fast_posterior

REFITS = 5
"""Maximum number of exact refits per regime; the result counts further rows with a high Pareto k."""


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Leave-one-out scores of one regime.

    Attributes:
        data: ArviZ's result, with the refitted rows in place (their Pareto k is 0).
        refitted: Rows that were refitted exactly.
        unreliable: Rows whose Pareto k is too high and which were not refitted.
    """

    data: Any
    refitted: tuple[int, ...]
    unreliable: tuple[int, ...]

    @property
    def pointwise(self) -> np.ndarray:
        """Log predictive density of every row given all others, shape (n,)."""
        return np.asarray(self.data.elpd_i)


def leave_one_out(found: SmoothedDraws, *, refits: int = REFITS, seed: int = 0) -> LeaveOneOut:
    """PSIS-LOO of draws, with exact refits of rows whose Pareto k is too high.

    A refit keeps the priors of the whole log: it is the same model without one row.

    Args:
        found: Smoothed draws.
        refits: Refits at most.
        seed: Seed of the refits.

    Returns:
        The scores. Where more rows fail than may be refitted, a `ParetoKWarning` is raised as a warning too.
    """
    az, loo, _ = imports.scores()
    draws, step = found.draws, found.draws.rows.step
    view = az.from_dict(
        {"posterior": dict(draws.values), "log_likelihood": {"y": found.left_out}},
        dims={"y": ["step"]},
        coords={"step": step},
        sample_dims=["chain", "draw"],
    )
    efficiency = relative_efficiency(draws)
    terms = view.log_likelihood["y"].transpose(..., "chain", "draw")
    log_density = terms.values.reshape(*terms.shape[:-2], -1)
    weight, shape = smoothed_weights(-log_density, efficiency)  # all rows at once; ArviZ takes them one by one
    with warnings.catch_warnings(), np.errstate(divide="ignore"):  # weights of 0
        warnings.simplefilter("ignore", UserWarning)  # ArviZ's, on high k, which is dealt with here
        scores: Any = loo(
            view,
            pointwise=True,
            reff=efficiency,
            log_weights=terms.copy(data=np.log(weight).reshape(terms.shape)),
            pareto_k=terms.isel(chain=0, draw=0, drop=True).copy(data=shape),
        )
    k = np.asarray(scores.pareto_k)
    bad = [int(i) for i in np.flatnonzero(~(k <= scores.good_k))]
    again = sorted(bad, key=lambda i: -k[i])[:refits]
    if again:
        scores = deepcopy(scores)
        before = np.asarray(scores.elpd_i).copy()
        after = before.copy()
        for i in again:
            after[i] = exact_density(draws, i, seed=seed_of(seed, "row", i))
        scores.elpd_i.values[:] = after
        scores.pareto_k.values[again] = 0.0
        scores.elpd, scores.se = float(after.sum()), float(np.sqrt(len(after) * after.var()))
        scores.p = float(scores.p + np.sum(before - after))
        scores.warning = len(bad) > len(again)
    left = tuple(i for i in bad if i not in again)
    if left:
        warnings.warn(
            f"regime {draws.regime.name}: Pareto k above {scores.good_k:.2f} at {len(left)} rows beyond the {refits} "
            "that were refitted; its leave-one-out score is unreliable",
            ParetoKWarning,
            stacklevel=2,
        )
    return LeaveOneOut(scores, tuple(sorted(again)), left)


def relative_efficiency(draws: Draws) -> float:
    """Effective draws over draws, at most 1: mean over the parameters of chains, of weights where they were used."""
    found = draws.diagnostics
    if isinstance(found, Convergence):
        effective = np.mean([c.ess_bulk for c in found.parameters.values()])
        return float(min(1.0, effective / draws.size))
    return min(1.0, found.effective / draws.size) if found.passed else 1.0


def exact_density(draws: Draws, row: int, *, seed: int = 0) -> float:
    """Log density of a row given all others, by a posterior without it that keeps the priors."""
    whole = draws.target
    y = np.array(whole.arrays.y)
    y[row] = np.nan  # left out of the rows instead, its steps would take the learning rate of the row after it
    found = fast_posterior(whole.with_values(y), seed=seed)
    # The row given all others: the joint density of all rows over that of the others, both under the same draws.
    density, without = (log_likelihoods(target, found.points) for target in (whole, found.target))
    return float(np.logaddexp.reduce(density - without) - np.log(found.size))
