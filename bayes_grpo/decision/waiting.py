"""Stop, go on, or look again: what a rule is worth that sees the rows to come before it decides.

An optimal stopping problem on the paths of a forecast, solved backwards: at each look the paths tell, by least squares
on what the log will show by then, whether going on is expected to be worth more than stopping there (Longstaff and
Schwartz 2001, https://doi.org/10.1093/rfs/14.1.113). A rule is found on each half of the paths and valued on the other,
so that chance in the paths does not pay; so its value is one that a rule reaches, not a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.results import Result
from bayes_grpo.decision.budget import BudgetUnit, amount

LOOKS = 8
"""Looks until the horizon at most."""
SELDOM = 0.05
"""A look at which the rule stops less often than this can be left out."""
LEAST_PATHS = 40
"""Paths that a rule is found on at least."""
_RIDGE = 1e-3

Action = Literal["stop", "go on", "look again"]


@dataclass(frozen=True)
class Waiting(Result):
    """What to do now, with the rows to come in mind.

    Attributes:
        action: "stop"; "go on", to the end; "look again", at `look`.
        look: Step of the next look that may stop the run; the end where none does.
        net: Expected net value of going on by the rule; what stopping now is worth is 0.
        more: How much that is above the best step that is fixed now.
        looks: Steps of the looks, the last one the end.
        stops: Probability that the rule stops at each.
        unit: Unit of the values.
    """

    action: Action
    look: float
    net: float
    more: float
    looks: tuple[float, ...]
    stops: tuple[float, ...]
    unit: BudgetUnit

    in_json = ("sentence", ...)

    @property
    def sentence(self) -> str:
        """What to do, in words."""
        worth = f"expected net value {amount(self.net, self.unit)}"
        if self.action == "stop":
            return f"Stop now: going on and looking again is not expected to pay ({worth})."
        if self.action == "go on":
            return f"Go on to step {self.look:g}: {worth}."
        here = self.stops[self.looks.index(self.look)]
        return (
            f"Go on, and look again at step {self.look:g}: {worth}, {amount(max(self.more, 0.0), self.unit)} of it "
            f"because the rows to come may say stop (there with probability {probability_text(here)})."
        )


def waited(
    step: np.ndarray, net: np.ndarray, rows: np.ndarray, known: np.ndarray, logged: np.ndarray, unit: BudgetUnit = ""
) -> Waiting | None:
    """The best rule that looks now and then, found backwards.

    Args:
        step: Stopping steps, the first of them now, shape (1 + h,).
        net: Net value of each draw at each, shape (draws, 1 + h).
        rows: What the log shows at the steps after now, shape (draws, h).
        known: What else is known at each stopping step, such as the best score, shape (draws, 1 + h).
        logged: Rows so far, shape (n,).
        unit: Unit of the values.

    Returns:
        The rule; None with too few paths.
    """
    looks = np.unique(np.round(np.linspace(0, len(step) - 1, LOOKS + 1)).astype(int))[1:]
    fold = np.arange(len(net)) % 2
    if min(fold.sum(), len(net) - fold.sum()) < LEAST_PATHS or not len(looks):
        return None
    seen = [
        _features(rows, known, logged, int(last), int(last - before))
        for before, last in zip([0, *looks[:-1]], looks[:-1], strict=False)
    ]
    value, stop, fixed = np.empty(len(net)), np.empty(len(net), int), np.empty(len(net))
    for half in (0, 1):
        worths, at = _backwards(seen, net[:, looks], fold == half)
        held = fold != half
        value[held], stop[held] = worths[held], at[held]
        fixed[held] = net[held, int(np.argmax(net[~held].mean(axis=0)))]
    worth, fixed_worth = float(value.mean()), float(fixed.mean())
    often = np.bincount(stop, minlength=len(looks)) / len(stop)
    action: Action = "stop"
    look = len(looks) - 1
    if worth > 0.0:
        may = np.flatnonzero(often[:-1] >= SELDOM)
        action, look = ("look again", int(may[0])) if len(may) else ("go on", look)
    steps = tuple(float(s) for s in step[looks])
    return Waiting(action, steps[look], worth, worth - fixed_worth, steps, tuple(often.tolist()), unit)


def _backwards(seen: list[np.ndarray], net: np.ndarray, fitted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rule found on some of the draws, applied to all.

    Args:
        seen: What every look but the last sees of each draw, shape (draws, features) each.
        net: Net value of stopping at every look, shape (draws, looks).
        fitted: Draws that it is found on, shape (draws,).

    Returns:
        Net value of each draw under the rule, and the look at which it stops, shape (draws,) each.
    """
    value, stop = net[:, -1].copy(), np.full(len(net), net.shape[1] - 1)
    for i in range(len(seen) - 1, -1, -1):
        going = seen[i] @ _weights(seen[i][fitted], (value - net[:, i])[fitted])
        value, stop = np.where(going <= 0.0, net[:, i], value), np.where(going <= 0.0, i, stop)
    return value, stop


def _features(rows: np.ndarray, known: np.ndarray, logged: np.ndarray, look: int, width: int) -> np.ndarray:
    """What a look sees of every path: its last rows, those before, the best stretch, what else is known."""
    width = max(width, 1)
    past = np.broadcast_to(logged[-width:], (len(rows), len(logged[-width:])))
    shown = np.concatenate([past, rows[:, :look]], axis=1)
    recent, before = shown[:, -width:].mean(axis=1), shown[:, -2 * width : -width].mean(axis=1)
    total = np.cumsum(np.concatenate([np.zeros((len(rows), 1)), shown], axis=1), axis=1)
    stretch = ((total[:, width:] - total[:, :-width]) / width).max(axis=1)
    x = np.stack([recent, recent - before, known[:, look] - recent, stretch - recent], axis=1)
    scale = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(scale > 1e-12, scale, 1.0)
    return np.concatenate([np.ones((len(x), 1)), x, x**2, x[:, :1] * x[:, 1:2]], axis=1)


def _weights(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least squares with a trace of shrinkage, the intercept apart."""
    ridge = _RIDGE * len(x) * np.eye(x.shape[1])
    ridge[0, 0] = 0.0
    return np.linalg.solve(x.T @ x + ridge, x.T @ y)
