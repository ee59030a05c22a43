"""Reward hacking: the train reward rises and the true objective does not.

    train rises by 15% of its range since the first evaluation, and
    (evaluation shares less than a tenth of that and lies near 0,  or  it has lost 30% of its best while train holds)

Over-optimization: Gao et al. 2022, https://arxiv.org/abs/2210.10760. Without an evaluation signal a hacked rise looks
like a real one.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import HELD_OUT, Calibration, Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.thresholds import THRESHOLDS


def _holds(view: RunView) -> np.ndarray | None:
    path = view.held_out
    if path is None:
        return None
    gain, shared = changes(view, path)
    level = view.on_grid(path)
    hollow = evaluation_lags(gain, shared) & (level < THRESHOLDS.material * path.span)
    if not np.isfinite(path.low):
        hollow = np.zeros_like(hollow)
    return (gain > THRESHOLDS.parted) & (hollow | turned(view, path, THRESHOLDS.turned))


def _text(view: RunView, first: float, last: float) -> str:
    path = view.held_out
    if path is None and view.paths.uses_eval:
        return "without a train reward, a fall can be hacking or instability"
    if path is None:
        return "without an evaluation reward, a hacked rise looks like a real one"
    begin = max(view.steps[0], path.step[0])
    end = min(last, path.step[-1])
    if end <= begin:
        return ""
    train = span_text(interval(view.reward.change(begin, end)), level=False)
    held_out = span_text(interval(path.change(begin, end)), level=False)
    both = f"the train reward changed by {train}, the {view.paths.held_out_name} reward by {held_out}"
    return f"since step {begin:g} {both}"


def changes(view: RunView, path: SignalPath) -> tuple[np.ndarray, np.ndarray]:
    """Changes of train and evaluation reward since the first evaluation, as shares of their spans, (draws, n) each."""
    begin = max(view.steps[0], path.step[0])
    before = view.reward.at(np.array([begin]))
    gain = (view.reward.recent - before) / view.reward.span
    shared = (view.on_grid(path) - path.start[:, None]) / path.span
    after = view.steps >= begin
    after[-1] = True
    return np.where(after, gain, 0.0), np.where(after, shared, 0.0)


def evaluation_lags(gain: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """True where the train reward has risen and the evaluation reward hardly, shape (draws, n)."""
    return (gain > THRESHOLDS.parted) & (shared < THRESHOLDS.shared * gain)


def turned(view: RunView, path: SignalPath, share: float) -> np.ndarray:
    """True where the evaluation reward is below its best by a share of it while the train reward holds, (draws, n)."""
    train_then = view.reward.at(np.array([path.best_step]))
    holds = view.reward.recent - train_then > -THRESHOLDS.rises * view.reward.span
    return view.on_common_grid(path.fell(share), path) & holds


MODE = Mode(
    "reward_hacking",
    _holds,
    _text,
    ("go back", "start over", "read completions", "KL term", "log KL"),
    wants=(HELD_OUT, "kl"),
    chances=Calibration(0.01, 0.03, 0.85),
)
