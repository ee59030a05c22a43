"""Convergence checks of a sampler's draws: rank R-hat, bulk and tail ESS, divergences, E-BFMI.

R-hat and ESS as in Vehtari et al. 2021 (https://doi.org/10.1214/20-BA1221), E-BFMI as in Betancourt 2016
(https://arxiv.org/abs/1604.00695). ArviZ computes the same, to which they are compared in the tests, but takes seconds
to import, longer than the chains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        passed: Whether every check holds.
        reasons: What fails, one clause each; empty when passed.
        parameters: Checks of each parameter.
        divergences: Divergent transitions after warm-up, all chains.
        ebfmi: Smallest energy Bayesian fraction of missing information over the chains.
        mean_steps: Mean leapfrog steps a draw.
        retried: Whether these are the draws of the one retry.
    """

    passed: bool
    reasons: tuple[str, ...]
    parameters: Mapping[str, ParameterCheck]
    divergences: int
    ebfmi: float
    mean_steps: float
    retried: bool

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
    num_steps: np.ndarray,
    retried: bool,
) -> Convergence:
    """Checks draws of every parameter, their energies, divergences and leapfrog steps, all of shape (chains, draws)."""
    checks = {name: ParameterCheck(rhat(x), ess_bulk(x), ess_tail(x, 0.05, 0.95)) for name, x in draws.items()}
    divergences = int(np.sum(diverging))
    ebfmi = float(np.min(energy_fraction(energy)))
    reasons = []
    for name, c in checks.items():
        if not c.rhat <= RHAT_LIMIT:
            reasons.append(f"R-hat of {name} is {c.rhat:.3f} (limit {RHAT_LIMIT})")
        smallest = min(c.ess_bulk, c.ess_tail)
        if not smallest >= ESS_LIMIT:
            reasons.append(f"ESS of {name} is {smallest:.0f} (limit {ESS_LIMIT:.0f})")
    if divergences:
        reasons.append(f"{divergences} divergent transitions (limit 0)")
    if not ebfmi >= BFMI_LIMIT or math.isnan(ebfmi):
        reasons.append(f"E-BFMI is {ebfmi:.2f} (limit {BFMI_LIMIT})")
    return Convergence(
        passed=not reasons,
        reasons=tuple(reasons),
        parameters=checks,
        divergences=divergences,
        ebfmi=ebfmi,
        mean_steps=float(np.mean(num_steps)),
        retried=retried,
    )


def rhat(draws: np.ndarray) -> float:
    """Split R-hat of ranks, the larger one of bulk and tails, of shape (chains, draws); NaN where not finite."""
    if not np.isfinite(draws).all():
        return math.nan
    halves = _halves(draws)
    return max(_plain_rhat(_normal_scores(x)) for x in (halves, np.abs(halves - np.median(halves))))


def ess_bulk(draws: np.ndarray) -> float:
    """Effective sample size of the ranks, split chains, of shape (chains, draws); NaN where not finite."""
    return _ess(_normal_scores(_halves(draws))) if np.isfinite(draws).all() else math.nan


def ess_tail(draws: np.ndarray, low: float, high: float) -> float:
    """The smaller effective sample size of two quantiles, by the probabilities below them; NaN where not finite."""
    if not np.isfinite(draws).all():
        return math.nan
    return min(_ess(_halves((draws <= np.quantile(draws, p)).astype(float))) for p in (low, high))


def energy_fraction(energy: np.ndarray) -> np.ndarray:
    """Energy Bayesian fraction of missing information of every chain, from energies of shape (chains, draws)."""
    return np.square(np.diff(energy, axis=1)).mean(axis=1) / np.var(energy, axis=1, ddof=1)


def _halves(draws: np.ndarray) -> np.ndarray:
    """Both halves of every chain as chains; the middle draw of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks over all chains (Blom 1958); equal draws share their mean rank."""
    from scipy.special import ndtri

    ordered = np.sort(draws, axis=None)
    rank = 0.5 * (np.searchsorted(ordered, draws, "left") + np.searchsorted(ordered, draws, "right") + 1.0)
    return ndtri((rank - 0.375) / (draws.size + 0.25))


def _plain_rhat(draws: np.ndarray) -> float:
    n = draws.shape[1]
    within = np.var(draws, axis=1, ddof=1).mean()
    between = n * np.var(draws.mean(axis=1), ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.sqrt((between / within + n - 1) / n))


def _ess(draws: np.ndarray) -> float:
    """Effective sample size by Geyer's initial monotone sequence, shape (chains, draws)."""
    chains, n = draws.shape
    total = chains * n
    if np.ptp(draws) < np.finfo(float).resolution:
        return float(total)
    away = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(away, 2 ** math.ceil(math.log2(2 * n)), axis=1)
    autocovariance = np.fft.irfft(spectrum * spectrum.conj(), axis=1)[:, :n].mean(axis=0) / n
    within = autocovariance[0] * n / (n - 1.0)
    variance = autocovariance[0] + (np.var(draws.mean(axis=1), ddof=1) if chains > 1 else 0.0)
    correlation = 1.0 - (within - autocovariance) / variance
    correlation[0] = 1.0
    # Sums of neighboring pairs are positive and fall; where they stop to be positive there is only noise.
    kept, even = [correlation[0], correlation[1]], 1.0
    t, odd = 1, correlation[1]
    while t < n - 3 and even + odd > 0.0:
        even, odd = correlation[t + 1], correlation[t + 2]
        kept += [even, odd] if even + odd >= 0.0 else [0.0, 0.0]
        t += 2
    last = t - 2
    kept += [0.0, 0.0]
    if even > 0:
        kept[last + 1] = even
    for i in range(1, last - 1, 2):
        if kept[i + 1] + kept[i + 2] > kept[i - 1] + kept[i]:
            kept[i + 1] = kept[i + 2] = 0.5 * (kept[i - 1] + kept[i])
    time = -1.0 + 2.0 * sum(kept[: last + 1]) + sum(kept[last + 1 : last + 2])
    return float(total / max(time, 1.0 / math.log10(total)))
