"""The result of a family: exponents with what theory expects, shrunk runs, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.frames import fields_of, frame_of
from bayes_grpo.common.intervals import LEVEL, Interval, probability_text
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.fallen import rows_collapsed
from bayes_grpo.families.left_out import LeftOutRun
from bayes_grpo.families.pairs import DataOrders
from bayes_grpo.fitting.sampling.convergence import Convergence

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

_SURE = 0.95
"""Probability from which something is said to be so."""
_NAMED = 3
"""Collapsed or failed runs that a sentence names."""
KNOWN = 0.3
"""Share of the prior's width that data have to take away before an exponent is said to be known."""


@dataclass(frozen=True)
class Exponent(Result):
    """How a quantity depends on a setting: quantity ∝ setting^exponent.

    Attributes:
        quantity: "rate", "fluctuation_variance", "observation_variance", "plateau" or "initial_reward".
        setting: The varied setting.
        words: The quantity in words.
        posterior: The exponent. Of a level: its change per e-fold of the setting over its own size at the middle of
            the settings, or over the range of the rewards where ``relative`` is False.
        prior: The same by the prior alone.
        doubling: What twice the setting does: a factor, or for a level a change in reward.
        predicted: What theory expects to leading order; NaN where it expects nothing.
        finite: The same with the factor of finite groups.
        p_predicted: Probability that the exponent lies within the region of practical equivalence about ``finite``.
        p_zero: Probability that it lies within the region about 0.
        p_positive: Probability that it is above 0.
        rope: Half width of the region.
        contraction: 1 − posterior variance over prior variance: how much of it is data.
        relative: Whether a level's change is over its own size.
    """

    quantity: str
    setting: str
    words: str
    posterior: Interval
    prior: Interval
    doubling: Interval
    predicted: float
    finite: float
    p_predicted: float
    p_zero: float
    p_positive: float
    rope: float
    contraction: float
    relative: bool

    in_json = (..., "verdict", "sentence")

    @property
    def verdict(self) -> str:
        """What is said of it: "moves", "does not move" or "cannot tell"."""
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
        numbers = f"exponent {x.median:+.2f} [{x.low:+.2f}, {x.high:+.2f}]"
        near = f"P(|exponent| < {self.rope:g}) {probability_text(self.p_zero)}"
        if self.verdict == "cannot tell":
            why = ", mostly the prior" if self.contraction < KNOWN else ""
            return f"whether the {setting} moves the {self.words} cannot be told ({numbers}{why}, {near})"
        told = f"the {setting} {self.verdict} the {self.words}"
        return f"{told} ({numbers}, {near})"


@dataclass(frozen=True)
class ShrunkRun:
    """One run as the family sees it.

    Attributes:
        name: Its name.
        study: Where it comes from.
        settings: Its varied settings.
        rate: Response rate at its highest learning rate, 1/step.
        fluctuation_sd: Stationary spread of the latent reward.
        observation_sd: Measurement noise of a row.
        plateau: Where it settles.
        initial_reward: Where it began.
        alone: Response rate by the run alone, under weak priors.
        step: Steps of its rows.
        reward: Its rows.
        curve: The unforced law, posterior median at the rows.
        low: Lower end of its interval.
        high: Upper end.
    """

    name: str
    study: str
    settings: dict[str, float]
    rate: Interval
    fluctuation_sd: Interval
    observation_sd: Interval
    plateau: Interval
    initial_reward: Interval
    alone: Interval
    step: np.ndarray
    reward: np.ndarray
    curve: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def collapsed(self) -> bool:
        """Whether its reward collapsed, of which a law that relaxes knows nothing."""
        return rows_collapsed(self.reward)


@dataclass(frozen=True)
class Spread:
    """What sets runs of the same settings apart.

    Attributes:
        quantity: Name of the quantity.
        words: In words.
        posterior: Standard deviation between runs: of the logarithm, for levels in reward.
        prior: The same by the prior alone.
    """

    quantity: str
    words: str
    posterior: Interval
    prior: Interval


