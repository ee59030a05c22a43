"""Single reward functions: which one rises while others fall, and which one takes back what another gains.

    R = Σ w_i r_i        share of function i in the change of R:  w_i Δr_i

The weights are those with which the logged functions add up to the logged total, where they do; otherwise each function
speaks in its own unit. Every Δr_i is that of the function's trend, so it carries the noise of its rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.evidence import EvidenceQuantity, quantity
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends

_SHOWN = 8
"""Functions whose change is reported: those that changed most."""


class Component(NamedTuple):
    """One reward function.

    Attributes:
        name: Its name in the log, made safe to show.
        weight: With which it enters the total; 1 where the functions do not add up to it.
        change: Draws of what its change adds to the total over the log, shape (draws,), reward.
    """

    name: str
    weight: float
    change: np.ndarray

    @property
    def posterior(self) -> Interval:
        """Median and interval of the change."""
        return interval(self.change)


class RewardFunctions(NamedTuple):
    """The reward functions of a run.

    Attributes:
        all: Every function that moves, the largest change first.
        adds_up: Whether weights were found with which they make the total.
    """

    all: tuple[Component, ...]
    adds_up: bool

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
        """Draws of the share of the largest rise that the largest fall takes back, up to 3; None without both."""
        if self.rises is None or self.falls is None:
            return None
        return np.clip(-self.falls.change / np.maximum(self.rises.change, 1e-12), 0.0, THRESHOLDS.taken_back_most)

    @property
    def quantities(self) -> tuple[EvidenceQuantity, ...]:
        """Change of each function, and what one takes back of another."""
        meaning = "what its change adds to the total" if self.adds_up else "change of its mean"
        found = [quantity(f"component {c.name}", c.change, "reward", meaning) for c in self.all[:_SHOWN]]
        back = self.taken_back
        if back is not None:
            found.append(quantity("taken_back", back, "", "share of the largest rise that the largest fall takes back"))
        return tuple(found)

    @property
    def sentence(self) -> str:
        """Which function rises, which one falls, and how much of the rise is lost; "" where nothing moves."""
        up, down, back = self.rises, self.falls, self.taken_back
        if up is not None and down is not None and back is not None:
            b = interval(back)
            gain, loss = f"{up.name} adds {_said(up.posterior)}", f"{down.name} {_said(down.posterior)}"
            lost = f"takes back {b.median:.0%} [{b.low:.0%}, {b.high:.0%}] ({b.level:.0%}) of it"
            if b.median > 1.0:
                times = f"{b.median:.2g} [{b.low:.2g}, {b.high:.2g}] ({b.level:.0%})"
                lost = f"takes back all of it and more, {times} times as much"
            if b.median >= THRESHOLDS.taken_back_most:
                lost = f"takes back all of it and more, {b.median:.2g} times or more"
            return f"of the reward functions {gain} and {loss}, which {lost}"
        one = up or down
        if one is None:
            return ""
        how = "rises" if one is up else "falls"
        how += " alone" if len(self._material) == 1 else " most"
        return f"of {len(self.all)} reward functions {one.name} {how}, by {_said(one.posterior)}"


def reward_functions(trends: RunTrends) -> RewardFunctions | None:
    """The reward functions of a run with their changes; None where fewer than two were logged."""
    if len(trends.components) < 2:
        return None
    names = list(trends.components)
    weights = weights_of(trends, names)
    found = [
        Component(plain(name, 40), w, w * trends.components[name].change())
        for name, w in zip(names, weights if weights is not None else np.ones(len(names)), strict=True)
    ]
    moved = sorted(found, key=lambda c: -abs(c.posterior.median))
    return RewardFunctions(tuple(moved), weights is not None)


def weights_of(trends: RunTrends, names: list[str]) -> np.ndarray | None:
    """Weights with which the functions add up to the total; None where they do not."""
    run = trends.run
    table = np.column_stack([run.components[name] for name in names])
    kept = np.isfinite(table).all(axis=1) & np.isfinite(run.reward)
    if kept.sum() < len(names) + 2:
        return None
    x, y = table[kept], run.reward[kept]
    # Functions that never move have any weight: the smallest solution gives them none, and they change nothing.
    moving = np.ptp(x, axis=0) > 0.0
    centred, total = x - x.mean(axis=0), y - y.mean()
    weights = np.zeros(len(names))
    weights[moving] = np.linalg.lstsq(centred[:, moving], total, rcond=1e-8)[0]
    left = float(np.std(total - centred @ weights))
    return weights if left <= THRESHOLDS.adds_up * max(float(total.std()), 1e-12) else None


def _said(found: Interval) -> str:
    return f"{found.median:+.3g} [{found.low:.3g}, {found.high:.3g}] ({found.level:.0%})"
