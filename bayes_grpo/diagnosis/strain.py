"""Signals that strain a run before or while its reward falls, and a schedule that looks like a fall.

Gradient norms are judged over rows that have a gradient, and every signal by its path: a burst of a few rows is no
level. The KL of a few tokens can be hundreds in a row while nothing happens; it raises no more than a look.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.thresholds import THRESHOLDS

_STRAIGHT = 0.02
"""Deviation of a scheduled weight's component from its own smooth course, as a share of its change."""
_RECENT_PART = 3
"""A swing counts as going on where the reward came back within the last third of the log."""


def lowest_so_far(path: SignalPath) -> np.ndarray:
    """Draws of the lowest level up to each block, taken where the posterior mean is lowest, shape (draws, n)."""
    mean = path.trailing.mean(axis=0)
    place = np.array([int(mean[: i + 1].argmin()) for i in range(len(mean))])
    return path.trailing[:, place]


def _grown(view: RunView, name: str, factor: float, least: float = 0.0) -> np.ndarray:
    """True where a signal is above so many times its lowest level so far, and above a size, shape (draws, n)."""
    path = view.signal(name)
    if path is None:
        return np.zeros(view.reward.draws.shape, bool)
    grown = (path.recent > factor * lowest_so_far(path)) & (path.recent > least)
    return view.on_common_grid(grown, path)


def strained(view: RunView) -> np.ndarray:
    """True where completions have shrunk to a tenth, the entropy has doubled or gradients have exploded, (draws, n)."""
    found = _grown(view, "grad_norm", THRESHOLDS.exploded)
    if (length := view.signal("completion_length")) is not None:
        found |= view.on_common_grid(length.recent < THRESHOLDS.spent * length.start[:, None], length)
    if (entropy := view.signal("entropy")) is not None:
        found |= view.on_common_grid(entropy.recent > THRESHOLDS.grew * entropy.start[:, None], entropy)
    return found


def exploded_loss(view: RunView) -> np.ndarray:
    """True where the size of the loss is above 100 and above a hundred times its lowest level, shape (draws, n)."""
    return _grown(view, "loss", THRESHOLDS.exploded, least=THRESHOLDS.exploded)


def growths(view: RunView) -> tuple[Finding, ...]:
    """Signals that grew by what is named, the most certain first: loss, gradient norm, entropy, KL."""
    found = []
    for name, factor, least in (
        ("loss", THRESHOLDS.exploded, THRESHOLDS.exploded),
        ("grad_norm", THRESHOLDS.named_growth, 0.0),
        ("entropy", THRESHOLDS.grew, 0.0),
        ("kl", THRESHOLDS.named_growth, THRESHOLDS.high_kl),
    ):
        path = view.signal(name)
        if path is None:
            continue
        # A KL grows from 0 in every run, so what counts is its usual level.
        before = np.median(path.draws, axis=1) if name == "kl" else lowest_so_far(path)[:, -1]
        p = float(((path.now > factor * before) & (path.now > least)).mean())
        if p >= THRESHOLDS.probable:
            early = float(np.median(path.draws if name == "kl" else before))
            found.append(Finding.of("signal_grew", name, early=early, late=float(np.median(path.now)), probability=p))
    return tuple(sorted(found, key=lambda x: -x.probability))


def swings(view: RunView) -> np.ndarray:
    """True where the reward goes up and down again and again, shape (draws, n)."""
    count = view.reward.returns()
    before = np.maximum(np.arange(count.shape[1]) - count.shape[1] // _RECENT_PART, 0)
    return (count >= THRESHOLDS.swings) & (count > count[:, before])


def scheduled_part(view: RunView) -> str | None:
    """The one component whose weight a schedule takes down, and the total with it; None where none does.

    Its course has no noise next to its change, as a weight has and a measurement has not, and no other component falls.
    """
    if float(view.reward.fell()[:, -1].mean()) < THRESHOLDS.probable:
        return None
    falling, steady = [], True
    for name, path in view.paths.components.items():
        change = path.change()
        fall = -float(np.median(change))
        if fall <= THRESHOLDS.half * float(np.median(path.best)) or fall <= THRESHOLDS.material:
            steady = steady and float((change < -THRESHOLDS.fell * np.abs(path.start)).mean()) < THRESHOLDS.probable
            continue
        residual = path.logged.value - np.interp(path.logged.step, path.step, path.mean)
        smooth = float(np.median(np.abs(residual))) < _STRAIGHT * fall
        falling.append((name, smooth))
    if len(falling) != 1 or not steady or len(view.paths.components) < 2:
        return None
    name, smooth = falling[0]
    return name if smooth else None
