"""Prior predictive check: runs drawn from the priors of a fit, next to the rows that were logged.

A prior is to make runs like the log and little else (Gabry et al. 2019, https://doi.org/10.1111/rssa.12378). Three
shares say how far it does: that of the runs which stay in the range of the reward, a tenth of it wider at both ends;
and those of the runs that scatter and that change more than the log. A log far out in either is one that the priors
hardly allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import percent
from bayes_grpo.fitting.result import Fit

MARGIN = 0.1
"""Prior runs may leave the range of the reward by this share of it."""
RARE = 0.01
"""A log beyond this share of the prior runs is unlike them."""
_FAR = 1e9
"""Standard deviations of the rows at which a prior run is cut off."""


@dataclass(frozen=True)
class PriorCheck:
    """Runs drawn from the priors of a fit, next to its rows.

    Attributes:
        low: Lowest reward of a run that counts as inside, as ``high`` is the highest; NaN where the range is unknown.
        inside: Share of the runs all of whose rows lie between them; NaN where the range is unknown.
        rows_inside: Share of all rows, likewise.
        scatter: Share of the runs whose rows have a larger standard deviation than the logged ones.
        change: Share of the runs whose mean moves further from the first to the last fifth of the rows.
    """

    runs: int
    low: float
    high: float
    inside: float
    rows_inside: float
    scatter: float
    change: float

    @property
    def unlike(self) -> bool:
        """True if the log lies beyond nearly all prior runs."""
        return any(not RARE <= share <= 1.0 - RARE for share in (self.scatter, self.change))

    @property
    def sentence(self) -> str:
        """The shares, in words."""
        more = f"{percent(self.scatter)} scatter more than this log and {percent(self.change)} change more"
        end = "; the priors hardly allow such a log (--prior changes them)." if self.unlike else "."
        if math.isnan(self.inside):
            return f"Of {self.runs:,} runs drawn from the priors {more}{end}"
        kept = (
            f"{percent(self.inside)} stay in [{self.low:g}, {self.high:g}] ({percent(self.rows_inside)} of their rows)"
        )
        return f"Of {self.runs:,} runs drawn from the priors {kept}, {more}{end}"


def check_prior(fit: Fit) -> PriorCheck:
    """The prior predictive check of a fit, new or loaded."""
    y = fit.observed()
    drawn = fit.groups["prior_predictive"]["y"].reshape(-1, len(y))
    ends = fit.reward_range
    margin = MARGIN * (ends.high - ends.low) if ends.bounded else math.nan
    low, high = ends.low - margin, ends.high + margin
    within = (drawn >= low) & (drawn <= high)
    scale = max(float(y.std()), 1e-300)
    relative = np.clip((drawn.astype(float) - y.mean()) / scale, -_FAR, _FAR)  # a run that explodes is infinite
    own = (y - y.mean()) / scale
    return PriorCheck(
        runs=len(drawn),
        low=low,
        high=high,
        inside=float(within.all(axis=1).mean()) if ends.bounded else math.nan,
        rows_inside=float(within.mean()) if ends.bounded else math.nan,
        scatter=float(np.mean(relative.std(axis=1) > own.std())),
        change=float(np.mean(_change(relative) > _change(own[None]))),
    )


def _change(rows: np.ndarray) -> np.ndarray:
    """Distance between the means of the first and the last fifth of the rows, shape (runs,)."""
    k = max(1, rows.shape[1] // 5)
    return np.abs(rows[:, -k:].mean(axis=1) - rows[:, :k].mean(axis=1))
