"""Leave-future-out scores: log predictive density of the rows after an origin, given the rows before it.

The second half of the log is cut into blocks of about a tenth of its rows, and every block's start is a forecast
origin, at which the regime is fitted to the rows before it alone (Bürkner et al. 2020,
https://doi.org/10.1080/00949655.2020.1783262; a fast posterior makes every refit an exact one). A block's score is its
joint log density given the rows before it, so that every row counts given the block's earlier rows too.

A refit knows nothing of later rows: its default priors are resolved on its own rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.batch import log_likelihoods
from bayes_grpo.fitting.sampling.sample import fast_posterior
from bayes_grpo.fitting.sampling.target import target_of
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
LFO_POINTS = ImportanceSettings(effective=1000.0)
"""Points of a refit; the scores differ by far more between blocks than between draws."""


@dataclass(frozen=True, eq=False)
class LeaveFutureOut:
    """Leave-future-out scores of one regime on one log.

    Attributes:
        blocks: Score of every block, shape (b,).
        doubtful: Why a refit should not be trusted; empty where all can be.
    """

    blocks: np.ndarray
    doubtful: str

    @property
    def elpd(self) -> float:
        """Sum of the block scores: log density of all rows from the first origin on."""
        return float(np.sum(self.blocks))


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


def leave_future_out(regime: Regime, table: Series, *, seed: int = 0) -> LeaveFutureOut:
    """Leave-future-out scores of a regime, from a refit at every origin.

    Args:
        regime: The regime.
        table: Rows of the whole log.
        seed: Seed of the refits.

    Raises:
        FitError: Too few rows for it.
    """
    origins, horizon = forecast_origins(table)
    blocks, doubtful = [], []
    whole, start = shared(table), None
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
            doubtful.append(f"refit on {cut} rows: {found.note}")
        start = found.points if found.usable else None
        longer = found.target.with_values(first_values(whole.y, cut + horizon))
        density = log_likelihoods(longer, found.points) - log_likelihoods(found.target, found.points)
        blocks.append(np.logaddexp.reduce(density) - np.log(len(density)))
    return LeaveFutureOut(np.array(blocks), doubtful[0] if doubtful else "")
