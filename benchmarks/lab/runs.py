"""Runs of the laboratory's families, trained in batches that share a compiled program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayes_grpo.simulate.settings import Numbers
from benchmarks.lab.families import Draw, draw_run
from benchmarks.lab.log import deep_state, sidecar
from benchmarks.lab.settings import LabNumbers
from benchmarks.lab.tasks import PAD
from benchmarks.lab.training import DeepTrajectory, train
from benchmarks.lab.truth import DeepTruth, deep_truth

LABORATORY_BATCH = 16
"""Runs side by side at most; on a CPU more bring nothing."""


@dataclass(frozen=True, eq=False)
class DeepRun:
    """One run of the laboratory with everything that made it.

    Attributes:
        draw: Its settings.
        trajectory: Logged and true quantities, no leading axis.
        truth: What happened to it.
    """

    draw: Draw
    trajectory: DeepTrajectory
    truth: DeepTruth

    @property
    def scenario(self) -> str:
        """Name of its family."""
        return self.draw.family

    @property
    def settings(self) -> dict[str, Any]:
        """The trainer's settings by their canonical names, as a sidecar states them."""
        return sidecar(self.draw.setup.lab, self.draw.numbers)

    def log(self, logging_steps: int | None = None) -> tuple[dict[str, Any], int]:
        """The content of its `trainer_state.json` and the steps averaged into a row; its own if None."""
        steps = self.draw.logging_steps if logging_steps is None else logging_steps
        setup = self.draw.setup
        n_prompts = len(setup.make_task().train)
        return deep_state(self.trajectory, setup.lab, self.draw.numbers, n_prompts, steps), steps

    def record(self) -> dict[str, Any]:
        """What only the laboratory knows, JSON-ready."""
        draw, t = self.draw, self.trajectory
        lab = draw.setup.lab
        numbers = draw.numbers._asdict()
        flat = {**numbers.pop("base")._asdict(), **numbers}
        return {
            "scenario": draw.family,
            "index": draw.index,
            "seed": draw.seed,
            **self.truth.to_dict(),
            "task": draw.setup.task,
            "network": dict(vars(lab.network)),
            "structure": dict(vars(lab.structure)),
            "loss": lab.loss,
            "limit": lab.limit,
            # JSON has no infinity: what is switched off is null.
            "numbers": {k: float(v) if np.isfinite(v) else None for k, v in flat.items()},
            "warm_start": {"success": draw.success, "seed": draw.warm_seed, "clumsy": draw.clumsy},
            "gold_reward": np.asarray(t.components)[:, 0].tolist(),
            "eval_step": np.asarray(t.eval_step).tolist(),
            "eval_gold_reward": np.asarray(t.eval_reward).tolist(),
            "eval_trained_reward": np.asarray(t.eval_scored).tolist(),
        }


def simulate_deep(family: str, n: int, seed: int, progress: Callable[[str, float], Any] | None = None) -> list[DeepRun]:
    """Trains small transformers of a family.

    Args:
        family: One of `deep_families`.
        n: Number of runs, at least 1.
        seed: Seed of settings and sampling, at least 0.
        progress: Called with the stage and the share of the runs that are finished.

    Returns:
        ``n`` runs in order of their number.
    """
    found = []
    for run in train_draws([draw_run(family, seed, index) for index in range(n)]):
        found.append(run)
        if progress is not None:
            progress(f"trained {len(found)} of {n} runs", len(found) / n)
    return sorted(found, key=lambda run: run.draw.index)


def train_draws(draws: Iterable[Draw], batch: int = LABORATORY_BATCH) -> Iterator[DeepRun]:
    """Trains draws, those of one setup side by side.

    Args:
        draws: Of any families.
        batch: Runs side by side at most.

    Yields:
        The runs, setup by setup.
    """
    waiting = list(draws)
    for setup in dict.fromkeys(draw.setup for draw in waiting):
        members = [draw for draw in waiting if draw.setup == setup]
        for first in range(0, len(members), batch):
            yield from _train(members[first : first + batch])


def _train(draws: Sequence[Draw]) -> list[DeepRun]:
    """Runs of one setup. The batch is filled to a power of two, so that few sizes are compiled."""
    setup, task = draws[0].setup, draws[0].setup.make_task()
    filled = [*draws, *[draws[-1]] * (2 ** (len(draws) - 1).bit_length() - len(draws))]
    numbers = LabNumbers(
        Numbers(*(np.array(x) for x in zip(*(d.numbers.base for d in filled), strict=True))),
        *(np.array(x) for x in zip(*(d.numbers[1:] for d in filled), strict=True)),
    )
    start = np.stack([d.setup.start(d.success, d.warm_seed, d.clumsy) for d in filled])
    batch = train(setup.lab, numbers, task, start, [d.seed for d in filled])
    answer = float((task.train_answer != PAD).sum(axis=1).mean()) / setup.lab.limit
    runs = []
    for i, draw in enumerate(draws):
        trajectory = jax.tree.map(lambda leaf, i=i: leaf[i], batch)
        truth = deep_truth(trajectory, draw.numbers, task.vocabulary, answer, draw.family, draw.causes)
        runs.append(DeepRun(draw, trajectory, truth))
    return runs
