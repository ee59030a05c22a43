"""Leave-future-out scores: how well a law, fitted on the rows up to an origin, predicts the rows after it.

The second half of the log is cut into blocks of about a tenth of its rows, and every block's start is a forecast
origin. Two scores come out of the same refits (Bürkner et al. 2020, https://doi.org/10.1080/00949655.2020.1783262):

- the *block score* of `arviz_stats.lfo_cv`, the joint log density of each block given the rows before it. By the
  chain rule every row of the block is predicted with the block's earlier rows known, so that it rewards good short
  steps. Between refits the posterior is carried on by PSIS, with the likelihood of the rows that have come in;
- the *forecast score*, the log density of every row of a block given the rows before the block alone: the rows in
  between are never revealed. It is what a forecast is worth, and what forecasts are weighted by.

A refit knows nothing of later rows: its default priors are resolved on its own rows. Overrides hold for all refits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from bayes_grpo.common.draws import spread
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.dynamics.state_space import LOG_2PI
from bayes_grpo.fitting.sampling.nuts import SamplerSettings, log_likelihoods, summarise
from bayes_grpo.fitting.sampling.posterior import PriorNumbers, prior_numbers
from bayes_grpo.fitting.sampling.result import Posterior
from bayes_grpo.fitting.sampling.sample import usable_posterior
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows, padded
from bayes_grpo.rows.table import RowTable

if TYPE_CHECKING:
    from xarray import DataArray, DataTree

SHARE = 0.1
"""Rows of a block over the rows of the log."""
FIRST_SHARE = 0.5
"""Rows before the first origin over the rows of the log, at least."""
MIN_TRAINING = 8
"""Rows before the first origin, at least."""
MIN_ORIGINS = 3
"""Fewer forecast origins say nothing."""
PARETO_K = 0.7
"""Where the Pareto k of the carried posterior is higher, it is refitted."""

DRAWS = 1000
"""Draws of a posterior that carry it on and forecast, evenly spread; the scores differ by far more between blocks."""


@dataclass(frozen=True, eq=False)
class LeaveFutureOut:
    """Leave-future-out scores of one law on one log.

    Attributes:
        data: ArviZ's result: one term a block.
        origins: Row index of every forecast origin, the first row of its block, shape (b,).
        horizon: Rows of a block.
        forecast: Log density of every row from the first origin on, given the rows before its block alone,
            shape (b · horizon,).
        refits: Fits that were made, the one at the first origin included.
        doubtful: Why a refit should not be trusted; empty where all converged.
    """

    data: Any
    origins: np.ndarray
    horizon: int
    forecast: np.ndarray
    refits: int
    doubtful: str

    @property
    def elpd(self) -> float:
        """Sum of the block scores: log density of all rows from the first origin on."""
        return float(self.data.elpd)

    @property
    def blocks(self) -> np.ndarray:
        """Score of every block, shape (b,)."""
        return np.asarray(self.data.elpd_i)

    @property
    def forecast_score(self) -> float:
        """Mean forecast log density of a row."""
        return float(np.mean(self.forecast))


def forecast_origins(table: RowTable) -> tuple[np.ndarray, int]:
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


def leave_future_out(
    regime: Regime,
    table: RowTable,
    found: Posterior,
    *,
    priors: Mapping[str, Any] | None = None,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
    method: str = "approx",
    progress: Callable[[str], None] | None = None,
) -> LeaveFutureOut:
    """Leave-future-out scores of a law.

    Args:
        regime: The regime.
        table: Rows of the whole log.
        found: Posterior on the whole log.
        priors: Overrides, parameter → (median, spread).
        seed: Seed of the refits.
        sampler: Sampler settings of the refits; those of the whole log compile nothing new.
        method: "approx" (PSIS between refits) or "exact" (a refit at every origin).
        progress: Called with a short phrase at every refit.

    Returns:
        The scores.

    Raises:
        FitError: Too few rows for it.
    """
    from arviz_base import from_dict
    from arviz_stats.loo.lfo_cv import lfo_cv

    origins, horizon = forecast_origins(table)
    log = _Blocks(regime, table, padded(table), origins, horizon)
    refitting = _Refitting(
        log, dict(priors or {}), seed, sampler or SamplerSettings(), {}, progress or (lambda _: None)
    )
    z = thinned(np.asarray(found.chain.z))
    everything = log.block_likelihoods(z, prior_numbers(regime, found.priors), log.whole)
    posterior = {name: thinned(x) for name, x in found.draws.items()}
    data = from_dict(
        {"posterior": posterior, "log_likelihood": {"y": everything}},
        dims={"y": ["block"]},
        coords={"block": np.arange(len(origins) + 1)},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ArviZ's, on many refits, which are exact
        wrapper = _wrapper(refitting)
        scores = lfo_cv(data, wrapper, 1, 1, time_dim="block", pointwise=True, method=method, k_threshold=PARETO_K)
    refits = refitting.done
    return LeaveFutureOut(
        data=scores,
        origins=origins,
        horizon=horizon,
        forecast=_forecast_densities(log, refits),
        refits=len(refits),
        doubtful=next((r.doubtful for r in refits.values() if r.doubtful), ""),
    )


@dataclass(frozen=True, eq=False)
class _Blocks:
    """A law on a log whose rows from the first origin on are cut into blocks of ``horizon`` rows."""

    regime: Regime
    table: RowTable
    whole: Rows
    origins: np.ndarray
    horizon: int

    def block_likelihoods(self, z: np.ndarray, prior: PriorNumbers, rows: Rows) -> np.ndarray:
        """Log density of every block given the rows before it, by differences, shape (chains, draws, b + 1)."""
        ends = [*self.origins, len(self.table.y)]
        with jax.enable_x64(True):
            upto = [log_likelihoods(self.regime, z, prior, rows._replace(y=_hidden(self.whole.y, end))) for end in ends]
        return np.diff(np.stack(upto, axis=-1), axis=-1, prepend=0.0)


class _Refit(NamedTuple):
    """A fit on the rows before an origin: draws, priors, rows, and log density of every later block, (c, d, b)."""

    z: np.ndarray
    prior: PriorNumbers
    rows: Rows
    blocks: np.ndarray
    doubtful: str


@dataclass(frozen=True, eq=False)
class _Refitting:
    """Refits on the rows before an origin: how they are made, and those that were, by the first block left out."""

    log: _Blocks
    priors: Mapping[str, Any]
    seed: int
    sampler: SamplerSettings
    done: dict[int, _Refit]
    tell: Callable[[str], None]

    def before(self, first: int) -> Posterior:
        """Fits the rows before a block and keeps what its scores need."""
        log, cut = self.log, int(self.log.origins[first - 1])
        self.tell(f"forecast origin {first} of {len(log.origins)}")
        training, rows = rows_before(log.table, cut, log.whole)
        seed = seed_of(self.seed, "origin", cut)
        found = usable_posterior(
            log.regime, training, rows, priors=self.priors, seed=seed, sampler=self.sampler, chains=2
        )
        z, prior = thinned(np.asarray(found.chain.z)), prior_numbers(log.regime, found.priors)
        doubtful = "" if found.usable else f"refit on {cut} rows: {found.convergence.sentence}"
        self.done[first] = _Refit(z, prior, rows, log.block_likelihoods(z, prior, rows)[..., first:], doubtful)
        return found


def _wrapper(refitting: _Refitting) -> Any:
    """ArviZ's sampling wrapper for a law; "observations" are blocks: all rows before the first origin are block 0."""
    from arviz_base import from_dict
    from arviz_stats.loo.wrapper import SamplingWrapper
    from xarray import DataArray

    class Wrapper(SamplingWrapper):
        def sel_observations(self, idx: np.ndarray) -> tuple[int, np.ndarray]:
            return int(idx[0]), np.asarray(idx)

        def sample(self, modified_observed_data: int) -> tuple[int, Posterior]:
            return modified_observed_data, refitting.before(modified_observed_data)

        def get_inference_data(self, fitted_model: tuple[int, Posterior]) -> DataTree:
            tree = from_dict({"posterior": {k: thinned(x) for k, x in fitted_model[1].draws.items()}})
            tree.attrs["first"] = fitted_model[0]
            return tree

        def log_likelihood__i(self, excluded_obs: np.ndarray, idata__i: DataTree) -> DataArray:
            blocks = refitting.done[idata__i.attrs["first"]].blocks
            return DataArray(blocks, dims=["chain", "draw", "block"], coords={"block": excluded_obs})

    return Wrapper(model=refitting.log.regime)


