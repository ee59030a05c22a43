"""A fit among the run's siblings: where its parameters stand, and what of its noise was the order of the data.

Every sibling is fitted with the same law under weak priors, by a fast posterior. Where the run shares an order of data,
siblings tell how much of a row's noise it is. The law itself is not fitted without it: what the data do over many steps
siblings cannot tell from courses of their own, so levels and rates come no nearer to the truth (in 60 simulated
families the error of the plateau stayed as it was) and narrower intervals would promise too much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.frames import frame_of
from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.common.results import Result
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain, safe
from bayes_grpo.common.wording import counted
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.importance import fast_posterior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.prepared import prepare_rows
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.gather import Like, NotSibling, gather_siblings
from bayes_grpo.siblings.together import ReadTogether, read_together

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


@dataclass(frozen=True)
class Standing(Result):
    """A parameter of a run among those of its siblings.

    Attributes:
        name: The parameter.
        unit: Its unit.
        run: Posterior of the run.
        siblings: Median, lowest and highest of the siblings' medians.
        above: Siblings whose median lies below the run's.
        count: Siblings that could be fitted.
        p_above: Probability that the run lies above a sibling taken at random, by both posteriors.
    """

    name: str
    unit: str
    run: Interval
    siblings: Interval
    above: int
    count: int
    p_above: float


@dataclass(frozen=True)
class OrderNoise(Result):
    """How much of a run's noise is the order of its data.

    Attributes:
        runs: Siblings that saw the same data at the same steps.
        share: Share of the variance of a row's noise that is an effect of the step.
        sd: Standard deviation of a row's noise about the run's course, reward.
        left: What of it siblings do not tell, reward; that of a typical row.
    """

    runs: tuple[str, ...]
    share: Interval
    sd: float
    left: float

    @property
    def sentence(self) -> str:
        """What siblings tell, in one line."""
        s = self.share
        return (
            f"the same prompts at the same steps as {len(self.runs)} of them, correlation {s.median:.2f} "
            f"[{s.low:.2f}, {s.high:.2f}]: a row's noise is {self.sd:.3g}, and {self.left:.3g} without what they tell "
            "of it (the fit is of the rows as logged)"
        )


@dataclass(frozen=True)
class AmongSiblings(Result):
    """A fit among the siblings of its run.

    Attributes:
        regime: The law.
        used: Names of the siblings that were fitted.
        left_out: Runs that were named and not taken, with the reasons.
        standings: Every parameter of the law.
        order: How much of the run's noise is the order of its data; None where no order is shared.
    """

    regime: str
    used: tuple[str, ...]
    left_out: tuple[NotSibling, ...]
    standings: tuple[Standing, ...]
    order: OrderNoise | None

    in_json = ("sentence", ("interval_level", LEVEL), ...)

    @property
    def sentence(self) -> str:
        """Where the run stands and what siblings changed, in words."""
        if not self.used:
            return "siblings: none of the runs named can stand beside this one"
        told = ", ".join(f"{x.name.replace('_', ' ')} above {x.above} of {x.count}" for x in self.standings)
        shared = "no order of data is shared" if self.order is None else self.order.sentence
        return f"siblings: {counted(len(self.used), 'run')}, by medians {told}; {shared} ({LEVEL:.0%} intervals)"

    @property
    def notes(self) -> tuple[str, ...]:
        """Which runs were left out, and why."""
        return tuple(f"no sibling: {plain(name, 80)} ({plain(why, 200)})" for name, why in self.left_out[:5])

    def to_frame(self) -> pd.DataFrame:
        """One row a parameter."""
        return frame_of(self.standings, "name")


def among_siblings(fit: Fit, run: Run, like: Like, *, seed: int = 0, progress: Progress | None = None) -> AmongSiblings:
    """Where the parameters of a fit stand among those of the run's siblings.

    Args:
        fit: The fit.
        run: The run that was fitted.
        like: Where siblings are: files, folders, stores, patterns and runs.
        seed: Seed.
        progress: Called with a short phrase at every sibling.

    Returns:
        Standings of all parameters of the law, and how much of the noise is the order of the data where one is shared.

    Raises:
        LogReadError: A path that was named does not exist or cannot be read.
    """
    tell = teller(progress)
    table = rows_of(run, "reward" if fit.about.signal == "reward" else "eval")
    found = gather_siblings(run, table, like)
    used, left_out, drawn = [], list(found.left_out), []
    for i, (other, rows) in enumerate(zip(found.runs, found.tables, strict=True)):
        tell(f"sibling {i + 1} of {len(found.runs)}")
        try:
            drawn.append(_fitted(fit.regime, rows, seed_of(seed, "sibling", i)))
            used.append(plain(other.name, 80))
        except FitError as error:
            left_out.append(NotSibling(plain(other.name, 80), plain(error, 200)))
    return AmongSiblings(
        fit.regime.name,
        tuple(used),
        tuple(left_out),
        tuple(_standing(fit, p.name, p.unit, [d[p.name] for d in drawn]) for p in fit.regime.parameters if drawn),
        order_noise(read_together(table, found)) if used else None,
    )


def _fitted(regime: Regime, table: RowTable, seed: int) -> dict[str, np.ndarray]:
    """Draws of the parameters of a law, shape (draws,) each."""
    found = fast_posterior(target_of(regime, prepare_rows(table, many=True)), seed=seed).with_levels(seed)
    return {p.name: found.flat(p.name) for p in regime.parameters}


def _standing(fit: Fit, name: str, unit: str, siblings: list[np.ndarray]) -> Standing:
    own = np.sort(fit.draws(name).ravel())
    medians = np.array([np.median(x) for x in siblings])
    return Standing(
        name,
        unit,
        interval(own),
        Interval(float(np.median(medians)), float(medians.min()), float(medians.max()), 1.0),
        int(np.sum(medians < np.median(own))),
        len(siblings),
        float(np.mean([1.0 - np.mean(np.searchsorted(own, x) / len(own)) for x in siblings])),
    )


def order_noise(known: ReadTogether) -> OrderNoise | None:
    """How much of a run's noise is the order of its data; None where no order is shared.

    Args:
        known: The run beside its siblings.
    """
    effect = known.effect(known.table.step, known.table.window)
    if effect is None or known.order is None or known.effects is None or known.own is None:
        return None
    left = math.sqrt(1.0 - known.effects.share * (1.0 - float(np.median(effect.var))))
    names = tuple(known.names[i] for i in known.order.members)
    return OrderNoise(names, known.order.share, known.own.sd, left * known.own.sd)


def render_among(among: AmongSiblings, console: Console) -> None:
    """Prints where a fit stands among siblings.

    Args:
        among: The standings.
        console: Where to.
    """
    console.print(safe(among.sentence, 900), markup=False)
    for line in among.notes:
        console.print(f"[dim]note: {safe(line, 300)}[/dim]")
