"""Where a laboratory run takes place: the few combinations of task, network and shapes that are compiled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from bayes_grpo.simulate.settings import AdvantageScale, OptimizerName, ScheduleKind, Structure
from benchmarks.lab.loss import LossKind
from benchmarks.lab.network import Network
from benchmarks.lab.settings import Lab
from benchmarks.lab.tasks import Task, make_task
from benchmarks.lab.warm_start import Ladder, warm_start

_SMALL = Network(layers=1, width=32, heads=2, hidden=64)
LARGE = Network(layers=2, width=48, heads=4, hidden=96)
WARM_SEEDS = 2
"""Fresh networks of a task; each is trained to answer once."""


@dataclass(frozen=True)
class Setup:
    """Everything static about a run.

    Attributes:
        task: Name of the task.
        lab: Static settings.
        rate: A learning rate at which a run of this kind learns well within its length.
    """

    task: str
    lab: Lab
    rate: float

    def make_task(self) -> Task:
        """The task; the same one every time."""
        return _task(self.task)

    def start(self, success: float, seed: int, clumsy: float) -> np.ndarray:
        """Parameters of a warm start.

        Args:
            success: Success rate to start from; the best there is, where no start gets so far.
            seed: Which fresh network.
            clumsy: See `warm_start`.

        Returns:
            Shape (parameters,).
        """
        ladder = _ladder(self.task, self.lab.network, self.lab.limit, seed, clumsy)
        return ladder.at(min(success, float(ladder.success.max())))


@cache
def _task(name: str) -> Task:
    return make_task(name)


@lru_cache(maxsize=16)
def _ladder(task: str, network: Network, limit: int, seed: int, clumsy: float) -> Ladder:
    return warm_start(Lab(network=network, limit=limit), _task(task), seed, clumsy)


def _setup(
    task: str,
    shape: tuple[int, int, int],
    optimizer: OptimizerName,
    schedule: ScheduleKind,
    rate: float,
    *,
    network: Network = _SMALL,
    limit: int = 8,
    loss: LossKind = "token",
    advantage: AdvantageScale = "std",
) -> Setup:
    """A setup; ``shape`` is steps, G and B."""
    steps, size, prompts = shape
    structure = Structure(
        n_steps=steps,
        group_size=size,
        prompts_per_step=prompts,
        advantage=advantage,
        optimizer=optimizer,
        schedule=schedule,
        eval_every=10,
    )
    return Setup(task, Lab(structure, network, loss, limit=limit), rate)


SETUPS: tuple[Setup, ...] = (
    _setup("sorting", (300, 8, 8), "adam", "linear", 8e-4),
    _setup("sorting", (240, 4, 8), "heavy_ball", "constant", 4e-3, loss="sequence"),
    _setup("brackets", (260, 8, 6), "adam", "constant", 5e-4, limit=10),
    _setup("brackets", (200, 4, 16), "adam", "linear", 7e-4, limit=10, loss="constant", advantage="mean"),
    _setup("modular_sum", (400, 8, 8), "adam", "constant", 1e-3, limit=6),
    _setup("modular_sum", (300, 16, 4), "heavy_ball", "linear", 5e-3, limit=6),
    _setup("sorting", (200, 8, 8), "adam", "constant", 2e-4, network=LARGE, loss="sequence"),
)
"""All of them: a new one costs a compilation."""
