"""`watch`: seconds and memory of its looks at a log that grows by one row a time.

    python benchmarks/watch.py [--rows 2000] [--keep]

How often it is wrong is judged by `benchmarks/status/status.py`.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import StoppingCosts
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.watching.result import Watching
from bayes_grpo.watching.watch import update_of
from benchmarks.common import keep, say


def growing(rows: int) -> Run:
    """A log with the signals that a trainer writes, whose reward rises over the first third."""
    rng, step = np.random.default_rng(5), np.arange(1.0, rows + 1.0)

    def about(middle: float, sd: float) -> np.ndarray:
        return middle + sd * rng.standard_normal(rows)

    signals = {"entropy": about(1.0, 0.05), "kl": np.abs(about(0.02, 0.01)), "grad_norm": about(1.0, 0.1)}
    signals |= {"completion_length": about(200.0, 10.0), "reward_std": about(0.3, 0.02)}
    signals |= {"frac_reward_zero_std": np.clip(about(0.3, 0.05), 0.0, 1.0)}
    stated = {"reward_low": 0.0, "reward_high": 1.0}
    return Run(
        name="growing",
        source="growing",
        format="made",
        log_hash="0" * 64,
        step=step,
        reward=0.8 - 0.6 * np.exp(-step / (rows / 6.0)) + 0.05 * rng.standard_normal(rows),
        window=np.ones(rows),
        signals=signals,
        eval_step=np.empty(0),
        eval_reward=np.empty(0),
        settings=Settings(**{k: Setting(v, Provenance.USER) for k, v in stated.items()}),
    )


def resident() -> float:
    """Memory of this process now, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """The second part: looks while a log grows, every so many rows, and row by row from 400 on."""
    run, memory, out = growing(options.rows), None, {}
    watching = Watching(costs=StoppingCosts(cost_per_step=1.0, value_per_reward=1000.0))
    places = sorted({*range(20, options.rows + 1, options.every), *range(400, 411)})
    rows, wall, used, megabytes = [], [], [], []
    for n in places:
        begin = time.process_time()
        update, memory = update_of(run.until(float(n)), watching, memory)
        rows.append(n)
        used.append(time.process_time() - begin)
        wall.append(update.seconds)
        megabytes.append(resident())
        if n % 100 == 0:
            say(f"{n} rows: {wall[-1]:.2f} s, {used[-1]:.2f} s of processors, {megabytes[-1]:.0f} MB")
    place, seconds, busy, size = (np.array(x) for x in (rows, wall, used, megabytes))
    for n, part in ((100, (64, 128)), (400, (400, 410)), (1000, (900, 1024)), (2000, (1900, 2048))):
        inside = (place > part[0]) & (place <= part[1])
        if inside.any():
            out[f"rows_{n}"] = {
                "seconds": float(np.median(seconds[inside])),
                "seconds_most": float(seconds[inside].max()),
                "processor_seconds": float(np.median(busy[inside])),
            }
    later = place > 1100  # the last class of lengths is compiled
    if later.sum() > 10:
        out["megabytes"] = {"at_1100_rows": float(size[later][0]), "at_the_end": float(size[-1])}
        out["megabytes"] |= {"most": float(size.max()), "a_look": float(np.polyfit(place[later], size[later], 1)[0])}
    load = round(os.getloadavg()[0], 1)  # other work on the machine makes seconds longer
    out |= {"looks": len(rows), "rows": options.rows, "slowest": float(seconds.max()), "load": load}
    print(out)
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--every", type=int, default=10, help="a look every so many rows")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    result = speed(options)
    if options.keep:
        keep("watch", result)


if __name__ == "__main__":
    main()
