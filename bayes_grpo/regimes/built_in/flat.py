"""Regime `flat`: a constant reward with correlated fluctuation and measurement noise, the honest null.

What short noisy logs often support and no more. A law with a trend has to beat it before its trend is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.common import LEVELS, measurement_var
from bayes_grpo.regimes.parameters import Parameter, Quantity
from bayes_grpo.regimes.trend import FLUCTUATION, TrendRegime, fluctuation_rows
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable


class Flat(TrendRegime):
    """The constant; see the module's text."""

    name = "flat"
    title = "constant with correlated fluctuation (no trend)"
    quantities: ClassVar = {"initial_reward": Quantity("reward", "the same as the fixed point: this law has no trend")}
    shown = ("fluctuation_time", "fluctuation_sd", "fixed_point")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Fluctuation time, the two noises, and the level (integrated out)."""
        return (*FLUCTUATION, *(p for p in LEVELS if p.name == "fixed_point"))

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

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """The level again as initial reward, for what compares the two levels of any law."""
        return {"initial_reward": np.asarray(values["fixed_point"])}


REGIME = Flat()
