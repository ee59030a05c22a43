"""Interrupts at random times over all long commands: `python -m benchmarks.runs.interrupts --trials 200 --keep`.

Each trial begins a command in a session of its own, with a folder of its own for what it writes and one for temporary
files, and sends SIGINT or SIGTERM at a random time. Counted are exit codes, seconds until the process has ended,
processes of the session that are left, files that are left half-written, and words on standard error beside one line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import keep, say, simulated, write_log

SEED = 20_261_124
LATEST = 9.0
"""Seconds after its start until a command is interrupted, at most."""
EARLIEST = 0.4
"""By then the program's own code runs, also on a busy machine; before that it is Python that answers Ctrl-C."""
SOON = 1.0
COMMANDS = {
    "fit": ("fit", "{log}", "--num-samples", "20000", "--out", "{out}/fit.nc", "--plot", "{out}/fit.png"),
    "compare": ("compare", "{log}", "--plot", "{out}/compare.png", "--json"),
    "forecast": ("forecast", "{log}", "--horizon", "400", "--plot", "{out}/forecast.png"),
    "backtest": ("forecast", "--backtest", "{log}", "{other}"),
    "diagnose": ("diagnose", "{log}", "--plot", "{out}/diagnose.png"),
    "report": ("report", "{log}", "--horizon", "400", "--out", "{out}/page.html"),
    "plan": ("plan", "{log}", "--learning-rate", "0.05"),
    "batch": ("batch", "{folder}", "--jobs", "2", "--out", "{out}/batch.csv"),
    "compare-runs": ("compare-runs", "--a", "{log}", "--b", "{other}"),
    "simulate": ("simulate", "healthy", "--out", "{out}/runs"),
    "watch": ("watch", "{log}", "--interval", "0.2", "--state", "{out}/state.json"),
    "demo": ("simulate", "--demo", "--out", "{out}/demo"),
}


class Trial(NamedTuple):
    """One interrupt: what was interrupted, when, and what became of it."""

    command: str
    signal: str
    after: float
    code: int
    seconds: float
    children: int
    halves: tuple[str, ...]
    said: str
    done_before: bool


def trial(words: tuple[str, ...], name: str, number: int, folder: Path) -> Trial:
    """Begins a command, interrupts it, and looks at what is left."""
    rng = random.Random(SEED + number)
    kind = signal.SIGINT if number % 2 else signal.SIGTERM
    after = rng.uniform(EARLIEST, LATEST)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        out, temporary = Path(place, "out"), Path(place, "tmp")
        out.mkdir()
        temporary.mkdir()
        told = Path(place, "stderr")
        filled = [w.format(out=out, log=folder / "a.jsonl", other=folder / "b.jsonl", folder=folder) for w in words]
        with told.open("wb") as err:
            child = subprocess.Popen(
                [sys.executable, "-m", "bayes_grpo", *filled],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                env=os.environ | {"TMPDIR": str(temporary), "JAX_PLATFORMS": "cpu"},
                start_new_session=True,
            )
        try:
            child.wait(after)
            done = True
        except subprocess.TimeoutExpired:
            done = False
        begun = time.monotonic()
        child.send_signal(kind)
        try:
            child.wait(30.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        seconds = time.monotonic() - begun
        left = 0
        for _ in range(20):  # workers that were killed are gone in a moment
            if not (left := sum(1 for _ in session(child.pid))):
                break
            time.sleep(0.05)
        for pid in session(child.pid):
            os.kill(pid, signal.SIGKILL)
        halves = tuple(sorted(str(p.relative_to(place)) for p in (*temporary.iterdir(), *half_written(out))))
        said = told.read_text(errors="replace")
    return Trial(name, kind.name, after, child.returncode, seconds, left, halves, said, done)


def session(leader: int) -> Iterator[int]:
    """Processes of a session that are alive."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                yield int(entry.name)


def half_written(out: Path) -> Iterator[Path]:
    """What is no whole result: hidden files, and JSON that does not end."""
    for path in out.rglob("*"):
        if path.name.startswith("."):
            yield path
        elif path.suffix == ".json":
            try:
                json.loads(path.read_text())
            except ValueError:
                yield path


def good(t: Trial) -> bool:
    """Whether a trial ended as it should."""
    code = 128 + signal.Signals[t.signal]
    lines = t.said.strip().splitlines()
    return (
        (t.code == code or t.done_before) and t.seconds <= SOON and not t.children and not t.halves and len(lines) <= 2
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--only", help="One command.")
    parser.add_argument("--beside", type=int, default=2, help="Trials at a time.")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else commands begun by a job in the background ignore it
    names = [given.only] if given.only else list(COMMANDS)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, seed in (("a.jsonl", 1), ("b.jsonl", 2)):
            write_log(folder / name, simulated(60, seed, 20.0), total=400)
        trials: list[Trial] = []

        def one(number: int) -> Trial:
            name = names[number % len(names)]
            return trial(COMMANDS[name], name, number, folder)

        with ThreadPoolExecutor(given.beside) as pool:
            for t in pool.map(one, range(given.trials)):
                trials.append(t)
                if not good(t):
                    say(f"{t._replace(said=t.said[-600:])}")
                if t.done_before and t.code:
                    say(f"{t.command} ended by itself with {t.code}: {t.said[-300:]}")
    hit = [t for t in trials if not t.done_before]
    table: dict[str, Any] = {
        name: {
            "interrupted": len(mine := [t for t in hit if t.command == name]),
            "ended before": sum(t.done_before for t in trials if t.command == name),
            "slowest, s": round(max((t.seconds for t in mine), default=0.0), 2),
            "good": sum(map(good, mine)),
        }
        for name in names
    }
    result = {
        "seed": SEED,
        "trials": len(trials),
        "interrupted": len(hit),
        "good": sum(map(good, hit)),
        "exit codes": dict(Counter(f"{t.signal} {t.code}" for t in hit)),
        "median seconds": round(float(np.median([t.seconds for t in hit])), 3),
        "slowest seconds": round(max(t.seconds for t in hit), 2),
        "within a second": sum(t.seconds <= SOON for t in hit),
        "children left": sum(t.children for t in hit),
        "files left": sum(len(t.halves) for t in hit),
        "load": [round(x, 1) for x in os.getloadavg()],
        "commands": table,
    }
    print(json.dumps(result, indent=1))
    if given.keep:
        keep("interrupts", result)


if __name__ == "__main__":
    main()