def _forecast_densities(log: _Blocks, refits: Mapping[int, _Refit]) -> np.ndarray:
    """Log density of every row after the first origin given the rows before its block, by the refits at hand."""
    from arviz_stats.base.array import array_stats
    from scipy.special import logsumexp

    out, refit, first = [], refits[1], 1  # the first origin is always fitted
    for block, cut in enumerate(log.origins, start=1):
        if block in refits:
            refit, first = refits[block], block
        log_weight = np.zeros(refit.z.shape[:-1])
        if block > first:
            stats: Any = array_stats
            log_weight, _ = stats.psislw(-refit.blocks[..., : block - first].sum(-1), axis=(0, 1))
        with jax.enable_x64(True):
            rows = refit.rows._replace(y=_hidden(log.whole.y, cut))
            ahead = summarise(log.regime, jax.random.key(0), refit.z, refit.prior, rows)
        future = slice(cut, cut + log.horizon)
        mean, var = np.asarray(ahead.loo_mean)[..., future], np.asarray(ahead.loo_var)[..., future]
        density = -0.5 * (LOG_2PI + np.log(var) + (log.whole.y[future] - mean) ** 2 / var)
        total = np.asarray(log_weight)[..., None] + density
        out.append(logsumexp(total, axis=(0, 1)) - logsumexp(log_weight))
    return np.concatenate(out)


def rows_before(table: RowTable, cut: int, whole: Rows) -> tuple[RowTable, Rows]:
    """The first ``cut`` rows, and the same padded in the shapes of the whole log, so that nothing is compiled anew."""
    n = len(table.y)
    columns = {f.name: getattr(table, f.name) for f in fields(table)}
    training = replace(
        table, **{k: v[:cut] for k, v in columns.items() if isinstance(v, np.ndarray) and v.shape == (n,)}
    )
    small = padded(training)
    rows = whole._replace(
        y=_hidden(whole.y, cut), length=small.length, spacing=small.spacing, start_speed=small.start_speed
    )
    return training, rows


def thinned(draws: np.ndarray) -> np.ndarray:
    """At most `DRAWS` evenly spread draws of all, from shape (chains, draws, ...)."""
    chains, n = draws.shape[:2]
    return draws[:, spread(n, max(1, DRAWS // chains))]


def _hidden(y: Any, cut: int) -> np.ndarray:
    """The rows with all from ``cut`` on missing."""
    out = np.array(y)
    out[cut:] = np.nan
    return out
