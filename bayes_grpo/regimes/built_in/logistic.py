"""Regime `logistic`: a Bernoulli policy under advantages that are only centred (Dr. GRPO, arXiv 2503.20783).

With the logit z of the success rate p, dz/dt = r p (1 - p), where r = η (1 - 1/G) for groups of G: the expected
policy gradient of one logit, exactly. The reward's drift is then dp/dt = r (p (1 - p))², slower at both ends than
`bernoulli`, and the ceiling is approached as 1/(r t). The textbook's logistic curve, dp/dt = r p (1 - p), would need a
logit that moves at constant speed, which no centred advantage gives; a curve of that family is `sigmoid`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jax import Array

from bayes_grpo.dynamics.flows import CENTRED
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.parameters import Parameter
from bayes_grpo.regimes.success import SUCCESS, success_derived, success_parameters, success_space
from bayes_grpo.regimes.trend import TrendRegime
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable


class Logistic(TrendRegime):
    """The flow under centred advantages; see the module's text."""

    name = "logistic"
    title = "success rate under mean-only advantages (power-law tail 1/t)"
    quantities = SUCCESS
    shown = ("half_gain_step", "initial_success", "fixed_point")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Steps to half of the gain, initial success, fluctuation, noises, and the two levels (integrated out)."""
        return success_parameters(spread=1.1)  # as wide a prior of the curve's shape as 1.5 is for the normalised flow

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (R₀ - R*, fluctuation, R*); see `bayes_grpo.regimes.base.Regime.state_space`."""
        return success_space(CENTRED, values, linear, rows)

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Rate of the flow and floor of the reward of each draw."""
        return success_derived(CENTRED, values)


REGIME = Logistic()
