"""Regime `bernoulli`: a Bernoulli policy under advantages divided by the group's standard deviation.

With the logit z of the success rate p and r the effective learning rate, dz/dt = r sqrt(p (1 - p)): an anharmonic
drift dp/dt = r (p (1 - p))^(3/2) that is slow near the floor, fastest at p = 1/2 and dies at the ceiling, which is
approached as 4/(r t)², not exponentially. The exact flow for many completions a group (GRPO, arXiv 2402.03300).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jax import Array

from bayes_grpo.dynamics.flows import NORMALISED
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Parameter
from bayes_grpo.regimes.common import check_rows
from bayes_grpo.regimes.rows import Rows, RowTable
from bayes_grpo.regimes.second_order import levels_of
from bayes_grpo.regimes.success import success_derived, success_parameters, success_space
from bayes_grpo.regimes.trend import slow_enough


@dataclass(frozen=True)
class Bernoulli:
    """The flow under normalised advantages; see the module's text."""

    name: str = "bernoulli"
    title: str = "success rate under std-normalised advantages (power-law tail 1/t²)"
    forecasts: bool = True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Steps to half of the gain, initial success, fluctuation, noises, and the two levels (integrated out)."""
        return success_parameters(spread=1.5)

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Fluctuation time no shorter than half a row."""
        return slow_enough(values, rows)

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (R₀ - R*, fluctuation, R*); see `bayes_grpo.regimes.base.Regime.state_space`."""
        return success_space(NORMALISED, values, linear, rows)

    def check(self, table: RowTable) -> None:
        """Raises `FitError` where there are too few rows."""
        check_rows(table, self.name, self.parameters)

    def linear_values(self, initial_state: Array) -> dict[str, Array]:
        """Fixed point (the ceiling) and initial reward from the state."""
        return levels_of(initial_state)

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Rate of the flow and floor of the reward of each draw."""
        return success_derived(NORMALISED, values)
