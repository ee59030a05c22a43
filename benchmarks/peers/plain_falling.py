"""Peer: a fit under a falling learning rate as a plain NumPyro + ArviZ script.

    python benchmarks/peers/plain_falling.py trainer_state.json [--seed 0]

The model of `scan_model`, sampled and summarised as in `plain_script`.
"""

import argparse
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpyro

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers.plain_script import CHAINS, fastest_chains, sampler
from benchmarks.peers.scan_model import model


def read(path):
    """Rewards and learning rates of a TRL log, the rates over the highest one."""
    with open(path, encoding="utf-8") as file:
        history = [row for row in json.load(file)["log_history"] if "reward" in row]
    rate = jnp.array([row["learning_rate"] for row in history])
    return jnp.array([row["reward"] for row in history]), jnp.maximum(rate / rate.max(), 1e-3)


def main():
    """Reads a trainer's log, samples, prints the summary with 90% intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    numpyro.enable_x64()
    numpyro.set_host_device_count(CHAINS)
    mcmc = sampler(fastest_chains(), model)
    y, rate = read(options.log)
    mcmc.run(jax.random.key(options.seed), y, rate, float(len(y)))
    import arviz as az

    table = az.summary(az.from_numpyro(mcmc), ci_prob=0.9, ci_kind="eti", round_to=4)  # pyright: ignore[reportArgumentType]
    print(table.to_string())


if __name__ == "__main__":
    main()
