"""A reward that is lost at the last row of a log, or was lost for a while: what fit, forecast and decision go by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.series import stretches
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import RunPaths, best_checkpoint, fit_reward, reward_path
from bayes_grpo.signals.thresholds import THRESHOLDS

_FIRST_BLOCKS = 2
"""Blocks of rows up to which a reward that was best in them was never good after its first rows."""


class Fallen(NamedTuple):
    """A reward that is lost at the last row of a log.

    Attributes:
        best_step: Last step of its best level.
        best: What it was there, reward.
        now: Where it stands.
        saved_step: Step of the checkpoint to go back to: of the best evaluation reward where one is logged, else
            ``best_step``.
        saved: What the reward was there.
        at_once: Whether it was best in its first rows, so that going back is starting again.
    """

    best_step: float
    best: float
    now: float
    saved_step: float
    saved: float
    at_once: bool = False


def fallen_of(path: SignalPath, checkpoint: float | None = None) -> Fallen | None:
    """Loss of a reward at its last row, given the step of its best evaluation; None where a loss is improbable."""
    lost = path.lost()[:, -1]
    if lost.mean() < THRESHOLDS.probable:
        return None
    best = float(np.median(path.best[lost]))
    now = float(np.median(path.now))
    if best <= now:
        return None
    if checkpoint is None:
        at_once = path.best_block < _FIRST_BLOCKS
        return Fallen(path.best_step, best, now, path.best_step, best, at_once)
    saved = float(np.median(path.at(np.array([checkpoint]))))
    return Fallen(path.best_step, best, now, checkpoint, saved)


def fallen_in(run: Run, signal: str) -> Fallen | None:
    """The same of a run's "reward" (train) or "eval_reward", with the checkpoint that its evaluations choose."""
    paths = RunPaths.of(run)
    if paths is None:
        return None
    path = paths.reward if paths.reward_key == signal else reward_path(run, evaluation=signal != "reward")
    return None if path is None else fallen_of(path, best_checkpoint(paths))


def last_lost(path: SignalPath) -> tuple[float, float] | None:
    """First and last step of the last stretch in which a reward is probably lost, back or not; None without one."""
    found = stretches(path.lost().mean(axis=0) >= THRESHOLDS.probable)
    return None if not found else (float(path.step[found[-1][0]]), float(path.step[found[-1][1]]))


def rows_collapsed(value: np.ndarray) -> bool:
    """True if a reward is probably lost at its last row, shape (n,), without NaN."""
    path = fit_reward(Logged(np.arange(float(len(value))), value), RewardRange())
    return path is not None and fallen_of(path) is not None
