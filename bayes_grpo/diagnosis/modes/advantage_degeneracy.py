"""Advantage degeneracy: groups with equal rewards (zero variance) have zero advantages, and so no gradient.

    share of groups without variance > 70%,  no progress of train and evaluation reward,  reward not high

Where that share is not logged, rows with zero reward variance, or with a loss of exactly 0 among others, bound it from
below. One reward of 0 in every row and group measures it directly.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.thresholds import THRESHOLDS


def _certain(view: RunView) -> bool:
    """True if no group of any row has variance, and the reward is not the highest; or all are the lowest."""
    if view.constant and view.unrewarded:
        return not np.any(view.logged("reward_std").value > 0.0)
    idle = view.idle_rows.value
    dead = len(idle) >= THRESHOLDS.direct_rows and bool(np.all(idle >= 1.0))
    return dead and not view.constant and not view.level_now > THRESHOLDS.near_top


def _holds(view: RunView) -> np.ndarray | None:
    if _certain(view):
        return np.ones(view.reward.draws.shape, bool)
    if view.idle is None:
        return None
    idle = view.on_grid(view.idle)
    progress = (view.rise > THRESHOLDS.material) | (view.held_out_rise > THRESHOLDS.material)
    # Where no group has a gradient toward the remaining gain, a high reward does not excuse it.
    dead = (idle > THRESHOLDS.dead_groups) & (view.level < THRESHOLDS.solved)
    high = (view.level > THRESHOLDS.near_top) & ~dead
    return (idle > THRESHOLDS.waste) & ~progress & ~high & enough_rows(view)


def _text(view: RunView, first: float, last: float) -> str:
    if view.idle is None:
        return ""
    if not view.logged("frac_reward_zero_std").rows:
        if _certain(view):
            return "no row has reward variance, so nothing is learned"
        dead = view.idle_rows.until(last).late(THRESHOLDS.half)
        return f"{int(dead.sum())} of the last {len(dead)} rows show zero reward variance"
    share = interval(view.idle.over(first, last))
    live = f"{1.0 - share.median:.0%} of each batch contributes a gradient"
    text = f"{span_text(share, '.0%', level=False)} of the groups have zero reward variance, so {live}"
    blame = prompts_text(view, last) if share.median > THRESHOLDS.idle else ""
    return f"{text}; {blame}" if blame else text


def enough_rows(view: RunView) -> np.ndarray:
    """True where as many rows are logged up to each step as a verdict on groups without variance needs, shape (n,)."""
    rows = np.searchsorted(view.reward.logged.step, view.reward.last_step, side="right")
    return rows >= THRESHOLDS.waste_rows


def prompts_text(view: RunView, step: float) -> str:
    """Which prompts groups without variance come from, by the level at a step; "" where that does not say."""
    place = int(np.searchsorted(view.steps[1:], step, side="right"))
    level = float(np.median(view.level[:, place]))
    kind = "hard" if level < THRESHOLDS.hard else "easy"
    one_sided = level < THRESHOLDS.hard or level > THRESHOLDS.near_top
    return f"at a reward of {level:.2f} most of their prompts are too {kind}" if one_sided else ""


MODE = Mode(
    "advantage_degeneracy",
    _holds,
    _text,
    ("longer limit", "scorer", "verifier", "easier prompts", "mixed prompts", "larger groups", "harder prompts"),
    wants=("frac_reward_zero_std",),
    chances=Calibration(0.02, 0.03, 0.85),
    certain=_certain,
)
