"""Dynamical instability: a reward or evaluation reward that is lost, or one that falls while another signal blows up.

    lost(reward)  or  lost(evaluation) without a rise of the train reward
    or  fell and strained  or  exploded(loss)

`SignalPath.lost`: half of the gain, or of a level that was high from the start, is gone. Strained: completions shrank
to a tenth, the entropy has doubled, or the gradient norm is a hundred times its lowest level. A burst of gradient norm
or KL while the reward holds is no failure. A total that falls only because the weight of one component is scheduled is
not lost.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Calibration, Mode
from bayes_grpo.diagnosis.strain import exploded_loss, scheduled_part, strained
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.diagnosis.wording import fell_text
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray:
    return reward_lost(view) | evaluation_lost(view) | (view.fell & strained(view)) | exploded_loss(view)


def _text(view: RunView, first: float, last: float) -> str:
    """The fall of the reward, or of the evaluation reward; "" where neither is lost."""
    if last < view.last_step:
        inside = np.flatnonzero((view.steps >= first) & (view.steps <= last))
        lowest = inside[int(view.reward.mean[inside].argmin())]
        best = view.reward.display_value(view.reward.best_so_far[:, lowest])
        low = view.reward.display_value(view.reward.draws[:, lowest])
        return fell_text(view.paths.reward_key, best, low) if low < best else ""
    for path, key, lost in (
        (view.reward, view.paths.reward_key, reward_lost(view)),
        (view.held_out, "eval_reward", evaluation_lost(view)),
    ):
        if path is not None and lost[:, -1].mean() >= THRESHOLDS.probable:
            return fell_text(key, path.display_value(path.best), path.display_value(path.now))
    return ""


def reward_lost(view: RunView) -> np.ndarray:
    """True where the reward is lost while the evaluation reward has not risen, as on harder prompts, (draws, n)."""
    lost = view.reward.lost()
    if scheduled_part(view) is not None:
        return np.zeros_like(lost)
    return lost & (view.held_out_rise <= THRESHOLDS.parted)


def evaluation_lost(view: RunView) -> np.ndarray:
    """True where the evaluation reward is lost; where the train reward rose, what is lost is what it stands for."""
    path = view.held_out
    if path is None:
        return np.zeros(view.reward.draws.shape, bool)
    return view.on_common_grid(path.lost(), path) & (view.rise <= THRESHOLDS.material)


MODE = Mode(
    "dynamical_instability",
    _holds,
    _text,
    ("compare resume", "go back", "compare checkpoints", "lower rate", "KL term", "log KL", "log evaluation"),
    wants=("grad_norm", "kl"),
    chances=Calibration(0.03, 0.05, 0.85),
)
