"""Speed beside peers, every number measured in this run, peers and ours taking turns.

    python -m benchmarks.speed [--quick] [--only likelihood|sampling|process] [--json OUT] [--keep]

likelihood  Value and gradient of the log posterior, compiled, float64, arguments on the device. Peer: tinygp's
            quasiseparable SHO kernel with the closed-form mean curve, fixed point and initial reward as explicit
            parameters: the same model without the marginalisation, so its gradient has six components and ours
            four. Once as single calls (with JAX's dispatch) and once inside a compiled loop (as a sampler calls it).
            Rows are one-step windows for us; the peer's times are the windows' middles.
sampling    Smallest bulk ESS over the six parameters per second, 400 rows, 4 chains of 500 draws, compiled beforehand,
            dense mass and target acceptance 0.9 for both, chains spread over threads in the same way
            (`peers/chains.py`). The peers warm up for 500 iterations, in which they find their mass matrix; ours is the
            covariance of weighted points, found before, and its warm-up the default one. Our seconds hold these
            points and the drawing of fixed point and initial reward, with which come smoothing, curves and
            leave-one-out terms of every draw. Peer: tinygp in plain NumPyro.
process     Whole processes: `bayes-grpo fit LOG --json` with an empty cache and again with a warm one, beside
            `peers/plain_script.py`, which has no cache, as users have none by default; the full run shows it with JAX's
            own cache filled too. Defaults of each: ours 4 × (150 + 1,000) from weighted points, the script
            4 × (400 + 1,000).

Before anything is timed the peers' likelihoods are checked against ours (`peers/agreement.py`). Ratios are peer over
ours for times, ours over peer for ESS a second, ours over peer for whole processes, as the aims state them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ["BAYES_GRPO_CACHE"] = ""  # nobody reads compiled programs from a disk, except where that is measured
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share an accelerator

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo import read_log
from bayes_grpo.fitting.draws import start_of
from bayes_grpo.fitting.sampling.adaptive import weighted_points
from bayes_grpo.fitting.sampling.nuts import SamplerSettings, sample_chains
from bayes_grpo.fitting.sampling.target import (
    potential,
    prior_numbers,
    state_space,
    summarize_draws,
    target_of,
    values_of_draws,
)
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from benchmarks.common import (
    Line,
    alternate,
    device,
    keep,
    print_table,
    say,
    simulated,
    smallest_ess,
    versions,
    write_log,
)
from benchmarks.speed.peers import tinygp_model
from benchmarks.speed.peers.agreement import largest_differences
from benchmarks.speed.peers.chains import compiled_sampler
from benchmarks.speed.peers.processes import process

OSCILLATOR = get_regime("oscillator")
ROWS = 400
OPTIONS = {"xla_cpu_prefer_vector_width": 512} if jax.default_backend() == "cpu" else None
"""Compiler options of all programs that are timed, the peers' too: those of `bayes_grpo.common.programs`."""
INNER = 10 if jax.default_backend() == "cpu" else 3
SITES = (
    "response_time",
    "damping_coordinate",
    "observation_sd",
    "fluctuation_sd",
    "fixed_point",
    "initial_reward",
)


def table_of(rows: int, rate: np.ndarray | float = 1.0) -> Series:
    """Rows of a simulated log that starts at rest, windows of one step, as the package reads them.

    The noise is the same for every row, as in the models of the peers.
    """
    with tempfile.TemporaryDirectory() as folder:
        rewards = simulated(rows, 1, response=rows / 5.0)
        table = rows_of(read_log(write_log(Path(folder, "trainer_state.json"), rewards, rate)), max_rows=rows)
    return replace(table, noise=None)


