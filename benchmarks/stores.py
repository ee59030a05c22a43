"""How long a store of 3,000 rows of 20 keys takes to read, next to its own package where that reads rows.

    python benchmarks/stores.py [--rows N] [--repeats N] [--keep]

Stores are written by `tests/helpers/stores.py`. Peers: TensorBoard's EventAccumulator, set to keep every point, and
Trackio's own storage; W&B offers nothing that reads a file on disk, and MLflow's client wants its server's
whole schema.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.stores.records import masked_crc32c
from benchmarks.common import Line, keep, print_table, say
from tests.helpers import stores

KEYS = ("train/reward", "train/entropy", "train/kl", "train/loss", *(f"train/extra_{i}/mean" for i in range(16)))
AIM = 1.0
"""Seconds that a store of 3,000 rows may take."""
Peer = Callable[[Path], int]


def events(path: Path) -> int:
    """Points of one key by TensorBoard's own reader."""
    module = import_module("tensorboard.backend.event_processing.event_accumulator")
    found = module.EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
    return min(len(found.Scalars(key)) for key in KEYS)


def project(path: Path) -> int:
    """Rows of a run by Trackio's own storage."""
    os.environ["TRACKIO_DIR"] = str(path.parent)
    storage = import_module("trackio.sqlite_storage").SQLiteStorage
    return len(storage.get_logs(path.stem, "run"))


PEERS: dict[str, Peer] = {"tensorboard": events, "trackio": project}


def seconds(read: Callable[[], int], rows: int, repeats: int) -> float:
    """Median time of a reading that finds every row."""
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        found = read()
        taken.append(time.perf_counter() - begin)
        if found != rows:
            raise RuntimeError(f"expected {rows} rows, found {found}")
    return statistics.median(taken)


def measure(rows: int, repeats: int) -> list[Line]:
    """A line for every store."""
    rng = np.random.default_rng(0)
    content = [(s, dict(zip(KEYS, rng.random(len(KEYS)).tolist(), strict=True))) for s in range(1, rows + 1)]
    # Written bit by bit, checksums alone would take minutes; the tests compare those of the reader with them.
    stores.crc32c = masked_crc32c
    lines = []
    for store, write in stores.WRITERS.items():
        with TemporaryDirectory() as folder:
            path = write(Path(folder), content, {"num_generations": 8}, "run")
            ours = seconds(lambda path=path: len(read_log(path).step), rows, repeats)
            peer, note = None, ""
            if store in PEERS:
                try:
                    peer = seconds(lambda path=path, store=store: PEERS[store](path), rows, repeats)
                except ImportError as error:
                    note = f"{error.name} is not installed"
            ratio = peer / ours if peer else None
            lines.append(Line("stores", store, "s", ours, peer, ratio, f"≤ {AIM:g} s", ours <= AIM, note))
            say(f"{store}: {ours:.3f} s")
    return lines


def main() -> None:
    """Measures, prints and, on request, keeps the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    lines = measure(options.rows, options.repeats)
    print_table(lines)
    if options.keep:
        result = {x.what: {"seconds": x.ours, "peer_seconds": x.peer} for x in lines}
        keep("stores", {"rows": options.rows, "keys": len(KEYS), "aim": AIM, "stores": result})


if __name__ == "__main__":
    main()
