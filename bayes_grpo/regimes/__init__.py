"""Regimes: models of the reward curve, one file each; and the public parts of which other packages build theirs."""

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.common import (
    LEVELS,
    NOISES,
    first_order_row,
    first_order_space,
    initial_levels,
    measurement_var,
)
from bayes_grpo.regimes.parameters import POSITIVE, REAL, SIGNED, UNIT, Parameter, Prior, Quantity
from bayes_grpo.regimes.registry import REGIMES, get_regime
from bayes_grpo.regimes.trend import (
    FLUCTUATION,
    TrendRegime,
    fluctuation_rows,
    row_times,
    trend_space,
    window_mean,
)

__all__ = [
    "FLUCTUATION",
    "LEVELS",
    "NOISES",
    "POSITIVE",
    "REAL",
    "REGIMES",
    "SIGNED",
    "UNIT",
    "Parameter",
    "Prior",
    "Quantity",
    "Regime",
    "StateSpace",
    "TrendRegime",
    "first_order_row",
    "first_order_space",
    "fluctuation_rows",
    "get_regime",
    "initial_levels",
    "measurement_var",
    "row_times",
    "trend_space",
    "window_mean",
]
