"""Trainer-inference mismatch: sampler and trainer give the same tokens different probabilities.

    level outside the published healthy range of its definition,  or  twice its own start where none is published,
    or  effective share of the importance weights, or their mean, outside its healthy range

Definitions and ranges are those of `bayes_grpo.logs.signals`. A mismatch that is large from the first row on is named
as one that grew. Sampling under top-p or top-k shifts the sampler's probabilities for all tokens alike: such an offset
is constant and harmless.
"""

from __future__ import annotations

import math

import numpy as np

from bayes_grpo.common.intervals import interval, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.diagnosis.wording import signal_words
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.signals import SIGNALS, STANDARD, HealthyRange, healthy_text
from bayes_grpo.signals.thresholds import THRESHOLDS

_GAPS = SIGNALS["engine_mismatch"].definitions
_WEIGHTS = ("importance_ess", "importance_ratio")
_SAMPLER = "trainer to sampler"
"""Definition of importance weights that are the mismatch, and not the effect of an update."""
_SHIFTED = {_GAPS["k1"].word: 1.0, _GAPS["signed"].word: -1.0, _GAPS["abs"].word: 1.0}
"""Definition → sign of the constant by which the renormalization of top-p or top-k sampling shifts it."""
_LARGEST_SHIFT = -math.log(0.7)
"""Shift by top-p sampling from 70% of the probability, in nats."""
SAMPLER_SIGNALS = ("engine_mismatch", *_WEIGHTS)
"""Signals of the mismatch."""


def _holds(view: RunView) -> np.ndarray | None:
    found = [outside for name in _WEIGHTS if (outside := _outside(view, name)) is not None]
    gap = view.signal("engine_mismatch")
    if gap is not None:
        outside = _outside(view, "engine_mismatch")
        grown = view.on_grid(gap) > THRESHOLDS.grew * gap.start[:, None]
        found.append(grown if outside is None else outside)
    return np.any(found, axis=0) if found else None


def _text(view: RunView, first: float, last: float) -> str:
    """Level of what is outside its healthy range, else the growth of the mismatch."""
    out = []
    for name in SAMPLER_SIGNALS:
        outside, path, healthy = _outside(view, name), view.signal(name), sampler_range(view.run, name)
        if outside is None or path is None or healthy is None or outside[:, -1].mean() < THRESHOLDS.probable:
            continue
        word = view.run.definitions.get(name, STANDARD)
        what = signal_words(name) + (f" ({word})" if name == "engine_mismatch" else "")
        start, now = (float(np.median(x)) for x in (path.start, path.now))
        moved, why = f"is {now:.2g}", ""
        if abs(now - start) > THRESHOLDS.half * abs(start):
            moved = f"went from {start:.2g} to {now:.2g}"
        elif 0.0 < _SHIFTED.get(word, 0.0) * now <= _LARGEST_SHIFT:
            why = ". A constant offset of this size can come from top-p or top-k sampling alone, and is then harmless"
        out.append(f"{what} {moved} (healthy: {healthy_text(healthy)}){why}")
    gap = view.signal("engine_mismatch")
    if not out and gap is not None:
        grown = interval(gap.at(np.array([last]))[:, 0] / gap.start)
        out.append(f"the mismatch is {span_text(grown, level=False)} times that of the first rows")
    return "; ".join(out)


def sampler_range(run: Run, name: str) -> HealthyRange | None:
    """Published healthy range of a signal of the mismatch under the definition of this log; None without one."""
    word = run.definitions.get(name, STANDARD)
    if name in _WEIGHTS and word not in (_SAMPLER, STANDARD):
        return None
    return SIGNALS[name].healthy_range(word)


def _outside(view: RunView, name: str) -> np.ndarray | None:
    """True where a signal is outside its healthy range, shape (draws, n); None where it or the range is unknown."""
    path, healthy = view.signal(name), sampler_range(view.run, name)
    if path is None or healthy is None:
        return None
    level = view.on_grid(path)
    return (level < healthy.low) | (level > healthy.high)


MODE = Mode("engine_gap", _holds, _text, ("same engine", "lower staleness", "lower rate"))
