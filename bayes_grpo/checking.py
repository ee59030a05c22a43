"""Checks of a fit: autocorrelated residuals, changing noise, outliers, breaks.

Under the true parameters of the regime, the standardized one-step innovations are independent standard normal. So
replicated data need no simulation of the regime. At one posterior draw, every statistic has its distribution under the
true parameters, and its tail probability is uniform if the regime is right (Johnson 2007,
https://doi.org/10.1214/07-BA203). Posterior-predictive p-values, which average over draws, lose this property, because
the parameters are fitted to the same rows. The Cauchy combination joins the tail probabilities of all draws instead. It
is valid under any dependence between them (Liu and Xie 2020, https://doi.org/10.1080/01621459.2018.1554485).

The outlier check uses leave-one-out residuals, because the innovation of the first row is as wide as the prior. A break
is a jump within a few rows or a change of slope. Its check uses the rows themselves (`bayes_grpo.comparison.changes`):
a regime fitted across a break absorbs it as noise and fluctuation, so the residuals hardly show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.results import About, Result, fields_of, frame_of
from bayes_grpo.common.sampling import spread
from bayes_grpo.comparison.changes import CLEAR_FACTOR, SignalChange, change_words, find_changes
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.prior_check import PriorCheck, check_prior
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.target import summarize_draws

if TYPE_CHECKING:
    import pandas as pd

ALERT = 0.05
"""Familywise error rate of the residual checks, by Holm's method.

A break has its own limit (`bayes_grpo.comparison.changes.CLEAR_FACTOR`)."""


class Residuals(NamedTuple):
    """Standardized residuals at posterior draws, shape (draws, n): one step ahead, and given all other rows."""

    innovation: Any
    loo: Any


@dataclass(frozen=True)
class CheckLine:
    """One check: "autocorrelation", "variance", "outliers" or "break".

    Attributes:
        statistic: Its statistic on the rows, median over draws.
        limit: Its 95% quantile on replicated rows; of a break the log Bayes factor from which it counts.
        tail: Probability that replicated rows have a larger one; of a break the inverse of its Bayes factor.
        step: Step at which the defect sits, where it sits somewhere.
        breaks: Clear breaks, a clause each.
        rows: Outliers, as many as their limit leaves.
    """

    name: str
    statistic: float
    limit: float
    tail: float
    step: float | None
    sentence: str
    breaks: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True, eq=False)
class Check(Result):
    """Results of the checks of a fitted regime; ``residuals`` are for pictures."""

    sentence: str
    findings: tuple[CheckLine, ...]
    prior: PriorCheck
    residuals: Residuals
    about: About
    regime: str
    converged: bool

    also_in_json = ("misses",)
    not_in_json = ("residuals",)

    @property
    def misses(self) -> tuple[str, ...]:
        """Names of the failed checks: residual checks at familywise rate `ALERT`, a break by its own limit."""
        return _rejected(self.findings)

    def to_frame(self) -> pd.DataFrame:
        """One row a check: the fields of `CheckLine`, and whether the check fails."""
        return frame_of((fields_of(f) | {"missed": f.name in self.misses} for f in self.findings), "name")


def _rejected(findings: tuple[CheckLine, ...]) -> tuple[str, ...]:
    """Holm's method for the residual checks: at most a share `ALERT` of right regimes has any false alarm."""
    out = [f.name for f in findings if f.name == "break" and f.statistic >= f.limit]
    of_residuals = [f for f in findings if f.name != "break"]
    for i, f in enumerate(sorted(of_residuals, key=lambda f: f.tail)):
        if f.tail >= ALERT / (len(of_residuals) - i):
            break
        out.append(f.name)
    return tuple(f.name for f in findings if f.name in out)


_NOISE = {"variance", "outliers"}
"""Checks of the noise alone, in which all regimes are alike."""
_WORDS = {
    "autocorrelation": "its residuals are autocorrelated",
    "variance": "the noise level changes near step {:g}",
    "outliers": "the row at step {:g} is an outlier",
}


def _words(f: CheckLine) -> str:
    """The result of a check, with its step where it has one; of breaks each with its steps."""
    if f.name == "break":
        return ", ".join(x[:1].lower() + x[1:] for x in f.breaks)
    if f.rows > 1:
        return f"{f.rows} rows are outliers, the farthest at step {f.step:g}"
    return _WORDS[f.name].format(f.step)


