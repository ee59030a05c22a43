"""Regime `flat`: a constant reward with correlated fluctuation and measurement noise, the honest null.

What short noisy logs often support and no more. A regime with a trend has to beat it before its trend is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Parameter, Quantity
from bayes_grpo.regimes.common import FLUCTUATION, LEVELS, TrendRegime, fluctuation_rows, with_level
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series


class Flat(TrendRegime):
    r"""The constant R*, about which f returns in the fluctuation time.

    .. math:: df = -f/T_f\,dt + \sqrt{2\sigma_f^2/T_f}\,dW
    """

    name = "flat"
    title = "constant with correlated fluctuation (no trend)"
    quantities: ClassVar = {"initial_reward": Quantity("reward", "the fixed point, as this regime has no trend")}

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Fluctuation time, the two noises, and the level (integrated out)."""
        return (*FLUCTUATION, *(p for p in LEVELS if p.name == "fixed_point"))

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (fluctuation, level); see `bayes_grpo.regimes.base.Regime.state_space`."""
        level, sd = marginalized["fixed_point"]
        moments = (0.0, level), ((0.0, 0.0), (0.0, sd**2))
        return with_level(moments, fluctuation_rows(values, rows), values, rows)

    def check(self, table: Series) -> None:
        """Fits any rows."""

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """The level again as initial reward, for what compares the two levels of any regime."""
        return {"initial_reward": values["fixed_point"]}


REGIME = Flat()
