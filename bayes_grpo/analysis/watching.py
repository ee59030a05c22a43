"""What it is worth to go on for a while and decide again with the rows that come: the option to stop later.

A run whose take-off is uncertain may not be worth running to any fixed step, and still be worth watching: it is
stopped soon where nothing comes, and goes on where it does. The value of the best such plan is an optimal stopping
problem, solved on the paths of a forecast by least-squares Monte Carlo (Longstaff and Schwartz 2001,
https://doi.org/10.1093/rfs/14.1.113). What a user will know at a check are rows, not the underlying reward, so values
are regressed on the simulated rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.analysis.decision import Unit, amount, check_amount, rise_of
from bayes_grpo.intervals import probability_text
from bayes_grpo.strict_json import json_safe

if TYPE_CHECKING:
    from bayes_grpo.analysis.forecast import Forecast

CHECKS = 8
"""Checks between now and the end."""
_FOLDS = 5


@dataclass(frozen=True)
class Watching:
    """The plan that decides again at every check.

    Attributes:
        check: First check, an optimizer step.
        value: Expected net value of going on to it and following the plan from there, relative to stopping now.
        committed: Expected net value of the best step that is fixed now, 0 for now.
        stops_at_check: Probability that the plan stops at the first check.
        go_on: Whether to go on to the check: the plan is worth more than stopping now.
        unit: Unit of the values.
    """

    check: float
    value: float
    committed: float
    stops_at_check: float
    go_on: bool
    unit: Unit

    @property
    def sentence(self) -> str:
        """The advice in words."""
        worth = amount(self.value, self.unit)
        if not self.go_on:
            return f"Watching does not pay either: going on to step {self.check:g} and deciding again is worth {worth}."
        return (
            f"Go on to step {self.check:g} and decide again: that is worth {worth} on average "
            f"({amount(self.committed, self.unit)} if the stop had to be fixed now), and it would end there with "
            f"probability {probability_text(self.stops_at_check)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary."""
        return json_safe(asdict(self) | {"sentence": self.sentence})


def watch(
    forecast: Forecast, *, cost_per_step: float, value_per_reward: float, unit: Unit = "", checks: int = CHECKS
) -> Watching:
    """Value of deciding again at evenly spread checks.

    Args:
        forecast: The forecast; `rows` are what the checks will see.
        cost_per_step: C, at least 0.
        value_per_reward: V, above 0, in the same unit.
        unit: "GPU hours" where costs and values are GPU hours.
        checks: Number of checks, the last of them the end.

    Returns:
        The plan's value and what it says now.

    Raises:
        SettingError: A number is impossible, or the forecast has no future step.
    """
    check_amount("cost per step", cost_per_step)
    check_amount("value per unit of reward", value_per_reward, above=True)
    step, rise = rise_of(forecast)
    net = value_per_reward * rise - cost_per_step * (step - step[0])
    rows = np.asarray(forecast.rows, float)
    rows = rows[np.isfinite(np.asarray(forecast.latent, float)).all(axis=1)]
    places = np.unique(np.linspace(0, len(step) - 1, checks + 1).astype(int))[1:]
    follows = net[:, places[-1]].copy()  # value of following the plan from the check on
    stopped = np.ones(len(net), bool)
    for k in range(len(places) - 2, -1, -1):
        known = _features(rows, places[: k + 1])
        now, later = _expected(known, np.stack([net[:, places[k]], follows], axis=1)).T
        stopped = now >= later
        follows = np.where(stopped, net[:, places[k]], follows)
    value = float(follows.mean())
    return Watching(
        check=float(step[places[0]]),
        value=value,
        committed=float(net.mean(axis=0).max()),
        stops_at_check=float(stopped.mean()),
        go_on=value > 0.0,
        unit=unit,
    )


def _features(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """What rows up to a check say: means of the first and of the last stretch between checks, and their squares."""
    edges = np.concatenate([[0], places])
    means = [rows[:, a:b].mean(axis=1) for a, b in pairwise(edges)]
    chosen = np.stack([means[0], means[-1]] if len(means) > 1 else [means[0]], axis=1)
    chosen = (chosen - chosen.mean(axis=0)) / np.maximum(chosen.std(axis=0), 1e-12)
    pairs = [chosen[:, i] * chosen[:, j] for i in range(chosen.shape[1]) for j in range(i, chosen.shape[1])]
    cubes = [np.clip(chosen, -3, 3) ** 3]
    return np.column_stack([np.ones(len(rows)), chosen, *pairs, *cubes])


def _expected(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Expectations of values given features, each draw's from a regression on the other folds.

    In-sample fits would follow the noise of a draw's own value and make the option look better than it is.
    """
    fold = np.arange(len(known)) * 7919 % len(known) % _FOLDS
    out = np.empty_like(values)
    for i in range(_FOLDS):
        inside = fold == i
        weights = np.linalg.lstsq(known[~inside], values[~inside], rcond=None)[0]
        out[inside] = known[inside] @ weights
    return out
