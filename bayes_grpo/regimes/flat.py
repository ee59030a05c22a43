"""Regime `flat`: a constant reward with correlated fluctuation and measurement noise, the honest null.

What short noisy logs often support and no more. A law with a trend has to beat it before its trend is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Parameter
from bayes_grpo.regimes.common import LEVELS, measurement_var
from bayes_grpo.regimes.rows import Rows, RowTable
from bayes_grpo.regimes.trend import FLUCTUATION, fluctuation_rows, slow_enough


@dataclass(frozen=True)
class Flat:
    """The constant; see the module's text."""

    name: str = "flat"
    title: str = "constant with correlated fluctuation (no trend)"
    forecasts: bool = True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Fluctuation time, the two noises, and the level (integrated out)."""
        return (*FLUCTUATION, *(p for p in LEVELS if p.name == "fixed_point"))

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Fluctuation time no shorter than half a row."""
        return slow_enough(values, rows)

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (fluctuation, level); see `bayes_grpo.regimes.base.Regime.state_space`."""
        row = fluctuation_rows(values, rows)
        level, sd = linear["fixed_point"]
        return StateSpace(
            initial_mean=(0.0, level),
            initial_cov=((0.0, 0.0), (0.0, sd**2)),
            transition=((row.transition, 0.0), (0.0, 1.0)),
            noise_cov=((row.noise_var, 0.0), (0.0, 0.0)),
            observation=(row.observation, 1.0),
            cross_cov=(row.cross_cov, 0.0),
            observation_var=row.observation_var,
            offset=0.0,
            measurement_var=measurement_var(values, rows),
        )

    def check(self, table: RowTable) -> None:
        """Fits any rows."""

    def linear_values(self, initial_state: Array) -> dict[str, Array]:
        """The level, the last component of the state."""
        return {"fixed_point": initial_state[..., -1]}

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """The level again as initial reward, for what compares the two levels of any law."""
        return {"initial_reward": np.asarray(values["fixed_point"])}
