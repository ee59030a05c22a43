"""What benchmarks share: stored results, synthetic logs, measured processes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm

from bayes_grpo.common.files import atomic_write
from bayes_grpo.common.results import json_safe

KEPT_PACKAGES = ("bayes-grpo", "jax", "numpyro", "arviz")
RESULTS = Path(__file__).with_name("results")
"""Where a checkout keeps the last result of every program; the documentation's numbers come from here."""


def processor() -> str:
    """Model of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [x.split(":", 1)[1].strip() for x in info.read_text().splitlines() if x.startswith("model name")]
        if models:
            return models[0]
    return platform.processor() or platform.machine()


def keep(name: str, result: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Keeps the result of a whole program with what it rests on: machine, versions, date and command line.

    A part of it (some logs, fewer repeats) is not to be kept: it would stand in the place of the whole.

    Args:
        name: Name of the result, as the documentation's claims call it.
        result: Numbers, by words; the documentation's claims name them by these words joined by dots.
        folder: Where to.

    Returns:
        The file.
    """
    _, _, program = Path(sys.argv[0]).as_posix().rpartition("benchmarks/")
    called = "benchmarks." + program.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
    # Folders differ from machine to machine and say nothing to others.
    words = [Path(x).name if os.sep in x else x for x in sys.argv[1:]]
    content = {
        "name": name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": " ".join(["python", "-m", called, *words]),
        "machine": {"cpu": processor(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **{x: version(x) for x in KEPT_PACKAGES}},
        "result": json_safe(dict(result)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def device() -> str:
    """Processor and what JAX computes on."""
    import jax

    devices = ", ".join(sorted({d.device_kind for d in jax.devices()}))
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return f"{jax.default_backend()} ({devices}); {processor()}, {os.cpu_count()} cores; load {load} at the start"


def simulated(
    rows: int, seed: int, response: float, zeta: float = 2.0, noise: float = 0.04, fluctuation: float = 0.02
) -> np.ndarray:
    """Rewards of a noisy damped oscillator from 0.2 at rest towards 0.7, one row a step.

    Args:
        rows: Number of rows.
        seed: Seed.
        response: Response time in steps.
        zeta: Damping ratio, positive.
        noise: Measurement sd of a row.
        fluctuation: Stationary sd of the latent reward.

    Returns:
        Shape (rows,).
    """
    rng = np.random.default_rng(seed)
    omega = np.sqrt(1.0 + 4.0 * zeta**2) / response
    F = expm(np.array([[0.0, 1.0], [-(omega**2), -2.0 * zeta * omega]]))
    stationary = fluctuation**2 * np.diag([1.0, omega**2])
    kicks = rng.multivariate_normal(np.zeros(2), stationary - F @ stationary @ F.T, size=rows)
    state, out = np.array([0.2 - 0.7, 0.0]), np.empty(rows)
    for i in range(rows):
        state = F @ state + kicks[i]
        out[i] = 0.7 + state[0]
    return out + noise * rng.standard_normal(rows)


def write_log(path: Path, rewards: np.ndarray, rate: np.ndarray | float = 1.0, total: int | None = None) -> Path:
    """Writes rewards as a TRL `trainer_state.json`; ``rate`` is the learning rate in units of 1e-6.

    ``total`` is the planned length in steps; the run has ended with its last row if None.
    """
    n = len(rewards)
    history = [
        {"loss": 0.0, "reward": float(r), "learning_rate": 1e-6 * float(x), "epoch": (i + 1) / n, "step": i + 1}
        for i, (r, x) in enumerate(zip(rewards, np.broadcast_to(rate, n), strict=True))
    ]
    content = {"log_history": history, "global_step": n, "max_steps": total or n, "logging_steps": 1}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def repeated(about: str | None, repeats: int, measured: Callable[[int], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
    """Command line of a benchmark that repeats a simulation: its printed result, and whether to keep it.

    Args:
        about: What the benchmark does, for its help.
        repeats: Default of ``--repeats``.
        measured: Returns the result of so many repeats.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--keep", action="store_true", help="keep the result")
    options = parser.parse_args()
    begun = time.process_time()
    result = measured(options.repeats)
    result["cpu_seconds"] = time.process_time() - begun
    print(json.dumps(result, indent=1, default=float))
    return result, options.keep


def mean_coverage(parts: Iterable[Mapping[str, Any]]) -> float:
    """Mean of all coverages in some results, each with its own under "coverage", by name."""
    return float(np.mean([x for part in parts for x in part["coverage"].values()]))


def smallest_ess(draws: Mapping[str, np.ndarray]) -> float:
    """Smallest bulk ESS over parameters, each of shape (chains, draws)."""
    from arviz_stats.base.array import array_stats

    found: list[Any] = [array_stats.ess(np.asarray(x), method="bulk") for x in draws.values()]
    return min(float(x) for x in found)


@dataclass(frozen=True)
class Finished:
    """A process that ended: wall and CPU seconds, peak resident memory in MB, exit code, standard output."""

    wall: float
    cpu: float
    peak: float
    code: int
    output: str


# A process inherits the peak memory of the one it is forked from, so a bare interpreter starts and measures it.
_MEASURE = """
import json, os, subprocess, sys, time
with open(sys.argv[1], "wb") as out, open(sys.argv[2], "wb") as err:
    begin = time.perf_counter()
    child = subprocess.Popen(sys.argv[3:], stdout=out, stderr=err)
    _, status, use = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begin
peak = use.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
print(json.dumps([wall, use.ru_utime + use.ru_stime, peak, os.waitstatus_to_exitcode(status)]))
"""


def run_process(
    command: Sequence[str], environment: Mapping[str, str] | None = None, accept: Sequence[int] = (0,)
) -> Finished:
    """Runs a command to its end and measures it from outside.

    Python's bytecode is kept between the processes, as it is wherever a program is installed and has run once; where
    it may not be kept (``PYTHONDONTWRITEBYTECODE``) every process would compile its packages anew, 2 s of each fit.

    Args:
        command: Program and arguments.
        environment: Variables on top of this process's, less JAX's own compilation cache.
        accept: Exit codes that are no failure.

    Raises:
        RuntimeError: The command failed; the message ends with its standard error.
    """
    left_out = ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
    inherited = {k: v for k, v in os.environ.items() if k not in left_out}
    inherited.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir(), "bayes_grpo-bytecode")))
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        measured = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _MEASURE, str(out), str(err), *command],
            env=inherited | dict(environment or {}),
            stdout=subprocess.PIPE,
            check=True,
        )
        wall, cpu, peak, code = json.loads(measured.stdout)
        if code not in accept:
            tail = err.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(command)} ended with exit code {code}:\n{tail}")
        return Finished(wall, cpu, peak, code, out.read_text(errors="replace"))


def draw_rows(space: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Latent reward and logged row of every row of a state space, step by step with joint noise of state and row.

    Args:
        space: Dense state space, NumPy arrays.
        rng: Randomness.

    Returns:
        Both of shape (rows,).
    """
    state, n, rows = space.initial_mean, len(space.initial_mean), len(space.measurement_var)
    latent, y = np.zeros(rows), np.zeros(rows)
    for i in range(rows):
        joint = np.zeros((n + 1, n + 1))
        joint[:n, :n], joint[n, n] = space.noise_cov[i], space.observation_var[i]
        joint[:n, n] = joint[n, :n] = space.cross_cov[i]
        values, vectors = np.linalg.eigh(joint)
        noise = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(n + 1))
        latent[i] = space.observation[i] @ state + space.offset[i] + noise[n]
        y[i] = latent[i] + np.sqrt(space.measurement_var[i]) * rng.standard_normal()
        state = space.transition[i] @ state + noise[:n]
    return latent, y


def side_by_side(work: Callable[..., Any], *arguments: Iterable[Any], jobs: int = 2) -> Iterator[Any]:
    """Results of a function of each of the arguments, in their order, by processes of their own if more than one."""
    if jobs == 1:
        yield from map(work, *arguments)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, *arguments)


def bisected(above: Callable[[np.ndarray], np.ndarray], low: ArrayLike, high: ArrayLike, rounds: int) -> np.ndarray:
    """Boundary of ``above`` between two positive bounds, many cases at once, by halving the ratio."""
    low, high = np.log(np.asarray(low, float)), np.log(np.asarray(high, float))
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        is_above = above(np.exp(middle))
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return np.exp(0.5 * (low + high))
