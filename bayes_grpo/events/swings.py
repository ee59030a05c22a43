"""Swings: how far a reward swings about its slow trend, and from which row on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import gammaln

from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, TRUTH
from bayes_grpo.events.definition import Definition
from bayes_grpo.events.log_odds import bounded_log_odds
from bayes_grpo.events.trend import TREND_DRAWS, Trend

_B = BORDERS
SWINGS = Definition(
    "swings",
    DIAGNOSIS,
    "dynamical_instability",
    "a linear law swings a full time within the log, or ever wider, and the rows about a cubic trend have a "
    f"standard deviation above {_B.wide:.0%} of the range (less one jump, if that takes more than {_B.jump:.0%} of "
    "their variance)",
)
OSCILLATION = Definition(
    "oscillation",
    TRUTH,
    "",
    f"the deserved reward fell by more than {_B.swing:.0%} of what is attainable twice, with a rise as large between, "
    f"and the last turn lies within the last {_B.swings_on:.0%} of the run",
)
_CUBIC = 3  # degree of the slow trend


def swings(trend: Trend, span: float, swinging: float) -> float:
    """Probability that a reward swings, or ever wider, by more than a share of its range.

    Args:
        trend: Of the reward.
        span: Its range.
        swinging: Probability that a linear law of it swings.
    """
    return 0.0 if width_log_odds(trend, span) <= 0.0 else swinging


def width_log_odds(trend: Trend, span: float) -> float:
    """How far a reward's swings about a slow trend go beyond `BORDERS.wide` of its range, ½ log odds.

    A linear law finds a swing in many a noisy log; one that matters moves the reward itself.
    """
    return bounded_log_odds(BORDERS.slope_wide * (swing_sd(trend) / span - BORDERS.wide))


def swing_sd(trend: Trend) -> float:
    """Standard deviation of a trend's rows about a slow one."""
    return float(about_trend(trend.value).std())


def about_trend(y: np.ndarray) -> np.ndarray:
    """Rows less their cubic trend, and less one jump where that takes more than half of what is left; shape (n,).

    A reward that takes off at once, or is lost at once, does not swing. A jump takes a tenth to a half of what true
    swings leave, which stays with them.

    Args:
        y: Rows in order, shape (n,).
    """
    n = len(y)
    cubic = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, n), min(_CUBIC + 1, n)))[0]
    away = y - cubic @ (cubic.T @ y)
    if n < 2 * BORDERS.swing_rows:
        return away
    # Of a jump at each row: what it shares with the rows about the cubic, and how much of it the cubic leaves.
    first = np.arange(2, n - 1)
    along, bent = _sum_from(away)[first], _sum_from(cubic)[first]
    size = (n - first) - (bent * bent).sum(axis=1)
    taken = along**2 / size
    best = int(taken.argmax())
    if taken[best] <= BORDERS.jump * float(away @ away):
        return away
    jump = (np.arange(n) >= first[best]) - cubic @ bent[best]
    return away - jump * along[best] / size[best]


def _sum_from(x: np.ndarray) -> np.ndarray:
    """Sums of each row and all after it."""
    return np.cumsum(x[::-1], axis=0)[::-1]


def wider_from(y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Draws of the first of the rows that spread wider than those before it, shape (`TREND_DRAWS`,).

    Rows about their slow trend are normal with one variance before that row and a larger one, by `BORDERS.calmer`,
    from it on; both are integrated out (inverse gamma priors worth one row). That all rows are alike, and it is the
    first, is as likely as a change, which may lie at any row. Neighbouring rows of a swing say the same, so what rows
    say counts by the effective number of an autoregression with the lag-one correlation r of their squares,
    (1 − r) / (1 + r) of it.

    Args:
        y: Rows in order, shape (n,), at least `BORDERS.swing_rows`.
        seed: Seed.
    """
    n, rows, away = len(y), BORDERS.swing_rows, about_trend(y)
    squares = away**2
    total, off = float(squares.mean()), squares - squares.mean()
    if total <= (1e-9 * float(np.abs(y).max())) ** 2:
        return np.zeros(TREND_DRAWS, int)
    r = float(np.clip(off[1:] @ off[:-1] / max(off @ off, 1e-300), 0.0, BORDERS.most_correlation))
    told = (1.0 - r) / (1.0 + r)
    first = np.concatenate([[0], np.arange(rows, n - rows + 1)])
    before = np.concatenate([[0.0], np.cumsum(squares)])[first]
    after = n * total - before

    def marginal(count: np.ndarray, squares: np.ndarray, expected: float) -> np.ndarray:
        a, b = 0.5 + 0.5 * told * count, 0.5 * expected + 0.5 * told * squares
        prior = 0.5 * np.log(0.5 * expected) - gammaln(0.5)
        return prior + gammaln(a) - a * np.log(b)

    log_weight = marginal(first, before, BORDERS.calm_expected**2 * total) + marginal(n - first, after, total)
    calmer = before / np.maximum(first, 1) < BORDERS.calmer**2 * after / (n - first)
    prior = np.where(first == 0, 0.0, -np.log(max(len(first) - 1, 1)))
    log_weight = np.where(calmer | (first == 0), log_weight + prior, -np.inf)
    weight = np.exp(log_weight - log_weight.max())
    return np.random.default_rng(seed).choice(first, TREND_DRAWS, p=weight / weight.sum())


def swings_from(x: np.ndarray) -> int:
    """Index of the top before the first of at least two falls of a true reward; its length if it does not swing.

    Args:
        x: Without noise, as a share of what is attainable, shape (T,).
    """
    turns = _turns(x, BORDERS.swing)
    tops = [at for at, then in pairwise(turns) if x[then] < x[at]]
    goes_on = len(turns) > 1 and turns[-2] >= (1.0 - BORDERS.swings_on) * len(x)
    return tops[0] if len(tops) > 1 and goes_on else len(x)


def _turns(x: np.ndarray, least: float) -> list[int]:
    """Indices between which x rises and falls in turn, each time by at least so much; the last leg may still go on."""
    low = high = 0
    turns: list[int] = []
    rising: bool | None = None
    for i in range(1, len(x)):
        if rising is not True and x[i] - x[low] >= least:
            turns.append(low)
            rising, high = True, i
        elif rising is not False and x[high] - x[i] >= least:
            turns.append(high)
            rising, low = False, i
        if x[i] > x[high]:
            high = i
        if x[i] < x[low]:
            low = i
    if rising is not None:
        turns.append(high if rising else low)
    return turns
