"""Out-of-sample scores of a regime: leave-one-out and leave-future-out.

**Leave-one-out** is PSIS on exact conditionals, with refits for a high Pareto k. The pointwise terms are
log p(y_t | all other rows, draw) from the smoother, never innovations: those condition on the past alone (Vehtari et
al. 2017, https://doi.org/10.1007/s11222-016-9696-4).

**Leave-future-out** is the log predictive density of the rows after an origin, given the rows before it. The second
half of the log is cut into blocks of about a tenth of its rows, and every block's start is a forecast origin, at which
the regime is fitted to the rows before it alone (Bürkner et al. 2020, https://doi.org/10.1080/00949655.2020.1783262; a
fast posterior makes every refit an exact one). A block's score is its joint log density given the rows before it, so
that every row counts given the block's earlier rows too. A refit's default priors are resolved on its own rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_grpo.common import imports
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.sampling import seed_of, smoothed_weights
from bayes_grpo.fitting.draws import Draws, SmoothedDraws, fast_posterior
from bayes_grpo.fitting.sampling.adaptive import PARETO_K, ImportanceSettings
from bayes_grpo.fitting.sampling.nuts import Convergence
from bayes_grpo.fitting.sampling.target import log_likelihoods, target_of
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import first_rows, first_values, shared
from bayes_grpo.rows.series import Series

SHARE = 0.1
"""Rows of a block over the rows of the log."""
FIRST_SHARE = 0.5
"""Rows before the first origin over the rows of the log, at least."""
MIN_TRAINING = 8
"""Rows before the first origin, at least."""
MIN_ORIGINS = 3
"""Fewer forecast origins say nothing."""
LFO_POINTS = ImportanceSettings(effective=500.0)
"""Points of a refit; the scores differ by far more between blocks than between draws."""
REFITS = 5
"""Maximum number of exact refits per regime; the result counts further rows with a high Pareto k."""


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Leave-one-out scores of one regime: ArviZ's `ELPDDataLOO`, with the refitted rows in place (their Pareto k is 0).

    ``unreliable`` are rows whose Pareto k is too high and which were not refitted.
    """

    data: Any
    refitted: tuple[int, ...]
    unreliable: tuple[int, ...]


def leave_one_out(found: SmoothedDraws, *, refits: int = REFITS, seed: int = 0) -> LeaveOneOut:
    """PSIS-LOO of draws, with exact refits of rows whose Pareto k is too high.

    A refit keeps the priors of the whole log: it is the same model without one row.
    """
    data, array, _ = imports.scores()
    draws = found.draws
    log_density = np.ascontiguousarray(found.loo_log_density.reshape(draws.size, -1).T)
    weight, k = smoothed_weights(-log_density, relative_efficiency(draws))
    with np.errstate(divide="ignore"):  # weights of 0
        elpd = np.logaddexp.reduce(log_density + np.log(weight), axis=1)
    all_rows = np.logaddexp.reduce(log_density, axis=1) - np.log(draws.size)
    good_k = min(1.0 - 1.0 / np.log10(draws.size), PARETO_K)
    bad = [int(i) for i in np.flatnonzero(~(k <= good_k))]
    refitted = sorted(sorted(bad, key=lambda i: -k[i])[:refits])
    for i in refitted:
        elpd[i] = exact_density(draws, i, seed=seed_of(seed, "row", i))
        k[i] = 0.0
    unreliable = tuple(i for i in bad if i not in refitted)
    step = {"step": draws.rows.step}
    scores = data(
        elpd=float(elpd.sum()),
        se=float(np.sqrt(len(elpd) * elpd.var(ddof=1))),
        p=float(np.sum(all_rows - elpd)),
        n_samples=draws.size,
        n_data_points=len(elpd),
        scale="log",
        warning=bool(unreliable),
        good_k=good_k,
        elpd_i=array(elpd, step),
        pareto_k=array(k, step),
    )
    return LeaveOneOut(scores, tuple(refitted), unreliable)


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


def forecast_origins(table: Series) -> tuple[np.ndarray, int]:
    """Row indices of the forecast origins, evenly spaced up to the end of the log, and the rows of a block.

    Raises:
        FitError: Too few rows, or rows before the origins that never change.
    """
    n = len(table.y)
    horizon = max(1, round(SHARE * n))
    count = max(0, int((1.0 - FIRST_SHARE) * n) // horizon)
    origins = n - horizon * np.arange(count, 0, -1)
    origins = np.array([c for c in origins if c >= MIN_TRAINING and np.ptp(table.y[:c]) > 0.0], dtype=int)
    if len(origins) < MIN_ORIGINS:
        raise FitError(
            f"leave-future-out needs {MIN_ORIGINS} forecast origins with at least {MIN_TRAINING} changing rows before "
            f"them, found {len(origins)} in {n} rows"
        )
    return origins, horizon


def leave_future_out(regime: Regime, table: Series, *, seed: int = 0) -> np.ndarray:
    """Leave-future-out scores of a regime, from a refit at every origin.

    Score of every block, shape (b,); their sum is the log density of all rows from the first origin on.

    Raises:
        FitError: Too few rows for it, or a refit that should not be trusted.
    """
    origins, horizon = forecast_origins(table)
    whole = shared(table)
    start = None
    blocks = []
    for cut in map(int, origins):
        first = table.before(cut)
        found = fast_posterior(
            target_of(regime, first, arrays=first_rows(whole, first)),
            seed=seed_of(seed, "origin", cut),
            settings=LFO_POINTS,
            start=start,  # the rows of one block more have come in since
            fallback=False,  # NUTS at every origin takes minutes where the points of one regime fail
        )
        if not found.usable:
            raise FitError(f"refit on {cut} rows: {found.note.removesuffix('.')}")
        start = found.points
        longer = found.target.with_values(first_values(whole.y, cut + horizon))
        density = log_likelihoods(longer, start) - log_likelihoods(found.target, start)
        blocks.append(np.logaddexp.reduce(density) - np.log(len(density)))
    return np.array(blocks)
