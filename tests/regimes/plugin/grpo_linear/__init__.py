"""Regime `linear`: a reward that goes from its start to its fixed point in a straight line over the log, and on."""

import jax.numpy as jnp

from bayes_grpo.regimes import FLUCTUATION, LEVELS, TrendRegime, fluctuation_rows, row_times, trend_space, window_mean


class Linear(TrendRegime):
    """The straight line; its fixed point is its value at the end of the log."""

    name = "linear"
    title = "straight line over the log"

    @property
    def parameters(self):
        """Fluctuation, noises, and the two levels (integrated out)."""
        return (*FLUCTUATION, *LEVELS)

    def state_space(self, values, marginalized, rows):
        """State (R₀ - R*, fluctuation, R*)."""
        left = 1.0 - window_mean(row_times(rows, weighted=False).nodes) / jnp.asarray(rows.length)
        return trend_space(left, fluctuation_rows(values, rows), values, marginalized, rows)
