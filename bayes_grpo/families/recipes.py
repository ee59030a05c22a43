"""Recipes of two groups of runs, and in what they differ.

A run's reading is the mean of its recipe, plus a seed effect, plus the run's own posterior error:

    reading[i] ~ N(mean of its recipe, spread² + error[i]²).

The spread's prior is log-normal, learned from public runs of one recipe (`SeedPrior`), in units of the standard
deviation of all rows; so is the width of the normal prior of the difference. Given the spread the model is normal; the
spread is integrated on a grid. One seed of each recipe is enough for an answer, which then rests on that prior.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from bayes_grpo.common.intervals import SURELY_BETTER, Interval, better_of, percent, span_text
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import listed, plain
from bayes_grpo.families.members import named_settings, setting_text, settings_that_differ
from bayes_grpo.logs.run import Run

PATH = Path(__file__).with_name("seeds.json")
_GRID = 61
_WIDE = 10.0
"""Standard deviation of the prior of the recipes' common mean, in units of the rows': uninformative."""
FURTHER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of further seeds of each recipe that are looked at."""
_POWER = 0.8
"""Target probability that further seeds make one recipe surely better."""


class SeedPrior(NamedTuple):
    """Prior of seed and recipe effects from public runs, in standard deviations of the rows.

    Attributes:
        centre: Mean of the logarithm of the spread between seeds.
        width: Its standard deviation over recipes.
        difference: Standard deviation of the difference between two recipes.
        about: What it was learned from.
    """

    centre: float
    width: float
    difference: float
    about: dict[str, Any]

    @property
    def words(self) -> str:
        """Where the spread comes from."""
        return (
            f"prior learned from {self.about['recipes']} public recipes with {self.about['runs']} seeds: "
            f"{math.exp(self.centre):.2f} of the rows' sd, within a factor {math.exp(1.645 * self.width):.1f}"
        )


@cache
def seed_prior() -> SeedPrior:
    """The learned prior that comes with the package; `benchmarks/lab/learners/seeds.py` makes it."""
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    return SeedPrior(stored["centre"], stored["width"], stored["difference"], stored["about"])


class RecipeReadings(NamedTuple):
    """Readings of the runs of one recipe, and what each leaves open; shape (..., runs) each."""

    mean: np.ndarray
    error: np.ndarray


class Measure(NamedTuple):
    """A measure that compares two recipes: its name and words, the readings of A and of B, and the sd of all rows."""

    at: str
    words: str
    a: RecipeReadings
    b: RecipeReadings
    unit: float


@dataclass(frozen=True)
class RecipeAnswer(Result):
    """Which recipe is better by one measure.

    Attributes:
        at: "step", "completions", "end" (of each run's own log) or "plateau"; of a part its name.
        words: The same in words.
        a: A's mean over seeds, reward.
        b: B's.
        difference: B less A.
        p_better: Probability that B's mean over seeds is higher.
        spread: Standard deviation between seeds, reward.
        further: Further seeds of each recipe that would settle it with probability .8; None where 64 would not, or none
            is needed.
    """

    at: str
    words: str
    a: Interval
    b: Interval
    difference: Interval
    p_better: float
    spread: Interval
    further: int | None

    also_in_json = ("verdict",)

    @property
    def verdict(self) -> str:
        """One of "B is better", "A is better" and "cannot tell"."""
        return better_of(self.p_better)

    @property
    def numbers(self) -> str:
        """Probability and difference."""
        better = f"P(B better than A) {percent(self.p_better)}"
        return f"{better}, difference {span_text(self.difference, '+.3g', level=False)}"


