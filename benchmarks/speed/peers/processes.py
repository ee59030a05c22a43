"""Sections of `speed.py` that measure whole processes from outside: one fit, many fits, memory."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import Finished, Line, run_process, say, simulated, write_log

FOLDER = Path(__file__).parent
ROWS, RUNS = 400, 50


def process(quick: bool) -> list[Line]:
    """Whole processes beside plain scripts, with a constant and with a falling learning rate."""
    return [
        *_process(quick, "constant", "plain_script.py", 1.0),
        *_process(quick, "falling", "plain_falling.py", np.linspace(1.0, 0.01, ROWS)),
    ]


def _process(quick: bool, kind: str, script_name: str, rate: np.ndarray | float) -> list[Line]:
    taken: dict[str, list[Finished]] = {"first": [], "warm": [], "plain": [], "plain, cache": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = write_log(folder / "trainer_state.json", simulated(ROWS, 1, ROWS / 5.0), rate)
        script = [sys.executable, str(FOLDER / script_name), str(log)]
        own = {"JAX_COMPILATION_CACHE_DIR": str(folder / "own"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        # Not timed: both sides leave their bytecode behind.
        run_process(script, None if quick else own)
        _fit_process(log, {"BAYES_GRPO_CACHE": str(folder / "bytecode")})
        for turn in range(2 if quick else 5):
            say(f"process, {kind} rate: turn {turn + 1}")
            cache = {"BAYES_GRPO_CACHE": str(folder / f"cache-{turn}")}
            taken["first"].append(_fit_process(log, cache))
            taken["plain"].append(run_process(script))
            taken["warm"].append(_fit_process(log, cache))
            if not quick:
                taken["plain, cache"].append(run_process(script, own))

    def median(name: str, what: str) -> float:
        return statistics.median(getattr(x, what) for x in taken[name])

    lines = []
    for name, limit, peer in (("first", 0.6, "plain"), ("warm", 0.35, "plain"), ("warm", None, "plain, cache")):
        if not taken[peer]:
            continue
        mine, theirs = median(name, "wall"), median(peer, "wall")
        cpu = f"CPU seconds {median(name, 'cpu'):.1f} and {median(peer, 'cpu'):.1f}"
        cpu += "; our fit did not converge" if any(x.code for x in taken[name]) else ""
        lines.append(
            Line(
                "process",
                f"fit of 400 rows, {kind} rate, " + ("empty cache" if name == "first" else "warm cache"),
                "s",
                mine,
                theirs,
                mine / theirs,
                "" if limit is None else f"≤ {limit}",
                None if limit is None else mine / theirs <= limit,
                f"peer: plain script{'' if peer == 'plain' else ' with a warm cache of its own'}; {cpu}",
            )
        )
    return lines


def _fit_process(log: Path, environment: dict[str, str]) -> Finished:
    """One `bayes-grpo fit`; not converged (exit code 4) is a result too."""
    command = [str(Path(sys.executable).with_name("bayes-grpo")), "fit", str(log), "--json"]
    return run_process(command, environment, accept=(0, 4))


def many(quick: bool, full: bool) -> list[Line]:
    """Many short logs in one process beside fresh MCMC objects."""
    rng = np.random.default_rng(3)
    timed = RUNS if full else 2 if quick else 4
    with tempfile.TemporaryDirectory() as name:
        everything, some = Path(name, "all"), Path(name, "some")
        everything.mkdir()
        some.mkdir()
        for i in range(RUNS):
            rows = int(rng.integers(60, 121))
            rewards = simulated(rows, i, rows * rng.uniform(0.1, 0.3), zeta=rng.uniform(1.0, 3.0))
            write_log(everything / f"run-{i:02d}.json", rewards)
            if i % (RUNS // timed) == 0 and i // (RUNS // timed) < timed:
                write_log(some / f"run-{i:02d}.json", rewards)
        seconds, ends = {}, {}
        for side, folder in (("ours", everything), ("plain", some)):
            say(f"many: {side}")
            command = [sys.executable, str(FOLDER / "many_runs.py"), side, str(folder)]
            result = json.loads(run_process(command).output)
            seconds[side], ends[side] = result["seconds"], result["ends"]
    ours, peer = sum(seconds["ours"]), statistics.mean(seconds["plain"]) * RUNS
    scaled = "" if full else f", scaled from {timed}"
    fits = f"median of our fits {statistics.median(seconds['ours']):.2f} s, longest {max(seconds['ours']):.1f} s"
    checked = ", ".join(f"{count} {end}" for end, count in sorted(ends["ours"].items()))
    note = f"peer: plain MCMC objects{scaled}; {fits}; convergence: {checked}"
    return [Line("many", "50 logs", "s", ours, peer, peer / ours, "≥ 5", peer / ours >= 5, note)]


def memory(quick: bool) -> list[Line]:
    """Peak resident memory of one fit."""
    lines = []
    for rows in (ROWS, 2000):
        say(f"memory: {rows} rows")
        with tempfile.TemporaryDirectory() as folder:
            log = write_log(Path(folder, "trainer_state.json"), simulated(rows, 1, rows / 5.0))
            peak = _fit_process(log, {"BAYES_GRPO_CACHE": str(Path(folder, "cache"))}).peak
        lines.append(Line("memory", f"peak of a fit, {rows:,} rows", "MB", peak, aim="< 1500", met=peak < 1500))
    return lines
