"""The page of a 400-row log as whole processes: seconds with an empty and with a warm cache, and its size.

    python benchmarks/report.py [--turns N] [--keep]

The log has a falling learning rate and all of the page's questions are asked, costs included. Processor seconds stand
beside the clock's, because other work on the machine adds to the clock alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Finished, device, keep, run_process, say, simulated, write_log

ROWS, PLANNED = 400, 600
AIMS = {"empty": 60.0, "warm": 25.0}
"""Seconds on two cores."""


def main() -> None:
    """Runs the benchmark and prints its numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    say(device())
    load = os.getloadavg()[0]
    taken: dict[str, list[Finished]] = {"empty": [], "warm": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rate = np.linspace(1.0, 0.0, ROWS, endpoint=False)
        log = write_log(folder / "trainer_state.json", simulated(ROWS, 1, ROWS / 5.0), rate, PLANNED)
        page = folder / "report.html"
        command = [sys.executable, "-m", "bayes_grpo", "report", str(log), "--out", str(page)]
        command += ["--cost-per-step", "1", "--value-per-reward", "5000"]
        for turn in range(options.turns):
            cache = {"BAYES_GRPO_CACHE": str(folder / f"cache-{turn}")}
            for kind in taken:
                taken[kind].append(run_process(command, cache, accept=(0, 4)))
                say(f"turn {turn + 1}, {kind}: {taken[kind][-1].wall:.1f} s, processor {taken[kind][-1].cpu:.1f} s")
        size = page.stat().st_size
    result: dict[str, Any] = {"rows": ROWS, "turns": options.turns, "page_bytes": size, "load_at_start": load}
    for kind, aim in AIMS.items():
        wall = statistics.median(x.wall for x in taken[kind])
        result[kind] = {
            "seconds": wall,
            "fastest_seconds": min(x.wall for x in taken[kind]),
            "processor_seconds": statistics.median(x.cpu for x in taken[kind]),
            "peak_mb": max(x.peak for x in taken[kind]),
            "aim_seconds": aim,
            "met": wall <= aim,
        }
        print(kind, {k: round(float(v), 1) for k, v in result[kind].items()})
    print("page", size, "bytes")
    if options.keep:
        print(keep("report", result))


if __name__ == "__main__":
    main()
