"""How sure an event is: half of its log odds, within a bound, because no border is worth more than that."""

from __future__ import annotations

import numpy as np

from bayes_grpo.events.borders import BORDERS


def half_log_odds_along(event: np.ndarray) -> np.ndarray:
    """Half the log odds of an event at every step, counted over draws, within ±`BORDERS.log_odds_bound`, shape (n,).

    Args:
        event: Whether it holds, shape (draws, n).
    """
    p = (event.sum(axis=0) + 0.5) / (len(event) + 1.0)
    return np.clip(0.5 * np.log(p / (1.0 - p)), -BORDERS.log_odds_bound, BORDERS.log_odds_bound)


def about(share: np.ndarray | float, border: float) -> np.ndarray:
    """How far shares lie beyond a border, as values about 0 that are worth about as much as half log odds.

    Args:
        share: In [0, 1], any shape.
        border: The share that says nothing.
    """
    return BORDERS.slope_course * (np.asarray(share) - border)


def half_log_odds_of(p: float) -> float:
    """Half the log odds of a probability, within the same bound."""
    p = min(max(p, 1e-6), 1.0 - 1e-6)
    return bounded_log_odds(0.5 * np.log(p / (1.0 - p)))


def bounded_log_odds(value: float) -> float:
    """A value within the bound."""
    return float(np.clip(value, -BORDERS.log_odds_bound, BORDERS.log_odds_bound))
