"""Sampling beside tinygp in plain NumPyro, measured in this run, the peer and ours taking turns.

    python -m benchmarks.speed [--quick] [--keep]

Smallest bulk ESS over the six parameters per second, 400 rows, 4 chains of 500 draws, compiled beforehand, dense mass
and target acceptance 0.9 for both, chains spread over threads in the same way (`peers/chains.py`). The peer warms up
for 500 iterations, in which it finds its mass matrix; ours is the covariance of weighted points, found before, and its
warm-up the default one. Our seconds hold these points and the drawing of fixed point and initial reward, with which
come smoothing, curves and leave-one-out terms of every draw.

Before anything is timed the peers' likelihoods are checked against ours (`peers/agreement.py`). Whole commands beside a
plain script are measured by `waiting.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["BAYES_GRPO_CACHE"] = ""  # nobody reads compiled programs from a disk
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share an accelerator

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo import read_log
from bayes_grpo.fitting.draws import start_of
from bayes_grpo.fitting.sampling.adaptive import weighted_points
from bayes_grpo.fitting.sampling.nuts import SamplerSettings, sample_chains
from bayes_grpo.fitting.sampling.target import summarize_draws, target_of, values_of_draws
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from benchmarks.common import device, keep, say, simulated, smallest_ess, write_log
from benchmarks.speed.peers import tinygp_model
from benchmarks.speed.peers.agreement import largest_differences
from benchmarks.speed.peers.chains import compiled_sampler

OSCILLATOR = get_regime("oscillator")
ROWS = 400
LENGTH = 500
SITES = (
    "response_time",
    "damping_coordinate",
    "observation_sd",
    "fluctuation_sd",
    "fixed_point",
    "initial_reward",
)
WHAT = "sampling: smallest ESS a second, 400 rows"


def table_of(rows: int) -> Series:
    """Rows of a simulated log that starts at rest, windows of one step, as the package reads them.

    The noise is the same for every row, as in the models of the peers.
    """
    with tempfile.TemporaryDirectory() as folder:
        rewards = simulated(rows, 1, response=rows / 5.0)
        table = rows_of(read_log(write_log(Path(folder, "trainer_state.json"), rewards)), max_rows=rows)
    return replace(table, noise=None)


def sampling(turns: int) -> dict[str, dict[str, float]]:
    """Smallest bulk ESS a second beside tinygp: with all that is needed, and NUTS alone."""
    table = table_of(ROWS)
    arguments = (jnp.asarray(table.step - 0.5), jnp.asarray(table.y), float(ROWS))
    say("compiling")
    peer = compiled_sampler(
        tinygp_model.model, arguments, warmup=LENGTH, draws=LENGTH, dense_mass=True, target_accept_prob=0.9
    )
    settings = SamplerSettings(num_samples=LENGTH)
    _ours(table, settings, 0)
    rates: dict[str, list[float]] = {"ours": [], "alone": [], "peer": []}
    for seed in range(1, turns + 1):
        say(f"turn {seed} of {turns}")
        seconds, nuts, draws, steps = _ours(table, settings, seed)
        ess = smallest_ess(draws)
        rates["ours"].append(ess / seconds)
        rates["alone"].append(ess / nuts)
        seconds, theirs, extra = peer(seed)
        rates["peer"].append(smallest_ess({k: theirs[k] for k in SITES}) / seconds)
        say(
            f"{steps:.0f} and {extra['num_steps'].mean():.0f} steps a draw; median R* "
            f"{np.median(draws['fixed_point']):.3f} and {np.median(theirs['fixed_point']):.3f}"
        )
    middle = {k: statistics.median(v) for k, v in rates.items()}
    return {
        name: {"ours": middle[kind], "peer": middle["peer"], "ratio": middle[kind] / middle["peer"]}
        for name, kind in ((WHAT, "ours"), (f"{WHAT}, NUTS alone", "alone"))
    }


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
    """Checks the peers' likelihoods, and times both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    agreement: dict[str, Any] = largest_differences(table_of(200))
    if max(agreement.values()) > 1e-6:
        raise SystemExit(f"the peers compute another likelihood, nothing was timed; {agreement}")
    result = sampling(3 if options.quick else 7)
    print(json.dumps({"device": device(), "largest relative difference": agreement, **result}, indent=1))
    if options.keep:
        keep("speed", result)


if __name__ == "__main__":
    main()
