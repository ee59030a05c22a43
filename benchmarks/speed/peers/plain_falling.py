"""Peer: a fit under a falling learning rate as a plain NumPyro + ArviZ script.

    python benchmarks/speed/peers/plain_falling.py trainer_state.json [--seed 0]

The model of `scan_model`, sampled and summarised as in `plain_script`.
"""

import json
import sys
from pathlib import Path

import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.speed.peers.plain_script import main
from benchmarks.speed.peers.scan_model import model


def read(path):
    """Rewards, learning rates over the highest one, and the length of a TRL log."""
    with open(path, encoding="utf-8") as file:
        history = [row for row in json.load(file)["log_history"] if "reward" in row]
    rate = jnp.array([row["learning_rate"] for row in history])
    return jnp.array([row["reward"] for row in history]), jnp.maximum(rate / rate.max(), 1e-3), float(len(history))


if __name__ == "__main__":
    main(read, model, __doc__)
