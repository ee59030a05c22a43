"""The result of a comparison: its table, its verdicts and the sentence that says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.common.results import About, Result, frame_of

if TYPE_CHECKING:
    import pandas as pd

    from bayes_grpo.comparison.scores import LeaveOneOut
    from bayes_grpo.fitting.draws import SmoothedDraws
    from bayes_grpo.fitting.window import FitWindow

CLEAR = 4.0
"""Smaller differences in elpd are no difference (Sivula et al. 2025, https://doi.org/10.48550/arXiv.2008.10296)."""
SURE = 0.95
"""Probability of being worse above which a regime is rejected."""
FEW_ROWS = 100
"""With fewer rows the error of a difference is itself uncertain (same source)."""


@dataclass(frozen=True)
class ComparisonLine:
    """One regime's line of the table, scores in nats.

    Attributes:
        regime: Name.
        elpd: PSIS-LOO log predictive density of all rows.
        difference: Its elpd less the best regime's, 0 or negative.
        difference_se: Standard error of the difference.
        p_worse: Probability of being worse than the best regime, normal approximation; NaN for the best.
        weight: Stacking weight by LOO.
        verdict: By leave-one-out: "best", "cannot tell" or "worse".
        r2: R² of the posterior mean of the unforced regime on the logged rows.
        lfo: Log density of the blocks after the forecast origins (chain rule); NaN without.
        lfo_difference: Its LFO score less the highest one, 0 or negative; NaN without.
        lfo_difference_se: Standard error of the difference, from the blocks.
        p_worse_ahead: Probability of being worse than the best regime on the rows ahead, by Student's t distribution
            over the blocks, of which there are about five; NaN for the best and without.
        verdict_ahead: By leave-future-out: "best", "cannot tell" or "worse"; "" without.
        growth: Probability that the reward grows from its start to its fixed point under this regime; NaN for a regime
            without a trend.
        high_k: Rows whose Pareto k stayed too high: their score is unreliable.
        refitted: Rows that were refitted exactly.
    """

    regime: str
    elpd: float
    difference: float
    difference_se: float
    p_worse: float
    weight: float
    verdict: str
    r2: float
    lfo: float
    lfo_difference: float
    lfo_difference_se: float
    p_worse_ahead: float
    verdict_ahead: str
    growth: float
    high_k: int
    refitted: int

    @property
    def rejected(self) -> bool:
        """True where leave-one-out or leave-future-out is clearly worse."""
        return "worse" in (self.verdict, self.verdict_ahead)


class ComparisonVerdict(NamedTuple):
    """The main clause, and a further one with what joins it; "" without."""

    main: str
    joint: str = ""
    further: str = ""

    @property
    def sentence(self) -> str:
        """Both clauses."""
        return f"{self.main}{self.joint}{self.further}."


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """Regimes compared on one log.

    Attributes:
        table: A line a regime, the best regime by LOO first.
        breaks: Clear breaks of the signal, a clause each, which no regime describes.
        cautions: Sentences about what not to believe.
        left_out: Regime → why it has no place in the table.
        window: Which of its rows were fitted, and why.
        posteriors: Regime → draws by which it was weighed, for the regimes of the table.
        loo: Regime → leave-one-out scores.
        lfo: Regime → leave-future-out score of every block, where there are scores to be trusted.
        not_converged: Regimes among those left out whose posterior no sampler reached.
    """

    table: tuple[ComparisonLine, ...]
    breaks: tuple[str, ...]
    cautions: tuple[str, ...]
    left_out: Mapping[str, str]
    window: FitWindow
    posteriors: Mapping[str, SmoothedDraws]
    loo: Mapping[str, LeaveOneOut]
    lfo: Mapping[str, np.ndarray]
    about: About
    seed: int
    not_converged: tuple[str, ...] = ()

    also_in_json = ("sentence",)
    not_in_json = ("breaks", "window", "posteriors", "loo", "lfo")

    @property
    def verdict(self) -> ComparisonVerdict:
        """The favored regimes, and those that the data cannot distinguish."""
        return verdict_of(self.table, self.about.reward)

    @property
    def break_sentences(self) -> tuple[str, ...]:
        """A sentence for each break."""
        return tuple(f"{x}: no regime describes that." for x in self.breaks)

    @property
    def sentence(self) -> str:
        """The verdict and the breaks, in words."""
        return " ".join((self.verdict.sentence, *self.break_sentences))

    @property
    def remaining(self) -> tuple[ComparisonLine, ...]:
        """The regimes that neither score rejects."""
        return tuple(x for x in self.table if not x.rejected)

    @property
    def best(self) -> str:
        """Regime with the highest leave-one-out score."""
        return self.table[0].regime

    def line(self, regime: str) -> ComparisonLine:
        """The line of a regime."""
        return next(x for x in self.table if x.regime == regime)

    def to_frame(self) -> pd.DataFrame:
        """The table, one row a regime: the fields of `ComparisonLine`."""
        return frame_of(self.table, "regime")


def verdict_of(lines: tuple[ComparisonLine, ...], what: str) -> ComparisonVerdict:
    """The comparison in words, from the table with the best regime first.

    A regime is rejected where leave-one-out or leave-future-out is clearly worse. Leave-future-out can separate regimes
    that leave-one-out cannot.
    """
    best = lines[0]
    if len(lines) == 1:
        return ComparisonVerdict(
            f"Only {best.regime} was fitted to the {what}", ": ", "there is nothing to compare it with"
        )
    out = [x for x in lines if x.rejected]
    left = [x.regime for x in lines if not x.rejected]
    if not out:
        also = ", nor do the rows ahead" if best.verdict_ahead else ""
        none = f"none predicts the {what} clearly better{also}"
        return ComparisonVerdict(f"This log cannot distinguish {_listed(left)}", ": ", none)
    reasons = _listed([f"{x.regime} ({_reason(x)})" for x in out])
    if not left:
        ahead = next(x.regime for x in lines if x.verdict_ahead == "best")
        main = f"On the {what}, leave-one-out favors {best.regime} and leave-future-out favors {ahead}, each clearly"
        return ComparisonVerdict(main, ". ", f"Against the others: {reasons}")
    if len(left) > 1:  # none of them is favored: the first may have no weight at all
        return ComparisonVerdict(f"The data speak against {reasons}", "; ", f"they do not distinguish {_listed(left)}")
    return ComparisonVerdict(f"The data favor {left[0]} over {reasons}")


def _reason(line: ComparisonLine) -> str:
    """The clearer of the two scores against a regime, as a difference in log density."""
    found = []
    if line.verdict == "worse":
        found.append((line.difference / line.difference_se, f"{line.difference:.1f} ± {line.difference_se:.1f}"))
    if line.verdict_ahead == "worse":
        score = f"{line.lfo_difference:.1f} ± {line.lfo_difference_se:.1f} on rows ahead"
        found.append((line.lfo_difference / line.lfo_difference_se, score))
    return f"elpd {min(found)[1]}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
