"""Section of `speed.py` that measures whole processes from outside."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.common import Finished, Line, run_process, say, simulated, write_log

FOLDER = Path(__file__).parent
ROWS = 400


def process(quick: bool) -> list[Line]:
    """Whole processes beside a plain script."""
    taken: dict[str, list[Finished]] = {"first": [], "warm": [], "plain": [], "plain, cache": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = write_log(folder / "trainer_state.json", simulated(ROWS, 1, ROWS / 5.0))
        script = [sys.executable, str(FOLDER / "plain_script.py"), str(log)]
        own = {"JAX_COMPILATION_CACHE_DIR": str(folder / "own"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        # Not timed: both sides leave their bytecode behind.
        run_process(script, None if quick else own)
        _fit_process(log, {"BAYES_GRPO_CACHE": str(folder / "bytecode")})
        for turn in range(2 if quick else 5):
            say(f"process: turn {turn + 1}")
            cache = {"BAYES_GRPO_CACHE": str(folder / f"cache-{turn}")}
            taken["first"].append(_fit_process(log, cache))
            taken["plain"].append(run_process(script))
            taken["warm"].append(_fit_process(log, cache))
            if not quick:
                taken["plain, cache"].append(run_process(script, own))

    def median(name: str, what: str) -> float:
        return statistics.median(getattr(x, what) for x in taken[name])

    lines = []
    for name, limit, peer in (("first", 0.6, "plain"), ("warm", 0.35, "plain"), ("warm", None, "plain, cache")):
        if not taken[peer]:
            continue
        mine, theirs = median(name, "wall"), median(peer, "wall")
        cpu = f"CPU seconds {median(name, 'cpu'):.1f} and {median(peer, 'cpu'):.1f}"
        cpu += "; our fit did not converge" if any(x.code for x in taken[name]) else ""
        lines.append(
            Line(
                "process",
                "fit of 400 rows, constant rate, " + ("empty cache" if name == "first" else "warm cache"),
                "s",
                mine,
                theirs,
                mine / theirs,
                "" if limit is None else f"≤ {limit}",
                None if limit is None else mine / theirs <= limit,
                f"peer: plain script{'' if peer == 'plain' else ' with a warm cache of its own'}; {cpu}",
            )
        )
    return lines


def _fit_process(log: Path, environment: dict[str, str]) -> Finished:
    """One `bayes-grpo fit`; not converged (exit code 4) is a result too."""
    command = [str(Path(sys.executable).with_name("bayes-grpo")), "fit", str(log), "--json"]
    return run_process(command, environment, accept=(0, 4))
