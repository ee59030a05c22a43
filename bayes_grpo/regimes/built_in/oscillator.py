"""Regime `oscillator`: the stochastically forced damped oscillator with stiffness and damping left free.

    m x'' + c x' + k x = forcing,   x = reward - fixed point

A reward curve identifies only k/m and c/m (and the noise); the mass is the optimizer's, (1 + μ)/2 for heavy-ball
momentum μ (reduced model of arXiv 2606.30789). Time is measured by the response time sqrt(m/k + (c/k)²): the
relaxation time c/k of an overdamped curve, 1/ω₀ of an undamped one, and smooth in between, so that it is what the
data know best in every case. With a logged learning rate the stiffness follows it, k(t) = K η(t), and so does the
forcing; reported stiffness and damping ratio refer to the highest learning rate of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.common import (
    LEVELS,
    OSCILLATOR_NOISES,
    SECOND_ORDER,
    diffusion_of,
    response_prior,
    second_order_space,
    second_order_times,
    unstable_damping,
)
from bayes_grpo.regimes.parameters import POSITIVE, SIGNED, Parameter, Prior
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series

_GROWTH_PER_UNIT = 2.0
_LARGEST_GROWTH = 15.0  # e-folds over the log; a sampler astray must not overflow
_BLEND = 0.1


RESPONSE = "sqrt(m/k + (c/k)²): relaxation time where overdamped, 1/ω₀ where undamped"


class Oscillator(Regime):
    """The damped oscillator; see the module's text."""

    name = "oscillator"
    title = "stochastically forced damped oscillator"
    quantities = SECOND_ORDER

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Response time, damping ratio, the two noises, and the two levels (integrated out)."""
        meaning = "ζ = c / (2 sqrt(mk)): below 1 oscillatory, below 0 unstable"
        return (
            Parameter("response_time", "step", RESPONSE, POSITIVE, response_prior),
            Parameter("damping_ratio", "", meaning, SIGNED, lambda t: Prior(2.0, 0.8)),
            *OSCILLATOR_NOISES,
            *LEVELS,
        )

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Response time no shorter than half a row; damping ratio from its coordinate s.

        An undamped regime faster than the rows is an alias of slower ones: sharp spurious peaks, no information. A
        response time well above the rows' spacing is left as it is.

        The damping ratio is s itself where stable, and a growth over the whole log where not. A curve that has not
        blown up can have grown by a few e-folds over its log at most. So the unstable side is measured in e-folds
        over the log; in plain units of ζ it would be a cliff for all but the slowest regimes.
        """
        s = values["damping_ratio"]
        response = jnp.sqrt(values["response_time"] ** 2 + (0.5 * rows.spacing) ** 2)
        upper = 0.5 * (s + jnp.sqrt(s**2 + _BLEND**2))
        folds = _LARGEST_GROWTH * jnp.tanh(_GROWTH_PER_UNIT * (upper - s) / _LARGEST_GROWTH)
        unstable = unstable_damping(folds * response / rows.length)
        return {**values, "response_time": response, "damping_ratio": upper - unstable}

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (x, velocity, fixed point); see `bayes_grpo.regimes.base.Regime.state_space`."""
        zeta = values["damping_ratio"]
        omega = jnp.sqrt(1.0 + 4.0 * zeta**2) / values["response_time"]
        a, b = 2.0 * zeta * omega, omega**2
        diffusion = diffusion_of(values["fluctuation_sd"], zeta, omega)
        if rows.rate is not None:
            b, diffusion = b * rows.rate, diffusion * rows.rate**2
        return second_order_space(a, b, diffusion, values, marginalized, rows)

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Stiffness, damping and times of each draw, at the highest learning rate of the run."""
        zeta = values["damping_ratio"]
        omega = (1.0 + 4.0 * zeta**2) ** 0.5 / values["response_time"]
        mass = table.optimizer.mass
        return {"stiffness": mass * omega**2, "damping": 2.0 * mass * zeta * omega} | second_order_times(zeta, omega)


REGIME = Oscillator()
