"""Effect of reference runs on the paths of a forecast: a shared data order and transfer from similar runs.

Where the data order is shared, a future row at a step that reference runs have reached is shifted by the effect of
that step, and its variance shrinks. A share of the paths follows similar reference runs
(`bayes_grpo.references.transfer`):

    share = ½ · P(reference runs help | the rows of the run)

The probability compares the run's rows with and without reference runs, so the share vanishes where runs differ.
The factor ½ is learned from public logs; leaving out each repository in turn gives .34 to .66, mostly .5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.document import ranged
from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.common.text import counted, listed
from bayes_grpo.forecasting.events import RewardPaths
from bayes_grpo.references.gather import ExcludedRun
from bayes_grpo.references.transfer import JointReading
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.schedule import FutureGrid

REFERENCES_NAME = "reference_runs"
LEAST_HELP = 0.9
"""Probability that runs which were found and not named have to help with, to get any paths."""
_NAMED = 5
"""Reference runs that a sentence names."""
MOST_SHARE = 0.5
"""Share of the paths where reference runs certainly help."""


@dataclass(frozen=True)
class ReferencesUsed(Result):
    """Effect of reference runs on a forecast.

    Attributes:
        used: Names of the reference runs that were read with the run.
        left_out: Runs that were named and not taken, with the reasons.
        share: Share of the paths that do as reference runs did.
        same_order: Names of the reference runs that saw the same data at the same steps as the run.
        order_share: Share of a row's noise that is an effect of the step; None where no order is shared.
        without: The last row of the forecast without reference runs.
        given: The same with them.
        curves: Steps and rewards of those read, for pictures.
    """

    used: tuple[str, ...]
    left_out: tuple[ExcludedRun, ...]
    share: float
    same_order: tuple[str, ...]
    order_share: Interval | None
    without: Interval
    given: Interval
    curves: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    also_in_json = ("sentence",)
    not_in_json = ("curves",)

    @property
    def count(self) -> bool:
        """True where they change the forecast: paths follow them, or they share the run's data order."""
        return self.share > 0.0 or self.order_share is not None

    @property
    def sentence(self) -> str:
        """Number of the runs and their effect, in one line."""
        if not self.used:
            return "no reference run: none of the runs named can be compared with this one; the forecast is its own"
        order = "no shared data order"
        if self.order_share is not None:
            same = f"the same prompts at the same steps as {len(self.same_order)} of them"
            order = f"{same}, correlation {ranged(self.order_share, '.2f')}"
        change = f"{ranged(self.given)} with, {ranged(self.without)} without"
        return (
            f"{self.named}: {self.share:.0%} of the paths follow similar runs; {order}; "
            f"last row {change} them ({LEVEL:.0%} intervals)"
        )

    @property
    def named(self) -> str:
        """How many reference runs, and which."""
        return f"with {counted(len(self.used), 'reference run')} ({listed(self.used, _NAMED)})"

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentence, and which runs were left out, reason by reason."""
        why: dict[str, list[str]] = {}
        for name, reason in self.left_out:
            why.setdefault(reason, []).append(name)
        return (self.sentence, *(f"no reference runs ({x}): {listed(names, _NAMED)}" for x, names in why.items()))


def paths_with_references(
    paths: RewardPaths, future: FutureGrid, known: JointReading, reward: RewardRange, row: int, seed: int
) -> tuple[RewardPaths, np.ndarray, ReferencesUsed]:
    """Paths, shape (draws, h), shifted by the shared data order and in part replaced by those of reference runs.

    The record of the changes has the distribution of one row with and without reference runs.

    Returns:
        The paths, a mask of those that follow reference runs, shape (draws,), and the record.
    """
    latent, trend = paths.latent.copy(), paths.trend.copy()
    rows = with_effect(paths, future, known, reward)
    transfer = known.transfer_forecast(future.step, future.window)
    part = 0.0
    if transfer is not None:
        helps = 0.5 * (1.0 + math.tanh(0.5 * transfer.gain))  # the logistic function
        part = 0.0 if known.searched and helps < LEAST_HELP else MOST_SHARE * helps
    rng = np.random.default_rng(seed_of(seed, REFERENCES_NAME))
    follows = np.zeros(len(latent), bool)
    count = round(part * len(latent))
    if transfer is not None and count:
        follows[rng.permutation(len(latent))[:count]] = True
        reference_latent, reference_rows = transfer.paths(count, rng)
        clipped = rng.permutation(count)[: round(reward.share * count)] if reward.bounded else []
        for x in (reference_latent, reference_rows):
            x[clipped] = np.clip(x[clipped], reward.low, reward.high)
        latent[follows], trend[follows], rows[follows] = reference_latent, reference_latent, reference_rows
    used = ReferencesUsed(
        used=known.names,
        left_out=known.excluded,
        share=count / len(latent),
        same_order=() if known.order is None else tuple(known.names[i] for i in known.order.members),
        order_share=None if known.order is None else known.order.share,
        without=interval(paths.rows[:, row]),
        given=interval(rows[:, row]),
        curves=tuple((c.table.step, c.smooth) for c in known.curves),
    )
    return RewardPaths(latent, trend, rows), follows, used


def with_effect(paths: RewardPaths, future: FutureGrid, known: JointReading, reward: RewardRange) -> np.ndarray:
    """Rows of paths, shifted by the effect of the data where their order is shared, shape (draws, h)."""
    if known.order is None or known.curve is None:
        return paths.rows.copy()
    effect = known.order.at(np.stack([future.step, future.window]))
    share = known.order.share.median
    remaining = np.sqrt(1.0 - share * (1.0 - effect.var))
    moved = paths.latent + (paths.rows - paths.latent) * remaining + known.curve.sd * np.sqrt(share) * effect.mean
    return np.clip(moved, reward.low, reward.high)
