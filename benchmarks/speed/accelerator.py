"""What an accelerator brings, against the CPU of the same machine in the same run.

    python -m benchmarks.speed.accelerator [--quick] [--backends cuda cpu] [--no-keep]

filter    Value and gradient of the log density of a log of 400, 4,000 and 40,000 rows, by the sequential filter and by
          the associative scan, one evaluation and 64 at once (the latter to 4,000 rows); float64, compiled.
fit       `bayes_grpo.fit` of a log of 400 rows with 4 and 1,000 chains, compiled beforehand.
batch     64 runs of 200 rows as one NumPyro model that pools their relaxation times: NUTS, 4 vectorized chains, once
          with its compilation.

Each backend is a process of its own, one after the other: JAX decides once what it computes on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayes_grpo as bg
from bayes_grpo.dynamics import associative, kalman
from benchmarks.common import RESULTS, device, keep, say, simulated, smallest_ess, write_log

ROWS = (400, 4_000, 40_000)
CHAINS = {4: 1_000, 1_000: 200}
"""Number of chains → draws of each: fewer draws leave too few effective ones a chain for R-hat."""
MANY, LOGS, LOG_ROWS = 64, 64, 200
FILTERS = {"sequential": kalman.sequential_log_likelihood, "associative": associative.log_likelihood}
LEVEL = (0.2, 0.1)
"""Prior mean and standard deviation of the initial reward, which the filter integrates out."""
REGIME = "exponential"


def run_of(rows: int, seed: int) -> bg.Run:
    """A simulated log as the package reads it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"run{seed}", "trainer_state.json")
        path.parent.mkdir()
        return bg.read_log(write_log(path, simulated(rows, seed, response=rows / 5.0)))


def seconds_of(call: Callable[[], Any], repeats: int) -> float:
    """Median seconds of a call, after one that compiles."""
    call()
    times: list[float] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


Found = dict[str, Any]


def density_at(density: Callable[..., Any], rows: Any, logs: Any) -> Any:
    """Log density of rows where two parameters are moved by these logarithms; the levels are integrated out."""
    regime, slow, noise = bg.get_regime(REGIME), len(rows.y) / 5.0 * jnp.exp(logs[0]), 0.04 * jnp.exp(logs[1])
    values = {"relaxation_time": slow, "observation_sd": noise, "fluctuation_sd": jnp.asarray(0.02)}
    levels = {
        "fixed_point": (jnp.asarray(0.7), jnp.asarray(LEVEL[1])),
        "initial_reward": tuple(map(jnp.asarray, LEVEL)),
    }
    return density(regime.on_rows(values, levels, rows), rows.y)


def filters(quick: bool, found: Found) -> Iterator[None]:
    """Milliseconds of value and gradient by rows, filter and number of evaluations at once."""
    for n in ROWS[:2] if quick else ROWS:
        say(f"filter: {n} rows")
        rows = bg.rows_of(run_of(n, 1), max_rows=n)
        data = jax.device_put(bg.padded(rows, n))
        found[str(n)] = {}
        for name, density in FILTERS.items():
            value = partial(density_at, density, data)
            one = jax.jit(jax.value_and_grad(value))
            start = jnp.zeros(2)
            once = seconds_of(lambda f=one, z=start: jax.block_until_ready(f(z)), 5)
            found[str(n)][name] = {"value": float(one(start)[0]), "one_ms": 1e3 * once}
            if n <= 4_000:
                many, starts = jax.jit(jax.vmap(jax.value_and_grad(value))), jnp.zeros((MANY, 2))
                batch = seconds_of(lambda f=many, z=starts: jax.block_until_ready(f(z)), 5)
                found[str(n)][name]["many_ms"] = 1e3 * batch
        yield


def fits(quick: bool, found: Found) -> Iterator[None]:
    """Seconds of a fit, its smallest bulk ESS and ESS a second, by the number of chains."""
    run = run_of(400, 1)
    for chains, each in list(CHAINS.items())[: 1 if quick else None]:
        say(f"fit: {chains} chains")
        settings = bg.SamplerSettings(num_chains=chains, num_samples=each)
        made: list[Any] = []
        took = seconds_of(lambda s=settings, made=made: made.append(bg.fit(run, REGIME, sampler=s)), 1)
        posterior = made[-1].posterior
        draws = {p: posterior[p].to_numpy() for p in ("relaxation_time", "observation_sd", "fluctuation_sd")}
        ess = smallest_ess(draws)
        found[str(chains)] = {
            "draws": chains * each,
            "seconds": took,
            "ess": ess,
            "ess_per_second": ess / took,
            "passed": made[-1].convergence.passed,
            "relaxation_time": [float(x) for x in np.quantile(draws["relaxation_time"], [0.05, 0.5, 0.95])],
        }
        yield


