"""Regime `stiffness_damping`: the oscillator in terms of stiffness and damping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import POSITIVE, Parameter, Prior, Quantity
from bayes_grpo.regimes.built_in.oscillator import OSCILLATOR_NOISES, RESPONSE, SECOND_ORDER, Oscillator
from bayes_grpo.regimes.common import LEVELS
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series


class StiffnessDamping(Oscillator):
    r"""The oscillator with stiffness k and damping c > 0 as its parameters, for priors on them and for pooling.

    .. math:: T = \sqrt{m/k + (c/k)^2}, \quad \zeta = c/(2\sqrt{mk}), \quad m = (1+\mu)/2

    Priors hold exactly: nothing is bound to the rows.
    """

    name = "stiffness_damping"
    title = "oscillator in terms of stiffness and damping"
    on_request = True
    quantities: ClassVar = {k: v for k, v in SECOND_ORDER.items() if k not in ("stiffness", "damping")} | {
        "response_time": Quantity("step", RESPONSE)
    }

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Stiffness, damping, the two noises, and the two levels (integrated out)."""
        k, c = SECOND_ORDER["stiffness"], SECOND_ORDER["damping"]
        return (
            # Of a response time of a fifth of the log at a damping ratio of 2.
            Parameter("stiffness", *k, POSITIVE, lambda t: Prior(17.0 * t.optimizer.mass / (t.length / 5.0) ** 2, 2.0)),
            Parameter("damping", *c, POSITIVE, lambda t: Prior(16.5 * t.optimizer.mass / (t.length / 5.0), 1.0)),
            *OSCILLATOR_NOISES,
            *LEVELS,
        )

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """The values as they are."""
        return values

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, velocity, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        return super().state_space({**values, **_response(values, 0.5 * (1.0 + rows.momentum))}, marginalized, rows)

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Response time, damping ratio and times of each draw, at the highest learning rate of the run."""
        found = _response(values, table.optimizer.mass)
        return found | {k: v for k, v in super().derived(found, table).items() if k in self.quantities}


REGIME = StiffnessDamping()


def _response(values: Mapping[str, Any], mass: Any) -> dict[str, Any]:
    """Response time and damping ratio from stiffness and damping."""
    k, c = values["stiffness"], values["damping"]
    return {"response_time": (mass / k + (c / k) ** 2) ** 0.5, "damping_ratio": 0.5 * c / (mass * k) ** 0.5}
