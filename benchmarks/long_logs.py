"""A log of a million rows in every text format: seconds and memory of one read, each in a process of its own.

`python benchmarks/long_logs.py --keep`; `--rows 10000` for a try.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import keep, say

AIM_SECONDS, AIM_MB = 15.0, 1_000.0
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.txt")
        for name, line in LINES.items():
            before, after = _AROUND.get(name, ("", ""))
            with path.open("w") as file:
                file.write(before)
                file.writelines(line(s, 0.2 + (s * 7919 % 1000) / 2500) for s in range(1, given.rows + 1))
                file.write(after)
            words = [sys.executable, "-c", _READ, str(path), name]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            result[name] = json.loads(done.stdout) | {"file, MB": round(path.stat().st_size / 1e6, 1)}
            say(f"{name}: {result[name]}")
    worst = {what: max(r[what] for r in result.values()) for what in ("seconds", "memory, MB")}
    result = {"formats": result, "slowest": worst["seconds"], "most memory": worst["memory, MB"]}
    print(json.dumps(result, indent=1))
    if given.keep:
        keep("long_logs", result)


if __name__ == "__main__":
    main()
