"""Policies that a KL penalty holds where they are, from early to late in their learning: where stiffness is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import SettingError
from benchmarks.common import say
from benchmarks.lab.curvature import Local, balancing_reference, leading_modes, local, reward_spectrum
from benchmarks.lab.enumeration import Listing
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import Task
from benchmarks.lab.warm_start import warm_start


@dataclass(frozen=True, eq=False)
class HeldPolicy:
    """A policy at a fixed point.

    Attributes:
        name: Which.
        seed: Of its supervised training.
        temperature: At which it answers.
        listing: All completions.
        point: The drift there.
        stiffest: The exact largest decay rate.
        shown: The curvature that the reward shows.
    """

    name: str
    seed: int
    temperature: float
    listing: Listing
    point: Local
    stiffest: float
    shown: float


def held_policies(
    lab: Lab,
    listing: Listing,
    task: Task,
    numbers: LabNumbers,
    *,
    seeds: Sequence[int],
    successes: Sequence[float | None],
    temperatures: Sequence[float],
) -> Iterator[HeldPolicy]:
    """Those of one network that the penalty can hold; the others are told and left out.

    Args:
        lab: The network and how it is trained first.
        listing: All completions, with the update that is looked at.
        task: The task.
        numbers: Its numbers but for the temperature.
        seeds: Of the supervised training.
        successes: Success rates of the policies; None for the end of that training.
        temperatures: At which they answer.
    """
    for seed in seeds:
        ladder = warm_start(lab, task, seed)
        for success in successes:
            theta = ladder.parameters[-1] if success is None else ladder.at(success)
            for temperature in temperatures:
                own = numbers._replace(temperature=temperature)
                name = f"width {lab.network.width}, seed {seed}, success {success}, temperature {temperature:g}"
                try:
                    point = local(listing, own, balancing_reference(listing, own, theta), theta)
                except SettingError as error:
                    say(f"left out: {name}: {error}")
                    continue
                stiffest = float(np.real(leading_modes(point, 2, transposed=True)[0][0]))
                shown = float(reward_spectrum(point, point.reward_gradient).curvature)
                say(f"{name}: reward {point.reward:.3f}, K {stiffest:.4g}, the reward shows {shown:.4g}")
                yield HeldPolicy(name, seed, temperature, listing, point, stiffest, shown)
