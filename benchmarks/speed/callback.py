"""What the callback costs a training: TRL's own trainer with and without it, taking turns.

    python -m benchmarks.speed.callback [--steps 50] [--pairs 4] [--seconds 0.9] [--quick 400]

Needs the dependency group `trl`. A small policy is trained on the processor, one thread, in steps of about a second in
which it sleeps, as a trainer does while an accelerator works. Each pair of runs differs in the callback
alone, with its defaults and a question about stopping. What the trainer's own process computes more is its processor
time, which other work on the machine does not touch as it does the clock's. `calls` is the time inside the callback's
own event for each row of the log, by clock and processor, over a run of short steps with an update a second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]

from bayes_grpo.trl import BayesGRPOCallback
from benchmarks.common import keep, say
from benchmarks.speed.peers.trl_tiny import trainer

COSTS = {"cost_per_step": 1.0, "value_per_reward": 1000.0}


class Timed(BayesGRPOCallback):
    """Our callback with a clock round what it does with a row."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seconds: list[float] = []
        self.processor: list[float] = []
        self.updates = self.first = 0

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
        begin, worked = time.perf_counter(), time.thread_time()
        super().on_log(args, state, control, logs=logs, **more)
        if "reward" in (logs or {}):  # the closing summary may wait
            self.seconds.append(time.perf_counter() - begin)
            self.processor.append(time.thread_time() - worked)
        if "bayes_grpo/step" in (logs or {}):
            self.updates += 1
            self.first = self.first or state.global_step


class Clock(TrainerCallback):
    """Times at which steps begin and end."""

    def __init__(self) -> None:
        self.begins: list[float] = []
        self.ends: list[float] = []
        self.worked: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.begins.append(time.perf_counter())
        self.worked.append(-time.process_time())

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if "reward" in (logs or {}):
            self.ends.append(time.perf_counter())
            self.worked[-1] += time.process_time()


class Steps(NamedTuple):
    """Seconds of each step, its row in the log included, by the clock and by the processor, each of shape (steps,)."""

    clock: np.ndarray
    processor: np.ndarray


def run(steps: int, work: Callable[[], None], ours: Timed | None) -> Steps:
    """A training and its steps."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        training = trainer(Path(folder), steps, work=work)
        if ours is not None:
            ours.attach(training)
        training.add_callback(clock)  # after ours, so that its time is within the step's
        training.train()
    return Steps(np.array(clock.ends) - np.array(clock.begins), np.array(clock.worked))


def pairs_of(pairs: int, steps: int, seconds: float) -> dict[str, Any]:
    """Runs with and without the callback, taking turns; which comes first changes from pair to pair.

    The process beside imports and compiles once a run, before its first update. What that costs is in seconds; what
    comes after is a share of the steps' time.
    """
    found: dict[bool, list[Steps]] = {True: [], False: []}
    ours: list[Timed] = []
    for pair in range(pairs):
        for with_ours in (pair % 2 == 0, pair % 2 == 1):
            callback = Timed(costs=COSTS, finish=0.0) if with_ours else None
            found[with_ours].append(run(steps, lambda: time.sleep(seconds), callback))
            ours += [] if callback is None else [callback]
            took = found[with_ours][-1].clock.sum()
            say(f"pair {pair + 1}: {'with' if with_ours else 'without'} {took:.2f} s")
    begun = [callback.first or steps for callback in ours]
    both = [(n, a.clock, b.clock) for n, a, b in zip(begun, found[True], found[False], strict=True)]
    worked = [
        float((a.processor.sum() - b.processor.sum()) / b.clock.sum())
        for a, b in zip(found[True], found[False], strict=True)
    ]
    return {
        "steps": steps,
        "pairs": pairs,
        "updates_a_run": [callback.updates for callback in ours],
        "first_update_at_step": [callback.first for callback in ours],
        "whole_runs": about([float(a.sum() / b.sum()) - 1 for _, a, b in both]),
        "processor_of_the_trainer": about(worked),
        "start_seconds": about([float(a[:n].sum() - b[:n].sum()) for n, a, b in both]),
        "after_first_update": about([float(a[n:].mean() / b[n:].mean()) - 1 for n, a, b in both if n < steps]),
        "median_steps": {"with": middle(found[True]), "without": middle(found[False])},
        "spread_of_runs_without": spread([float(x.clock.sum()) for x in found[False]]),
    }


def middle(runs: Sequence[Steps]) -> float:
    """Median step of several runs, seconds."""
    return float(np.median(np.concatenate([x.clock for x in runs])))


def about(values: Sequence[float]) -> dict[str, Any]:
    """A number of each pair, and their median."""
    return {"each": list(values), "median": statistics.median(values) if values else float("nan")}


def spread(values: Sequence[float]) -> float:
    """Standard deviation over mean: what two equal runs differ by on this machine."""
    return statistics.stdev(values) / statistics.mean(values) if len(values) > 1 else float("nan")


def calls_of(steps: int) -> dict[str, Any]:
    """Milliseconds inside the callback for a row of the log."""
    ours = Timed(costs=COSTS, finish=0.0, every=1.0)
    run(steps, lambda: time.sleep(0.05), ours)
    kinds = {"elapsed": 1e3 * np.array(ours.seconds), "processor": 1e3 * np.array(ours.processor)}
    numbers = {"median_ms": 0.5, "p99_ms": 0.99, "largest_ms": 1.0}
    return {"rows": len(ours.seconds), "updates": ours.updates} | {
        f"{kind}_{name}": float(np.quantile(x, q)) for kind, x in kinds.items() for name, q in numbers.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="steps of a run")
    parser.add_argument("--pairs", type=int, default=4, help="runs with and without, of each kind")
    parser.add_argument("--seconds", type=float, default=0.9, help="length of a step")
    parser.add_argument("--quick", type=int, default=400, help="short steps over which the calls are timed")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    torch.set_num_threads(1)
    calls = calls_of(options.quick)
    print(" ".join(f"{name} {value:.3g}" for name, value in calls.items()))
    found = pairs_of(options.pairs, options.steps, options.seconds)
    names = ("whole_runs", "processor_of_the_trainer", "after_first_update")
    shares = {name: found[name]["median"] for name in names}
    print(*(f"{name} {x:+.2%}" for name, x in shares.items()), found["start_seconds"]["median"], "s at start")
    beside = {name: version(name) for name in ("trl", "transformers", "torch")}
    keep("callback", {"versions": beside, "load_at_start": load, "calls": calls, "waiting": found})


if __name__ == "__main__":
    main()
