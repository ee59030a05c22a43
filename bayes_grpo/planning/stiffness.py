"""Stiffness of the update from a fitted reward curve.

A reward curve identifies its saturation time far better than stiffness and damping separately. So the gain is derived
from that time, g = (1 − μ)/τ, or is a parameter of the regime (`reduction`). The reward shows the directions that it
feels; stiffer ones, which decide about stability, may exist.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, SettingError
from bayes_grpo.dynamics.reduction import effective_learning_rate
from bayes_grpo.fitting.result import Fit

FittedFrom = Literal["low_lag_run", "lagged_run"]


class FittedStiffness(NamedTuple):
    """Posterior of the stiffness that the reward of a run shows.

    Attributes:
        draws: K per unit learning rate and step, shape (draws,); Adam: in preconditioned units.
        source: "low_lag_run" where the run refreshed its policy every step, else "lagged_run".
        regime: Name of the fitted regime.
        quantity: "gain" or "relaxation_time", from which it follows.
    """

    draws: np.ndarray
    source: FittedFrom
    regime: str
    quantity: str


def stiffness_of_fit(fit: Fit, learning_rate: float | None = None) -> FittedStiffness:
    """Stiffness from the fitted learning time; ``learning_rate`` is the run's highest where its log lacks it.

    Raises:
        SettingError: The fitted run's learning rate is unknown, or its regime has no learning time.
    """
    rows = fit.as_draws.rows
    rate = rows.reference_rate if learning_rate is None else learning_rate
    if not (math.isfinite(rate) and rate > 0):
        raise SettingError(
            f"stiffness from a fit: expected the learning rate of its run, found none in the log; give {MENDING}",
            mended_by=Argument("settings", "RATE", "learning_rate"),
        )
    posterior = fit.quantities
    momentum = rows.optimizer.momentum
    if "gain" in posterior:
        quantity = "gain"
        gain = fit.draws("gain").ravel()
    elif "relaxation_time" in posterior:
        quantity = "relaxation_time"
        time = fit.draws("relaxation_time").ravel()
        gain = (1.0 - momentum) / time[np.isfinite(time) & (time > 0)]
    else:
        raise SettingError(f"stiffness from a fit: regime {fit.regime.name} has no learning time; fit another")
    if not gain.size:
        raise SettingError("stiffness from a fit: every draw is unstable, so there is no learning time; fit another")
    convention: Any = rows.optimizer.convention
    return FittedStiffness(
        draws=gain / effective_learning_rate(rate, momentum, convention),
        source="low_lag_run" if rows.optimizer.refresh <= 1 else "lagged_run",
        regime=fit.regime.name,
        quantity=quantity,
    )
