"""Updates of parts of a batch and probes of them, of a known stiffness with noise."""

from collections.abc import Callable

import numpy as np

from bayes_grpo.probing.estimate import Probe
from bayes_grpo.probing.probe import probe


def noisy_parts(stiffness: np.ndarray, seed: int = 0, noise: float = 0.1, count: int = 8) -> list[Callable]:
    """Updates of random parts at a place of ones: each has noise on the matrix, and a push of its own."""
    rng, size = np.random.default_rng(seed), len(stiffness)
    matrices = [stiffness + noise * (e + e.T) for e in rng.standard_normal((count, size, size))]
    pushes = rng.standard_normal((count, size))
    return [lambda s, m=m, p=p: p - m @ (np.ones(size) + s) for m, p in zip(matrices, pushes, strict=True)]


def noisy_probes(count: int) -> list[Probe]:
    """Probes of eight random parts, 25 steps from one to the next."""
    parts = noisy_parts(np.diag([4.0, 2.0, 1.0]))
    return [probe(parts, at=25.0 * i) for i in range(count)]
