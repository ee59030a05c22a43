"""The laws behind a forecast: posterior draws of each on the same rows, and their weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.comparison.law import Law
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.fitting.sampling.fast import FastPosterior, fast_posterior
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.points import Trust
from bayes_grpo.forecasting.bounds import UNBOUNDED, Bounded, bounded
from bayes_grpo.forecasting.priors import PriorsFor, forecast_priors
from bayes_grpo.forecasting.weights import forecast_weights, prior_weights
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.padding import Rows, shared
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.table import RowTable

FORECAST_REGIMES = ("flat", "exponential", "oscillator", "bernoulli", "logistic", "sigmoid")
"""Regimes that a forecast averages over."""
FORECAST_SAMPLER = SamplerSettings(chains=4, warmup=300, draws=500)
"""Settings of NUTS where a forecast needs it: predictive paths need fewer draws than the tails of parameters."""


@dataclass(frozen=True, eq=False)
class RegimeDraws:
    """Posterior draws of one law.

    Attributes:
        regime: The law.
        priors: Priors that were used.
        values: Draws of the sampled parameters in their units, shape (draws,) each.
        initial: Draws of the initial reward, shape (draws,); NaN for a law without a start.
        bounded: What the range of the reward does to the law.
    """

    regime: Regime
    priors: Mapping[str, Prior]
    values: Mapping[str, np.ndarray]
    initial: np.ndarray
    bounded: Bounded = UNBOUNDED

    @property
    def size(self) -> int:
        """Number of draws."""
        return len(self.initial)


@dataclass(frozen=True, eq=False)
class FittedRegimes:
    """Laws fitted on the same rows.

    Attributes:
        draws: Regime → draws.
        weights: Regime → weight.
        log_evidence: Regime → log marginal likelihood.
        notes: Which laws were left out, and why.
        trust: Regime → whether its weighted points can be used.
        z: Regime → draws in the sampler's coordinates, shape (draws, p), from which a later fit may start.
    """

    draws: dict[str, RegimeDraws]
    weights: dict[str, float]
    log_evidence: dict[str, float]
    notes: tuple[str, ...]
    trust: dict[str, Trust]
    z: dict[str, np.ndarray]


def draws_of_fit(fit: Fit, reward: RewardRange) -> RegimeDraws:
    """Draws of a fit."""
    regime = fit.regime
    values = {p.name: fit.draws(p.name).ravel() for p in regime.sampled}
    total = len(next(iter(values.values())))
    initial = fit.draws("initial_reward").ravel() if regime.has_trend else np.full(total, np.nan)
    known = bounded(reward, fit.priors["fixed_point"], fit.draws("fixed_point"))
    return RegimeDraws(regime, fit.priors, values, initial, known)


def draws_of_law(law: Law, reward: RewardRange) -> RegimeDraws:
    """Draws of a law of a comparison."""
    initial = law.draws.get("initial_reward", np.full(len(law.draws["fixed_point"]), np.nan))
    known = bounded(reward, law.priors["fixed_point"], law.draws["fixed_point"])
    return RegimeDraws(law.regime, law.priors, {p.name: law.draws[p.name] for p in law.regime.sampled}, initial, known)


def draws_of_posterior(found: FastPosterior, reward: RewardRange, seed: int) -> RegimeDraws:
    """Draws of a posterior without a DataTree."""
    levels = found.levels(seed)
    initial = levels.get("initial_reward", np.full(len(found.z), np.nan))
    known = bounded(reward, found.priors["fixed_point"], levels["fixed_point"])
    return RegimeDraws(found.regime, found.priors, found.values(), initial, known)


def fit_regimes(
    table: RowTable,
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    *,
    reward: RewardRange | None = None,
    priors: PriorsFor = forecast_priors,
    seed: int = 0,
    care: Care | None = None,
    sampler: SamplerSettings | None = None,
    rows: Rows | None = None,
    strict: bool = True,
    start: Mapping[str, np.ndarray] | None = None,
    progress: Progress | None = None,
) -> FittedRegimes:
    """Fits laws to rows and weighs them.

    Args:
        table: Rows.
        regimes: Regimes or their names.
        reward: Range of the reward; unknown if None.
        priors: Prior overrides of each law for these rows.
        seed: Seed; a law's draws do not depend on which other laws there are.
        care: How many points the fast posterior spends.
        sampler: Settings of NUTS, which is run where the fast posterior cannot be trusted.
        rows: The same rows in another padding.
        strict: Whether a law whose fast posterior cannot be trusted is sampled by NUTS and, failing that, left out;
            without it every law is kept as its points left it.
        start: Regime → draws of a posterior that is expected to be close, as a fit of fewer rows left them.
        progress: Called with a short phrase at every stage.

    Returns:
        Draws and weights.

    Raises:
        FitError: No law could be fitted.
        SettingError: A regime that cannot forecast, or none.
    """
    regimes = [get_regime(x) for x in regimes]
    if not regimes:
        raise SettingError("regimes: expected at least one to forecast with, found none")
    unable = [x.name for x in regimes if not x.forecasts]
    if unable:
        raise SettingError(f"regimes: {unable[0]} cannot forecast from the steps alone; leave it out")
    tell = progress or (lambda _: None)
    rows = shared(table) if rows is None else rows
    found: dict[str, RegimeDraws] = {}
    evidence: dict[str, float] = {}
    trust: dict[str, Trust] = {}
    z: dict[str, np.ndarray] = {}
    notes = []
    for i, regime in enumerate(regimes):
        tell(f"{regime.name} ({i + 1} of {len(regimes)})")
        try:
            posterior = fast_posterior(
                regime,
                table,
                rows,
                priors=priors(regime, table),
                seed=seed_of(seed, "fit", regime.name),
                care=care,
                start=(start or {}).get(regime.name),
                sampler=sampler or FORECAST_SAMPLER,
                fallback=strict,
            )
        except FitError as error:
            notes.append(f"{regime.name} was left out: {error}")
            continue
        if strict and not posterior.usable:
            notes.append(f"{regime.name} was left out: {posterior.sentence}")
            continue
        if strict and posterior.sentence:
            notes.append(f"{regime.name}: {posterior.sentence}")
        drawn = draws_of_posterior(posterior, reward or RewardRange(), seed_of(seed, "levels", regime.name))
        found[regime.name], trust[regime.name], z[regime.name] = drawn, posterior.trust, posterior.z
        evidence[regime.name] = posterior.log_evidence + drawn.bounded.log_factor
    if not found:
        raise FitError(f"no law could be fitted to forecast with: {'; '.join(notes)}")
    return FittedRegimes(found, _weights(found, evidence), evidence, tuple(notes), trust, z)


def without(fitted: FittedRegimes, names: Collection[str]) -> FittedRegimes:
    """The same laws less some of them, weighed anew.

    Args:
        fitted: Laws fitted on the same rows.
        names: Those to leave out; one law at least has to be left.
    """
    kept = [name for name in fitted.draws if name not in names]
    draws, evidence = {k: fitted.draws[k] for k in kept}, {k: fitted.log_evidence[k] for k in kept}
    trust, z = {k: fitted.trust[k] for k in kept}, {k: fitted.z[k] for k in kept}
    return FittedRegimes(draws, _weights(draws, evidence), evidence, fitted.notes, trust, z)


def _weights(found: Mapping[str, RegimeDraws], evidence: Mapping[str, float]) -> dict[str, float]:
    trending = {name: x.regime.has_trend for name, x in found.items()}
    return forecast_weights(evidence, prior_weights([x.regime for x in found.values()]), trending)
