"""Families made from numbers."""

from typing import Any

import numpy as np

from bayes_grpo.logs.run import Run
from tests.helpers.runs import make_run, steps


def relaxing(
    name: str,
    *,
    time: float = 15.0,
    plateau: float = 0.7,
    start: float = 0.2,
    fluctuation: float = 0.02,
    noise: float = 0.04,
    rows: int = 60,
    seed: int = 0,
    learning_rate: float | None = None,
    **settings: Any,
) -> Run:
    """A run of the exponential regime, one row a step."""
    rng = np.random.default_rng(seed)
    keep, u, y = np.exp(-1.0 / time), 0.0, []
    for t in range(rows):
        u = keep * u + fluctuation * np.sqrt(1.0 - keep**2) * rng.standard_normal()
        y.append(plateau + (start - plateau) * np.exp(-(t + 0.5) / time) + u + noise * rng.standard_normal())
    signals = {} if learning_rate is None else {"learning_rate": learning_rate}
    return make_run(steps(rows), y, name=name, signals=signals, **settings)


def swept(count: int = 6) -> list[Run]:
    """Learning rates of 1e-6 to 4e-6, two runs each: the rate follows, the plateau does not."""
    rng = np.random.default_rng(3)
    rates = np.tile([1e-6, 2e-6, 4e-6], -(-count // 3))[:count]
    return [
        relaxing(
            f"run{i}",
            time=25.0 * (1e-6 / rate) * np.exp(0.1 * rng.standard_normal()),
            plateau=0.7 + 0.01 * rng.standard_normal(),
            seed=i,
            learning_rate=float(rate),
            group_size=8,
        )
        for i, rate in enumerate(rates)
    ]
