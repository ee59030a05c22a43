"""Two networks at interior fixed points, on which `lab_dynamics` tests the theory; listed runs beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from bayes_grpo.simulate.settings import Numbers, Structure
from benchmarks.lab.curvature import (
    Local,
    RewardSpectrum,
    balancing_reference,
    leading_modes,
    local,
    reward_spectrum,
)
from benchmarks.lab.enumerated_training import EnumeratedPath, Places, follow
from benchmarks.lab.enumeration import Listing, list_completions
from benchmarks.lab.network import Network
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import Task, make_task
from benchmarks.lab.warm_start import warm_start

KL_WEIGHT = 1.0
CASES = {"early": (0.6, 1.0), "late": (None, 3.5)}
"""Success rate up to which the supervised training goes (None: to its end), and the temperature of completions. Early
a network has learned the answers' form and half of the sums; late it has learned all, and a high temperature keeps it
uncertain."""
SIZE = 3
"""Numbers that are added: 7 prompts to train on, 43 completions each."""


@dataclass(frozen=True, eq=False)
class Case:
    """A network at a fixed point.

    Attributes:
        name: Which.
        task: Prompts and answers.
        listing: All completions, with the exact mean update for infinite groups.
        point: The drift there.
        rates: Largest decay rates, per unit learning rate and step.
        left: Left eigenvectors of them, shape (modes, parameters).
        reward: Spectrum of the mean reward after a push along its gradient.
        ladder: Policies of the supervised training, shape (looks, parameters).
    """

    name: str
    task: Task
    listing: Listing
    point: Local
    rates: np.ndarray
    left: np.ndarray
    reward: RewardSpectrum
    ladder: np.ndarray

    def places(self, probes: np.ndarray | None = None, reference: Any = None) -> Places:
        """Reference and centre of this case."""
        none = np.zeros((0, len(self.point.parameters)))
        kept = self.point.reference if reference is None else reference
        return Places(kept, self.point.parameters, none if probes is None else probes)

    def shares(self, count: int = 8) -> list[dict[str, float]]:
        """The modes that carry most of the reward's answer."""
        order = np.argsort(-np.abs(self.reward.shares))[:count]
        return [
            {"rate": float(np.real(self.reward.rates[i])), "share": float(np.real(self.reward.shares[i]))}
            for i in order
        ]


def network(quick: bool) -> Network:
    """Shape of the transformers."""
    return Network(1, 16, 2, 16) if quick else Network(1, 32, 2, 64)


def numbers_of(**base: Any) -> LabNumbers:
    """Settings with the penalty of the cases, unclipped."""
    settings = {"kl_weight": KL_WEIGHT, "lag_exposure": 1.0, "clip_low": np.inf, "clip_high": np.inf}
    return LabNumbers(base=Numbers(**settings | base))


@cache
def make_cases(quick: bool = False, names: tuple[str, ...] = tuple(CASES)) -> tuple[Case, ...]:
    """Trains the networks and finds their spectra; the same ones for the same words."""
    task = make_task("modular_sum", size=SIZE)
    structure = Structure(advantage="mean", update="sampled")
    lab = Lab(structure, network(quick), "constant", limit=2)
    ladder = warm_start(lab, task, 0)
    listing = list_completions(replace(lab, structure=replace(structure, update="infinite_group")), task, LabNumbers())
    out = []
    for name in names:
        success, temperature = CASES[name]
        theta = ladder.parameters[-1] if success is None else ladder.at(success)
        numbers = numbers_of()._replace(temperature=temperature)
        point = local(listing, numbers, balancing_reference(listing, numbers, theta), theta)
        rates, left = leading_modes(point, 6, transposed=True)
        spectrum = reward_spectrum(point, point.reward_gradient)
        out.append(Case(name, task, listing, point, np.real(rates), np.real(left), spectrum, ladder.parameters))
    return tuple(out)


@cache
def relisted(case: Case, **structure: Any) -> Listing:
    """The case's listing with other static settings; the same one for the same settings, so that it compiles once."""
    lab = case.listing.lab
    return replace(case.listing, lab=replace(lab, structure=replace(lab.structure, **structure)))


def run(
    case: Case,
    listing: Listing,
    start: np.ndarray,
    seeds: Sequence[int] | np.ndarray,
    *,
    every: int = 1,
    double: bool = False,
    probes: np.ndarray | None = None,
    reference: Any = None,
    **base: Any,
) -> EnumeratedPath:
    """Runs of a case with these numeric settings."""
    numbers = numbers_of(**base)._replace(temperature=float(case.point.numbers.temperature))
    return follow(listing, numbers, start, seeds, case.places(probes, reference), every=every, double=double)
