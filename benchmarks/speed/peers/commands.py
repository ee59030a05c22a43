"""Section of `speed.py`: whole commands on the logs that people have, with an empty cache and with a warm one.

Learning rates that are constant, fall linearly (the default of TRL) or as a cosine; rows of one step, windows of ten,
and gaps; 60, 400 and 2,000 rows.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import Finished, Line, run_process, say, simulated, write_log

LAWS = "flat,exponential,oscillator,bernoulli,logistic,sigmoid"
AIMS = {"fit": (15.0, 7.0), "forecast": (30.0, 8.0), "compare": (40.0, 12.0), "diagnose": (None, 3.0)}
"""Seconds with an empty and with a warm cache, on 400 rows of a linear decay."""
CASES = (
    ("constant", 400, 1, False),
    ("linear", 60, 1, False),
    ("linear", 400, 1, False),
    ("linear", 2000, 1, False),
    ("cosine", 400, 1, False),
    ("linear", 400, 10, False),
    ("linear", 400, 1, True),
)


def schedule(kind: str, rows: int) -> np.ndarray:
    """Learning rate of every row over the highest one."""
    left = np.linspace(1.0, 0.0, rows, endpoint=False)
    return {"constant": np.ones(rows), "linear": left, "cosine": 0.5 * (1.0 - np.cos(np.pi * left))}[kind]


def case_log(folder: Path, kind: str, rows: int, window: int, gaps: bool) -> Path:
    """A simulated log; with gaps every seventh row is missing."""
    rewards = simulated(rows, 1, rows / 5.0, noise=0.04 / np.sqrt(window))
    log = write_log(folder / f"{kind}-{rows}-{window}-{gaps}.json", rewards, schedule(kind, rows))
    content = json.loads(log.read_text())
    content["logging_steps"] = window
    for i, row in enumerate(content["log_history"]):
        row["step"] = (i + 1) * window
    content["global_step"] = content["max_steps"] = rows * window
    if gaps:
        content["log_history"] = [row for i, row in enumerate(content["log_history"]) if i % 7 != 3]
    log.write_text(json.dumps(content))
    return log


def commands(quick: bool) -> list[Line]:
    """Seconds of every command on 400 rows of a linear decay, and of fit and forecast on the other logs."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        short = case_log(folder, "linear", 60, 1, False)
        for command in AIMS:  # not timed: each leaves its bytecode behind
            _run(command, short, 60, {"BAYES_GRPO_CACHE": str(folder / "bytecode")})
        for number, (kind, rows, window, gaps) in enumerate(CASES):
            main = (kind, rows, window, gaps) == ("linear", 400, 1, False)
            if quick and not main:
                continue
            log = case_log(folder, kind, rows, window, gaps)
            what = f"{rows:,} rows, {kind}" + (f", windows of {window}" if window > 1 else "") + (", gaps" * gaps)
            for command in AIMS if main else ("fit", "forecast"):
                say(f"commands: {command}, {what}")
                cache = {"BAYES_GRPO_CACHE": str(folder / f"cache-{number}-{command}")}
                first, *warm = (_run(command, log, rows * window, cache) for _ in range(2 if quick else 4))
                aims = AIMS[command] if main else (None, None)
                lines += _lines(command, what, first, warm, aims)
    return lines


def _run(command: str, log: Path, last: int, environment: dict[str, str]) -> Finished:
    options = {"forecast": ["--horizon", f"{1.25 * last:g}"], "compare": ["--regimes", LAWS]}.get(command, [])
    program = str(Path(sys.executable).with_name("bayes-grpo"))
    return run_process([program, command, str(log), *options, "--json"], environment, accept=(0, 4))


def _lines(
    command: str, what: str, first: Finished, warm: list[Finished], aims: tuple[float | None, float | None]
) -> list[Line]:
    middle = statistics.median(x.wall for x in warm)
    failed = "did not converge; " if any(x.code for x in (first, *warm)) else ""
    note = f"{failed}CPU seconds {first.cpu:.1f} and {warm[0].cpu:.1f}, peak {first.peak:.0f} MB"
    out = []
    for cache, seconds, aim in (("empty", first.wall, aims[0]), ("warm", middle, aims[1])):
        met = None if aim is None else seconds <= aim
        text = "" if aim is None else f"≤ {aim:g}"
        out.append(Line("commands", f"{command}, {what}, {cache} cache", "s", seconds, aim=text, met=met, note=note))
    return out
