"""The result of a sweep: how settings move quantities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, span_text
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.text import counted, plain
from bayes_grpo.families.members import FEWEST_RUNS, NamedSetting, ShortRun
from bayes_grpo.fitting.sampling.nuts import Convergence
from bayes_grpo.signals.loss import rows_collapsed

if TYPE_CHECKING:
    import pandas as pd

ROPE = 0.1
"""Half width of the region of practical equivalence of an exponent: twice the setting moves the quantity by 7%."""
_SURE = 0.95
"""Probability from which an effect counts as known."""
_NAMED = 3
"""Collapsed or failed runs that a sentence names."""
INFORMED_SHARE = 0.3
"""Share of the prior's variance that data have to take away before an exponent counts as informed by them."""


@dataclass(frozen=True)
class Exponent(Result):
    """How a quantity depends on a setting: quantity ∝ setting^exponent.

    Attributes:
        setting: The varied setting.
        quantity: "rate", "fluctuation_variance", "observation_variance", "plateau" or "initial_reward".
        words: The quantity in words.
        posterior: The exponent. Of a level: its change per e-fold of the setting over its own size at the middle of
            the settings, or over the range of the rewards where ``relative`` is False.
        prior: The same by the prior alone.
        p_zero: Probability that the exponent lies within `ROPE` about 0.
        p_positive: Probability that it is above 0.
        contraction: 1 − posterior variance over prior variance: how much of it is data.
        relative: Whether a level's change is over its own size.
        runs: Number of runs that it rests on.
        values: Number of values of the setting among them.
    """

    setting: str
    quantity: str
    words: str
    posterior: Interval
    prior: Interval
    p_zero: float
    p_positive: float
    contraction: float
    relative: bool
    runs: int
    values: int

    also_in_json = ("verdict", "sentence")

    @property
    def verdict(self) -> str:
        """One of "moves", "does not move" and "cannot tell"."""
        if self.p_zero >= _SURE:
            return "does not move"
        # A posterior that knows nothing lies outside the region too: the direction has to be known as well.
        directed = max(self.p_positive, 1.0 - self.p_positive) >= _SURE
        return "moves" if directed and self.p_zero <= 1.0 - _SURE else "cannot tell"

    @property
    def sentence(self) -> str:
        """The verdict in words, with its numbers."""
        setting = self.setting.replace("_", " ")
        x = self.posterior
        numbers = f"exponent {span_text(x, '+.2f', level=False)}"
        if self.verdict == "cannot tell":
            why = ", mostly the prior" if self.contraction < INFORMED_SHARE else ""
            return f"The effect of the {setting} on the {self.words} is unclear ({numbers}{why})."
        if self.verdict == "does not move":
            return f"The {setting} does not move the {self.words} ({numbers})."
        return f"A higher {setting} {'raises' if x.median > 0 else 'lowers'} the {self.words} ({numbers})."


@dataclass(frozen=True)
class SweepRun(Result):
    """One run of a sweep: its varied settings, steps and rewards of its rows, and a smooth curve through these."""

    name: str
    settings: dict[str, float]
    step: np.ndarray
    reward: np.ndarray
    curve: np.ndarray

    @property
    def collapsed(self) -> bool:
        """True where its reward collapsed, which the exponential regime cannot show."""
        return rows_collapsed(self.reward)


