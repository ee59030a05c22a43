"""What a law misses in its data: autocorrelated residuals, changing variance, outliers, a break.

Under the law with the parameters that made the rows, the standardised one-step innovations are independent standard
normal numbers, whatever the parameters. So replicated data need no simulation of the law, and a draw of the posterior
gives each statistic the distribution that the true parameters give it: a tail probability at one draw is uniform if
the law is right (Johnson 2007, https://doi.org/10.1214/07-BA203). Averaging over draws, as posterior-predictive
p-values do, would lose that, because the parameters were fitted to the same rows. The tail probabilities of all draws
are joined by the Cauchy combination instead, which holds under any dependence between them (Liu and Xie 2020,
https://doi.org/10.1080/01621459.2018.1554485).

Outliers are sought among leave-one-out residuals, because the innovation of a first row is as wide as the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.checking.result import ALERT, Check, Finding, Residuals, check_sentence
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import spread
from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics.kalman import filter_rows
from bayes_grpo.dynamics.smoother import smooth
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.target import PriorNumbers, state_space_at
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

_REPLICATES = 4000
"""Replicated series behind each tail probability."""
_MIN_ROWS = 12
"""Fewer rows cannot show any of the defects."""


Statistic = Callable[[np.ndarray], np.ndarray]


def check(fit: Fit) -> Check:
    """Checks a fit against its data.

    Args:
        fit: The fit, new or loaded.

    Returns:
        The findings, each with a tail probability that is uniform if the law is right.

    Raises:
        FitError: Fewer than `_MIN_ROWS` rows.
    """
    n = len(fit.step())
    if n < _MIN_ROWS:
        raise FitError(
            f"{fit.data.attrs['source']}: a check of the residuals needs at least {_MIN_ROWS} rows, found {n}; "
            "log more often or wait for more steps"
        )
    residuals = residuals_of(fit.as_draws)
    findings = findings_of(residuals, fit.step())
    return Check(
        sentence=check_sentence(findings, fit.regime.name, n),
        findings=findings,
        residuals=residuals,
        pit=loo_pit(residuals),
        about=fit.about,
        regime=fit.regime.name,
        converged=fit.convergence.passed,
    )


def autocorrelation(e: np.ndarray, lags: int) -> np.ndarray:
    """Autocorrelations about 0 at lags 1, 2, …, shape (..., lags), of series of shape (..., n)."""
    power = np.sum(e**2, axis=-1)
    return np.stack([np.sum(e[..., k:] * e[..., :-k], axis=-1) / power for k in range(1, lags + 1)], axis=-1)


def lags_of(n: int) -> int:
    """Lags that are looked at."""
    return max(1, min(10, n // 5))


def _ljung_box(e: np.ndarray) -> np.ndarray:
    n, lags = e.shape[-1], lags_of(e.shape[-1])
    return n * (n + 2) * np.sum(autocorrelation(e, lags) ** 2 / (n - np.arange(1, lags + 1)), axis=-1)


def _segments(n: int) -> list[slice]:
    """Quarters of the rows; halves of a short log."""
    edges = np.linspace(0, n, (4 if n >= 32 else 2) + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges)]


def _spread_change(e: np.ndarray) -> np.ndarray:
    """Kruskal-Wallis statistic of |e| over quarters of the rows: ranks, so that one outlier is no change."""
    n = e.shape[-1]
    rank = np.argsort(np.argsort(np.abs(e), axis=-1), axis=-1) + 1.0
    parts = _segments(n)
    means = np.stack([rank[..., s].mean(axis=-1) for s in parts], axis=-1)
    sizes = np.array([s.stop - s.start for s in parts])
    return 12.0 / (n * (n + 1)) * np.sum(sizes * (means - (n + 1) / 2.0) ** 2, axis=-1)


def _cusum(e: np.ndarray) -> np.ndarray:
    """Running sums of the centred residuals over their final sd, shape (..., n)."""
    n = e.shape[-1]
    return np.cumsum(e - e.mean(axis=-1, keepdims=True), axis=-1) / (e.std(axis=-1, keepdims=True) * np.sqrt(n))


def _largest_cusum(e: np.ndarray) -> np.ndarray:
    return np.max(np.abs(_cusum(e)), axis=-1)


@lru_cache(maxsize=8)
def _replicated(n: int, seed: int) -> dict[str, np.ndarray]:
    """Sorted statistics of replicated series of n rows."""
    e = np.random.default_rng(seed).standard_normal((_REPLICATES, n))
    statistics = {"autocorrelation": _ljung_box, "variance": _spread_change, "break": _largest_cusum}
    return {name: np.sort(statistic(e)) for name, statistic in statistics.items()}


def findings_of(residuals: Residuals, step: np.ndarray, seed: int = 0) -> tuple[Finding, ...]:
    """The four checks on standardised residuals, in a fixed order."""
    e, n = residuals.innovation, residuals.innovation.shape[-1]
    replicated = _replicated(n, seed)
    typical = e.mean(axis=0)
    out = []

    def add(name: str, statistic: Statistic, words: Callable[[float], str], at: Any) -> None:
        seen, null = statistic(e), replicated[name]
        tails = (1.0 + len(null) - np.searchsorted(null, seen)) / (len(null) + 1.0)
        tail = combined(tails)
        middle, limit = np.quantile(null, [0.5, 0.95])
        said = _with_tail(words(tail), tail, tails)
        out.append(Finding(name, float(np.median(seen)), float(middle), float(limit), tail, at, said))

    r1 = float(np.mean(autocorrelation(e, 1)))
    add("autocorrelation", _ljung_box, lambda p: _autocorrelation_words(p, r1, lags_of(n)), None)
    parts = _segments(n)
    spread = [float(np.median(np.abs(e[:, s]))) for s in parts]  # as deaf to a single outlier as the ranks are
    add("variance", _spread_change, lambda p: _variance_words(p, spread, step, parts), None)
    out.append(_outliers(residuals.loo, step))
    where = int(np.argmax(np.abs(_cusum(typical))))
    add("break", _largest_cusum, lambda p: _break_words(p, typical, where, step), float(step[where]))
    return tuple(out)


def _outliers(loo: np.ndarray, step: np.ndarray) -> Finding:
    """Largest leave-one-out residual; the tail of the largest of n standard normal numbers (Šidák)."""
    from scipy.special import log_ndtr, ndtri

    n = loo.shape[-1]
    seen = np.max(np.abs(loo), axis=-1)
    tails = -np.expm1(n * np.log1p(-2.0 * np.exp(log_ndtr(-seen))))
    tail = combined(tails)
    middle, limit = (float(-ndtri((1.0 - q ** (1.0 / n)) / 2.0)) for q in (0.5, 0.95))
    median = np.median(loo, axis=0)
    where = int(np.argmax(np.abs(median)))
    count = int(np.sum(np.abs(median) > limit))
    side = "above" if median[where] > 0 else "below"
    size = f"{abs(median[where]):.1f} sd {side} what the other rows lead to expect"
    if tail < ALERT:
        more = f" ({count} rows stand out)" if count > 1 else ""
        text = f"The row at step {step[where]:g} is an outlier, {size}{more}"
    else:
        text = f"No outlier: the largest residual, at step {step[where]:g}, is {size}"
    return Finding(
        "outliers", float(np.median(seen)), middle, limit, tail, float(step[where]), _with_tail(text, tail, tails)
    )


def combined(tails: np.ndarray) -> float:
    """One tail probability out of dependent ones, by the Cauchy combination."""
    p = np.clip(np.asarray(tails, float), 1e-15, 1.0 - 1e-3)
    return float(0.5 - np.arctan(np.mean(np.tan((0.5 - p) * np.pi))) / np.pi)


def _with_tail(text: str, tail: float, tails: np.ndarray) -> str:
    shown = f"= {tail:.2f}" if tail >= 0.01 else f"= {tail:.3f}" if tail >= 0.001 else "< 0.001"
    partly = tail < ALERT <= float(np.median(tails))
    where = f", at {np.mean(tails < ALERT):.0%} of the posterior's draws" if partly else ""
    return f"{text}{where} (tail probability {shown})."


def _autocorrelation_words(tail: float, r1: float, lags: int) -> str:
    if tail >= ALERT:
        return f"Residuals are no more alike than chance over {lags} lags"
    kind = "neighbouring residuals are alike" if r1 > 0.05 else "neighbouring residuals alternate"
    kind = kind if abs(r1) > 0.05 else "residuals some rows apart are alike"
    return f"Residuals are autocorrelated, {kind} (lag-1 {r1:+.2f})"


def _variance_words(tail: float, spread: list[float], step: np.ndarray, parts: list[slice]) -> str:
    if tail >= ALERT:
        return "The noise keeps its size"
    low, high = int(np.argmin(spread)), int(np.argmax(spread))

    def where(i: int) -> str:
        return f"steps {step[parts[i].start]:g} to {step[parts[i].stop - 1]:g}"

    ratio = spread[high] / max(spread[low], 1e-12)
    return f"The noise changes its size: {ratio:.1f} times as large at {where(high)} as at {where(low)}"


def _break_words(tail: float, typical: np.ndarray, where: int, step: np.ndarray) -> str:
    if tail >= ALERT:
        return "No break"
    before, after = typical[: where + 1].mean(), typical[where + 1 :].mean()
    side = "below" if after < before else "above"
    size = f"by {abs(after - before):.2f} sd of a row"
    return f"A break near step {step[where]:g}: rows run {side} expectation afterwards, {size}"


_DRAWS = 400
"""Posterior draws, evenly spread, at which residuals are looked at."""
_CHUNK = 200


def residuals_of(draws: Draws, count: int = _DRAWS) -> Residuals:
    """Standardised residuals of the rows at evenly spread draws of a posterior."""
    picks, n = spread(draws.size, count), len(draws.rows.table.y)
    with jax.enable_x64(True):
        found = over_draws(_residual_program, (draws.regime,), _CHUNK, draws.sampled(picks), *draws.target.arguments)
    return Residuals(*(x[:, :n] for x in found))


def _residual_program(regime: Regime) -> Any:
    def one(draw: Array, prior: PriorNumbers, rows: Rows) -> tuple[Array, ...]:
        space, y = state_space_at(regime, draw, prior.linear_mean, prior.linear_sd, rows), jnp.asarray(rows.y)
        filtered = filter_rows(space, y)
        found = smooth(space, y, filtered)
        loo = (jnp.where(jnp.isfinite(y), y, found.loo_mean) - found.loo_mean) / jnp.sqrt(found.loo_var)
        return filtered.innovation / jnp.sqrt(filtered.innovation_var), loo, found.loo_log_density

    return jax.vmap(one, in_axes=(0, None, None))


def loo_pit(residuals: Residuals) -> np.ndarray:
    """Probability of a smaller value of each row given all others, shape (n,), with PSIS over the draws."""
    from arviz_stats.base.array import array_stats
    from scipy.special import ndtr

    stats: Any = array_stats
    log_weight, _ = stats.psislw(residuals.loo_log_density, axis=0)  # shape (n, draws)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.sum(weight * ndtr(residuals.loo).T, axis=1) / weight.sum(axis=1)
