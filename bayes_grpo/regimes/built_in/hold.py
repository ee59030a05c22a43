"""Regime `hold`: the optimizer's steps one by one, with the sampling policy frozen between refreshes.

The exact linear map of `bayes_grpo.dynamics.hold` in place of the continuum of `reduction`, for runs near or beyond
their stability threshold. Steps must be whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.errors import FitError
from bayes_grpo.dynamics.hold import hold_rows
from bayes_grpo.dynamics.state_space import Matrix, StateSpace, Vector
from bayes_grpo.dynamics.thresholds import hold_growth
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.built_in.reduction import GAIN, gain_and_curvature, held_lag
from bayes_grpo.regimes.common import FROM_SETTINGS, LEVELS, NOISES, SECOND_ORDER, initial_levels, measurement_var
from bayes_grpo.regimes.parameters import Parameter, Quantity
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable


class Hold(Regime):
    """The discrete hold map; see the module's text."""

    name = "hold"
    title = "optimizer steps with a sampling policy held between refreshes"
    rests_on_settings = True
    on_request = True
    quantities: ClassVar = FROM_SETTINGS | {
        "damping": SECOND_ORDER["damping"],
        "growth_per_step": Quantity("", "spectral radius a step of the hold map; above 1 unstable"),
    }

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Learning time, lag exposure, the two noises, and the two levels (integrated out)."""
        return (*GAIN, *NOISES, *LEVELS)

    def check(self, table: RowTable) -> None:
        """Steps, windows and the refresh interval must be whole numbers.

        Raises:
            FitError: They are not, or there are too few rows.
        """
        super().check(table)
        numbers = {"steps": table.step, "windows": table.window, "start": np.array([table.start])}
        numbers["refresh_interval"] = np.array([table.optimizer.refresh])
        for name, values in numbers.items():
            broken = values[values != np.round(values)]
            if len(broken):
                raise FitError(
                    f"regime hold goes step by step and needs whole numbers, found {name} {broken[0]:g}; "
                    "fit the regime reduction instead"
                )

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, change, h, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        n = rows.y.shape[0]
        momentum = jnp.asarray(rows.momentum)
        gain = (1.0 - momentum) / values["learning_time"]
        window = jnp.broadcast_to(jnp.asarray(0.0 if rows.window is None else rows.window), (n,))
        steps = jnp.broadcast_to(window + jnp.asarray(0.0 if rows.gap is None else rows.gap), (n,))
        first = jnp.asarray(rows.start) + jnp.cumsum(steps) - steps
        rate = jnp.broadcast_to(jnp.asarray(1.0 if rows.rate is None else rows.rate), (n,))
        row = hold_rows(gain * rate, values["lag_exposure"], first, steps, window, momentum, jnp.asarray(rows.refresh))
        # Leading order of the stationary variance without lag, so that it is positive for every gain.
        noise = 2.0 * values["fluctuation_sd"] ** 2 * (1.0 - momentum) * gain * rate**2
        mean, cov = _initial(linear, rows)
        return StateSpace(
            initial_mean=mean,
            initial_cov=cov,
            transition=(*((*r, 0.0) for r in row.transition), (0.0, 0.0, 0.0, 1.0)),
            noise_cov=(*((*(noise * v for v in r), 0.0) for r in row.noise_cov), (0.0, 0.0, 0.0, 0.0)),
            observation=(*row.observation, 1.0),
            cross_cov=(*(noise * v for v in row.cross_cov), 0.0),
            observation_var=noise * row.observation_var,
            offset=0.0,
            measurement_var=measurement_var(values, rows),
        )

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Gain, curvature, and the growth of the slowest mode a step, at the highest learning rate of the run."""
        optimizer = table.optimizer
        gain = (1.0 - optimizer.momentum) / np.asarray(values["learning_time"])
        exposure = np.asarray(values["lag_exposure"])
        return gain_and_curvature(gain, table) | {
            "damping": (1.0 - optimizer.momentum) - gain * exposure * held_lag(optimizer.refresh),
            "growth_per_step": hold_growth(gain, optimizer.momentum, int(optimizer.refresh), exposure),
        }


REGIME = Hold()


def _initial(linear: Mapping[str, Any], rows: Rows) -> tuple[Vector, Matrix]:
    """Prior moments of (x, change, h, fixed point); the log starts with a fresh sampling policy, h = x."""
    speed_var = 0.0 if rows.start_speed is None else jnp.asarray(rows.start_speed) ** 2
    (x, change, fixed), cov = initial_levels(linear, speed_var)
    (xx, _, xf), (_, vv, _), (_, _, ff) = cov
    return (x, change, x, fixed), (
        (xx, 0.0, xx, xf),
        (0.0, vv, 0.0, 0.0),
        (xx, 0.0, xx, xf),
        (xf, 0.0, xf, ff),
    )
