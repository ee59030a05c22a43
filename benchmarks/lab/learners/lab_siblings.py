"""Families of siblings in the deep laboratory: the changes that public families make, thousands of pairs of them.

Every family has a task, a warm start and base settings of its own; its runs move the learning rate along a ladder that
ends where they fail, alone and together with group size, prompts, refresh interval and epochs, KL weight, clip
range or schedule. Every run has a seed of its own. What became of a run is its true event (`deep_truth`); what settings
do not cause, and what has no outcome, is left out. Runs are kept in a folder, so that a second call goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.simulate.settings import Numbers, ScheduleKind, Structure
from benchmarks.common import say
from benchmarks.lab.families import Draw
from benchmarks.lab.learners.siblings import Sibling
from benchmarks.lab.runs import train_draws
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.setups import SETUPS, WARM_SEEDS, Setup

REPO = "laboratory"
LAB_SEEDS = (1, 2)
"""Sets of families that are judged by each other."""
STEPS, BATCH = 120, 8
MOMENTUM = 0.9
LADDER = (0.25, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Factors on a family's learning rate of the runs that change nothing else."""
_MIXED = 6
"""Runs of a family that change other settings too, at factors between 1/2 and 8."""
_TASKS = (0, 4)
"""Setups whose task and network are taken: sorting and modular sums, both under Adam."""
_SHAPES: tuple[tuple[int, int, ScheduleKind], ...] = (
    (8, 8, "constant"),
    (8, 8, "linear"),
    (4, 8, "constant"),
    (8, 4, "constant"),
)
"""Group size, prompts and schedule of the base settings and of what is changed; each is compiled once a task."""
_REFRESHES = ((1, 1), (4, 1), (4, 4), (8, 2), (16, 4))
_FAILURES = {
    "collapse": "dynamical_instability",
    "oscillation": "dynamical_instability",
    "entropy_explosion": "dynamical_instability",
    "policy_concentration": "policy_concentration",
}
_WORKED = ("healthy", "plateau", "solved")


class LabSibling(NamedTuple):
    """A run of a family before and after it was trained.

    Attributes:
        sibling: As public runs are listed.
        reward: Logged reward, shape (steps,).
        flat: Share of groups without spread, shape (steps,).
        attainable: Highest reward that a completion can get.
    """

    sibling: Sibling
    reward: np.ndarray
    flat: np.ndarray
    attainable: float


def family_draws(seed: int, number: int) -> list[Draw]:
    """Settings of all runs of a family; a family depends on its seed and number alone.

    Args:
        seed: Seed of the set.
        number: The family's number.
    """
    rng = np.random.default_rng([seed, number, 32])
    stem = SETUPS[_TASKS[number % len(_TASKS)]]
    interval, epochs = _REFRESHES[rng.choice(len(_REFRESHES), p=(0.5, 0.2, 0.1, 0.1, 0.1))]
    base = Numbers(
        learning_rate=stem.rate * float(np.exp(rng.uniform(np.log(0.1), np.log(2.0)))),
        momentum=MOMENTUM,
        refresh_interval=interval,
        clip_high=rng.choice([0.2, 0.28]),
        kl_weight=rng.choice([0.0, 0.0, 0.01, 0.04]),
        warmup_steps=int(rng.integers(0, 11)),
        adam_beta2=rng.choice([0.99, 0.999]),
    )
    numbers = LabNumbers(
        base=base, epochs=epochs, max_grad_norm=rng.choice([1.0, np.inf]), partial=rng.choice([0.0, 0.2])
    )
    present = Draw(
        family=f"siblings {seed}",
        index=number,
        setup=_shaped(stem, _SHAPES[0]),
        numbers=numbers,
        success=rng.uniform(0.15, 0.5),
        warm_seed=int(rng.integers(WARM_SEEDS)),
        clumsy=0.0,
        logging_steps=1,
    )
    out = [present.faster(factor) for factor in LADDER]
    for _ in range(_MIXED):
        draw = present.faster(float(2.0 ** rng.integers(-1, 4)))
        for kind in rng.choice(4, size=int(rng.integers(1, 3)), replace=False):
            draw = _changed(draw, int(kind), stem, rng)
        out.append(draw)
    return [replace(draw, seed=int(rng.integers(2**31))) for draw in out]