@dataclass(frozen=True, eq=False)
class RecipeDifference:
    """The posterior on a grid of spreads, reward.

    Attributes:
        spread: Spreads between seeds, shape (grid,).
        weight: Their posterior, shape (..., grid).
        mean: Mean of (recipe A, B less A) at each, shape (..., grid, 2).
        cov: Their covariance, shape (..., grid, 2, 2).
    """

    spread: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    cov: np.ndarray

    @property
    def p_better(self) -> Any:
        """Probability that B's mean over seeds is higher, shape (...)."""
        return (self.weight * norm.cdf(self.mean[..., 1] / np.sqrt(self.cov[..., 1, 1]))).sum(axis=-1)

    def draws(self, size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draws of the spread, of A and of the difference, shape (size,) each."""
        at = rng.choice(len(self.spread), size=size, p=self.weight)
        root = np.linalg.cholesky(self.cov[at])
        both = self.mean[at] + np.einsum("dij,dj->di", root, rng.standard_normal((size, 2)))
        return {"spread": self.spread[at], "a": both[:, 0], "difference": both[:, 1]}


def difference_of(a: RecipeReadings, b: RecipeReadings, unit: float, prior: SeedPrior) -> RecipeDifference:
    """The difference of two recipes, given the standard deviation of all rows; leading axes for many at once."""
    z = np.linspace(-3.0, 3.0, _GRID)
    spread = unit * np.exp(prior.centre + prior.width * z)
    centre = 0.5 * (a.mean.mean(axis=-1) + b.mean.mean(axis=-1))[..., None]
    log_prior = -0.5 * z**2
    (pa, sa, la), (pb, sb, lb) = (_summed(side, centre, spread) for side in (a, b))
    # (A, B less A): A and B about the same centre; the difference has a prior of its own.
    before = np.diag([(_WIDE * unit) ** -2.0, (prior.difference * unit) ** -2.0])
    precision = np.empty((*pa.shape, 2, 2))
    precision[..., 0, 0] = pa + pb + before[0, 0]
    precision[..., 1, 1] = pb + before[1, 1]
    precision[..., 0, 1] = precision[..., 1, 0] = pb
    pull = np.stack([sa + sb, sb], axis=-1)
    cov = np.linalg.inv(precision)
    mean = np.einsum("...ij,...j->...i", cov, pull)
    fit = la + lb + 0.5 * np.einsum("...i,...i", pull, mean) + 0.5 * np.linalg.slogdet(cov)[1]
    weight = np.exp(log_prior + fit - (log_prior + fit).max(axis=-1, keepdims=True))
    mean[..., 0] += centre
    return RecipeDifference(spread, weight / weight.sum(axis=-1, keepdims=True), mean, cov)


def _summed(side: RecipeReadings, centre: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, pull and log density at each spread, shape (..., grid)."""
    var = spread[:, None] ** 2 + side.error[..., None, :] ** 2
    away = side.mean[..., None, :] - centre[..., None]
    return (
        (1.0 / var).sum(axis=-1),
        (away / var).sum(axis=-1),
        -0.5 * (away**2 / var + np.log(var)).sum(axis=-1),
    )


def further_seeds(
    a: RecipeReadings, b: RecipeReadings, unit: float, prior: SeedPrior, rng: np.random.Generator
) -> int | None:
    """The smallest of `FURTHER` further seeds of each recipe that tell with probability `_POWER`; None where none do.

    Further runs are drawn from the posterior with the errors of the present ones, and the comparison is repeated.
    """
    size = 300
    draws = difference_of(a, b, unit, prior).draws(size, rng)
    error = float(np.sqrt(np.mean(np.concatenate([a.error, b.error]) ** 2)))
    noise = rng.standard_normal((2, size, FURTHER[-1])) * np.sqrt(draws["spread"] ** 2 + error**2)[:, None]
    for count in FURTHER:

        def more(side: RecipeReadings, level: np.ndarray, extra: np.ndarray, count: int = count) -> RecipeReadings:
            new = level[:, None] + extra[:, :count]
            mean = np.concatenate([np.broadcast_to(side.mean, (size, len(side.mean))), new], axis=1)
            return RecipeReadings(
                mean, np.concatenate([np.broadcast_to(side.error, mean[:, :-count].shape), new * 0 + error], 1)
            )

        both = more(a, draws["a"], noise[0]), more(b, draws["a"] + draws["difference"], noise[1])
        p = difference_of(*both, unit, prior).p_better
        if np.mean((p >= SURELY_BETTER) | (p <= 1.0 - SURELY_BETTER)) >= _POWER:
            return count
    return None


def readings_of_recipes(readings: Sequence[np.ndarray]) -> RecipeReadings:
    """Middle and spread of the draws of each run; quantiles, because where a curve settles may have long tails."""
    q = np.quantile(np.stack(readings), [0.16, 0.5, 0.84], axis=1)
    return RecipeReadings(q[1], 0.5 * (q[2] - q[0]))


TASK = ("eval_reward", "gold_reward", "accuracy")
"""Names of measures of the task itself, whatever a total is made of."""
_WORDS = {"eval_reward": "evaluation reward", "gold_reward": "gold reward"}
_PARTS = 8
"""Parts that are compared at most."""
_LAST, _LEAST = 0.2, 3
"""Share of the common rows that are averaged, and how many at least."""
_EXACT, _WEIGHT = 1e-6, 0.02
"""Share of the variance of a total that its parts may leave over; difference of two weights that counts."""


def shared_parts(a: Sequence[Run], b: Sequence[Run], signal: str) -> list[Measure]:
    """Measures besides the compared signal that every run of both sides logs."""
    runs = [*a, *b]
    components = [f"rewards/{name}" for name in dict.fromkeys(chain.from_iterable(r.components for r in runs))]
    out = []
    for name in [x for x in (*TASK, *components) if x != signal][:_PARTS]:
        rows = [_rows(run, name) for run in runs]
        last = min((step[-1] for step, _ in rows if len(step)), default=math.nan)
        ends = [_end(y[step <= last]) for step, y in rows]
        known = [e for e in ends if e is not None]
        if len(known) < len(runs):
            continue
        unit = float(np.std(np.concatenate([y for _, y in rows])))
        if unit > 0.0:
            mean, error = (np.array(x) for x in zip(*known, strict=True))
            n = len(a)
            both = RecipeReadings(mean[:n], error[:n]), RecipeReadings(mean[n:], error[n:])
            out.append(Measure(name, _WORDS.get(name, plain(name, 60)), *both, unit))
    return out


def _rows(run: Run, name: str) -> tuple[np.ndarray, np.ndarray]:
    step, y = (run.eval_step, run.eval_reward) if name == "eval_reward" else (run.step, run.values(name))
    known = np.isfinite(y)
    return step[known], y[known]


def _end(y: np.ndarray) -> tuple[float, float] | None:
    """Mean of the last rows and its standard error, by how much neighboring rows differ; None with too few."""
    n = max(_LEAST, round(_LAST * len(y)))
    if len(y) < n:
        return None
    rows = y[-n:]
    return float(rows.mean()), math.sqrt(float(np.mean(np.diff(rows) ** 2)) / (2.0 * n))


def why_not_comparable(a: Sequence[Run], b: Sequence[Run], total: RecipeAnswer, parts: Sequence[RecipeAnswer]) -> str:
    """Why the totals of two recipes are no comparison, given the answers; "" where nothing speaks against it."""
    one, two = ({name for run in side for name in run.components} for side in (a, b))
    if one and two and one != two:
        return f"A's reward is made of {listed(sorted(one), len(one))}, B's of {listed(sorted(two), len(two))}"
    weights = [[w for run in side if (w := _weights(run, sorted(one))) is not None] for side in (a, b)]
    if one == two and all(weights):
        pairs = zip(sorted(one), *(np.mean(w, axis=0) for w in weights), strict=True)
        differ = [f"{name} counts {x:.3g} in A, {y:.3g} in B" for name, x, y in pairs
                 if abs(x - y) > _WEIGHT * max(abs(x), abs(y))]  # fmt: skip
        if differ:
            return "; ".join(differ)
    other = {"A is better": "B is better", "B is better": "A is better"}.get(total.verdict, "")
    against = [x.words for x in parts if x.at in TASK and x.verdict == other]
    # What the log does not split shows where a measure of the task goes the other way.
    return f"by the total {total.verdict}, by the {against[0]} {other}" if against else ""


def _weights(run: Run, names: Sequence[str]) -> np.ndarray | None:
    """Weights of the parts of a total; None where the parts do not make it up."""
    if not names or any(name not in run.components for name in names):
        return None
    columns = np.stack([run.components[name] for name in names], axis=1)
    known = np.isfinite(columns).all(axis=1) & np.isfinite(run.reward)
    if known.sum() < 2 * len(names) + 2:
        return None
    x, y = columns[known], run.reward[known]
    weight, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    return weight if rank == len(names) and np.var(y - x @ weight) <= _EXACT * np.var(y) else None


def differences(a: Sequence[Run], b: Sequence[Run]) -> tuple[str, ...]:
    """Differences between two recipes other than the reward: settings and length."""
    out, named = [], named_settings([*a, *b])
    for name, values in settings_that_differ([*a, *b]).items():
        of_a, of_b = ({setting_text(v) for v in x} for x in (values[: len(a)], values[len(a) :]))
        if of_a != of_b:
            source = " (file names)" if name in named else ""
            both = f"{', '.join(sorted(of_a))} in A, {', '.join(sorted(of_b))} in B"
            out.append(f"{name.replace('_', ' ')} {both}{source}")
    ends = [sorted({_last(r) for r in side}) for side in (a, b)]
    if ends[0] != ends[1]:
        out.append(f"last step {', '.join(ends[0])} in A, {', '.join(ends[1])} in B")
    return tuple(out)


def _last(run: Run) -> str:
    return f"{max((float(x[-1]) for x in (run.step, run.eval_step) if len(x)), default=math.nan):g}"
