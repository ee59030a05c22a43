"""Families of runs with a known order of data."""

from collections.abc import Sequence

import numpy as np

from bayes_grpo.logs.run import Run
from tests.helpers.runs import make_run


def runs_of_orders(
    orders: Sequence[int],
    *,
    rows: int = 60,
    share: float = 0.5,
    seed: int = 0,
    sd: float = 0.06,
    every: Sequence[int] | None = None,
    plateau: float = 0.7,
    spread: float = 0.02,
) -> list[Run]:
    """Runs that rise to about a plateau; ``share`` of a row's variance is an effect of the step in runs of one order.

    An order of −1 is one of its own; ``every`` is how many steps a row of each run averages.
    """
    rng = np.random.default_rng(seed)
    effects: dict[int, np.ndarray] = {}
    out = []
    step = np.arange(1.0, rows + 1.0)
    for i, order in enumerate(orders):
        u = effects.setdefault(order, rng.standard_normal(rows)) if order >= 0 else rng.standard_normal(rows)
        course = (plateau + spread * rng.standard_normal()) * (1.0 - 0.8 * np.exp(-step / (0.3 * rows)))
        y = course + sd * (np.sqrt(share) * u + np.sqrt(1.0 - share) * rng.standard_normal(rows))
        width = 1 if every is None else every[i]
        mean = y[: rows - rows % width].reshape(-1, width).mean(axis=1)
        out.append(make_run(step[width - 1 :: width][: len(mean)], mean, window=float(width), name=f"run{i}"))
    return out
