"""How probable an event is that no law of the reward knows: a hazard learned from public and simulated logs.

    P(event until the horizon) = 1 − exp(−rate · rows ahead / rows seen)
    log rate = base + Σ weight · sign

Rows count in those seen, because logs differ by three orders of magnitude in length, and rows at a learning rate of
0 do not count: nothing moves a policy there. Where two events may come, the first one is what counts: both rates add
up, and each has its share of the probability. *Signs* are numbers of the rows before the origin (`signs_of`); what a
log does not tell plays no part. `benchmarks/learn_hazard.py` learns the numbers; repositories count alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.forecasting.events import EVENTS, Courses, Met, Standing, standing_of, with_events
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.table import RowTable

SIGNS = (
    "rows",
    "level",
    "late_fall",
    "noise_change",
    "entropy_change",
    "gradient_peak",
    "kl",
    "refresh_interval",
    "zero_spread",
)
"""What a rate may depend on, see `signs_of`."""
BEYOND = 3.0
"""Standard deviations of what was learned from, beyond which a sign is held."""


@dataclass(frozen=True, eq=False)
class Rate:
    """Learned numbers of one event.

    Attributes:
        base: Log rate at average signs.
        weight: Change of the log rate by a standard deviation of each sign that it depends on; often none.
        centre: Mean of these signs in what it was learned from.
        scale: Their standard deviation.
        sizes: Quantiles of the event's size at evenly spaced probabilities from 0 to 1, in `Standing.scale`.
    """

    base: float
    weight: Mapping[str, float]
    centre: Mapping[str, float]
    scale: Mapping[str, float]
    sizes: np.ndarray

    def of(self, signs: Mapping[str, float]) -> float:
        """Rate in 1 / rows seen; signs that are missing or NaN count as average."""
        log = self.base
        for name, weight in self.weight.items():
            z = (signs.get(name, np.nan) - self.centre[name]) / self.scale[name]
            log += weight * float(np.clip(np.nan_to_num(z), -BEYOND, BEYOND))
        return float(np.exp(log))


class Ahead(NamedTuple):
    """What of events lies ahead of a log.

    Attributes:
        standing: Where it stands.
        rates: Event → rate in 1 / rows seen, of the events that can meet it.
    """

    standing: Standing
    rates: dict[str, float]

    def chance(self, ahead: float) -> dict[str, float]:
        """Event → probability that it comes, and comes first, within so many rows."""
        total = sum(self.rates.values())
        if total <= 0.0 or ahead <= 0.0:
            return dict.fromkeys(self.rates, 0.0)
        either = -np.expm1(-total * ahead / self.standing.rows)
        return {name: float(either * rate / total) for name, rate in self.rates.items()}


@dataclass(frozen=True, eq=False)
class Hazard:
    """Learned numbers of all events.

    Attributes:
        rates: Event → its numbers.
        provenance: From what they were learned.
    """

    rates: Mapping[str, Rate]
    provenance: Mapping[str, Any]

    def ahead(self, table: RowTable, reward: RewardRange, run: Run | None = None) -> Ahead:
        """What lies ahead of a log.

        Args:
            table: Rows so far.
            reward: Where the reward can lie.
            run: The log so far, for its signals.
        """
        standing = standing_of(table.y, reward)
        signs = signs_of(table, reward, run) if any(rate.weight for rate in self.rates.values()) else {}
        return Ahead(standing, {k: self.rates[k].of(signs) for k in EVENTS if k in standing.scale and k in self.rates})

    def met(
        self,
        ahead: Ahead,
        rows: float,
        courses: Courses,
        now: np.ndarray,
        possible: np.ndarray,
        reward: RewardRange,
        seed: int,
    ) -> Met:
        """Paths of which some meet an event, see `bayes_grpo.forecasting.events.with_events`.

        Args:
            ahead: What lies ahead.
            rows: Rows of the log until the horizon in which the policy moves.
            courses: Paths of the rows to come.
            now: Latent reward at the last logged row, shape (draws,).
            possible: Rows of the paths at which an event may begin, shape (k,).
            reward: Where the reward can lie.
            seed: Seed.
        """
        sizes = {name: rate.sizes for name, rate in self.rates.items()}
        return with_events(courses, now, possible, ahead.chance(rows), ahead.standing.scale, sizes, reward, seed)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        numbers = {
            name: {k: dict(getattr(rate, k)) for k in ("weight", "centre", "scale")}
            | {"base": rate.base, "sizes": rate.sizes.tolist()}
            for name, rate in self.rates.items()
        }
        return {"provenance": dict(self.provenance), "rates": numbers}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Hazard:
        """The inverse of `to_dict`."""
        rates = {
            name: Rate(float(x["base"]), x["weight"], x["centre"], x["scale"], np.array(x["sizes"], float))
            for name, x in content["rates"].items()
        }
        return cls(rates, content["provenance"])


def hazard_named(hazard: Hazard | bool, laws: int) -> Hazard | None:
    """The numbers that are meant: the shipped ones (True), others, or none: for False, or beside one law alone."""
    if hazard is False or laws < 2:
        return None
    return shipped_hazard() if hazard is True else hazard


@cache
def shipped_hazard() -> Hazard:
    """The numbers of the package."""
    text = resources.files("bayes_grpo.forecasting").joinpath("hazard.json").read_text(encoding="utf-8")
    return Hazard.from_dict(json.loads(text))


def signs_of(table: RowTable, reward: RewardRange, run: Run | None = None) -> dict[str, float]:
    """What the rows before an origin show of events to come, by the names of `SIGNS`; NaN where the log does not tell.

    Args:
        table: Rows so far.
        reward: Where the reward can lie.
        run: The log so far, for its signals.

    Returns:
        Log of rows over 50; the level as a share of the range; fall from the fifth before to the last fifth over a
        row's noise (signed log); log of the noise of the later half over that of the earlier; change of the policy's
        entropy from the first to the last fifth in e-folds; log of the largest gradient norm over the median; log of
        the KL divergence at the end; log of the refresh interval; share of groups without spread at the end.
    """
    y, n = table.y, len(table.y)
    k = max(3, n // 5)
    difference = np.abs(np.diff(y))
    noise = float(np.std(np.diff(y))) / np.sqrt(2.0) + 1e-12
    fall, now = (y[-2 * k : -k].mean() - y[-k:].mean()) / noise, float(y[-k:].mean())
    early, late = (float(np.sqrt(np.mean(x**2))) + 1e-3 * noise for x in np.array_split(difference, 2))
    span = reward.high - reward.low
    found = {
        "rows": np.log(n / 50.0),
        "level": (now - reward.low) / span if np.isfinite(span) else np.nan,
        "late_fall": np.sign(fall) * np.log1p(abs(fall)),
        "noise_change": np.log(late / early),
    }
    return {name: float(found.get(name, np.nan)) for name in SIGNS} | (_of_signals(run) if run is not None else {})


def _of_signals(run: Run) -> dict[str, float]:
    """The signs that other signals than the reward give."""

    def of(name: str) -> np.ndarray:
        values = run.signals.get(name, np.empty(0))
        return values[np.isfinite(values)]

    def ends(values: np.ndarray) -> tuple[float, float]:
        if not len(values):
            return np.nan, np.nan
        k = min(len(values), max(3, len(values) // 5))
        return float(values[:k].mean()), float(values[-k:].mean())

    def log(value: float) -> float:
        return float(np.log(value)) if value > 0.0 and np.isfinite(value) else np.nan

    start, end = ends(of("entropy"))
    gradient = of("grad_norm")
    refresh = run.settings.refresh_interval.value
    return {
        "entropy_change": log(end) - log(start),
        "gradient_peak": log(gradient.max()) - log(float(np.median(gradient))) if len(gradient) else np.nan,
        "kl": log(max(ends(of("kl"))[1], 1e-6)) if len(of("kl")) else np.nan,
        "refresh_interval": log(float(refresh)) if refresh else np.nan,
        "zero_spread": ends(of("frac_reward_zero_std"))[1],
    }
