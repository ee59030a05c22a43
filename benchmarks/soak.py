"""A day of watching in minutes: `python benchmarks/soak.py --keep`, with `--plot FILE` for the curves.

A run of 24 hours, two rows every quarter of an hour, that collapses in its midst. Its log is cut back,
replaced, deleted and written anew; two watchers follow it, one without a break and one that is started again for every
look; the service that is told answers 500, does not answer, redirects to a file and to another host, and sends without
end. All of it on this machine. Counted are findings told to each watcher's service, and memory at every look.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.watching import notify
from bayes_grpo.watching.result import Watching
from bayes_grpo.watching.watch import Patience, watch
from benchmarks.common import keep, say
from benchmarks.watch import resident

TICKS, ROWS = 96, 2
"""Quarters of an hour in a day; rows in each."""
LIMIT = 1.0
"""Seconds that the service has here, instead of half a minute."""
TROUBLES = ("500", "hangs", "file", "host", "endless", "fine")
ENDLESS = 32_000_000
"""Bytes after which a service that sends without end gives up, if nobody else does."""
EVENTS = {
    48: "cut back",
    52: "whole again",
    60: "deleted",
    62: "written anew",
    72: "replaced",
    80: "garbage",
}


class Service(BaseHTTPRequestHandler):
    """A service that is told, and fails in every way before it listens."""

    heard: ClassVar[Counter[tuple[str, str]]] = Counter()
    asked: ClassVar[Counter[str]] = Counter()
    sent = 0

    def do_POST(self) -> None:
        who = self.path.strip("/")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        trouble = TROUBLES[min(Service.asked[who], len(TROUBLES) - 1)]
        Service.asked[who] += 1
        if trouble == "hangs":
            time.sleep(3 * LIMIT)
            return
        if trouble in ("endless", "fine"):  # both answer 200
            Service.heard[who, body["finding"]] += 1
        code = {"500": 500, "file": 302, "host": 307}.get(trouble, 200)
        self.send_response(code)
        if code in (302, 307):
            self.send_header("Location", "file:///etc/hostname" if trouble == "file" else "http://127.0.0.2:9/")
        self.end_headers()
        with suppress(OSError):
            while trouble == "endless" and Service.sent < ENDLESS:
                Service.sent += self.wfile.write(bytes(65_536))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


class Done(Exception):  # noqa: N818  (an end, not an error)
    """The day is over."""


class Day:
    """What happens to the log, and the looks of the second watcher."""

    def __init__(self, log: Path, url: str) -> None:
        self.log, self.url = log, url
        self.tick, self.looks, self.refused = 0, 0, 0
        self.memory: list[float] = []
        self.told: list[int] = []
        rng = np.random.default_rng(3)
        step = np.arange(1.0, TICKS * ROWS + 1.0)
        loss = 0.7 * np.clip((step - 90.0) / 10.0, 0.0, 1.0)
        self.rewards = 0.8 - 0.6 * np.exp(-step / 25.0) - loss + 0.02 * rng.standard_normal(len(step))

    def write(self, last: int) -> None:
        """The log as it stands."""
        rows = range(last)
        self.log.write_text("".join(json.dumps({"step": i + 1, "reward": self.rewards[i]}) + "\n" for i in rows))

    def __call__(self, seconds: float) -> None:
        """A quarter of an hour."""
        self.tick += 1
        if self.tick > TICKS:
            raise Done
        last, event = self.tick * ROWS, EVENTS.get(self.tick, "")
        if event == "deleted" or self.tick == 61:
            self.log.unlink(missing_ok=True)
        elif event == "cut back":
            self.write(last - 6 * ROWS)
        elif event == "replaced":
            whole = self.log
            self.log = whole.with_name("new")
            self.write(last)
            self.log.replace(whole)
            self.log = whole
        else:
            self.write(last)
        if event == "garbage":
            with self.log.open("ab") as file:
                file.write(b"\x00\xff" * 500 + b"{'reward': " + b"[" * 500)
        if self.log.exists():
            looks = watch(
                self.log,
                Watching(forecasts=False),
                patience=Patience(once=True),
                webhook=f"{self.url}/second",
                state=self.log.with_name("second.json"),
            )
            try:
                self.looks += sum(1 for _ in looks)
            except BayesGrpoError:
                self.refused += 1
        self.memory.append(round(resident(), 1))
        self.told.append(sum(Service.heard.values()))
        time.sleep(2 * notify.FIRST_RETRY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    notify.FIRST_RETRY, notify.post.__defaults__ = 0.02, (LIMIT,)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begun, looks = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder, "log.jsonl"), f"http://127.0.0.1:{server.server_port}")
        with suppress(Done):
            for _ in watch(
                day.log,
                Watching(forecasts=False),
                patience=Patience(interval=0.01),
                webhook=f"{day.url}/first",
                state=day.log.with_name("first.json"),
                sleep=day,
            ):
                looks += 1
        left = sorted(p.name for p in Path(folder).iterdir())
    server.shutdown()
    half = len(day.memory) // 2
    result: dict[str, Any] = {
        "simulated hours": TICKS / 4,
        "seconds": round(time.monotonic() - begun),
        "looks of the first": looks,
        "looks of the second": day.looks,
        "refused to the second": day.refused,
        "told": {f"{who}: {what}": n for (who, what), n in sorted(Service.heard.items())},
        "most often told": max(Service.heard.values(), default=0),
        "asked": dict(Service.asked),
        "bytes taken from an endless answer": Service.sent,
        "memory after a quarter, MB": day.memory[TICKS // 4],
        "memory in the middle, MB": day.memory[half],
        "memory at the end, MB": day.memory[-1],
        "threads at the end": threading.active_count(),
        "files": left,
        "load": [round(x, 1) for x in os.getloadavg()],
    }
    print(json.dumps(result, indent=1))
    if given.plot:
        import matplotlib.pyplot as plt

        figure, (upper, lower) = plt.subplots(2, 1, sharex=True)
        hours = np.arange(1, len(day.memory) + 1) / 4
        upper.plot(hours, day.memory)
        upper.set_ylabel("memory, MB")
        lower.step(hours, day.told)
        lower.set(ylabel="findings told", xlabel="simulated hours")
        for tick, event in EVENTS.items():
            lower.axvline(tick / 4, color="0.8")
            lower.text(tick / 4, 0.1, event, rotation=90, fontsize=7)
        figure.savefig(given.plot)
    if given.keep:
        keep("soak", result | {"curves": {"memory, MB": day.memory, "told": day.told}})
    say(f"{looks} looks")


if __name__ == "__main__":
    main()
