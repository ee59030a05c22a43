"""Probes of a known stiffness with noise."""

import numpy as np

from bayes_grpo.probing.estimate import Probe
from bayes_grpo.probing.probe import probe


def noisy_probes(count: int) -> list[Probe]:
    """Probes of eight random parts, 25 steps from one to the next."""
    rng = np.random.default_rng(0)
    h, noise = np.diag([4.0, 2.0, 1.0]), 0.1 * rng.standard_normal((8, 3, 3))
    parts = [
        lambda s, m=h + e + e.T, p=p: p - m @ (np.ones(3) + s)
        for e, p in zip(noise, rng.normal(size=(8, 3)), strict=True)
    ]
    return [probe(parts, at=25.0 * i) for i in range(count)]