def likelihood(quick: bool) -> list[Line]:
    """Value and gradient beside tinygp's."""
    lines, looped, repeats = [], {}, 30 if quick else 100
    for rows in (200, 1000, 10_000):
        say(f"likelihood: {rows} rows")
        calls = _evaluations(rows)
        looped[rows] = calls["ours", "loop"]
        seconds = alternate(calls, repeats)
        for (name, how), ours in seconds.items():
            if name == "tinygp":
                continue
            peer, first = seconds["tinygp", how], name == "ours"
            aimed = first and rows == 1000
            lines.append(
                Line(
                    "likelihood",
                    f"value and gradient, {rows:,} rows, {'single call' if how == 'call' else 'in a loop'}"
                    + ("" if first else f", {name}"),
                    "ms",
                    1e3 * ours,
                    1e3 * peer,
                    peer / ours,
                    "≥ 5" if aimed else "",
                    peer / ours >= 5 if aimed else None,
                    "peer: tinygp" if first else "peer: tinygp, constant rate",
                )
            )
    side_by_side = alternate({rows: looped[rows] for rows in (1000, 10_000)}, repeats)
    growth = side_by_side[10_000] / side_by_side[1000]
    text = "cost of 10,000 rows over that of 1,000 rows"
    return [*lines, Line("likelihood", text, "×", growth, aim="≤ 12", met=growth <= 12, note="linear: 10")]


def _evaluations(rows: int) -> dict[tuple[str, str], tuple[int, Callable[[], Any]]]:
    """Compiled evaluations of value and gradient by (name, "call" or "loop"), for `alternate`."""
    constant, falling = table_of(rows), table_of(rows, np.linspace(1.0, 0.01, rows))
    prior = jax.device_put(prior_numbers(OSCILLATOR, resolve_priors(OSCILLATOR, constant)))
    plain, scheduled = (jax.device_put(padded(table, rows)) for table in (constant, falling))
    t, y = jnp.asarray(constant.step - 0.5), jnp.asarray(constant.y)
    ours, z4, z6 = partial(potential, OSCILLATOR), jnp.full(4, 0.1), jnp.full(6, 0.1)
    cases = {
        "ours": (ours, z4, (prior, plain)),
        "tinygp": (tinygp_model.potential, z6, (prior, t, y)),
        "falling learning rate": (ours, z4, (prior, scheduled)),
    }
    if find_spec("bayes_grpo.dynamics.associative") is not None:
        associative = import_module("bayes_grpo.dynamics.associative")

        def by_tree(z: Any, prior: Any, rows: Any) -> Any:
            space = state_space(OSCILLATOR, z, prior, rows)
            return 0.5 * jnp.sum(z**2) - associative.log_likelihood(space, rows.y)

        cases["associative scan"] = (by_tree, z4, (prior, plain))
    calls = {}
    for name, (function, z, arguments) in cases.items():
        once = jax.value_and_grad(function)
        for how, program in (("call", once), ("loop", partial(_looped, once))):
            compiled = jax.jit(program).lower(z, *arguments).compile(compiler_options=OPTIONS)
            call = partial(lambda f, *a: jax.block_until_ready(f(*a)), compiled, z, *arguments)
            calls[name, how] = (1 if how == "call" else INNER, call)
    return calls


def _looped(value_and_gradient: Callable[..., Any], z: Any, *arguments: Any) -> Any:
    """`INNER` evaluations, each of which needs the gradient of the one before."""

    def body(_: Any, carry: Any) -> Any:
        value, slope = value_and_gradient(carry[0], *arguments)
        return carry[0] + 1e-12 * slope, value

    return jax.lax.fori_loop(0, INNER, body, (z, jnp.zeros(())))


def sampling(quick: bool) -> list[Line]:
    """Smallest bulk ESS a second beside tinygp."""
    table = table_of(ROWS)
    arguments = (jnp.asarray(table.step - 0.5), jnp.asarray(table.y), float(ROWS))
    return _beside(quick, table, "tinygp", tinygp_model.model, arguments).lines("smallest ESS a second, 400 rows", 8.0)


@dataclass(frozen=True)
class _Rates:
    """Smallest ESS a second of ours and of a peer, with leapfrog steps a draw and the median of R*."""

    ours: float
    alone: float
    peer: float
    steps: float
    median: float
    note: str

    def lines(self, what: str, aim: float) -> list[Line]:
        """Lines of the table: with all that is needed, and NUTS alone."""
        ratio, alone = self.ours / self.peer, self.alone / self.peer
        aimed = f"≥ {aim:g}"
        return [
            Line("sampling", what, "1/s", self.ours, self.peer, ratio, aimed, ratio >= aim, self.note),
            Line("sampling", f"{what}, NUTS alone", "1/s", self.alone, self.peer, alone),
        ]