def pooled(rows: Any, logs: int) -> None:
    """Relaxation times of many logs from one population; every other parameter is a log's own."""
    location = numpyro.sample("location", dist.Normal(np.log(40.0), 1.0))
    spread = numpyro.sample("spread", dist.HalfNormal(0.5))
    with numpyro.plate("logs", logs):
        own = numpyro.sample("own", dist.Normal(0.0, 1.0))
        noise = numpyro.sample("observation_sd", dist.LogNormal(np.log(0.04), 0.5))
        fluctuation = numpyro.sample("fluctuation_sd", dist.LogNormal(np.log(0.02), 0.5))
        values = {"relaxation_time": jnp.exp(location + spread * own), "observation_sd": noise}
        values |= {"fluctuation_sd": fluctuation, "fixed_point": (0.6, 0.3), "initial_reward": LEVEL}
        numpyro.sample("y", bg.get_regime(REGIME).distribution(values, rows), obs=rows.y)


def batch(quick: bool, found: Found) -> Iterator[None]:
    """Seconds of NUTS on many logs with its compilation, smallest bulk ESS, and what it says of the population."""
    from numpyro.infer import MCMC, NUTS

    logs = 8 if quick else LOGS
    say(f"batch: {logs} logs")
    rows = jax.device_put(bg.stacked([run_of(LOG_ROWS, seed) for seed in range(logs)]))
    kernel, each = NUTS(pooled, max_tree_depth=6), 10 if quick else 100
    mcmc = MCMC(kernel, num_warmup=each, num_samples=each, num_chains=4, chain_method="vectorized", progress_bar=False)
    begin = time.perf_counter()
    mcmc.run(jax.random.key(0), rows, logs)
    draws = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
    took = time.perf_counter() - begin
    ess = smallest_ess({"location": np.asarray(draws["location"]), "spread": np.asarray(draws["spread"])})
    middle = [float(x) for x in np.quantile(np.exp(draws["location"]), [0.05, 0.5, 0.95])]
    found |= {"logs": logs, "rows": LOG_ROWS, "seconds": took, "ess": ess, "relaxation_time": middle}
    yield


def measured(quick: bool) -> None:
    """All parts on the backend of this process."""
    numpyro.enable_x64()
    found: Found = {"device": device()}
    for name, part in (("filter", filters), ("fit", fits), ("batch", batch)):
        found[name] = {}
        for _ in part(quick, found[name]):
            print(json.dumps(found), flush=True)  # what is measured is kept where a later part runs out of time


def measured_on(backend: str, quick: bool, limit: float) -> dict[str, Any]:
    """The parts in a process of its own on a backend, as far as they got."""
    command = [sys.executable, "-m", "benchmarks.speed.accelerator", "--here", *(["--quick"] if quick else [])]
    environment = os.environ | {"JAX_PLATFORMS": backend, "BAYES_GRPO_CACHE": ""}
    with tempfile.TemporaryFile("w+") as out:
        try:
            code = subprocess.run(command, env=environment, stdout=out, timeout=limit, check=False).returncode
        except subprocess.TimeoutExpired:
            code = 124
        out.seek(0)
        lines = [line for line in out if line.startswith("{")]
    return (json.loads(lines[-1]) if lines else {}) | {"exit": code}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, chains and logs")
    parser.add_argument("--backends", nargs="+", default=["cuda", "cpu"])
    parser.add_argument("--limit", type=float, nargs="+", default=[320.0, 230.0], help="seconds for each of them")
    parser.add_argument("--no-keep", action="store_true", help="print the result, store nothing")
    parser.add_argument("--folder", default=str(RESULTS), help="where to store the result")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measured(arguments.quick)
        return
    limits = zip(arguments.backends, arguments.limit, strict=False)
    found = {backend: measured_on(backend, arguments.quick, limit) for backend, limit in limits}
    print(json.dumps(found, indent=1))
    if not (arguments.no_keep or arguments.quick):
        keep("accelerator", found, Path(arguments.folder))


if __name__ == "__main__":
    main()
