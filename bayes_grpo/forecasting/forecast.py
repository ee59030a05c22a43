"""`forecast`: where the reward goes from here, averaged over laws, under the learning rate that is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.comparison.result import Comparison
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.forecasting.basis import Basis, basis_of_fit, basis_of_run
from bayes_grpo.forecasting.events import RewardPaths
from bayes_grpo.forecasting.fits import (
    FORECAST_REGIMES,
    FittedRegimes,
    RegimeDraws,
    draws_of_fit,
    draws_of_law,
    fit_regimes,
)
from bayes_grpo.forecasting.hazard import Hazard, hazard_named
from bayes_grpo.forecasting.level import LEVEL_NAME, level_of, level_paths
from bayes_grpo.forecasting.paths import allot, regime_paths
from bayes_grpo.forecasting.pool import Pool, pooled
from bayes_grpo.forecasting.priors import PriorsFor, forecast_priors
from bayes_grpo.forecasting.result import Forecast
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.future import beyond_steps, future_rows, future_steps, rows_until


def forecast(
    source: Run | Fit | Comparison,
    until: float,
    *,
    schedule: str | None = None,
    total_steps: float | None = None,
    signal: str = "auto",
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    draws: int = 2000,
    seed: int = 0,
    weights: Mapping[str, float] | None = None,
    pool: Pool | bool = True,
    hazard: Hazard | bool = True,
    priors: PriorsFor = forecast_priors,
    sampler: SamplerSettings | None = None,
    progress: Progress | None = None,
) -> Forecast:
    """Forecasts the reward of a run.

    A run is fitted with every regime under priors for forecasting (`bayes_grpo.forecasting.priors`), and the
    regimes are weighted by how well each predicted the rows before they were there (`bayes_grpo.forecasting.weights`).
    Beside several regimes, the level of the last rows gets a learned share (`bayes_grpo.forecasting.pool`): a law may
    be wrong in its trend, and no law is. A few paths meet an event that no law knows, a collapse or a take-off, as
    often as other logs did (`bayes_grpo.forecasting.hazard`).
    Fits are taken as they are, with the priors and weights that they come with.

    Args:
        source: A run, one fit, or a comparison of regimes with its weights.
        until: Horizon, an optimizer step after the last logged one.
        schedule: Learning rate from now on: "constant", "linear" or "cosine"; by default what the log and its
            settings say, or a continuation that is named in ``assumed``.
        total_steps: Step at which a decaying learning rate reaches 0.
        signal: "auto", "reward" (train) or "eval" (held-out); for a run.
        regimes: Regimes to average over; for a run.
        draws: Number of paths.
        seed: Seed.
        weights: Weights of the regimes, and of "level", in place of those of the source.
        pool: Share of the level, for a run: the shipped numbers (True), others, or laws alone (False).
        hazard: Probability of events that no law knows, for a run and several regimes: the shipped numbers (True),
            others, or none (False).
        priors: Prior overrides of each law for the rows; for a run.
        sampler: Length and care of the sampling; for a run.
        progress: Called with a short phrase at every stage; for a run.

    Returns:
        The forecast.

    Raises:
        FitError: Too few rows, no such signal, or no regime could be fitted.
        SettingError: A horizon in the past, an impossible schedule, or weights of unknown regimes.
    """
    if not (isinstance(draws, int) and draws >= 100):
        raise SettingError(f"draws: expected an integer of at least 100, found {draws!r}")
    if isinstance(source, Run):
        basis = basis_of_run(source, signal, schedule, total_steps)
        future_steps(basis.table, until)  # a horizon in the past is refused before anything is fitted
        fitted = fit_regimes(
            basis.table, regimes, reward=basis.reward, priors=priors, seed=seed, sampler=sampler, progress=progress
        )
        asked = {x if isinstance(x, str) else x.name for x in regimes}
        given = None if weights is None else {k: w for k, w in weights.items() if k in fitted.draws or k not in asked}
        return forecast_of_laws(basis, fitted, until, draws=draws, seed=seed, weights=given, pool=pool, hazard=hazard)
    if isinstance(source, Fit):
        basis = basis_of_fit(source, schedule, total_steps)
        drawn, shares = {source.regime.name: draws_of_fit(source, basis.reward)}, {source.regime.name: 1.0}
    else:
        basis = basis_of_run(source.run, source.about.signal, schedule, total_steps)
        drawn = {k: draws_of_law(v, basis.reward) for k, v in source.laws.items()}
        shares = source.weights_lfo
    shares = _shares(drawn, shares if weights is None else weights)
    return _averaged(basis, drawn, shares, until, draws, seed, None)


def forecast_of_laws(
    basis: Basis,
    fitted: FittedRegimes,
    until: float,
    *,
    draws: int = 2000,
    seed: int = 0,
    weights: Mapping[str, float] | None = None,
    pool: Pool | bool = True,
    hazard: Hazard | bool = True,
) -> Forecast:
    """The forecast out of laws that are fitted already: with the level beside them, and events that no law knows.

    Args:
        basis: What the forecast rests on.
        fitted: Laws fitted on its rows.
        until: Horizon, an optimizer step after the last row.
        draws: Number of paths.
        seed: Seed.
        weights: Weights in place of those of the laws; of laws that there are, and of the level.
        pool: Share of the level, as in `forecast`.
        hazard: Probability of events, as in `forecast`.

    Returns:
        The forecast.

    Raises:
        SettingError: A horizon in the past, or weights of unknown regimes.
    """
    rows = rows_until(basis.table, until)
    known = hazard_named(hazard, len(fitted.weights))
    beside = pooled(pool, basis.table, fitted, rows)
    shares = fitted.weights if beside is None else beside.weights
    return _averaged(
        replace(basis, notes=basis.notes + fitted.notes),
        fitted.draws,
        _shares(fitted.draws, shares if weights is None else weights),
        until,
        draws,
        seed,
        None if known is None else _Upset(known, rows),
    )


class _Upset(NamedTuple):
    """Events that a forecast counts with: their numbers, and the log's rows until the horizon."""

    hazard: Hazard
    rows: int


