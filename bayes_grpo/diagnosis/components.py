"""Single reward functions: which one rises, which one falls, and how much of the rise the fall cancels.

    R = Σ w_i r_i        share of function i in the change of R:  w_i Δr_i

The weights are those with which the logged functions add up to the logged total (`rows.weights_of`), where they do;
otherwise each function keeps its own unit. Every Δr_i is the change of the function's trend, with its uncertainty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.rows import weights_of
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import span_text
from bayes_grpo.diagnosis.trends import RunTrends


class Component(NamedTuple):
    """One reward function.

    Attributes:
        name: Its name in the log, made safe to show.
        change: Draws of what its change adds to the total over the log, shape (draws,), reward.
        posterior: Median and interval of it.
    """

    name: str
    change: np.ndarray
    posterior: Interval


class RewardFunctions(NamedTuple):
    """The reward functions of a run, the largest change first."""

    all: tuple[Component, ...]

    @property
    def rises(self) -> Component | None:
        """The function that rose most, where one did."""
        return next((c for c in self._material if c.posterior.low > 0.0), None)

    @property
    def falls(self) -> Component | None:
        """The function that fell most, where one did."""
        return next((c for c in self._material if c.posterior.high < 0.0), None)

    @property
    def _material(self) -> list[Component]:
        most = abs(self.all[0].posterior.median)
        return [c for c in self.all if abs(c.posterior.median) >= THRESHOLDS.material_part * most]

    @property
    def taken_back(self) -> np.ndarray | None:
        """Draws of the share of the largest rise that the largest fall offsets, up to 3; None without both."""
        if self.rises is None or self.falls is None:
            return None
        return np.clip(-self.falls.change / np.maximum(self.rises.change, 1e-12), 0.0, THRESHOLDS.taken_back_most)

    @property
    def sentence(self) -> str:
        """Which function rises, which one falls, and how much of the rise is lost; "" where nothing moves."""
        up, down, back = self.rises, self.falls, self.taken_back
        if up is not None and down is not None and back is not None:
            b = interval(back)
            lost = f"offsets {span_text(b, '.0%', level=False)} of that rise"
            if b.median >= THRESHOLDS.taken_back_most:
                lost = f"offsets more than that rise, by a factor of {b.median:.2g} or more"
            elif b.median > 1.0:
                lost = f"offsets more than that rise, by a factor of {span_text(b, level=False)}"
            gain, loss = span_text(up.posterior, "+.3g"), span_text(down.posterior, "+.3g", level=False)
            return f"of the reward functions, {up.name} adds {gain} and {down.name} {loss}, which {lost}"
        one = up or down
        if one is None:
            return ""
        how = "rises" if one is up else "falls"
        how += " alone" if len(self._material) == 1 else " most"
        return f"of {len(self.all)} reward functions, {one.name} {how}, by {span_text(one.posterior, '+.3g')}"


def reward_functions(trends: RunTrends) -> RewardFunctions | None:
    """The reward functions of a run with their changes; None where fewer than two were logged."""
    if len(trends.components) < 2:
        return None
    weights = weights_of(trends.run)
    changes = {name: weights[name] * trend.change() for name, trend in trends.components.items()}
    found = [Component(plain(name, 40), change, interval(change)) for name, change in changes.items()]
    return RewardFunctions(tuple(sorted(found, key=lambda c: -abs(c.posterior.median))))
