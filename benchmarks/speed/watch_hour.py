"""What a watch costs beside a training: `bayes-grpo watch` on a log that gets one row in ten seconds, for an hour.

    python -m benchmarks.speed.watch_hour [--minutes 60] [--every 10] [--keep]

The rows have a reward, a falling learning rate and four signals, every twentieth an evaluation. The watch is a process
of its own with an empty cache of programs; its processor seconds (user and system, all threads) and its resident memory
are read from /proc every five minutes, so the program runs on Linux alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.common import device, keep, run_process, say, simulated

BARS = {"share of a core": 0.15, "memory at the end, MB": 700.0}
"""What a watch may cost a training beside it."""
EVALUATED = 20
"""Rows from one evaluation to the next."""


def rows_of(number: int) -> Iterator[str]:
    """Lines of JSON, as a trainer writes them."""
    rng = np.random.default_rng(1)
    rewards = simulated(number, 0, number / 6)
    held_out = rewards + 0.03 * rng.standard_normal(number)
    for i, reward in enumerate(rewards):
        row = {
            "step": i + 1,
            "reward": round(float(reward), 4),
            "learning_rate": 1e-6 * (1.0 - i / (1.25 * number)),
            "kl": round(0.0004 * i + 0.002 * float(rng.random()), 5),
            "entropy": round(0.9 * float(np.exp(-i / number)) + 0.02 * float(rng.random()), 4),
            "grad_norm": round(0.2 + 0.05 * float(rng.random()), 4),
            "reward_std": round(0.3 + 0.03 * float(rng.random()), 4),
        }
        if (i + 1) % EVALUATED == 0:
            row["eval_reward"] = round(float(held_out[i]), 4)
        yield json.dumps(row) + "\n"


def used(pid: int) -> dict[str, float]:
    """Processor seconds of a process so far, and its resident memory now and at its peak in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # utime and stime
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    memory = {name: int(status[key].split()[0]) / 1e3 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}
    return {
        "processor_seconds": ticks / os.sysconf("SC_CLK_TCK"),
        "memory, MB": round(memory["now"]),
        "peak, MB": round(memory["peak"]),
    }


def fed(log: TextIO, watch: subprocess.Popen[bytes], number: int, every: float, between: float) -> list[dict[str, Any]]:
    """Writes the rows, one at its time, and measures the watch beside.

    Args:
        log: Where to.
        watch: The watch.
        number: Rows.
        every: Seconds from one row to the next.
        between: Seconds from one measurement to the next.
    """
    begin, measured = time.monotonic(), []
    for i, line in enumerate(rows_of(number)):
        log.write(line)
        log.flush()
        time.sleep(max(0.0, begin + (i + 1) * every - time.monotonic()))
        passed = time.monotonic() - begin
        if watch.poll() is not None:
            raise RuntimeError(f"the watch ended with exit code {watch.returncode} after {passed:.0f} s")
        if passed >= between * (len(measured) + 1) or i + 1 == number:
            found = {"seconds": round(passed), "rows": i + 1} | used(watch.pid)
            say(json.dumps(found))
            measured.append(found)
    return measured


def watched(minutes: float, every: float) -> dict[str, Any]:
    """An hour, or another time, of one watch."""
    number = round(minutes * 60 / every)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, looks, errors = folder / "metrics.jsonl", folder / "looks", folder / "errors"
        words = ["watch", str(log), "--json", "--state", str(folder / "state.json")]
        environment = os.environ | {"BAYES_GRPO_CACHE": str(folder / "cache")}
        program = [sys.executable, "-m", "bayes_grpo"]
        run_process([*program, "--version"])  # the bytecode, which an installed program has
        with log.open("w") as rows, looks.open("wb") as out, errors.open("wb") as err:
            watch = subprocess.Popen([*program, *words], stdout=out, stderr=err, env=environment)
            try:
                parts = fed(rows, watch, number, every, 300.0)
            finally:
                watch.terminate()
                watch.wait()
        updates = [json.loads(line) for line in looks.read_text().splitlines()]
        said = errors.read_text()
    steady = parts[len(parts) // 2 :]
    first, last = steady[0], parts[-1]
    later = (last["processor_seconds"] - first["processor_seconds"]) / max(last["seconds"] - first["seconds"], 1)
    return {
        "minutes": minutes,
        "rows": number,
        "looks": len(updates),
        "looks with a forecast": sum(x["outlook"] is not None for x in updates),
        "alarms": sum(len(x["alarms"]) for x in updates),
        "said on standard error": said[-2000:],
        "share of a core": last["processor_seconds"] / last["seconds"],
        "share of a core, second half": later,
        "memory at the end, MB": last["memory, MB"],
        "peak, MB": last["peak, MB"],
        "processor_seconds": last["processor_seconds"],
        "parts": parts,
    }


def main() -> None:
    """Runs the benchmark and prints its numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds from one row to the next")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    say(device())
    result = {"bars": BARS} | watched(options.minutes, options.every)
    print(json.dumps(result, indent=1))
    if options.keep:
        print(keep("watch_hour", result))


if __name__ == "__main__":
    main()
