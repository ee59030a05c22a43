"""Pairs of siblings that held: what was read of the one, and where the other ended.

Runs are read once and kept in a folder, so that a second call goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.outlook import Base, RewardScale, base_of_run
from bayes_grpo.rows.reward_range import RewardRange, reward_range
from bayes_grpo.rows.rows_of import MAX_ROWS_OF_SEVERAL, rows_of
from benchmarks.common import say
from benchmarks.lab.learners.siblings import SiblingFamily

PLANNED_PLACES = {"learning_rate": 0, "refresh_interval": 1, "group_size": 3, "prompts_per_step": 4}
"""Setting → its place in a change."""
PAIR_DRAWS = 400
_REACHED = 0.3
"""A pair is compared where the other ran for at least this share of the run."""


class ReadSignal(NamedTuple):
    """A run of one signal, read by its laws."""

    base: Base
    step: np.ndarray
    y: np.ndarray
    mean_rate: float
    scale: RewardScale

    def end(self, step: float) -> tuple[float, float]:
        """Mean of the last tenth of the rows up to a step, and its standard error."""
        y = self.y[self.step <= step]
        size = max(3, len(y) // 10)
        return float(y[-size:].mean()), float(np.std(np.diff(y)) / math.sqrt(2.0 * size))


class SiblingPair(NamedTuple):
    """A run that worked, and where a sibling ended that did not fail.

    Attributes:
        repo: Its repository.
        family: Its family.
        to: The sibling's name.
        run: The run.
        change: What the sibling changed, shape (settings,).
        step: Where both are compared.
        level: The sibling's reward there.
        error: Its standard error.
    """

    repo: str
    family: str
    to: str
    run: ReadSignal
    change: np.ndarray
    step: float
    level: float
    error: float


Reads = Mapping[tuple[str, str], ReadSignal | None]
"""(Run, "auto" or "eval") → what was read of it."""


def public_reads(families: Sequence[SiblingFamily], paths: Mapping[str, Path], cache: Path) -> Reads:
    """Runs of public families, read from their logs."""

    def run_of(name: str, signal: str) -> Run | None:
        run = read_log(paths[name])
        few = signal == "eval" and not (run.has_reward and np.isfinite(run.eval_reward).sum() >= 5)
        return None if few else run

    return {
        (run.name, signal): read_signal(lambda n=run.name, s=signal: run_of(n, s), f"{run.name}.{signal}", cache)
        for f in families
        for run in f.runs
        if run.name in paths
        for signal in ("auto", "eval")
    }


def read_signal(run_of: Callable[[], Run | None], name: str, cache: Path) -> ReadSignal | None:
    """A run of one signal; None where it has none that a law can be put on.

    Args:
        run_of: The run; None where it has no such signal.
        name: Its name and the signal's, "run.auto" or "run.eval".
        cache: Where what was read is kept.
    """
    file = cache / f"{name}.npz"
    if not file.exists():
        try:
            run = run_of()
            if run is None:
                return None
            table = rows_of(run, name.rpartition(".")[2], MAX_ROWS_OF_SEVERAL)
            reward = reward_range(table.y, dict(run.settings.items()))
            base = base_of_run(table, reward, 7)
        except BayesGrpoError as error:
            say(f"left out: {name}: {error}")
            return None
        arrays: Any = vars(base) | {"step": table.step, "y": table.y, "relrate": table.rate, "signal": table.signal}
        np.savez(file, low=reward.low, high=reward.high, scale=table.scale, **arrays)
    with np.load(file) as kept:
        d = dict(kept)
    some = np.random.default_rng(0).choice(len(d["rate"]), PAIR_DRAWS)
    drawn = {k: d[k][some] for k in ("rate", "plateau", "start", "single", "pair_noise")}
    base, mean_rate = Base(**drawn, stretch=np.zeros(PAIR_DRAWS)), float(np.mean(d["relrate"]))
    reward = RewardRange(float(d["low"]), float(d["high"]))
    scale = RewardScale(reward, float(d["scale"]), mean_rate * float(d["step"][-1]))
    return ReadSignal(base, d["step"], d["y"], mean_rate, scale)


def sibling_pairs(families: Sequence[SiblingFamily], reads: Reads) -> list[SiblingPair]:
    """Pairs that changed nothing but planned settings."""
    out = []
    for f in families:
        for place, changes, failed in f.views:
            run, others = f.runs[place], [r for r in f.runs if r is not f.runs[place]]
            for other, x, y in zip(others, changes, failed, strict=True):
                rest = np.delete(x, [*PLANNED_PLACES.values(), 2])
                if y or np.abs(rest).max() > 0.01:
                    continue
                x = np.where(np.abs(x) > 0.01, x, 0.0)
                for signal in ("auto", "eval"):
                    a, b = reads.get((run.name, signal)), reads.get((other.name, signal))
                    if a is not None and b is not None:
                        step = min(float(a.step[-1]), float(b.step[-1]))
                        if step >= _REACHED * float(a.step[-1]):
                            out.append(SiblingPair(f.repo, f.name, other.name, a, x, step, *b.end(step)))
                        break
    return out
