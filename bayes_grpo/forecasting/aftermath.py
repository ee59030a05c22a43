"""What runs did next whose reward had fallen: a forecaster beside the laws, learned from the logs of others.

    regained = (reward ahead - reward now) / (reward at its best - reward now)

A law that describes how a reward rose says nothing of a policy that has lost it, and a few rows at the bottom look like
a plateau. Public logs say what comes: most such runs stay down, and some come back. `regained` is a table of
quantiles by how far ahead one looks, in rows ahead over rows seen; `laboratory/learners/aftermath.py` learns it, and
the share that it gets beside the laws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from scipy.special import ndtri

from bayes_grpo.diagnosis.smoothing import fit_trend
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.fallen import Fallen, fallen_of
from bayes_grpo.events.trend import span_of
from bayes_grpo.logs.run import Setting
from bayes_grpo.rows.reward_range import RewardRange, both_ends
from bayes_grpo.rows.table import RowTable

AFTERMATH_NAME = "aftermath"
"""Its name among the laws and the level."""
REGAINED = (-0.6, 1.5)
"""What a share that is regained is held within, by the table and by laws, some of which run away after a collapse."""


@dataclass(frozen=True, eq=False)
class Aftermath:
    """Learned numbers.

    Attributes:
        ahead: Rows ahead over rows seen, shape (k,), increasing.
        regained: Quantiles of what is regained there at evenly spaced probabilities, shape (k, q).
        share: Share of the paths of a fallen run that it gets; the laws and the level have the rest.
        provenance: From what they were learned.
    """

    ahead: np.ndarray
    regained: np.ndarray
    share: float
    provenance: Mapping[str, Any]

    def at(self, ahead: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Share regained so far ahead at quantiles, shape (draws, h): nothing at once, the last line's from there on.

        Args:
            ahead: Rows ahead over rows seen, shape (h,).
            u: Probabilities, shape (draws,).
        """
        even = np.linspace(0.0, 1.0, self.regained.shape[1])
        lines = np.column_stack([np.zeros(len(u)), *(np.interp(u, even, line) for line in self.regained)])
        places = np.concatenate([[0.0], self.ahead])
        right = np.clip(np.searchsorted(places, ahead), 1, len(places) - 1)
        w = np.clip((ahead - places[right - 1]) / (places[right] - places[right - 1]), 0.0, 1.0)
        return lines[:, right - 1] * (1.0 - w) + lines[:, right] * w

    def paths(
        self, fallen: Fallen, rows: int, ahead: np.ndarray, count: int, seed: int, reward: RewardRange
    ) -> tuple[np.ndarray, ...]:
        """Paths of a fallen run, as `bayes_grpo.forecasting.paths.regime_paths` gives those of a law.

        Args:
            fallen: What it has lost.
            rows: Rows seen.
            ahead: Rows ahead of each row to come, shape (h,), the first 0.
            count: Number of paths.
            seed: Seed.
            reward: Paths are held inside this range.
        """
        rng = np.random.default_rng(seed)
        even = (np.arange(count) + 0.5) / max(count, 1)
        u, sd = rng.permutation(even), fallen.noise / np.sqrt(BORDERS.least_rows)
        now = fallen.now + sd * ndtri(rng.permutation(even))
        trend = now[:, None] + self.at(ahead / rows, u) * (fallen.best - now)[:, None]
        trend = np.clip(trend, reward.low, reward.high)
        logged = np.clip(trend + fallen.noise * rng.standard_normal(trend.shape), reward.low, reward.high)
        return trend, trend.copy(), logged, trend[:, -1], np.full(count, np.nan)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        numbers = {"share": self.share, "ahead": self.ahead.tolist(), "regained": self.regained.tolist()}
        return {"provenance": dict(self.provenance)} | numbers

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Aftermath:
        """The inverse of `to_dict`."""
        ahead, regained = (np.array(content[x], float) for x in ("ahead", "regained"))
        return cls(ahead, regained, float(content["share"]), content["provenance"])


def held(fallen: Fallen, paths: np.ndarray) -> np.ndarray:
    """Paths of laws held within what fallen runs regain, of the same shape."""
    low, high = (fallen.now + share * (fallen.best - fallen.now) for share in REGAINED)
    return np.clip(paths, low, high)


def fallen_in(table: RowTable, settings: Mapping[str, Setting]) -> Fallen | None:
    """What the reward of a log has lost at its last row, as its diagnosis sees it; None where it has not.

    Args:
        table: Rows of the log.
        settings: Settings of the run.
    """
    trend = fit_trend(table.step, table.y, seed=1)
    if trend is None:
        return None
    ends = both_ends(table, settings)
    if ends.known:
        return fallen_of(trend, ends.high - ends.low, ends.low)
    return fallen_of(trend, span_of(trend.value))


def aftermath_named(aftermath: Aftermath | bool) -> Aftermath | None:
    """The numbers that are meant: the shipped ones (True), others, or none (False)."""
    if aftermath is False:
        return None
    return shipped_aftermath() if aftermath is True else aftermath


@cache
def shipped_aftermath() -> Aftermath:
    """The numbers of the package."""
    text = resources.files("bayes_grpo.forecasting").joinpath("aftermath.json").read_text(encoding="utf-8")
    return Aftermath.from_dict(json.loads(text))