def _beside(quick: bool, table: Series, name: str, model: Any, arguments: tuple[Any, ...]) -> _Rates:
    """Ours and a peer in turns, both with their own warm-up: ours the default, the peer's 500."""
    say(f"sampling: compiling, {name}")
    length = 500
    peer = compiled_sampler(model, arguments, warmup=length, draws=length, dense_mass=True, target_accept_prob=0.9)
    settings = SamplerSettings(num_samples=length)
    _ours(table, settings, 0)
    rates: dict[str, list[float]] = {"ours": [], "alone": [], "peer": []}
    steps, medians = [0.0, 0.0], [0.0, 0.0]
    for seed in range(1, 4 if quick else 8):
        say(f"sampling: {name}, turn {seed}")
        seconds, nuts, draws, steps[0] = _ours(table, settings, seed)
        ess = smallest_ess(draws)
        rates["ours"].append(ess / seconds)
        rates["alone"].append(ess / nuts)
        medians[0] = float(np.median(draws["fixed_point"]))
        seconds, draws, extra = peer(seed)
        rates["peer"].append(smallest_ess({k: draws[k] for k in SITES}) / seconds)
        medians[1], steps[1] = float(np.median(draws["fixed_point"])), float(extra["num_steps"].mean())
    note = (
        f"peer: {name}; {steps[0]:.0f} and {steps[1]:.0f} steps a draw; median R* {medians[0]:.3f} and {medians[1]:.3f}"
    )
    middle = {k: statistics.median(v) for k, v in rates.items()}
    return _Rates(**middle, steps=steps[0], median=medians[0], note=note)


def _ours(table: Series, settings: SamplerSettings, seed: int) -> tuple[float, float, dict[str, np.ndarray], float]:
    """Seconds, seconds of NUTS alone, draws of all parameters, leapfrog steps a draw."""
    target = target_of(OSCILLATOR, table)
    begin = time.perf_counter()
    start = start_of(weighted_points(target, seed)[0], seed, settings.num_chains)
    scouted = time.perf_counter()
    chain = sample_chains(target, seed, start, settings, settings.target_accept)
    nuts = time.perf_counter() - scouted
    z = np.asarray(chain.z)
    levels = summarize_draws(target, values_of_draws(target, z), seed)[0]
    seconds = time.perf_counter() - begin
    draws = {p.name: z[..., i] for i, p in enumerate(OSCILLATOR.sampled)}
    draws |= {p.name: levels[..., i] for i, p in enumerate(OSCILLATOR.marginalized)}
    return seconds, nuts, draws, float(np.mean(chain.num_steps))


def main() -> None:
    """Runs the sections that were asked for and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    sections = {
        "likelihood": likelihood,
        "sampling": sampling,
        "process": process,
    }
    parser.add_argument("--only", choices=sections, action="append", help="a section; may be given again")
    parser.add_argument("--json", type=Path, help="write the table to this file too")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    known, agreement = versions(), largest_differences(table_of(200))
    header = [
        device(),
        ", ".join(f"{name} {number}" for name, number in known.items()),
        "log likelihoods beside ours, largest relative difference: "
        + ", ".join(f"{name} {x:.1e}" for name, x in agreement.items()),
    ]
    if max(agreement.values()) > 1e-6:
        raise SystemExit(f"the peers compute another likelihood, nothing was timed; {header[-1]}")
    lines = [line for name in options.only or sections for line in sections[name](options.quick)]
    print("\n".join(header), end="\n\n")
    print_table(lines)
    if options.keep:
        keep("speed", {f"{line.section}: {line.what}": asdict(line) for line in lines})
    if options.json:
        content = {"header": header, "quick": options.quick, "lines": [asdict(line) for line in lines]}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
