"""Regime `bernoulli`: a Bernoulli policy under advantages divided by the group's standard deviation.

With the logit z of the success rate p and r the effective learning rate, dz/dt = r sqrt(p (1 - p)): an anharmonic
drift dp/dt = r (p (1 - p))^(3/2) that is slow near the floor, fastest at p = 1/2 and dies at the ceiling, which is
approached as 4/(r t)², not exponentially. The exact flow for many completions a group (GRPO, arXiv 2402.03300).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jax import Array

from bayes_grpo.dynamics.flows import NORMALISED
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.parameters import Parameter
from bayes_grpo.regimes.success import SUCCESS, success_derived, success_parameters, success_space
from bayes_grpo.regimes.trend import TrendRegime
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable


class Bernoulli(TrendRegime):
    """The flow under normalised advantages; see the module's text."""

    name = "bernoulli"
    title = "success rate under std-normalised advantages (power-law tail 1/t²)"
    quantities = SUCCESS
    shown = ("half_gain_step", "initial_success", "fixed_point")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Steps to half of the gain, initial success, fluctuation, noises, and the two levels (integrated out)."""
        return success_parameters(spread=1.5)

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (R₀ - R*, fluctuation, R*); see `bayes_grpo.regimes.base.Regime.state_space`."""
        return success_space(NORMALISED, values, linear, rows)

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Rate of the flow and floor of the reward of each draw."""
        return success_derived(NORMALISED, values)


REGIME = Bernoulli()
