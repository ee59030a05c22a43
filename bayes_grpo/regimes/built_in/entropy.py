"""Regime `entropy`: reward exchanged for entropy, R = -a e^H + b (arXiv 2505.22617), with correlated fluctuation.

H is the policy's logged entropy, in nats, and the ceiling b - a is where it is used up. It has no clock: it says
what the reward is at an entropy, not when, so it cannot forecast without a forecast of the entropy. Its fixed point is
the ceiling; its initial reward is the one at the mean of e^H over the first rows. The entropy of
a row is read off the rows before it, because its own logged value shares prompts, and so noise, with its reward; what
noise is left counts as exact and flattens the regime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.errors import FitError
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.common import LEVELS
from bayes_grpo.regimes.parameters import Parameter, Quantity
from bayes_grpo.regimes.trend import FLUCTUATION, TrendRegime, fluctuation_rows, trend_space
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable

FIRST_ROWS = 5
"""Rows at whose entropy the initial reward is given; one row would put its noise into the level."""
_LARGEST = 20.0
"""Nats; more than the logarithm of any vocabulary, hence no entropy of one token."""
SMALLEST_CHANGE = 0.02
"""Relative sd of e^H - 1 over the rows below which there is nothing to exchange."""


class Entropy(TrendRegime):
    """The entropy regime; see the module's text."""

    name = "entropy"
    title = "reward exchanged for entropy (R = b − a e^H)"
    forecasts = False
    quantities: ClassVar = {
        "entropy_price": Quantity("reward", "a of R = b − a e^H"),
        "entropy_intercept": Quantity("reward", "b of R = b − a e^H"),
    }
    shown = ("entropy_price", "fluctuation_sd", "fixed_point")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Fluctuation, noises, and the two levels (integrated out)."""
        return (*FLUCTUATION, *LEVELS)

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """State (R₀ - R*, fluctuation, R*); see `bayes_grpo.regimes.base.Regime.state_space`."""
        spent = jnp.expm1(jnp.asarray(rows.entropy))
        share = spent / jnp.mean(spent[:FIRST_ROWS])
        return trend_space(share, fluctuation_rows(values, rows), values, linear, rows)

    def check(self, table: RowTable) -> None:
        """Entropy must be logged, be an entropy in nats, and change.

        Raises:
            FitError: It is not, or there are too few rows.
        """
        super().check(table)
        if table.entropy is None:
            mend = "log it, name its column (--column entropy=KEY), or fit another regime"
            raise FitError(f"regime entropy: no entropy is recognized in this log; {mend}")
        low, high = float(np.min(table.entropy)), float(np.max(table.entropy))
        if low < 0 or high > _LARGEST:
            raise FitError(
                f"regime entropy: needs the mean entropy of a token in nats, between 0 and {_LARGEST:g}, found values "
                f"from {low:.4g} to {high:.4g}; a negative one is a loss or a density's, a large one a sequence's"
            )
        spent = np.expm1(table.entropy)
        if spent.std() < SMALLEST_CHANGE * max(float(spent.mean()), 1e-12) or spent[:FIRST_ROWS].mean() < 1e-6:
            raise FitError(
                f"regime entropy: the logged entropy hardly changes ({low:.4g} to {high:.4g}), so no reward can be "
                "explained by it; fit another regime"
            )

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Coefficients a and b of the published form, of each draw."""
        spent = 1.0 if table.entropy is None else float(np.expm1(table.entropy[:FIRST_ROWS]).mean())
        fixed, first = values["fixed_point"], values["initial_reward"]
        a = (fixed - first) / spent
        return {"entropy_price": a, "entropy_intercept": fixed + a}


REGIME = Entropy()
