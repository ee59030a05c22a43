"""Long logs: one read of a million rows in every text format, and whole commands on 1,000 to 100,000 rows.

Every read and every command is a process of its own; the commands begin with an empty cache of compiled programs.

`python -m benchmarks.speed.long_logs --keep`; `--rows 10000 --lengths 1000` for a try.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import keep, run_process, say, simulated, write_log

COMMANDS = ("diagnose", "fit", "forecast")
_READ = """
import json, resource, sys, time
from bayes_grpo.logs import read_log
begun = time.process_time()
run = read_log(sys.argv[1], format=sys.argv[2])
seconds = time.process_time() - begun
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({"rows": len(run.step), "seconds": round(seconds, 2), "memory, MB": round(most)}))
"""
LINES = {
    "jsonl": lambda s, r: f'{{"step": {s}, "reward": {r}, "loss": 0.01, "kl": 0.02, "entropy": 0.9, "lr": 1e-06}}\n',
    "csv": lambda s, r: f"{s},{r},0.01,0.02,0.9,1e-06\n",
    "console_dict": lambda s, r: f"{{'loss': 0.01, 'reward': {r}, 'kl': 0.02, 'entropy': 0.9, 'step': {s}}}\n",
    "console_pairs": lambda s, r: f"step {s}/1000000 | reward={r} | loss=0.01 | kl=0.02 | entropy=0.9\n",
    "verl_console": lambda s, r: f"step:{s} - critic/score/mean:{r} - actor/kl_loss:0.02 - actor/entropy:0.9\n",
    "trl_trainer_state": lambda s, r: (
        f'{", " if s > 1 else ""}{{"step": {s}, "reward": {r}, "kl": 0.02, "loss": 0.01}}'
    ),
}
_AROUND = {
    "csv": ("step,reward,loss,kl,entropy,lr\n", ""),
    "trl_trainer_state": ('{"log_history": [', '], "max_steps": 1000000}'),
}


def read_times(folder: Path, rows: int) -> dict[str, Any]:
    """Seconds and memory of one read in every format."""
    path, found = folder / "log.txt", {}
    for name, line in LINES.items():
        before, after = _AROUND.get(name, ("", ""))
        with path.open("w") as file:
            file.write(before)
            file.writelines(line(s, 0.2 + (s * 7919 % 1000) / 2500) for s in range(1, rows + 1))
            file.write(after)
        words = [sys.executable, "-c", _READ, str(path), name]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found[name] = json.loads(done.stdout) | {"file, MB": round(path.stat().st_size / 1e6, 1)}
        say(f"{name}: {found[name]}")
    return found


def command_times(folder: Path, lengths: list[int]) -> dict[str, Any]:
    """Seconds and memory of whole commands on rising rewards with a falling learning rate, by rows."""
    found: dict[str, Any] = {}
    for rows in lengths:
        rate = 1.0 - np.arange(rows) / (1.25 * rows)
        log = write_log(folder / f"log{rows}.json", simulated(rows, 0, rows / 8), rate, round(1.25 * rows))
        for name in COMMANDS:
            program = [sys.executable, "-m", "bayes_grpo", name, str(log), "--json"]
            cache = {"BAYES_GRPO_CACHE": str(folder / f"cache-{name}-{rows}")}
            for kind in ("empty", "warm"):
                done = run_process(program, cache, accept=(0, 4, 5))
                numbers = {"seconds": round(done.wall, 2), "memory, MB": round(done.peak)}
                found.setdefault(name, {}).setdefault(str(rows), {})[kind] = numbers
            say(f"{name}, {rows} rows: {found[name][str(rows)]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        formats = read_times(Path(folder), given.rows)
        commands = command_times(Path(folder), given.lengths)
    worst = {what: max(r[what] for r in formats.values()) for what in ("seconds", "memory, MB")}
    result = {"formats": formats, "slowest": worst["seconds"], "most memory": worst["memory, MB"], "commands": commands}
    print(json.dumps(result, indent=1))
    if given.keep:
        keep("long_logs", result)


if __name__ == "__main__":
    main()
