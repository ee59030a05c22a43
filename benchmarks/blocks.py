"""What the filter in blocks of rows saves: whole `fit` processes with it and with the plain filter, in turns.

    python benchmarks/blocks.py [--rows 2000] [--runs 2] [--quick]

Processor seconds of `bayes-grpo fit LOG --json` with a warm cache, on a simulated log under a constant and under a
falling (cosine) learning rate; the first run of each, which fills its cache, is not counted. Both compute the same
likelihood. The blocks are some 800 lines of `bayes_grpo.dynamics`: they are worth them as long as they halve the cost
of a fit that somebody waits for, and the table says where they do.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.common import Line, device, keep, print_table, run_process, say
from benchmarks.peers.commands import case_log

SCHEDULES = ("constant", "cosine")
LEAST = 2.0
"""Plain over blocks, in one of the cases: what the blocks have to save to be worth their lines."""
FILTERS = {"blocks": "", "plain": "blocks.LEAST_ROWS = sys.maxsize; "}
"""What a process does before the command; a log of fewer rows than `LEAST_ROWS` takes the plain filter."""
_COMMAND = "import sys; from bayes_grpo.dynamics import blocks; {}from bayes_grpo.cli.app import main; main()"


def seconds(folder: Path, log: Path, runs: int) -> dict[str, list[float]]:
    """Processor seconds of `fit` with either filter, both taking turns, after one run of each that fills its cache."""
    found: dict[str, list[float]] = {name: [] for name in FILTERS}
    for turn in range(runs + 1):
        for name, before in FILTERS.items():
            say(f"{log.stem}, {name}: " + (f"run {turn} of {runs}" if turn else "filling its cache"))
            command = [sys.executable, "-c", _COMMAND.format(before), "fit", str(log), "--json"]
            done = run_process(command, {"BAYES_GRPO_CACHE": str(folder / f"{log.stem}-{name}")})
            if turn:
                found[name].append(done.cpu)
    return found


def main() -> None:
    """Measures both schedules, prints one table and keeps it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000, help="rows of the logs")
    parser.add_argument("--runs", type=int, default=2, help="counted runs of each")
    parser.add_argument("--quick", action="store_true", help="200 rows, one run; nothing is kept")
    options = parser.parse_args()
    rows, runs = (200, 1) if options.quick else (options.rows, options.runs)
    machine, lines, result = device(), [], {"rows": rows, "least": LEAST}
    with tempfile.TemporaryDirectory() as name:
        for kind in SCHEDULES:
            every = seconds(Path(name), case_log(Path(name), kind, rows, 1, False), runs)
            ours, peer = (statistics.median(every[x]) for x in ("blocks", "plain"))
            ratio = peer / ours
            what, aim = f"{rows:,} rows, {kind}", f"≥ {LEAST:g} in one"
            lines.append(Line("fit", what, "CPU s", ours, peer, ratio, aim, ratio >= LEAST))
            result[kind] = {"blocks": ours, "plain": peer, "ratio": ratio, "runs": every}
    print(machine, end="\n\n")
    print_table(lines)
    if not options.quick and rows == parser.get_default("rows"):
        keep("blocks", result)


if __name__ == "__main__":
    main()