def check_sentence(findings: tuple[CheckLine, ...], regime: str, n: int) -> str:
    """The verdict of the checks in words, at familywise rate `ALERT`."""
    missed = _rejected(findings)
    if missed:
        found = "; ".join(_words(f) for f in findings if f.name in missed)
        text = f"{regime} misses something in these {n} rows: {found}."
        return text if set(missed) - _NOISE else f"{text} Its intervals take all rows for equally noisy."
    return f"{regime} fits these {n} rows: no check speaks against it."


_REPLICATES = 1000
"""Replicated series behind each tail probability."""
_MIN_ROWS = 12
"""Fewer rows cannot show any of the defects."""
_KNOTS, _LEAST_STRETCH, _FAR = 24, 6, 3.0  # ends of stretches, their least rows, and what makes a row odd


Statistic = Callable[[np.ndarray], np.ndarray]


def check(fit: Fit) -> Check:
    """Checks a fit against its data.

    Args:
        fit: The fit, new or loaded.

    Returns:
        The findings, each with a tail probability that is uniform if the regime is right.

    Raises:
        FitError: Fewer than `_MIN_ROWS` rows.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> check(fit(run, "exponential")).about.rows
        30
    """
    n = len(fit.step())
    if n < _MIN_ROWS:
        raise FitError(
            f"{fit.attrs['source']}: a check of the residuals needs at least {_MIN_ROWS} rows, found {n}; "
            "log more often or wait for more steps"
        )
    residuals = residuals_of(fit.as_draws)
    findings = findings_of(residuals, fit.step(), fit.observed())
    return Check(
        sentence=check_sentence(findings, fit.regime.name, n),
        findings=findings,
        prior=check_prior(fit),
        residuals=residuals,
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
    n = e.shape[-1]
    lags = lags_of(n)
    return n * (n + 2) * np.sum(autocorrelation(e, lags) ** 2 / (n - np.arange(1, lags + 1)), axis=-1)


def _stretches(n: int) -> tuple[np.ndarray, np.ndarray]:
    """First row, and row after the last, of the stretches whose noise is looked at."""
    knots = np.unique(np.linspace(0, n, min(n // 3, _KNOTS) + 1).astype(int))
    begin, end = (i.ravel() for i in np.meshgrid(knots, knots, indexing="ij"))
    kept = (end - begin >= _LEAST_STRETCH) & (n - end + begin >= _LEAST_STRETCH)
    return begin[kept], end[kept]


def _noise_ratios(e: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log likelihood ratio of another noise within each stretch, and mean squares within and without it."""
    n = e.shape[-1]
    begin, end = _stretches(n)
    squares = e**2 / np.mean(e**2, axis=-1, keepdims=True)
    squares = np.where(squares > _FAR**2, np.median(squares, axis=-1, keepdims=True), squares)  # one odd row is none
    sums = np.concatenate([np.zeros((*e.shape[:-1], 1)), np.cumsum(squares, axis=-1)], axis=-1)
    rows = end - begin
    inside = sums[..., end] - sums[..., begin]
    whole = sums[..., -1:]
    within = inside / rows
    without = (whole - inside) / (n - rows)
    ratio = n * np.log(whole / n) - rows * np.log(within) - (n - rows) * np.log(without)
    return 0.5 * ratio, within, without


def _noise_change(e: np.ndarray) -> np.ndarray:
    """Largest log likelihood ratio of a stretch of other noise, of the series of shape (..., n)."""
    return np.max(_noise_ratios(e)[0], axis=-1)


def noise_stretch(e: np.ndarray) -> tuple[int, int, float]:
    """First row and row after the last of the stretch whose noise differs most, and its noise over that of the others.

    For standardized residuals of shape (n,).
    """
    ratio, within, without = _noise_ratios(e)
    i = int(np.argmax(ratio))
    begin, end = _stretches(len(e))
    return int(begin[i]), int(end[i]), float(np.sqrt(within[i] / without[i]))


@lru_cache(maxsize=8)
def _replicated(n: int) -> dict[str, np.ndarray]:
    """Sorted statistics of replicated series of n rows."""
    e = np.random.default_rng(0).standard_normal((_REPLICATES, n))
    statistics = {"autocorrelation": _ljung_box, "variance": _noise_change}
    return {name: np.sort(statistic(e)) for name, statistic in statistics.items()}


def findings_of(residuals: Residuals, step: np.ndarray, y: np.ndarray) -> tuple[CheckLine, ...]:
    """The four checks on standardized residuals and on the rows, in a fixed order."""
    e = residuals.innovation
    n = e.shape[-1]
    replicated = _replicated(n)
    out = []

    def add(name: str, statistic: Statistic, words: Callable[[float], str], at: Any) -> None:
        seen = statistic(e)
        null = replicated[name]
        tails = (1.0 + len(null) - np.searchsorted(null, seen)) / (len(null) + 1.0)
        tail = combined(tails)
        limit = float(np.quantile(null, 0.95))
        out.append(CheckLine(name, float(np.median(seen)), limit, tail, at, _with_tail(words(tail), tail, tails)))

    r1 = float(np.mean(autocorrelation(e, 1)))
    add("autocorrelation", _ljung_box, lambda p: _autocorrelation_words(p, r1, lags_of(n)), None)
    begin, end, ratio = noise_stretch(e.mean(axis=0))
    add("variance", _noise_change, lambda p: _variance_words(p, ratio, step[begin], step[end - 1]), float(step[begin]))
    out.append(_outliers(residuals.loo, step))
    out.append(_break(find_changes(step, y), step, y))
    return tuple(out)


def _break(changes: tuple[SignalChange, ...], step: np.ndarray, y: np.ndarray) -> CheckLine:
    """The clearest jump or change of slope; its tail is the inverse of the Bayes factor."""
    if not changes:
        return CheckLine("break", 0.0, CLEAR_FACTOR, 1.0, None, "No break.")
    first = changes[0]
    tail = min(1.0, math.exp(-first.log_factor))
    clear = tuple(change_words(x, step, y) for x in changes if x.clear)
    text = "; ".join(clear) or "No break"
    return CheckLine(
        "break", first.log_factor, CLEAR_FACTOR, tail, first.after, f"{text} (Bayes factor {1.0 / tail:.3g}).", clear
    )


def _outliers(loo: np.ndarray, step: np.ndarray) -> CheckLine:
    """Largest leave-one-out residual; the tail of the largest of n standard normal numbers (Šidák)."""
    from scipy.special import log_ndtr, ndtri

    n = loo.shape[-1]
    seen = np.max(np.abs(loo), axis=-1)
    tails = -np.expm1(n * np.log1p(-2.0 * np.exp(log_ndtr(-seen))))
    tail = combined(tails)
    limit = float(-ndtri((1.0 - 0.95 ** (1.0 / n)) / 2.0))
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
    text = _with_tail(text, tail, tails)
    return CheckLine("outliers", float(np.median(seen)), limit, tail, float(step[where]), text, rows=count)


def combined(tails: np.ndarray) -> float:
    """One tail probability out of dependent ones, by the Cauchy combination."""
    p = np.clip(np.asarray(tails, float), 1e-15, 1.0 - 1e-3)
    return float(0.5 - np.arctan(np.mean(np.tan((0.5 - p) * np.pi))) / np.pi)


def _with_tail(text: str, tail: float, tails: np.ndarray) -> str:
    shown = f"= {tail:.2f}"
    if tail < 0.01:
        shown = f"= {tail:.3f}" if tail >= 0.001 else "< 0.001"
    partly = tail < ALERT <= float(np.median(tails))
    where = f", at {np.mean(tails < ALERT):.0%} of the posterior's draws" if partly else ""
    return f"{text}{where} (tail probability {shown})."


def _autocorrelation_words(tail: float, r1: float, lags: int) -> str:
    if tail >= ALERT:
        return f"No autocorrelation in the residuals over {lags} lags"
    kind = "mostly at larger lags"
    if r1 > 0.05:
        kind = "neighboring residuals are similar"
    elif r1 < -0.05:
        kind = "neighboring residuals alternate"
    return f"Residuals are autocorrelated, {kind} (lag-1 {r1:+.2f})"


def _variance_words(tail: float, ratio: float, first: float, last: float) -> str:
    if tail >= ALERT:
        return "The noise level is constant"
    return f"The noise level changes: from step {first:g} to {last:g} it is {ratio:.1f} times that of other rows"


_DRAWS = 400
"""Posterior draws, evenly spread, at which residuals are looked at."""


def residuals_of(draws: Draws, count: int = _DRAWS) -> Residuals:
    """Standardized residuals of the rows at evenly spread draws of a posterior."""
    values = draws.picked(spread(draws.size, count))
    y = draws.rows.y
    *_, mean, var, innovation = (
        x[0, :, : len(y)] for x in summarize_draws(draws.target, {k: v[None] for k, v in values.items()}, 0)
    )
    return Residuals(innovation, np.where(np.isfinite(y), y - mean, 0.0) / np.sqrt(var))
