"""Regimes fitted and weighted for a forecast, with weak priors on the plateau and on the time scale.

The default priors of a fit scale with the log: a plateau within 3 standard deviations of its rows, a time of a fifth
of its length. They suit a complete curve. Early in a run the rows have a small spread, and such priors exclude every
later rise. So, for the regimes with a trend,

- the time scale has the length of the log as median and ranges over two orders of magnitude: the future may take as
  long as the past;
- the plateau has the mean of the last rows plus 3 standard deviations of the rows as center, and 6 as scale: training
  raises the reward more often than it lowers it, and by more than the rows show;
- a slow start looks flat, so the spread of its rows does not inform its plateau: for a reward with all rows in [0, 1]
  (a share of successes), the regimes with slow starts center it half way up to 1, with the whole way as scale, where
  that is more than the above;
- the start lies near the first rows;
- a slow start (a small initial success rate, a steep sigmoid) is as likely as a fast one; both range as widely as over
  public logs (2.5 logits, 1.1 e-folds over 125 logs of 15 repositories).

The fluctuation around every regime, also around the flat one, may last as long as a large part of the log: the present
reward then informs the next rows, as in the last-value forecaster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.runtime import Progress, cores, or_silent
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.fitting.draws import Draws, fast_posterior
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.series import Series, is_share

_LAST = 10
"""Maximum number of last rows for the present reward; a third of the log where that is shorter."""
_SLOW = ("initial_success", "exponent")
"""Parameters of a slow start."""
_TIMES = ("relaxation_time", "response_time", "half_gain_step", "midpoint", "learning_time")


def forecast_priors(regime: Regime, table: Series) -> dict[str, Prior]:
    """Prior overrides of a regime for forecasting from these rows, by parameter; see the module's text."""
    names = {p.name for p in regime.parameters}
    lasting = Prior(table.length / 5.0, 1.2)
    if "initial_reward" not in names:
        still = {"fluctuation_time": lasting, "fixed_point": Prior(table.centre, 3.0 * table.scale)}
        return {name: prior for name, prior in still.items() if name in names}
    n, spread = len(table.y), table.scale
    end = float(np.mean(table.y[-max(3, min(_LAST, n // 3)) :]))
    begin = float(np.mean(table.y[: max(3, n // 5)]))
    room = 1.0 - end if names & set(_SLOW) and is_share(table.y) else 0.0
    reach = max(6.0 * spread, room)
    priors = {
        "fixed_point": Prior(end + 0.5 * reach, reach),
        "initial_reward": Prior(begin, 2.0 * spread),
        "fluctuation_time": lasting,
        "exponent": Prior(2.0, 1.0),
        "initial_success": Prior(0.12, 2.5),
    }
    priors |= {name: Prior(table.length, 1.25) for name in _TIMES}
    return {name: prior for name, prior in priors.items() if name in names}


FLAT_SHARE = 0.3
"""Prior weight of "no trend"; the regimes with a trend share the rest."""
SHRINKAGE = 0.2
"""Share of the final weights that stays with the regimes with a trend, whatever the rows."""
FORECAST_REGIMES = ("flat", "oscillator", "sigmoid")
"""Regimes that a forecast averages over."""
FORECAST_SAMPLER = SamplerSettings(num_chains=4, num_warmup=300, num_samples=500)
"""Settings of NUTS where a forecast needs it: predictive paths need fewer draws than the tails of parameters."""


class Bounded(NamedTuple):
    """Probability that a reward range holds given the rows, and log factor on the regime's marginal likelihood."""

    share: float = 0.0
    log_factor: float = 0.0


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Regimes fitted to the same rows; made by `fit_ensemble`.

    Attributes:
        draws: Regime → draws, the marginalized parameters among them.
        reward: Range of the reward.
        bounded: Regime → effect of the reward range.
        log_evidence: Regime → log marginal likelihood within that range; NaN where the sampler gives none.
        weights: Regime → weight.
        notes: Regimes left out, with reasons.
        not_converged: Regimes left out because their posterior was not reached.
    """

    draws: Mapping[str, Draws]
    reward: RewardRange
    bounded: Mapping[str, Bounded]
    log_evidence: dict[str, float]
    weights: dict[str, float]
    notes: tuple[str, ...]
    not_converged: tuple[str, ...] = ()

    @property
    def trending(self) -> dict[str, bool]:
        """Regime → whether it has a trend."""
        return {name: x.regime.has_trend for name, x in self.draws.items()}


def fit_ensemble(
    table: Series,
    regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    *,
    reward: RewardRange | None = None,
    seed: int = 0,
    settings: ImportanceSettings | None = None,
    sampler: SamplerSettings | None = None,
    strict: bool = True,
    progress: Progress | None = None,
) -> Ensemble:
    """Fits regimes to rows, each with draws that depend on no other, and computes their weights.

    With ``strict``, a regime with an unreliable fast posterior is sampled by NUTS and, failing that, left out; without
    it, the fast posterior of every regime is kept.
    """
    regimes = [get_regime(x) for x in regimes]
    if not regimes:
        raise SettingError("expected at least one to forecast with, found none", parameter="regimes")
    progress = or_silent(progress)
    found: dict[str, Draws] = {}
    notes, not_converged = [], []

    def drawn(regime: Regime) -> Draws:
        target = target_of(regime, table, forecast_priors(regime, table), arrays=shared(table))
        draws = fast_posterior(
            target,
            seed=seed_of(seed, "fit", regime.name),
            settings=settings,
            sampler=sampler or FORECAST_SAMPLER,
            fallback=strict,
        )
        return draws.sample_marginalized(seed_of(seed, "levels", regime.name)) if draws.usable or not strict else draws

    pool = ThreadPoolExecutor(max_workers=cores())  # compiled code releases the GIL
    try:
        under_way = [pool.submit(drawn, regime) for regime in regimes]
        for i, (regime, future) in enumerate(zip(regimes, under_way, strict=True)):
            progress(f"{regime.name} ({i + 1} of {len(regimes)})")
            try:
                draws = future.result()
            except FitError as error:
                notes.append(f"{regime.name} was left out: {error}")
                continue
            if strict and not draws.usable:
                notes.append(f"{regime.name} was left out: {draws.note}")
                not_converged.append(regime.name)
                continue
            if strict and draws.note:
                notes.append(f"{regime.name}: {draws.note}")
            found[regime.name] = draws
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if not found:
        raise FitError(f"no regime could be fitted for the forecast: {'; '.join(notes)}")
    return _weighted(found, reward or RewardRange(), tuple(notes), tuple(not_converged))


def _weighted(
    draws: Mapping[str, Draws], reward: RewardRange, notes: tuple[str, ...], not_converged: tuple[str, ...]
) -> Ensemble:
    """Regimes, by their draws on the same rows, with weights from one-step-ahead densities, see `forecast_weights`."""
    in_range = {k: bounded(reward, x.priors["fixed_point"], x.flat("fixed_point")) for k, x in draws.items()}
    evidence = {name: x.log_evidence + in_range[name].log_factor for name, x in draws.items()}
    trending = {name: x.regime.has_trend for name, x in draws.items()}
    weights = forecast_weights(evidence, prior_weights([x.regime for x in draws.values()]), trending)
    return Ensemble(draws, reward, in_range, evidence, weights, notes, not_converged)


def trusted(fitted: Ensemble) -> Ensemble:
    """The same regimes less those whose fast posterior cannot be trusted; all of them where none can."""
    rough = [name for name, x in fitted.draws.items() if not (x.usable and x.diagnostics.passed)]
    if not rough or len(rough) == len(fitted.draws):
        return fitted
    rest = {name: x for name, x in fitted.draws.items() if name not in rough}
    note = f"{', '.join(rough)} left out: too few points fit these rows"
    return _weighted(rest, fitted.reward, (*fitted.notes, note), (*fitted.not_converged, *rough))


def bounded(reward: RewardRange, prior: Prior, fixed_point: np.ndarray) -> Bounded:
    """Effect of a reward range on a regime fitted without it, by prior and draws, shape (n,), of its fixed point."""
    if not reward.bounded:
        return Bounded()
    low, high = ((end - prior.median) / (prior.spread * math.sqrt(2.0)) for end in (reward.low, reward.high))
    before = 0.5 * (math.erf(high) - math.erf(low))
    inside = np.count_nonzero((fixed_point >= reward.low) & (fixed_point <= reward.high))
    ratio = (inside + 0.5) / (len(fixed_point) + 1.0) / max(before, 1e-12)
    factor = reward.share * ratio + 1.0 - reward.share
    return Bounded(reward.share * ratio / factor, math.log(factor))


def prior_weights(regimes: Sequence[Regime]) -> dict[str, float]:
    """Prior weights: `FLAT_SHARE` for regimes without a trend, equal weights within each kind."""
    trend = {r.name: r.has_trend for r in regimes}
    moving = sum(trend.values())
    still = len(trend) - sum(trend.values())
    share = FLAT_SHARE if moving and still else float(still > 0)
    return {name: (1.0 - share) / moving if moves else share / still for name, moves in trend.items()}


def forecast_weights(
    log_evidence: Mapping[str, float],
    prior: Mapping[str, float],
    trending: Mapping[str, bool],
    shrinkage: float = SHRINKAGE,
) -> dict[str, float]:
    """Bayesian model averaging weights of the regimes, shrunk towards regimes with a trend.

    The log marginal likelihood is the sum of one-step-ahead log scores, log p(y₁…yₙ) = Σ log p(yₜ | y₁…yₜ₋₁). Weights
    are proportional to prior weight times marginal likelihood (Kass and Raftery 1995,
    https://doi.org/10.1080/01621459.1995.10476572). A fixed share then stays with the regimes with a trend, by their
    prior weights: rows can refute "no trend", but not a trend that starts later, and every regime is an approximation.
    """
    names = list(log_evidence)
    start = np.array([prior[name] for name in names])
    start = start / start.sum()
    score = np.array([log_evidence[name] for name in names]) + np.log(start)
    score = np.where(np.isfinite(score), score, -np.inf)
    if not np.isfinite(score).any():
        return dict(zip(names, start.tolist(), strict=True))
    weight = np.exp(score - score.max())
    weight = weight / weight.sum()
    trend_prior = start * np.array([trending[name] for name in names])
    if trend_prior.sum() > 0:
        weight = (1.0 - shrinkage) * weight + shrinkage * trend_prior / trend_prior.sum()
    return dict(zip(names, weight.tolist(), strict=True))
