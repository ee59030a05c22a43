"""What the two nonlinear laws share: a success rate on an exact flow between a floor and a ceiling of the reward.

R = floor + (R* - floor) p, with p the success rate on a flow of `bayes_grpo.dynamics.flows` and R* the ceiling. With
both levels linear the shape is s = (1 - p(t))/(1 - p₀). Its two parameters are the initial success rate p₀, which
makes the slow start, and the steps to half of the gain, which data know best whatever p₀ is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.flows import Flow, half_logit
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.common import LEVELS, response_prior
from bayes_grpo.regimes.parameters import POSITIVE, UNIT, Parameter, Prior, Quantity
from bayes_grpo.regimes.trend import FLUCTUATION, fluctuation_rows, row_times, trend_space, window_mean
from bayes_grpo.rows.padding import Rows

SUCCESS = {
    "flow_rate": Quantity("1/step", "r: rate of the flow of the success rate at the highest learning rate"),
    "floor": Quantity("reward", "reward at success rate 0"),
}
"""Derived by the laws on a flow."""


def success_parameters(spread: float) -> tuple[Parameter, ...]:
    """Parameters of a law on a flow.

    Args:
        spread: Prior spread of the initial success rate, logits; weak, but without steps sharper than the rows.

    Returns:
        Steps to half of the gain, initial success, fluctuation, noises, and the two levels.
    """
    return (
        Parameter(
            "half_gain_step",
            "step",
            "from the start to half of the gain, on the unforced law at the highest learning rate",
            POSITIVE,
            response_prior,
        ),
        Parameter(
            "initial_success",
            "",
            "p₀: success rate at the start, between the law's floor and its ceiling",
            UNIT,
            lambda t: Prior(0.3, spread),
        ),
        *FLUCTUATION,
        *LEVELS,
    )


_FAR = 30.0  # logits; a sampler astray must not overflow


def success_space(flow: Flow, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
    """State space (R₀ - R*, fluctuation, R*) of a flow on the rows.

    Args:
        flow: The flow of the success rate.
        values: Sampled parameters.
        linear: (mean, sd) of "fixed_point" and "initial_reward".
        rows: Rows of the log.

    Returns:
        The state space.
    """
    start, way = _start_and_way(flow, values["initial_success"])
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
    return trend_space(share, fluctuation_rows(values, rows, slope, gap_slope), values, linear, rows)


def success_derived(flow: Flow, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Rate of the flow, 1/step, and floor of the reward of each draw."""
    p0, half = np.asarray(values["initial_success"]), np.asarray(values["half_gain_step"])
    with jax.enable_x64(True):
        way = np.asarray(_start_and_way(flow, jnp.asarray(p0))[1])
    fixed, first = np.asarray(values["fixed_point"]), np.asarray(values["initial_reward"])
    return {"flow_rate": 2.0 * way / half, "floor": fixed - (fixed - first) / np.maximum(1.0 - p0, 1e-12)}


def _start_and_way(flow: Flow, initial_success: Array) -> tuple[Array, Array]:
    """The flow's coordinate at the start, and how far it moves to half of the gain."""
    logit = jnp.clip(jnp.log(initial_success) - jnp.log1p(-initial_success), -_FAR, _FAR)
    start = flow.coordinate(logit)
    return start, flow.coordinate(half_logit(logit)) - start
