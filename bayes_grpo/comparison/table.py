"""The table of a comparison: leave-one-out, leave-future-out and stacking weights of the scored regimes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bayes_grpo.common import imports
from bayes_grpo.common.results import About
from bayes_grpo.comparison.lfo import LeaveFutureOut
from bayes_grpo.comparison.loo import LeaveOneOut
from bayes_grpo.comparison.result import CLEAR, SURE, Comparison, ComparisonLine, verdict_sentence
from bayes_grpo.fitting.draws import Draws, SmoothedDraws
from bayes_grpo.fitting.summary import r_squared
from bayes_grpo.fitting.window import FitWindow


class Scored(NamedTuple):
    """A regime with its scores.

    Attributes:
        posterior: Its draws.
        loo: Leave-one-out scores.
        lfo: Leave-future-out scores; None where there are none to be trusted.
    """

    posterior: SmoothedDraws
    loo: LeaveOneOut
    lfo: LeaveFutureOut | None


def comparison_of(
    window: FitWindow,
    about: About,
    scored: Mapping[str, Scored],
    *,
    left_out: Mapping[str, str],
    cautions: Sequence[str],
    seed: int,
) -> Comparison:
    """Puts scored regimes, at least one, into a table, with weights, cautions and the sentence."""
    loo, posteriors = {k: x.loo for k, x in scored.items()}, {k: x.posterior for k, x in scored.items()}
    future = {k: x.lfo for k, x in scored.items() if x.lfo is not None}
    ahead = max(future.values(), key=lambda x: x.elpd, default=None)
    lines = tuple(_line(row, scored[name], ahead) for name, row in _ranked(loo).items())
    return Comparison(
        lines=lines,
        sentence=verdict_sentence(lines, about.reward),
        cautions=(
            *_cut_at(window),
            *cautions,
            *_doubts(lines, loo),
            *(f"{k} is not in the table: {why}" for k, why in left_out.items()),
        ),
        left_out=left_out,
        window=window,
        posteriors=posteriors,
        loo=loo,
        lfo=future,
        about=about,
        seed=seed,
    )


def _cut_at(window: FitWindow) -> list[str]:
    """That earlier rows were left out, and why."""
    if window.start_step is None:
        return []
    return [f"{window.reason} Only the rows since step {window.start_step:.0f} are compared."]


def _doubts(lines: Sequence[ComparisonLine], loo: Mapping[str, LeaveOneOut]) -> list[str]:
    """What of the table not to believe."""
    out = [
        f"{line.regime}: leave-one-out is unreliable at {line.high_k} rows (Pareto k above "
        f"{loo[line.regime].data.good_k:.2f}) beyond those that were refitted."
        for line in lines
        if line.high_k
    ]
    close = [x.regime for x in lines[1:] if abs(x.difference) < CLEAR]
    if close:
        out.append(f"|elpd difference| below {CLEAR:g} is no difference: {', '.join(close)}.")
    return out


def _ranked(loo: Mapping[str, LeaveOneOut]) -> dict[str, dict[str, float]]:
    """ArviZ's comparison, best regime first."""
    *_, az_compare = imports.scores()
    if len(loo) == 1:
        name, only = next(iter(loo.items()))
        alone = {"elpd_diff": 0.0, "dse": 0.0, "p_worse": float("nan"), "weight": 1.0}
        return {name: alone | {"elpd": only.data.elpd}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ArviZ's, on high k and many models: the table has its own
        found = az_compare({k: v.data for k, v in loo.items()}, method="stacking", round_to="none")
    out = {str(name): {k: float(row[k]) for k in _COLUMNS} for name, row in found.iterrows()}
    total = sum(max(row["weight"], 0.0) for row in out.values())
    for row in out.values():
        row["weight"] = max(row["weight"], 0.0) / total
    return out


_COLUMNS = ("elpd", "elpd_diff", "dse", "p_worse", "weight")


def _growth(draws: Draws) -> float:
    """Probability that the reward grows under a regime; NaN for one without a trend."""
    if not draws.regime.has_trend:
        return float("nan")
    return float(np.mean(draws.values["fixed_point"] > draws.values["initial_reward"]))


def _line(row: Mapping[str, float], scored: Scored, ahead: LeaveFutureOut | None) -> ComparisonLine:
    """A regime's line: its row of ArviZ's table and its leave-future-out difference from the best regime."""
    found, future = scored.posterior, scored.lfo
    difference, error, p_worse = row["elpd_diff"], row["dse"], row["p_worse"]
    against = abs(difference) >= CLEAR and p_worse >= SURE
    nothing = float("nan")
    behind, behind_se, verdict_ahead = _behind(future, ahead)
    return ComparisonLine(
        regime=found.draws.regime.name,
        elpd=row["elpd"],
        difference=difference,
        difference_se=error,
        p_worse=p_worse,
        weight=row["weight"],
        verdict="best" if difference == 0 else "worse" if against else "cannot tell",
        r2=r_squared(found.draws.rows.y, found.curve_mean),
        lfo=future.elpd if future else nothing,
        lfo_difference=behind,
        lfo_difference_se=behind_se,
        verdict_ahead=verdict_ahead,
        growth=_growth(found.draws),
        high_k=len(scored.loo.unreliable),
        refitted=len(scored.loo.refitted),
    )


def _behind(future: LeaveFutureOut | None, best: LeaveFutureOut | None) -> tuple[float, float, str]:
    """LFO score less the best one, its error, and the verdict; few blocks call for Student's distribution."""
    from scipy.stats import t

    if future is None or best is None:
        return float("nan"), float("nan"), ""
    if future is best:
        return 0.0, 0.0, "best"
    differences = future.blocks - best.blocks
    b = len(differences)
    total, error = float(differences.sum()), float(np.sqrt(b) * differences.std(ddof=1))
    sure = t.cdf(-total / max(error, 1e-12), b - 1) >= SURE
    return total, error, "worse" if -total >= CLEAR and sure else "cannot tell"
