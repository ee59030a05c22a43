"""The shared order as a NumPyro model: what `bayes_grpo.siblings.order` does exactly on a grid, to be read and changed.

The fast way takes course and noise of every run from their highest marginal likelihood; here they are sampled too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.order import atoms_of, incidence_of


class RunRows(NamedTuple):
    """Rows of a run, ready for the model.

    Attributes:
        y: Rows less their mean, in their standard deviation, shape (n,).
        time: Rows since the first, shape (n,).
        incidence: How the effects of steps enter the rows, shape (n, steps).
    """

    y: np.ndarray
    time: np.ndarray
    incidence: np.ndarray


def rows_for_model(tables: Sequence[RowTable]) -> list[RunRows]:
    """Rows of several runs over the steps that they share.

    Args:
        tables: Rows of the runs.
    """
    windows = [np.stack([t.step, t.window]) for t in tables]
    atoms = atoms_of(windows)
    return [
        RunRows(
            (t.y - t.centre) / t.scale,
            (t.step - t.step[0]) / float(np.median(np.diff(t.step))),
            incidence_of(w, atoms),
        )
        for t, w in zip(tables, windows, strict=True)
    ]


def step_effect_model(runs: Sequence[RunRows]) -> None:
    """Several runs of one order of data.

    A row is its run's course, an effect of its step that all runs share, and noise of its own; ``share`` is the part of
    the noise's variance that is such an effect. Courses are integrated out.

    Args:
        runs: Rows of the runs, as `rows_for_model` gives them.
    """
    share = numpyro.sample("share", dist.Uniform(0.0, 1.0))
    with numpyro.plate("step", runs[0].incidence.shape[1]):
        effect: Any = numpyro.sample("effect", dist.Normal(0.0, 1.0))
    with numpyro.plate("run", len(runs)):
        noise: Any = numpyro.sample("noise", dist.LogNormal(-0.7, 0.7))
        scale: Any = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
        length: Any = numpyro.sample("length", dist.LogNormal(3.0, 1.0))
    for j, run in enumerate(runs):
        r = jnp.sqrt(3.0) * jnp.abs(run.time[:, None] - run.time) / length[j]
        course = 4.0 + scale[j] ** 2 * (1.0 + r) * jnp.exp(-r)
        own = (1.0 - share) * noise[j] ** 2 + 1e-6
        mean = noise[j] * jnp.sqrt(share) * (run.incidence @ effect)
        numpyro.sample(f"y_{j}", dist.MultivariateNormal(mean, course + own * jnp.eye(len(run.y))), obs=run.y)