@dataclass(frozen=True, eq=False)
class Sweep(Result):
    """Several runs in one model.

    Attributes:
        vary: Varied settings.
        signal: "reward" or "eval_reward".
        exponents: How every quantity depends on every setting.
        runs: The runs.
        convergence: Checks of the chains; None where too many runs collapsed to estimate an effect.
        cautions: What not to believe, one sentence each.
        left_out: Runs with too few rows for the regime, and whether they failed.
        repetitions: Names of runs that repeat each other, all settings and names alike, group by group.
        named: Varied settings that file names state.
    """

    vary: tuple[str, ...]
    signal: str
    exponents: tuple[Exponent, ...]
    runs: tuple[SweepRun, ...]
    convergence: Convergence | None
    cautions: tuple[str, ...]
    left_out: tuple[ShortRun, ...] = ()
    repetitions: tuple[tuple[str, ...], ...] = ()
    named: tuple[NamedSetting, ...] = ()

    interval_level = LEVEL
    also_in_json = ("sentence", "converged", "interval_level")

    @property
    def converged(self) -> bool:
        """True where every check of the chains passed, or none was run."""
        return self.convergence is None or self.convergence.passed

    def exponent(self, quantity: str, setting: str) -> Exponent:
        """One exponent by its names; `KeyError` where there is none of these names."""
        return {(e.quantity, e.setting): e for e in self.exponents}[quantity, setting]

    @property
    def sentence(self) -> str:
        """Failed runs first, then what moves what."""
        return " ".join(x for x in (self.collapse_sentence, self.effects_sentence) if x)

    @property
    def effects_sentence(self) -> str:
        """Runs that were left out because they failed, then what moves what."""
        return " ".join(x for x in (self._short_runs_sentence, self._moves_sentence) if x)

    @property
    def _moves_sentence(self) -> str:
        if self.convergence is None:
            remaining = sum(not run.collapsed for run in self.runs)
            needs = f"it needs {FEWEST_RUNS} runs without a collapse, found {remaining}"
            return f"No effect is estimated: {needs}."
        known = sorted((e for e in self.exponents if e.verdict != "cannot tell"), key=lambda e: e.verdict != "moves")
        unclear = len(self.exponents) - len(known)
        total = counted(len(self.exponents), "effect")
        counts = f"{unclear} of {total} are unclear ({LEVEL:.0%} intervals, {self.exponents[0].runs} runs)."
        text = " ".join([*(e.sentence for e in known), counts])
        return text if self.converged else f"NOT CONVERGED: {text}"

    @property
    def repetition_sentence(self) -> str:
        """Which runs repeat each other, and how well one more repetition would show the noise of seeds."""
        n = sum(len(group) - 1 for group in self.repetitions)
        # A standard deviation from n differences has a relative error of 1/√(2n).
        more = f"one {'more ' if n else ''}repetition would show its size within {math.sqrt(0.5 / (n + 1)):.0%}"
        if not n:
            return f"none with the same settings and names, so seed noise cannot be measured; {more}."
        groups = _listed([", ".join(group) for group in self.repetitions])
        known = f"{counted(n, 'difference')} show{'s' * (n == 1)} its size within {math.sqrt(0.5 / n):.0%}"
        return f"{groups} (same settings and names) show the noise of seeds: {known}, {more}."

    @property
    def assumed(self) -> str:
        """The value assumed for runs whose names give none where others' do; "" without such a run."""
        some = [
            f"{x.setting} {x.assumed:.3g} ({counted(x.others, 'run')})" for x in self.named if x.assumed is not None
        ]
        text = "file names without a value count as the geometric mean of the others: "
        return f"{text}{', '.join(some)}; --set NAME=VALUE or a file name gives another" if some else ""

    @property
    def collapse_sentence(self) -> str:
        """Which runs collapsed, with their settings, as a sentence; "" without any."""
        found = [run for run in self.runs if run.collapsed]
        return (
            f"{len(found)} of {len(self.runs)} runs collapsed: {_listed([_named(x) for x in found])}." if found else ""
        )

    @property
    def _short_runs_sentence(self) -> str:
        """Runs too short for the regime that failed, with their settings, which no exponent shows; "" without any."""
        lost = [run for run in self.left_out if run.failed]
        if not lost:
            return ""
        each = _listed([f"{_named(run)}: {run.failed}" for run in lost])
        return f"{len(lost)} further run{' is' if len(lost) == 1 else 's are'} left out and failed: {each}."

    def to_frame(self) -> pd.DataFrame:
        """One row an exponent."""
        return frame_of(self.exponents, ["quantity", "setting"])


def _named(run: SweepRun | ShortRun) -> str:
    """A run with its varied settings."""
    settings = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in run.settings.items())
    return plain(run.name, 60) + (f" ({settings})" if settings else "")


def _listed(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return "; ".join(runs[:_NAMED]) + more
