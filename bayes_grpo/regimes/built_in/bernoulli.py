"""Regime `bernoulli`: a Bernoulli policy under advantages divided by the group's standard deviation.

With the logit z of the success rate p and r the effective learning rate, dz/dt = r sqrt(p (1 - p)): an anharmonic
drift dp/dt = r (p (1 - p))^(3/2) that is slow near the floor, fastest at p = 1/2 and dies at the ceiling, which is
approached as 4/(r t)², not exponentially. The exact flow for many completions a group (GRPO, arXiv 2402.03300).
`SuccessRegime` is what it shares with `logistic`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.flows import NORMALISED, Flow, half_logit
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import POSITIVE, UNIT, Parameter, Prior, Quantity, namespace
from bayes_grpo.regimes.common import (
    FLUCTUATION,
    LEVELS,
    TrendRegime,
    fluctuation_rows,
    response_prior,
    row_times,
    trend_space,
    window_mean,
)
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series

_FAR = 30.0  # logits; a sampler astray must not overflow


class SuccessRegime(TrendRegime):
    """A success rate on an exact flow between a floor and a ceiling of the reward: R = floor + (R* - floor) p.

    The ceiling is R*. With both levels linear the shape is s = (1 - p(t))/(1 - p₀). Its two parameters are the initial
    success rate p₀, which makes the slow start, and the steps to half of the gain, which data know best whatever p₀ is.

    Attributes:
        flow: The flow.
        spread: Prior spread of the initial success rate, logits; weak, but without steps sharper than the rows.
    """

    flow: ClassVar[Flow]
    spread: ClassVar[float]
    quantities: ClassVar = {
        "flow_rate": Quantity("1/step", "r: rate of the flow of the success rate at the highest learning rate"),
        "floor": Quantity("reward", "reward at success rate 0"),
    }

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Steps to half of the gain, initial success, fluctuation, noises, and the two levels (integrated out)."""
        half = "from the start to half of the gain, on the curve without noise at the highest learning rate"
        start = "p₀: success rate at the start, between the regime's floor and its ceiling"
        return (
            Parameter("half_gain_step", "step", half, POSITIVE, response_prior),
            Parameter("initial_success", "", start, UNIT, lambda t: Prior(0.3, self.spread)),
            *FLUCTUATION,
            *LEVELS,
        )

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (R₀ - R*, fluctuation, R*); see `bayes_grpo.regimes.base.Regime.state_space`."""
        flow = self.flow
        start, way = self._start_and_way(values["initial_success"])
        speed = way / values["half_gain_step"]
        times = row_times(rows, weighted=True)
        path = flow.position(start + speed * times.nodes)
        share = window_mean(flow.failure(path)) / flow.failure(flow.position(start))
        # The coordinate moves at half the flow's rate; the drift follows the learning rate.
        rate = 2.0 * speed if rows.rate is None else 2.0 * speed * rows.rate
        slope = rate * flow.slope(path[len(path) // 2])
        gap_slope = None
        if times.gap_middle is not None:
            gap_slope = rate * flow.slope(flow.position(start + speed * times.gap_middle))
        return trend_space(share, fluctuation_rows(values, rows, slope, gap_slope), values, marginalized, rows)

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Rate of the flow, 1/step, and floor of the reward of each draw."""
        p0 = values["initial_success"]
        fixed = values["fixed_point"]
        xp = namespace(values["initial_success"])
        with jax.enable_x64(xp is np or jnp.result_type(float) == np.float64):
            way = xp.asarray(self._start_and_way(jnp.asarray(p0))[1])
        floor = fixed - (fixed - values["initial_reward"]) / xp.maximum(1.0 - p0, 1e-12)
        return {"flow_rate": 2.0 * way / values["half_gain_step"], "floor": floor}

    def _start_and_way(self, initial_success: Array) -> tuple[Array, Array]:
        """The flow's coordinate at the start, and how far it moves to half of the gain."""
        logit = jnp.clip(jnp.log(initial_success) - jnp.log1p(-initial_success), -_FAR, _FAR)
        start = self.flow.coordinate(logit)
        return start, self.flow.coordinate(half_logit(logit)) - start


class Bernoulli(SuccessRegime):
    r"""The flow under normalized advantages, :math:`\dot p = r\,u\,(p(1-p))^{3/2}`."""

    name = "bernoulli"
    title = "success rate under std-normalised advantages (power-law tail 1/t²)"
    on_request = True
    flow = NORMALISED
    spread = 1.5


REGIME = Bernoulli()
