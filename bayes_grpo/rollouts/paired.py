"""`compare_by_prompt`: is run B better than run A on the same prompts?

Means over cells of a window differ by luck, by which prompts each run drew, and by the runs. Generalised least squares
with the level of every run in every window as unknowns, and lasting and passing effects of prompts as in
`bayes_grpo.rollouts.cells`, weighs the cells so that what prompts have in common cancels: wholly where both runs
meet the same prompts in a window, in part where one meets them at other steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import LEVEL, Interval, better_of, percent, span_text
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.rollouts.cells import PromptCells, Variances, cells_of, variances_of
from bayes_grpo.rollouts.records import Rollouts

_WINDOWS = 10


@dataclass(frozen=True, kw_only=True)
class ByPrompt(Result):
    """Two runs on the same prompts.

    Attributes:
        a: Name of run A.
        b: Name of run B.
        steps: First and last step of the window compared.
        shared: Share of the prompts of the window in either run that the other has too, at any step.
        mean_a: Mean reward of A there.
        mean_b: Mean reward of B there.
        difference: B less A.
        p_better: Probability that B's level there is higher, of these two runs; other seeds may differ.
        variance_ratio: Variance of the difference over that without knowing prompts.
    """

    a: str
    b: str
    steps: tuple[float, float]
    shared: float
    mean_a: float
    mean_b: float
    difference: Interval
    p_better: float
    variance_ratio: float

    interval_level = LEVEL
    also_in_json = ("sentence", "interval_level", "verdict")

    @property
    def verdict(self) -> str:
        """One of "B is better", "A is better" and "cannot tell"."""
        return better_of(self.p_better)

    @property
    def sentence(self) -> str:
        """The same in words."""
        difference = span_text(self.difference, "+.3g", level=False)
        head = self.verdict if self.verdict != "cannot tell" else "Cannot tell which is better"
        return (
            f"{head} on the same prompts, steps {self.steps[0]:g} to {self.steps[1]:g}: P(B better than A) "
            f"{percent(self.p_better)}, difference {difference} ({LEVEL:.0%} "
            f"interval, of these two runs); shared prompts reduce the variance to {self.variance_ratio:.0%}."
        )


def compare_by_prompt(
    a: Rollouts, b: Rollouts, *, others: Sequence[Rollouts] = (), at: float | None = None
) -> ByPrompt:
    """Compares two runs by prompt, in the last tenth of the steps that both have or of those up to ``at``.

    ``others`` are further runs on the same prompts, which tell how hard those are that only one of the two met. The
    result says nothing of other seeds of the recipes.

    Raises:
        FitError: No prompt is in both runs.
        SettingError: A step that a run has not reached.
    """
    last = float(min(a.last_step, b.last_step)) if at is None else float(at)
    first = max(a.first_step, b.first_step)
    if not first <= last <= min(a.last_step, b.last_step):
        raise SettingError(
            f"expected a step that both runs have, found {last:g}; they share none, or choose another",
            parameter="at",
        )
    every = [cells_of(x) for x in (a.until(last), b.until(last), *others)]
    if not np.isin(every[0].prompt, every[1].prompt).any():
        raise FitError(
            f"expected prompts that {plain(a.name, 60)} and {plain(b.name, 60)} share, found none; read both from the "
            "same trainer, since templates change a prompt's hash"
        )
    width = (last - first + 1) / _WINDOWS
    edge = last - width
    variances = variances_of(every)
    windows_of = [((last - c.step) // width).astype(int) for c in every]
    design = _Design(every, [w - min(int(w.min()), 0) for w in windows_of])
    found = design.contrast(variances)
    unpaired = Variances(0.0, variances.lasting + variances.passing, variances.luck)
    difference = found.value
    freedom = max(found.prompts - 1.0, 1.0)
    late = [c.where(c.step > edge) for c in every[:2]]
    sd = float(np.sqrt(found.robust * (1.0 + 1.0 / freedom)))
    wide = float(student.ppf(0.5 + LEVEL / 2.0, freedom)) * sd
    shared = np.concatenate([np.isin(late[i].prompt, every[1 - i].prompt) for i in (0, 1)])
    return ByPrompt(
        a=plain(a.name, 80),
        b=plain(b.name, 80),
        steps=(float(min(c.step.min() for c in late)), last),
        shared=float(shared.mean()),
        mean_a=float(np.average(late[0].mean, weights=late[0].n)),
        mean_b=float(np.average(late[1].mean, weights=late[1].n)),
        difference=Interval(difference, difference - wide, difference + wide, LEVEL),
        p_better=float(student.cdf(difference / max(sd, 1e-12), freedom)),
        variance_ratio=found.variance / design.contrast(unpaired).variance,
    )


class _Contrast(NamedTuple):
    """B less A: the difference, its variance as difficulty and luck have it, that as the prompts show it.

    ``prompts`` is how many prompts that rests on, by the spread of their shares in it.
    """

    value: float
    variance: float
    robust: float
    prompts: float


class _Design:
    """Cells of all runs with their columns, one for the level of a run in a window; the first two runs are compared."""

    def __init__(self, runs: list[PromptCells], window: list[np.ndarray]) -> None:
        labels = np.concatenate([len(runs) * w + i for i, w in enumerate(window)])
        self.levels, self.column = np.unique(labels, return_inverse=True)
        y, self._s, self._n, level, prompt = (
            np.concatenate([getattr(c, name) for c in runs]) for name in ("mean", "spread", "n", "level", "prompt")
        )
        # The level moves within a window: what is compared is the distance from the smooth course, plus its mean there.
        middle = np.bincount(self.column, self._n * level) / np.bincount(self.column, self._n)
        self.y = y - level + middle[self.column]
        self._prompt = np.unique(prompt, return_inverse=True)[1]

    def contrast(self, variances: Variances) -> _Contrast:
        """Difference of the last windows' levels by generalised least squares, where cells share what lasts.

        The variance as the prompts show it has the square of x'V⁻¹r of each, whatever the variances in V are worth
        (Liang and Zeger 1986).
        """
        k = len(self.levels)
        many = int(self._prompt.max()) + 1
        weight = 1.0 / (self._s**2 * (variances.passing + variances.luck / self._n))
        ws = weight * self._s
        # V⁻¹ of a prompt's cells by Sherman and Morrison: D⁻¹ − D⁻¹s s'D⁻¹ / (1/τ² + s'D⁻¹s).
        below = 1.0 / max(variances.lasting, 1e-12) + np.bincount(self._prompt, ws * self._s, many)
        across = np.bincount(self._prompt * k + self.column, ws, many * k).reshape(many, k)
        normal = np.diag(np.bincount(self.column, weight, k)) - (across / below[:, None]).T @ across
        right = np.bincount(self.column, weight * self.y, k)
        right -= across.T @ (np.bincount(self._prompt, ws * self.y, many) / below)
        contrast = np.zeros(k)
        contrast[self.levels == 0] = -1.0
        contrast[self.levels == 1] = 1.0
        level, direction = np.linalg.solve(normal, np.column_stack([right, contrast])).T
        off = self.y - level[self.column]
        along = direction[self.column]
        own = np.bincount(self._prompt, weight * along * off, many)
        shared = np.bincount(self._prompt, ws * along, many) * np.bincount(self._prompt, ws * off, many) / below
        squares = (own - shared) ** 2
        # Degrees of freedom of a sum of squares (Satterthwaite 1946): of a normal, the fourth power is 3 variances².
        count = 3.0 * float(squares.sum() ** 2 / max(np.sum(squares**2), 1e-300))
        return _Contrast(float(contrast @ level), float(contrast @ direction), float(squares.sum()), count)