def _changed(draw: Draw, kind: int, stem: Setup, rng: np.random.Generator) -> Draw:
    """A draw with one more setting changed."""
    if kind == 0:
        interval, epochs = _REFRESHES[rng.integers(len(_REFRESHES))]
        return draw.base(refresh_interval=interval).reward(epochs=epochs)
    if kind == 1:
        return draw.base(kl_weight=float(rng.choice([0.0, 0.01, 0.04, 0.1])))
    if kind == 2:
        return draw.base(clip_high=float(rng.choice([0.1, 0.2, 0.28, 0.5])))
    # Not `Draw.moved`, which would scale the rate by that of the setup: here it stays as it was drawn.
    return replace(draw, setup=_shaped(stem, _SHAPES[rng.integers(1, len(_SHAPES))]))


def _shaped(stem: Setup, shape: tuple[int, int, ScheduleKind]) -> Setup:
    size, prompts, schedule = shape
    structure = Structure(
        n_steps=STEPS, group_size=size, prompts_per_step=prompts, optimizer="adam", schedule=schedule, eval_every=STEPS
    )
    lab = stem.lab
    return Setup(stem.task, Lab(structure, lab.network, "token", limit=lab.limit, eval_prompts=8), stem.rate)


def settings_of_draw(draw: Draw) -> dict[str, float]:
    """Settings of a run, by the names of `Change`."""
    base, structure = draw.numbers.base, draw.setup.lab.structure
    return {
        "learning_rate": float(base.learning_rate),
        "group_size": float(structure.group_size),
        "prompts_per_step": float(structure.prompts_per_step),
        "kl_weight": float(base.kl_weight),
        "refresh_interval": float(base.refresh_interval),
        "epochs": float(draw.numbers.epochs),
        "clip_range": float(base.clip_high),
        "full": 1.0,
        "undecayed": float(structure.schedule == "constant"),
    }


def lab_siblings(folder: Path, seed: int, numbers: Sequence[int]) -> list[LabSibling]:
    """Runs of families, trained where they are not kept.

    Args:
        folder: Where runs are kept.
        seed: Seed of the set.
        numbers: The families' numbers.
    """
    wanted = {(number, place): draw for number in numbers for place, draw in enumerate(family_draws(seed, number))}
    place_of = {(draw.index, draw.seed): key for key, draw in wanted.items()}
    waiting = [draw for key, draw in wanted.items() if not _file(folder, seed, key).exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for done, run in enumerate(train_draws(waiting, BATCH)):
        key = place_of[run.draw.index, run.draw.seed]
        arrays: Any = {
            "reward": np.asarray(run.trajectory.reward, np.float32),
            "flat": np.asarray(run.trajectory.frac_reward_zero_std, np.float32),
            "event": np.array(run.truth.event),
        }
        np.savez(_file(folder, seed, key), **arrays)
        if done % BATCH == BATCH - 1:
            say(f"{done + 1} of {len(waiting)} runs")
    out = []
    for key, draw in wanted.items():
        with np.load(_file(folder, seed, key)) as kept:
            event = str(kept["event"])
            label = _FAILURES.get(event, "healthy" if event in _WORKED else "")
            if label:
                name = f"lab_{seed}_{key[0]:03d}_{key[1]:02d}"
                family = f"{REPO}, {seed}, {key[0]}"
                sibling = Sibling(name, REPO, family, settings_of_draw(draw), label)
                out.append(LabSibling(sibling, kept["reward"], kept["flat"], 1.0 + float(draw.numbers.partial)))
    return out


def _file(folder: Path, seed: int, key: tuple[int, int]) -> Path:
    return folder / f"{seed}_{key[0]:03d}_{key[1]:02d}.npz"
