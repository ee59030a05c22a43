"""A laboratory small enough for tests: one setup, whose runs take a second."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.simulate.settings import Structure
from benchmarks.lab.families import Draw, draw_run
from benchmarks.lab.network import Network
from benchmarks.lab.runs import DeepRun, train_draws
from benchmarks.lab.settings import Lab
from benchmarks.lab.setups import Setup
from benchmarks.lab.training import network_from


@dataclass(frozen=True)
class FreshSetup(Setup):
    """A setup whose runs start from random weights: a warm start would take most of a test's time."""

    def start(self, success: float, seed: int, clumsy: float) -> np.ndarray:
        """Parameters at the start; the success rate is not heeded."""
        return np.random.default_rng(seed).normal(0.0, 0.1, network_from(self.lab, self.make_task().vocabulary)[0])


TINY = FreshSetup(
    "modular_sum",
    Lab(
        Structure(n_steps=40, group_size=4, prompts_per_step=4, optimizer="adam", eval_every=10),
        Network(layers=1, width=8, heads=1, hidden=8),
        limit=3,
        eval_prompts=8,
    ),
    rate=1e-3,
)


def tiny_draw(family: str, index: int = 0) -> Draw:
    """A draw of a family in the tiny setup."""
    draw = draw_run(family, 0, index)
    scaled = replace(draw, setup=TINY, warm_seed=0, clumsy=0.0)
    if "broken" in draw.causes:
        return scaled.reward(broken_from=20.0)
    return scaled


def tiny_runs(*families: str) -> list[DeepRun]:
    """One run of each family, in their order, trained side by side."""
    draws = [tiny_draw(family) for family in families]
    by_family = {run.draw.family: run for run in train_draws(draws)}
    return [by_family[family] for family in families]
