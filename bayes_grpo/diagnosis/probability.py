"""From the strength of a definition to a probability.

    P = least + (most - least) s^4 / (1 + s^4),     s: by how many times what counts the rows show it

`least` is how often a mode is there where its definition does not hold, `most` how often where it holds clearly.
They are rounded shares of labelled public logs and the only numbers that are learned: definitions carry over to authors
who were never seen, weights learned from few authors did not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST_PROBABLE = 0.95
"""No probability is higher, however clear a measurement is: a log may be misread."""
DIRECT = ("lost_values",)
"""Modes that a single row measures; any other needs rows."""
HISTORIES = 100
"""Histories of a mode."""
_STEEP = 4.0


class Calibration(NamedTuple):
    """Probabilities of a mode.

    Attributes:
        least: Where its definition does not hold.
        unseen: Where no logged signal could show it.
        most: Where it holds clearly.
    """

    least: float
    unseen: float
    most: float


CALIBRATION = {
    "reward_hacking": Calibration(0.01, 0.03, 0.85),
    "advantage_degeneracy": Calibration(0.02, 0.03, 0.85),
    "policy_concentration": Calibration(0.01, 0.02, 0.75),
    "dynamical_instability": Calibration(0.03, 0.05, 0.85),
    "growing": Calibration(0.05, 0.3, 0.9),
    "plateaued": Calibration(0.05, 0.3, 0.85),
}


class Chances(NamedTuple):
    """A mode over the rows of a trend.

    Attributes:
        probability: That it is under way at each row, shape (n,).
        histories: Draws of whether it is, shape (draws, n), bool.
        seen: Whether a signal that shows it is logged.
    """

    probability: np.ndarray
    histories: np.ndarray
    seen: bool

    @classmethod
    def of(cls, probability: np.ndarray, seen: bool) -> Chances:
        """Histories that begin and end together, as one reader would draw the line at another height than the next."""
        height = (np.arange(HISTORIES) + 0.5) / HISTORIES
        return cls(probability, probability[None, :] > height[:, None], seen)


def probability_of(mode: str, strength: np.ndarray, shift: float = 0.0) -> np.ndarray:
    """Probabilities of a mode at each row.

    Args:
        mode: Its name.
        strength: As of `Mode.strength`, shape (n,).
        shift: Added to the log odds: a prior that somebody states, over the usual one.

    Returns:
        Shape (n,).
    """
    known = CALIBRATION[mode]
    size = np.nan_to_num(np.clip(strength, 0.0, 100.0)) ** _STEEP
    found = known.least + (known.most - known.least) * size / (1.0 + size)
    found = np.where(np.isinf(strength), MOST_PROBABLE, np.where(np.isnan(strength), known.unseen, found))
    if shift:
        odds = found / (1.0 - found) * np.exp(shift)
        found = odds / (1.0 + odds)
    return found
