"""Leave-one-out scores of a fit: PSIS on exact conditionals, and refits where its Pareto k says that it fails.

The pointwise terms are log p(y_t | all other rows, draw) from the smoother, never innovations: those condition on the
past alone. PSIS-LOO: Vehtari et al. 2017, https://doi.org/10.1007/s11222-016-9696-4.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_grpo.common.errors import ParetoKWarning
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.loo_view import loo_view
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.rows_of_fit import rows_of_fit
from bayes_grpo.fitting.sampling.batch import log_likelihoods
from bayes_grpo.fitting.sampling.fast import fast_posterior
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.table import RowTable

REFITS = 5
"""Rows of a fit that are refitted exactly at most; where more fail, the result says so."""


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Leave-one-out scores of one fit.

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

    @property
    def pareto_k(self) -> np.ndarray:
        """Pareto k of every row, shape (n,); 0 where refitted."""
        return np.asarray(self.data.pareto_k)


def leave_one_out(fit: Fit, *, refits: int = REFITS, seed: int = 0) -> LeaveOneOut:
    """PSIS-LOO of a fit, with exact refits of rows whose Pareto k is too high.

    A refit keeps the priors of the whole log: it is the same model without one row.

    Args:
        fit: The fit.
        refits: Refits at most.
        seed: Seed of the refits.

    Returns:
        The scores. Where more rows fail than may be refitted, a `ParetoKWarning` is raised as a warning too.
    """
    from arviz_stats.loo.loo import loo

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ArviZ's, on high k, which is dealt with here
        found: Any = loo(loo_view(fit), pointwise=True, reff=relative_efficiency(fit))
    k = np.asarray(found.pareto_k)
    bad = [int(i) for i in np.flatnonzero(~(k <= found.good_k))]
    again = sorted(bad, key=lambda i: -k[i])[:refits]
    if again:
        found = deepcopy(found)
        before, table = np.asarray(found.elpd_i).copy(), rows_of_fit(fit)
        after = before.copy()
        for i in again:
            after[i] = exact_density(fit, i, seed=seed_of(seed, "row", i), table=table)
        found.elpd_i.values[:] = after
        found.pareto_k.values[again] = 0.0
        found.elpd, found.se = float(after.sum()), float(np.sqrt(len(after) * after.var()))
        found.p = float(found.p + np.sum(before - after))
        found.warning = len(bad) > len(again)
    left = tuple(i for i in bad if i not in again)
    if left:
        warnings.warn(
            f"{fit.data.attrs['source']}, regime {fit.regime.name}: Pareto k above {found.good_k:.2f} at {len(left)} "
            f"rows beyond the {refits} that were refitted; its leave-one-out score is unreliable",
            ParetoKWarning,
            stacklevel=2,
        )
    return LeaveOneOut(found, tuple(sorted(again)), left)


def relative_efficiency(fit: Fit) -> float:
    """Effective draws over draws, mean over the parameters, at most 1."""
    total = fit.data["posterior"].dataset.sizes
    ess = [c.ess_bulk for c in fit.convergence.parameters.values()]
    return float(min(1.0, np.mean(ess) / (total["chain"] * total["draw"])))


def exact_density(fit: Fit, row: int, *, seed: int = 0, table: RowTable | None = None) -> float:
    """Log density of a row given all others, by a refit without it.

    Args:
        fit: Fit of all rows; its priors are kept.
        row: Index of the row.
        seed: Seed of the refit.
        table: Rows of the fit, if at hand.

    Returns:
        log p(y_row | all other rows).
    """
    table = rows_of_fit(fit) if table is None else table
    whole = shared(table)
    y = np.array(whole.y)
    y[row] = np.nan
    # Leaving the row out of the table instead would give its steps the learning rate of the row after it.
    found = fast_posterior(fit.regime, table, whole._replace(y=y), priors=fit.priors, seed=seed)
    z, numbers = found.z, found.numbers
    # The row given all others: the joint density of all rows over that of the others, both under the same draws.
    whole_density, without = (log_likelihoods(fit.regime, z, numbers, r) for r in (whole, found.rows))
    return float(np.logaddexp.reduce(whole_density - without) - np.log(len(z)))
