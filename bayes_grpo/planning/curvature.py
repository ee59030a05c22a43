"""Curvature of the reward's drift from a fit, for the stability of another run's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import every
from bayes_grpo.dynamics.reduction import effective_learning_rate
from bayes_grpo.fitting.result import Fit
from bayes_grpo.risk.threshold import Change, change


class FittedCurvature(NamedTuple):
    """Posterior of the curvature with its origin.

    Attributes:
        draws: K per unit learning rate and step, shape (draws,); Adam: in preconditioned units.
        source: "low_lag_run" where the fitted run refreshed its policy every step, else "same_run".
        note: How it was found.
        settings: Settings of the fitted run: learning rate, refresh interval, momentum and its convention.
    """

    draws: np.ndarray
    source: Literal["low_lag_run", "same_run"]
    note: str
    settings: Mapping[str, Any]

    def change_to(self, learning_rate: float, refresh_interval: float) -> Change:
        """What planned settings change from those of the fitted run."""
        return change(self.settings, {"learning_rate": learning_rate, "refresh_interval": refresh_interval})


def curvature_of(fit: Fit, learning_rate: float | None = None) -> FittedCurvature:
    """Curvature from the fitted learning time.

    A reward curve identifies its saturation time far better than stiffness and damping separately. So the gain is
    derived from that time, g = (1 − μ)/τ, or is a parameter of the regime (`reduction`).

    Args:
        fit: A fit of a run with a known learning rate.
        learning_rate: Peak learning rate of the fitted run, where its log lacks it.

    Returns:
        Draws of the curvature.

    Raises:
        SettingError: The fitted run's learning rate is unknown, or its regime has no learning time.
    """
    rows = fit.as_draws.rows
    rate = learning_rate if learning_rate is not None else rows.reference_rate
    if not (np.isfinite(rate) and rate > 0):
        raise SettingError(
            "curvature from a fit: the fitted log has no learning rate; fit it with --set learning_rate=…"
        )
    momentum, convention = rows.optimizer.momentum, rows.optimizer.convention
    posterior = fit.data["posterior"].dataset
    if "gain" in posterior:
        gain, how = fit.draws("gain").ravel(), f"gain of regime {fit.regime.name}"
    elif "relaxation_time" in posterior:
        tau = fit.draws("relaxation_time").ravel()
        gain, how = (1.0 - momentum) / tau[np.isfinite(tau) & (tau > 0)], f"relaxation time of {fit.regime.name}"
    else:
        raise SettingError(f"curvature from a fit: regime {fit.regime.name} has no learning time; fit another")
    if not gain.size:
        raise SettingError("curvature from a fit: every draw is unstable, so there is no learning time")
    known: Any = convention
    refresh = rows.optimizer.refresh
    return FittedCurvature(
        draws=gain / effective_learning_rate(rate, momentum, known),
        source="low_lag_run" if refresh <= 1 else "same_run",
        settings={
            "learning_rate": rate,
            "refresh_interval": refresh,
            "momentum": momentum,
            "convention": convention,
        },
        note=f"{how}, run {fit.about.run} with learning rate {rate:g} and refresh {every(refresh)}",
    )
