"""Groups without spread: how many a success rate and a group size imply, and what another group size would change."""

from __future__ import annotations

import numpy as np

from bayes_grpo.logs.run import Setting

CONCENTRATION = 1.0
"""a + b of the Beta law of success rates over prompts; 1 is U-shaped, as graded sets of problems mostly are."""
TYPICAL_GROUP = 8
"""Group size where nobody states one."""
_RANGE = (-5.0, 5.0)  # of ln(a + b): from prompts that are solved or hopeless to prompts that are all alike
_HALVINGS = 40


def group_size_of(setting: Setting) -> float:
    """Completions a prompt to count with: those of the run, or a usual number where it names none, or none to compare.

    Groups of one are a trainer's default for other algorithms; a log of GRPO that does not name its groups has larger
    ones, and in groups of one there is no spread to lose.

    Args:
        setting: The run's group size.
    """
    value = float(setting.value or 0.0)
    return value if value >= 2.0 else float(TYPICAL_GROUP)


def implied_share(
    success_rate: np.ndarray, group_size: float, concentration: float | np.ndarray = CONCENTRATION
) -> np.ndarray:
    """Expected share of groups without spread, E[p^G + (1 - p)^G] over a Beta law of success rates.

    Args:
        success_rate: Mean success rate, in (0, 1), any shape.
        group_size: Completions a prompt, G.
        concentration: a + b of the Beta law; broadcasts with the success rate.

    Returns:
        Shares of the same shape.
    """
    i = np.arange(round(group_size))
    p, s = np.asarray(success_rate, dtype=float)[..., None], np.asarray(concentration, dtype=float)[..., None]
    below = s + i
    return np.prod((s * p + i) / below, -1) + np.prod((s * (1 - p) + i) / below, -1)


def concentration_of(share: np.ndarray, success_rate: np.ndarray, group_size: float) -> np.ndarray:
    """The Beta law's a + b with which a success rate implies a share of groups without spread, of the same shape.

    It is sought within e^±5; a share that no such law gives gets the nearest.

    Args:
        share: Shares of groups without spread.
        success_rate: Mean success rates, in (0, 1).
        group_size: Completions a prompt, G.
    """
    low, high = (np.full(np.shape(share), end) for end in _RANGE)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        more = implied_share(success_rate, group_size, np.exp(middle)) > share
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.exp(0.5 * (low + high))


def sides_of(share: np.ndarray, success_rate: np.ndarray, group_size: float) -> tuple[np.ndarray, np.ndarray]:
    """Shares of groups that are all correct and all wrong, by the Beta law that implies their sum; of the same shape.

    Args:
        share: Shares of groups without spread.
        success_rate: Mean success rates, in (0, 1).
        group_size: Completions a prompt, G.
    """
    p, n = np.asarray(success_rate, float), round(group_size)
    s = concentration_of(share, p, group_size)
    right = np.prod([(s * p + i) / (s + i) for i in range(n)], axis=0)
    wrong = np.prod([(s * (1.0 - p) + i) / (s + i) for i in range(n)], axis=0)
    part = right / np.maximum(right + wrong, 1e-300)
    return share * part, share * (1.0 - part)