@dataclass(frozen=True, eq=False)
class Family(Result):
    """Several runs together.

    Attributes:
        vary: Varied settings.
        regime: Name of the law.
        signal: "reward" or "eval_reward".
        exponents: How every quantity depends on every setting.
        spreads: What sets replicates apart.
        runs: Every run, shrunk towards the family.
        studies: Number of studies.
        replicates: Runs that share all settings with another one.
        convergence: Checks of the chains.
        nodes: Smallest effective number of nodes of a run.
        thin: Whether that is too small.
        cautions: What not to believe, one sentence each.
        data: Draws and rows as a DataTree; see `bayes_grpo.families.data`.
        transfer: The same of every further evaluation column, by its name.
        orders: Which runs saw the same data at the same steps; None where no two did.
        left_out: Runs that the law could not be put on, and whether they failed.
    """

    vary: tuple[str, ...]
    regime: str
    signal: str
    exponents: tuple[Exponent, ...]
    spreads: tuple[Spread, ...]
    runs: tuple[ShrunkRun, ...]
    studies: int
    replicates: int
    convergence: Convergence
    nodes: float
    thin: bool
    cautions: tuple[str, ...]
    data: DataTree
    transfer: dict[str, Family]
    orders: DataOrders | None = None
    left_out: tuple[LeftOutRun, ...] = ()

    in_json = (
        "sentence",
        "converged",
        ("interval_level", LEVEL),
        "vary",
        "regime",
        "signal",
        "studies",
        "replicates",
        ...,
    )
    not_in_json = ("thin", "data")

    @property
    def converged(self) -> bool:
        """Whether every check of the chains and of the nodes holds, further evaluation columns included."""
        return self.convergence.passed and not self.thin and all(f.converged for f in self.transfer.values())

    def exponent(self, quantity: str, setting: str) -> Exponent:
        """One exponent by its names.

        Raises:
            KeyError: There is none of these names.
        """
        for e in self.exponents:
            if (e.quantity, e.setting) == (quantity, setting):
                return e
        there = ", ".join(f"{e.quantity} on {e.setting}" for e in self.exponents)
        raise KeyError(f"no exponent of {quantity} on {setting}; there are {there}")

    @property
    def sentence(self) -> str:
        """The family in words: the paper's claims first, as far as the settings touch them."""
        told = [e.sentence for name in self.vary for e in self._told(name)]
        head = "" if self.converged else "NOT CONVERGED: "
        text = head + "; ".join(told) + f" ({LEVEL:.0%} intervals, {len(self.runs)} runs)."
        return self._collapsed + text[0].upper() + text[1:]

    @property
    def _collapsed(self) -> str:
        """Which runs collapsed or failed, with their settings: what a law's exponents do not say; "" without any."""
        found = [run for run in self.runs if run.collapsed]
        lost = [run for run in self.left_out if run.failed]
        out = ""
        if found:
            out += f"{len(found)} of {len(self.runs)} runs collapsed: {_listed([_named(run) for run in found])}. "
        if lost:
            said = _listed([f"{_named(run)}: {run.failed}" for run in lost])
            out += f"{len(lost)} further run{' is' if len(lost) == 1 else 's are'} left out and failed: {said}. "
        return out

    def _told(self, setting: str) -> Sequence[Exponent]:
        """The exponents that a sentence tells of a setting."""
        asked = {
            "group_size": ("plateau", "rate", "fluctuation_variance"),
            "prompts_per_step": ("plateau", "fluctuation_variance"),
            "learning_rate": ("rate", "plateau"),
            "model_size": ("rate", "plateau"),
        }.get(setting, ("plateau", "rate"))
        own = {e.quantity: e for e in self.exponents if e.setting == setting}
        return [own[name] for name in asked if name in own]

    def to_frame(self) -> pd.DataFrame:
        """One row an exponent, quantity and setting; those of further evaluation columns under their name."""
        parts = [(self.signal, self), *self.transfer.items()]
        rows = [
            {"column": plain(name), **fields_of(e, "words"), "verdict": e.verdict}
            for name, f in parts
            for e in f.exponents
        ]
        return frame_of(rows, ["column", "quantity", "setting"])


def _named(run: ShrunkRun | LeftOutRun) -> str:
    """A run with its varied settings."""
    settings = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in run.settings.items())
    return plain(run.name, 60) + (f" ({settings})" if settings else "")


def _listed(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    return "; ".join(runs[:_NAMED]) + more
