"""How long people wait: whole commands on real logs, with an empty and a warm cache, and the first lines on a terminal.

    python -m benchmarks.speed.waiting LOG... [--turns N] [--before CHECKOUT] [--keep]

Every turn runs all commands once, those of an earlier checkout beside them, and the plain NumPyro script on the same
rewards; shown is the fastest turn. Processor seconds stand beside the clock's, because other work on the machine adds
to the clock alone.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import read_log
from benchmarks.common import Finished, device, keep, run_process, say, write_log

PEER = Path(__file__).parent / "peers" / "plain_script.py"
BARS = {"inspect": 1.0, "diagnose": 1.5, "fit": 5.0, "forecast": 4.5, "report": 14.0}
"""Seconds on two quiet cores with a warm cache, 400 rows."""
FIRST = 0.4
"""The same until the first line stands on a terminal."""


def command(name: str, log: Path, folder: Path, cache: Path, checkout: Path | None = None) -> Finished:
    """One command to its end; a fit that did not converge and a failing run are results too."""
    program = [sys.executable, "-P", "-m", "bayes_grpo", name, str(log), "--json"]  # -P: the checkout, not this folder
    program += ["--out", str(folder / "page.html")] if name == "report" else []
    environment = {"BAYES_GRPO_CACHE": str(cache)} | ({"PYTHONPATH": str(checkout)} if checkout else {})
    return run_process(program, environment, accept=(0, 4, 5))


def first_line(log: Path, cache: Path) -> float:
    """Seconds until `fit` has written a line of progress, of letters, on a terminal."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "JAX_COMPILATION_CACHE_DIR")
    environment = {k: v for k, v in os.environ.items() if k not in left_out}
    environment |= {"BAYES_GRPO_CACHE": str(cache), "TERM": "xterm", "COLUMNS": "200"}
    environment.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir(), "bayes_grpo-bytecode")))
    found, shown = float("nan"), ""
    begin = time.perf_counter()
    terminal, end = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "bayes_grpo", "fit", str(log)], stdin=end, stdout=end, stderr=end, env=environment
    )
    os.close(end)
    try:
        while part := os.read(terminal, 65536):
            shown += part.decode(errors="replace")
            if found != found and re.search("[a-z]{4}", shown):
                found = time.perf_counter() - begin
    except OSError:  # the terminal's other end is closed
        pass
    child.wait()
    os.close(terminal)
    return found


def fastest(taken: list[Finished]) -> dict[str, float]:
    """The least wall and processor seconds of some turns."""
    return {"seconds": min(x.wall for x in taken), "processor_seconds": min(x.cpu for x in taken)}


def waited(log: Path, turns: int, before: Path | None) -> dict[str, Any]:
    """All times of one log."""
    run = read_log(log)
    rewards = np.asarray(run.reward, float)
    taken: dict[str, list[Finished]] = {}
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = write_log(folder / "plain.json", rewards[np.isfinite(rewards)])
        for turn in range(-1, turns):  # the first one fills the caches
            kind = "warm" if turn >= 0 else "empty"
            for what in BARS:
                say(f"{run.name}: {what}, {kind}")
                taken.setdefault(f"{kind} {what}", []).append(command(what, log, folder, folder / "cache"))
                if before is not None and turn >= 0:
                    earlier = command(what, log, folder, folder / "cache", before)
                    taken.setdefault(f"before {what}", []).append(earlier)
            if turn >= 0:
                lines.append(first_line(log, folder / "cache"))
                taken.setdefault("plain", []).append(run_process([sys.executable, str(PEER), str(plain)]))
    plain_time = fastest(taken.pop("plain"))
    out: dict[str, Any] = {"rows": len(rewards), "plain script": plain_time}
    out["first line"] = min(lines)
    for name, times in taken.items():
        kind, _, what = name.partition(" ")
        out.setdefault(kind, {})[what] = found = fastest(times)
        found["over the plain script"] = found["processor_seconds"] / plain_time["processor_seconds"]
    return out


def main() -> None:
    """Runs the benchmark and prints its numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--turns", type=int, default=2, help="turns with a warm cache")
    parser.add_argument("--before", type=Path, help="a checkout whose commands are timed beside, warm")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    say(device())
    result: dict[str, Any] = {"bars": BARS | {"first line": FIRST}, "load_before": os.getloadavg()[0]}
    result["logs"] = {log.stem: waited(log, options.turns, options.before) for log in options.logs}
    result["load_after"] = os.getloadavg()[0]
    for name, found in result["logs"].items():
        print(name, found["rows"], "rows; plain script", {k: round(v, 1) for k, v in found["plain script"].items()})
        print(f"  first line after {found['first line']:.1f} s")
        for kind in ("empty", "warm", "before"):
            for what, x in found.get(kind, {}).items():
                print(f"  {kind} {what}: {x['seconds']:.1f} s, processor {x['processor_seconds']:.1f} s")
    if options.keep:
        print(keep("waiting", result))


if __name__ == "__main__":
    main()
