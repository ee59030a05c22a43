"""Several probes as one: what a training's batches say together, where each alone is too small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bayes_grpo.probing.estimate import Measured, Probe

TAKEN = 8
"""Probes that are taken together: in more of them the policy has moved on."""


def pooled_probes(probes: Sequence[Probe], last: int = TAKEN) -> Probe:
    """The last probes of a training as one.

    Their stiffness is the mean, its error that of the scatter between them, in which the errors of each are, and what
    the policy moved. The late share is the mean of those that are positive.

    Args:
        probes: In the order of their steps; at least one.
        last: How many, at most.

    Returns:
        The last probe itself where there are fewer than three; else one with the stiffness of all, at the last step.
    """
    own = list(probes)[-last:]
    if len(own) < 3:
        return own[-1]
    values = np.array([x.stiffest.mean for x in own])
    error = float(values.std(ddof=1)) / math.sqrt(len(own))
    crossed, chosen = (float(np.mean([getattr(x.stiffest, name) for x in own])) for name in ("crossed", "chosen"))
    together = Measured(float(values.mean()), error, len(own) - 1.0, crossed, chosen)
    felt = [x.late_share for x in own if x.stiffest.mean > 0.0]
    return replace(
        own[-1],
        stiffest=together,
        late_share=float(np.mean(felt)) if felt else 1.0,
        parts=sum(x.parts for x in own),
        gradients=sum(x.gradients for x in own),
    )
