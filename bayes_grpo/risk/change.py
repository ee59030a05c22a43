"""A change of settings from a run that worked, on the scales on which its effects add up.

Numbers are logarithms of ratios; a KL weight may be 0 and has its own scale. A setting that is unknown on either side
counts as unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

KL_UNIT = 0.01
"""A KL weight k counts as log(1 + k/KL_UNIT): none and a hundredth of a usual one are nearly the same."""


class Change(NamedTuple):
    """What is different from the settings of a run that worked.

    Attributes:
        learning_rate: Logarithm of the new learning rate over the old one.
        refresh_interval: Likewise of the optimizer steps between refreshes of the sampling policy.
        epochs: Likewise of the passes over a rollout's completions; its updates count in `refresh_interval` too.
        group_size: Likewise of the completions of a prompt.
        prompts_per_step: Likewise of the prompts of a step.
        kl_weight: Difference of log(1 + weight/`KL_UNIT`).
        clip_range: Logarithm of the new upper clip range over the old one.
        full: 1 from LoRA to all weights, -1 the other way.
        undecayed: 1 from a learning rate that decays to one that does not, -1 the other way.
        unguarded: Safeguards that were taken away (baseline, clipping of ratios), less those added.
        unscaled: 1 where advantages are no longer divided by the group's standard deviation, -1 the other way.
    """

    learning_rate: float = 0.0
    refresh_interval: float = 0.0
    epochs: float = 0.0
    group_size: float = 0.0
    prompts_per_step: float = 0.0
    kl_weight: float = 0.0
    clip_range: float = 0.0
    full: float = 0.0
    undecayed: float = 0.0
    unguarded: float = 0.0
    unscaled: float = 0.0


SIGNS = Change(1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
"""Which way theory and practice expect a change to make a run more likely to fail; 0 where they do not say."""
_RATIOS = ("learning_rate", "refresh_interval", "epochs", "group_size", "prompts_per_step", "clip_range")
_FLAGS = ("full", "undecayed", "unguarded", "unscaled")


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change:
    """The change from some settings to others.

    Where the refresh interval changes and the epochs are unknown, half of the change on the log scale counts as
    epochs: updates on new completions are safer than updates on the same ones.

    Args:
        before: Settings of the run that worked, by the names of `Change`; flags as numbers. Absent or None: unknown.
        after: Settings of the run to come, likewise; absent ones are as before.
    """
    moved: dict[str, float] = {}
    for name in (*_RATIOS, *_FLAGS, "kl_weight"):
        old, new = before.get(name), after.get(name, before.get(name))
        if old is None or new is None or old == new:
            continue
        if name == "kl_weight":
            moved[name] = math.log1p(float(new) / KL_UNIT) - math.log1p(float(old) / KL_UNIT)
        else:
            moved[name] = float(new) - float(old) if name in _FLAGS else math.log(float(new) / float(old))
    if "refresh_interval" in moved and (before.get("epochs") is None or "epochs" not in after):
        moved["epochs"] = 0.5 * moved["refresh_interval"]
    elif "epochs" in moved and "refresh_interval" not in moved:
        moved["refresh_interval"] = moved["epochs"]
    return Change(**moved)
