"""Input of the definitions of failures: drawn paths of a run on one grid of steps, and direct measurements.

Draws of different signals are paired at random: given the rows, their paths are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.signals.logged import NOTHING, Logged
from bayes_grpo.signals.parts import weights_of
from bayes_grpo.signals.path import SignalPath, fit_path
from bayes_grpo.signals.run_paths import RunPaths
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from bayes_grpo.rollouts.decomposition import Decomposition

EVERY_ROW = ("reward", "loss", "grad_norm")
"""Signals whose NaN breaks the weights."""
_ROUNDING = 1e-6
"""Standard deviation of rewards, in the largest reward, that rounding alone can leave."""
LOSS_TYPICAL = 1e-3
"""Size of a loss from which a loss of exactly 0 in other rows is that of rows without a gradient."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunView:
    """A run as the definitions see it. Arrays of shape (draws, n) are over `steps`.

    Attributes:
        run: The run.
        paths: Its paths.
        gain: Decomposition of its gain by rollouts; None without rollouts.
    """

    run: Run
    paths: RunPaths
    gain: Decomposition | None = None

    @classmethod
    def of(cls, run: Run, gain: Decomposition | None = None) -> RunView | None:
        """A run without shares of groups that are none (`of_groups`); None where neither reward has two values."""
        paths = RunPaths.of(run)
        return None if paths is None else cls(run=run, paths=paths, gain=gain)

    @cached_property
    def nan(self) -> dict[str, Logged]:
        """Signal → whether the trainer wrote a value that is no number, one a row."""
        lost = {name: self.run.not_finite(name) for name in EVERY_ROW}
        return {name: Logged.of(self.run.step, x) for name, x in lost.items() if x.any()}

    @property
    def reward(self) -> SignalPath:
        """Path of the train reward, or of the evaluation reward where no train reward is logged."""
        return self.paths.reward

    @property
    def held_out(self) -> SignalPath | None:
        """Path of the gold or evaluation reward next to a train reward."""
        return self.paths.held_out

    @property
    def steps(self) -> np.ndarray:
        """Steps of the grid, those of the reward's path, shape (n,)."""
        return self.reward.step

    @property
    def rows(self) -> int:
        """Number of logged rewards."""
        return self.reward.logged.rows

    @property
    def first_step(self) -> float:
        """Step of the first train reward, which may lie before the grid's."""
        return float(min(self.steps[0], self.reward.logged.step[0]))

    @property
    def last_step(self) -> float:
        """Step of the last reward of either kind."""
        ends = [self.reward.last_step[-1]]
        if self.held_out is not None:
            ends.append(self.held_out.last_step[-1])
        return float(max(ends))

    def signal(self, name: str) -> SignalPath | None:
        """Path of a signal by its canonical name; None where it has none."""
        return self.paths.signals.get(name)

    def logged(self, name: str) -> Logged:
        """The logged values of a signal by its canonical name; without rows where it is not logged."""
        return Logged.of(self.run.step, self.run.values(name))

    def now(self, name: str) -> float:
        """Median of the last level of a signal; NaN where it has no path."""
        path = self.signal(name)
        return np.nan if path is None else float(np.median(path.now))

    def on_grid(self, path: SignalPath) -> np.ndarray:
        """Draws of another path on the grid, its last level at the end, shape (draws, n)."""
        found = path.at(self.steps)
        return np.concatenate([found[:, :-1], path.now[:, None]], axis=1)

    def on_common_grid(self, holds: np.ndarray, path: SignalPath) -> np.ndarray:
        """A condition on the blocks of another path, as it was known at each step of the grid, shape (draws, n)."""
        place = np.searchsorted(path.step, self.steps, side="right") - 1
        place[-1] = len(path.step) - 1
        return holds[:, np.maximum(place, 0)] & (place >= 0)

    @cached_property
    def level(self) -> np.ndarray:
        """Draws of the reward as a share of its range, shape (draws, n); NaN where the range is unknown."""
        ends = self.paths.ends
        if not ends.bounded:
            return np.full(self.reward.draws.shape, np.nan)
        return (self.reward.recent - ends.low) / (ends.high - ends.low)

    @property
    def level_now(self) -> float:
        """Median of the level at the end; NaN where the range is unknown."""
        return float(np.median(self.level[:, -1]))

    @cached_property
    def rise(self) -> np.ndarray:
        """Draws of the reward's change since its start, as a share of its span, shape (draws, n)."""
        return (self.reward.recent - self.reward.start[:, None]) / self.reward.span

    @cached_property
    def held_out_rise(self) -> np.ndarray:
        """The same of the evaluation reward; 0 without one, and before its first value."""
        path = self.held_out
        if path is None:
            return np.zeros(self.reward.draws.shape)
        return (self.on_grid(path) - path.start[:, None]) / path.span

    @property
    def rose(self) -> bool:
        """True if the reward has risen, almost surely and by an amount that matters."""
        return float((self.rise[:, -1] > THRESHOLDS.material).mean()) >= THRESHOLDS.sure

    @cached_property
    def fell(self) -> np.ndarray:
        """True where reward or evaluation reward lies below its best by an amount that is named, shape (draws, n)."""
        found = self.reward.fell()
        if self.held_out is not None:
            found = found | self.on_common_grid(self.held_out.fell(), self.held_out)
        return found

    @property
    def constant(self) -> bool:
        """True if the reward was the same in every row, in enough of them."""
        return self.rows >= THRESHOLDS.direct_rows and self.reward.logged.constant

    @property
    def unrewarded(self) -> bool:
        """True if the reward was never above its lowest value."""
        low = max(self.paths.ends.low, 0.0) if self.paths.ends.bounded else 0.0
        return bool(self.reward.logged.value.max() <= low)

    @cached_property
    def idle_rows(self) -> Logged:
        """Share of groups without variance in each row, or whether no group has any; without rows if nothing tells."""
        share = self.logged("frac_reward_zero_std")
        if share.rows:
            return share
        spread = self.logged("reward_std")
        if spread.rows and not self.paths.uses_eval:
            largest = max(float(np.abs(self.reward.logged.value).max()), 1e-9)
            return Logged(spread.step, (spread.value <= _ROUNDING * largest).astype(float))
        loss = self.logged("loss")
        other = np.abs(loss.value[loss.value != 0.0])
        if loss.rows and len(other) and float(np.median(other)) > LOSS_TYPICAL:
            gradient = self.logged("grad_norm")
            moved = np.isin(loss.step, gradient.step[gradient.value > 0.0])  # centered advantages also average to 0
            return Logged(loss.step, ((loss.value == 0.0) & ~moved).astype(float))
        return NOTHING

    @cached_property
    def idle(self) -> SignalPath | None:
        """Path of that share; None where nothing tells."""
        rows = self.idle_rows
        return fit_path(rows.step, rows.value, seed=31, indicator=True)

    @cached_property
    def weighted_parts(self) -> dict[str, float]:
        """Reward function → weight with which it enters the total; empty where they do not add up to it."""
        return weights_of(self.run, self.run.components) if len(self.run.components) > 1 else {}

    def weight_of(self, part: str) -> float:
        """Weight of a reward function in the total: 0 where others alone make it up, 1 where no weights are known."""
        return self.weighted_parts.get(part, 0.0 if self.weighted_parts else 1.0)
