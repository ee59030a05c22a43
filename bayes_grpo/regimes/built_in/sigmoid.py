"""Regime `sigmoid`: the saturating power law of ScaleRL (arXiv 2510.13786), with correlated fluctuation.

R = R₀ + (A - R₀)/(1 + (C_mid/C)^B) with C the optimizer step, counted from step 0 of the run; A is the fixed point.
An empirical curve in plain steps: it knows no learning rate. A log that begins later sees the curve from its own first
row, and the initial reward is the one there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import POSITIVE, Parameter, Prior
from bayes_grpo.regimes.common import (
    FLUCTUATION,
    HALF_GAIN,
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


class Sigmoid(TrendRegime):
    r"""The sigmoid in the logarithm of the step t, with the midpoint C and the exponent B.

    .. math:: s(t) = \ell(t)/\ell(s_0), \quad \ell(t) = 1/(1+(t/C)^B)
    """

    name = "sigmoid"
    title = "saturating power law of the step (ScaleRL sigmoid)"
    quantities = HALF_GAIN

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Midpoint, exponent, fluctuation, noises, and the two levels (integrated out)."""
        return (
            Parameter(
                "midpoint",
                "step",
                "C_mid: step of the run at which half of the gain from step 0 is made",
                POSITIVE,
                lambda t: Prior(max(t.start, 0.0) + t.length / 3.0, response_prior(t).spread),
            ),
            Parameter("exponent", "", "B: steepness in the logarithm of the step", POSITIVE, lambda t: Prior(1.5, 0.7)),
            *FLUCTUATION,
            *LEVELS,
        )

    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (R₀ - R*, fluctuation, R*); see `bayes_grpo.regimes.base.Regime.state_space`."""
        first = jnp.asarray(rows.start)
        steps = first + row_times(rows, weighted=False).nodes
        middle, exponent = values["midpoint"], values["exponent"]
        share = window_mean(_remaining_share(steps, middle, exponent)) / _remaining_share(first, middle, exponent)
        return trend_space(share, fluctuation_rows(values, rows), values, marginalized, rows)

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Steps from the start of the log to half of the gain that is left there, of each draw."""
        middle, exponent = values["midpoint"], values["exponent"]
        first = max(table.start, 0.0)
        with np.errstate(over="ignore"):
            half = middle * (1.0 + 2.0 * (first / middle) ** exponent) ** (1.0 / exponent)
        return {"half_gain_step": half - first}


REGIME = Sigmoid()


def _remaining_share(step: Array, middle: Array, exponent: Array) -> Array:
    """Share of the gain that is left at a step of the run, 1/(1 + (C/C_mid)^B); 1 at step 0 and before."""
    begun = step > 0
    ratio = jnp.log(jnp.where(begun, step, 1.0)) - jnp.log(middle)
    return jnp.where(begun, jax.nn.sigmoid(-exponent * ratio), 1.0)