def _averaged(
    basis: Basis,
    drawn: Mapping[str, RegimeDraws],
    shares: dict[str, float],
    until: float,
    draws: int,
    seed: int,
    upset: _Upset | None,
) -> Forecast:
    """The forecast out of paths of every law, as many as its weight is worth; some of them meet an event."""
    table, reward, ahead, notes = basis.table, basis.reward, basis.ahead, basis.notes
    step, beyond = future_steps(table, until), beyond_steps(table, until)
    future = future_rows(table, np.concatenate([step, beyond]), ahead)
    counts = {name: n for name, n in allot(draws, shares).items() if n}

    def paths(name: str, n: int) -> tuple[np.ndarray, ...]:
        part = seed_of(seed, "paths", name)
        if name == LEVEL_NAME:
            return level_paths(level_of(table.y), len(future.step), n, part, reward)
        return regime_paths(drawn[name], table, future, n, part, reward)

    parts = [paths(name, n) for name, n in counts.items()]
    if reward.known and not reward.assumed:
        notes += (f"the reward is {reward.sentence}: draws that settle outside were replaced, paths held inside",)
    latent, trend, rows, fixed, initial = (np.concatenate(x) for x in zip(*parts, strict=True))
    h = 1 + len(step)
    final = trend[:, -1] if math.isfinite(ahead.total_steps) or ahead.rate_now == 0 else fixed
    averaged, event = RewardPaths(latent, trend, rows), np.full(len(latent), "")
    if upset is not None:
        moving = np.flatnonzero(future.rate[1:h] > 0.0)
        share = upset.rows * len(moving) / len(step)
        part = seed_of(seed, "events")
        met = upset.hazard.met(table.y, share, averaged, latent[:, 0], 1 + moving, reward, part)
        averaged, event = met.paths, met.event
        fixed, final = (np.where(event == "", x, met.settles) for x in (fixed, final))
    latent, trend, rows = averaged
    return Forecast(
        now=float(table.step[-1]),
        step=step,
        latent=latent[:, 1:h],
        rows=rows[:, 1:h],
        trend=trend[:, 1:h],
        latent_now=latent[:, 0],
        initial=initial,
        at_infinity=fixed,
        final=final,
        beyond_step=beyond,
        beyond=trend[:, h:],
        regime=np.repeat(list(counts), list(counts.values())),
        event=event,
        weights=shares,
        signal=table.signal,
        logged_step=table.step,
        logged=table.y,
        low=reward.low,
        high=reward.high,
        schedule=ahead,
        assumed=tuple(x for x in (ahead.assumed, reward.assumed) if x),
        notes=notes,
        name=basis.name,
        lag=table.lag,
    )


def _shares(fits: Mapping[str, RegimeDraws], weights: Mapping[str, float]) -> dict[str, float]:
    """Weights of the fitted regimes, summing to 1."""
    unknown = [name for name in weights if name not in fits and name != LEVEL_NAME]
    if unknown:
        raise SettingError(f"weights: no fit of regime {unknown[0]!r}; there are {', '.join(fits)}")
    total = sum(weights.values())
    if not (total > 0 and all(w >= 0 and math.isfinite(w) for w in weights.values())):
        raise SettingError(f"weights: expected numbers of at least 0 with a sum above 0, found {dict(weights)!r}")
    return {name: float(w) / total for name, w in weights.items()}
