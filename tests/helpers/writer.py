"""A trainer in a process of its own: appends rows, in pieces, and may be killed.

    python writer.py LOG FIRST LAST [--format jsonl|csv] [--pause SECONDS]

The reward of a row is `reward_at` of its step, so that a reader can tell every row by itself.
"""

import argparse
import json
import os
import time
from pathlib import Path


def reward_at(step: float) -> float:
    """The reward logged at a step; no two steps share one."""
    return round(0.2 + 0.5 * step / (step + 40.0) + 0.0137 * (step % 7), 6)


def line_of(step: int, form: str) -> str:
    """A row as the writer logs it."""
    if form == "csv":
        return f"{step},{reward_at(step)},{1.0 + step / 1000.0}\n"
    return json.dumps({"step": step, "reward": reward_at(step), "entropy": 1.0 + step / 1000.0}) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--format", default="jsonl")
    parser.add_argument("--pause", type=float, default=0.004)
    options = parser.parse_args()

    new = not options.log.exists() or options.log.stat().st_size == 0
    handle = os.open(options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if new and options.format == "csv":
        os.write(handle, b"step,reward,entropy\n")
    for step in range(options.first, options.last + 1):
        data = line_of(step, options.format).encode()
        cut = (step * 7) % len(data)
        os.write(handle, data[:cut])  # half a line, for a moment
        time.sleep(options.pause / 2)
        os.write(handle, data[cut:])
        time.sleep(options.pause / 2)
    os.close(handle)


if __name__ == "__main__":
    main()
