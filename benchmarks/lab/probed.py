"""A drawn batch of a listed task as a probe asks for it: the update at shifted parameters, part by part.

What a probe of a real training has is here as a table: completions that were drawn at one point, each weighed by how
much likelier the shifted policy writes it. What comes out can be held against the stiffness of all completions
(`benchmarks.lab.curvature`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from bayes_grpo.probing.operator import UpdateAt
from benchmarks.lab.curvature import Local
from benchmarks.lab.enumerated_training import policy
from benchmarks.lab.enumeration import (
    Batch,
    Listing,
    batch_loss,
    drawn_batch,
    enumerated_reading,
    log_share,
    read_all,
)
from benchmarks.lab.settings import LabNumbers


def drawn_updates(listing: Listing, point: Local, seed: int, parts: int) -> list[UpdateAt]:
    """Mean updates of the parts of a batch that was drawn at a point.

    Args:
        listing: All completions; its structure says how many prompts and completions a *part* has.
        point: Where the batch is drawn, its settings and its reference.
        seed: Of the batch.
        parts: How many.

    Returns:
        One update a part, as `bayes_grpo.probing.probe` takes them; float64.
    """
    with jax.enable_x64(True):
        fixed = _on_device(point)
        keys = jax.random.split(jax.random.key(seed), parts)
        batches = jax.device_get(_drawn(listing, *fixed, keys))

    def update(i: int) -> UpdateAt:
        own = jax.tree.map(lambda x: x[i], batches)

        def at(shift: ArrayLike) -> np.ndarray:
            with jax.enable_x64(True):
                return np.asarray(_weighed(listing, *fixed, own, jnp.asarray(point.parameters + np.asarray(shift))))

        return at

    return [update(i) for i in range(parts)]


def _on_device(point: Local) -> tuple[Any, Any, Array]:
    scalars, far, here = jax.tree.map(jnp.asarray, (point.numbers, point.reference, point.parameters))
    return scalars, far, here


@partial(jax.jit, static_argnums=0)
def _drawn(listing: Listing, numbers: LabNumbers, reference: Any, theta: Array, keys: Array) -> Batch:
    before = read_all(policy(listing, theta), listing, numbers.temperature)
    return jax.vmap(lambda key: drawn_batch(key, before, listing, numbers)[0])(keys)


@partial(jax.jit, static_argnums=0)
def _weighed(listing: Listing, numbers: LabNumbers, reference: Any, theta: Array, batch: Batch, at: Array) -> Array:
    drawn = read_all(policy(listing, theta), listing, numbers.temperature)
    shifted = read_all(policy(listing, at), listing, numbers.temperature)
    weight = jnp.exp(log_share(shifted) - log_share(drawn))
    weighed = Batch(*(x * weight for x in batch))
    far = enumerated_reading(reference, listing, numbers.temperature)

    def loss(here: Array) -> Array:
        now = read_all(policy(listing, here), listing, numbers.temperature)
        return batch_loss(now, shifted, far, weighed, listing, numbers)

    return -jax.grad(loss)(at)
