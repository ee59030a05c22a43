"""Many logs at once: logs a minute and memory of `bayes-grpo batch`, in processes, and after a kill.

Simulated logs of 60 to 400 rows, half of them with a constant learning rate and half with one that falls to 0 at the
planned end, seen at 60% of their length. All of them are done with ``--jobs`` processes by a call that is killed
half-way (SIGKILL) and called again; every row must come out once. The other ways are timed on a part of the logs, with
``--dask`` also two workers of a Dask cluster on this machine. Memory is sampled from outside, five times a second.

    uv run --extra dask python -m benchmarks.speed.fleet --dask                 # 1,000 logs
    uv run --extra dask python -m benchmarks.speed.fleet --dask --logs 8 --part 4
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import device, keep, say, write_log

LOGS, PART = 1000, 20
SHORTEST, LONGEST, SEEN = 60, 400, 0.6


@dataclass(frozen=True)
class Measured:
    """One call of the command.

    Attributes:
        way: How the work was done.
        logs: Logs that were left to do.
        seconds: Wall time, start of the process included.
        logs_a_minute: Both of them in one number.
        parent_peak: Highest resident memory of the calling process, MB.
        worker_peak: Highest of any other process, MB.
        whole_peak: Highest sum of all of them at one time, MB.
    """

    way: str
    logs: int
    seconds: float
    logs_a_minute: float
    parent_peak: float
    worker_peak: float
    whole_peak: float


def write_logs(folder: Path, n: int, seed: int) -> Path:
    """Writes n logs; their folder."""
    folder.mkdir()
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        rows = int(rng.integers(SHORTEST, LONGEST + 1))
        total = round(rows / SEEN)
        step = np.arange(1, rows + 1)
        rate = np.ones(rows) if i % 2 == 0 else 1.0 - (step - 0.5) / total
        slow = 0.0
        fluctuation = np.empty(rows)
        for k, kick in enumerate(0.01 * rng.standard_normal(rows)):
            slow = 0.9 * slow + kick
            fluctuation[k] = slow
        gain, lasting = rng.uniform(0.0, 0.6), rows * rng.uniform(0.1, 0.8)
        curve = 0.2 + gain * (1.0 - np.exp(-np.cumsum(rate) / lasting))
        reward = curve + fluctuation + 0.04 * rng.standard_normal(rows)
        write_log(folder / f"log{i:04d}.json", reward, rate, total)
    return folder


class Watch:
    """A process and its descendants, looked at until it ends."""

    def __init__(self, process: subprocess.Popen[bytes], others: list[int]) -> None:
        self.process, self.others = process, others
        self.parent = self.worker = self.whole = 0.0

    def until(self, ended: Callable[[], bool]) -> None:
        """Samples memory five times a second until ``ended``."""
        while not ended():
            pids = [pid for root in (self.process.pid, *self.others) for pid in _tree(root)]
            sizes = {pid: _resident(pid) for pid in pids}
            own = sizes.pop(self.process.pid, 0.0)
            self.parent = max(self.parent, own)
            self.worker = max([self.worker, *sizes.values()])
            self.whole = max(self.whole, own + sum(sizes.values()))
            time.sleep(0.2)


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _tree(pid: int) -> list[int]:
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _tree(int(child))
    except OSError:  # it has ended meanwhile
        pass
    return found


def call(
    way: str, logs: list[Path], out: Path, options: list[str], *, do: str, others: list[int], kill: bool
) -> Measured:
    """Runs the command on logs; kills it half-way if asked."""
    journal = out.with_name(f"{out.name}.journal.jsonl")
    names = [str(x) for x in logs]
    todo = len(logs) - _lines(journal)
    rows = len(logs)
    command = [sys.executable, "-m", "bayes_grpo", "batch", *names, "--do", do, "--out", str(out), *options]
    say(f"{way}: {todo} logs")
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    watch = Watch(process, others)
    half = lambda: kill and _lines(journal) >= rows // 2  # noqa: E731
    watch.until(lambda: process.poll() is not None or half())
    if kill and process.poll() is None:
        process.send_signal(signal.SIGKILL)
    code = process.wait()
    seconds = time.perf_counter() - begin
    if code not in (0, -signal.SIGKILL if kill else 0):
        raise RuntimeError(f"{way}: ended with exit code {code}")
    done = todo if not kill else _lines(journal)
    return Measured(way, done, seconds, 60.0 * done / seconds, watch.parent, watch.worker, watch.whole)


def _lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[tuple[str, list[int]]]:
    """Address of a scheduler with workers of one thread each on this machine, and their process numbers."""
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    place = ["--scheduler-file", str(file), "--no-dashboard"]
    share = {"NPROC": "1", "OPENBLAS_NUM_THREADS": "1"}  # as `batch --jobs` gives its processes
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ | share}
    started = [subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", *place], **quiet)]
    try:
        while not file.exists():
            time.sleep(0.2)
        more = ["--nworkers", str(workers), "--nthreads", "1", "--memory-limit", "0"]
        started.append(subprocess.Popen([*dask, "worker", *place, *more, "--local-directory", str(folder)], **quiet))
        yield json.loads(file.read_text())["address"], [x.pid for x in started]
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=LOGS)
    parser.add_argument("--part", type=int, default=PART, help="logs of the ways beside the main one")
    parser.add_argument("--jobs", type=int, default=max(2, os.cpu_count() or 1), help="processes of the main way")
    parser.add_argument("--dask", action="store_true", help="a Dask cluster of this machine too; needs the extra dask")
    parser.add_argument("--do", default="fit,forecast")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(device())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = sorted(write_logs(folder / "logs", options.logs, options.seed).iterdir())
        part = logs[: options.part]
        shared: dict[str, Any] = {"do": options.do, "others": [], "kill": False}
        found = [
            call("first call, empty or old cache", part[:1], folder / "warm.parquet", [], **shared),
            call("1 process", part, folder / "one.parquet", ["--jobs", "1"], **shared),
            call("2 processes", part, folder / "two.parquet", ["--jobs", "2"], **shared),
        ]
        if options.dask:
            with dask_cluster(folder) as (address, others):
                both: dict[str, Any] = shared | {"others": others}
                found.append(call("2 Dask workers", part, folder / "dask.parquet", ["--dask", address], **both))
        out, many = folder / "all.parquet", ["--jobs", str(options.jobs)]
        found.append(call(f"{options.jobs} processes, killed", logs, out, many, **{**shared, "kill": True}))
        before = out.with_name(f"{out.name}.journal.jsonl").read_bytes()
        found.append(call(f"{options.jobs} processes, resumed", logs, out, many, **shared))
        result = checked(folder, len(logs), before)
    result["ways"] = {x.way: asdict(x) for x in found}
    print(pd.DataFrame([asdict(x) for x in found]).to_string(index=False, float_format=lambda x: f"{x:.1f}"))
    print(json.dumps({k: v for k, v in result.items() if k != "ways"}, indent=1))
    if (options.logs, options.part, options.do, options.seed) == (LOGS, PART, "fit,forecast", 0):
        keep("fleet", result)


def checked(folder: Path, rows: int, before: bytes) -> dict[str, Any]:
    """What a kill has cost, and whether every way has the same numbers."""
    journal = (folder / "all.parquet.journal.jsonl").read_bytes()
    lines = [json.loads(x) for x in journal.splitlines() if x.endswith(b"}")]
    names = [name for name in ("one", "two", "dask") if (folder / f"{name}.parquet").exists()]
    tables = {name: pd.read_parquet(folder / f"{name}.parquet").drop(columns="seconds") for name in names}
    whole = pd.read_parquet(folder / "all.parquet")
    part = whole[whole["source"].isin(tables["one"]["source"])].drop(columns="seconds").reset_index(drop=True)
    fits = whole.dropna(subset="converged") if "converged" in whole else whole[:0]
    return {
        "rows": rows,
        "rows_at_the_kill": before.count(b"\n"),
        "rows_lost": rows - len({x["key"] for x in lines}),
        "rows_done_twice": len(lines) - len({x["key"] for x in lines}),
        "kept_at_the_kill": journal.startswith(before[: before.rfind(b"\n") + 1]),
        "errors": sum(map(bool, whole["error"].tolist())),
        "converged": float(np.mean(fits["converged"].tolist())) if len(fits) else None,
        "same_numbers": all(tables["one"].equals(other[tables["one"].columns]) for other in (*tables.values(), part)),
    }


if __name__ == "__main__":
    main()
