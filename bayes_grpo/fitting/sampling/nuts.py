"""NumPyro's NUTS on a regime, compiled once per regime and bucket of rows and reused for every run after it.

On a CPU the chains run side by side in threads, each a single-chain program: no chain waits for another's longer
tree. On an accelerator they run as one batched program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.imports import nuts_kernels
from bayes_grpo.common.machine import cores
from bayes_grpo.common.programs import accelerated, call, over_draws, program
from bayes_grpo.fitting.sampling.posterior import (
    DrawSummary,
    PriorNumbers,
    potential,
    summarise_draw,
)
from bayes_grpo.fitting.sampling.weighted import WeightedDraws
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

MAX_TREE_DEPTH = 8
_FAR = 1e10
SUMMARISED = 500
"""Draws a call of the program that summarises them."""


@dataclass(frozen=True)
class SamplerSettings:
    """How long and how carefully to sample.

    Attributes:
        chains: Number of chains.
        warmup: Adaptation iterations of each chain, discarded.
        draws: Iterations of each chain that are kept.
        target_accept: Target acceptance of the step-size adaptation.
        retry_target_accept: The same for the one retry.
    """

    chains: int = 4
    warmup: int = 150
    draws: int = 1000
    target_accept: float = 0.9
    retry_target_accept: float = 0.99


class Chain(NamedTuple):
    """Draws of one chain, leading axis (draws,), or of all chains, leading axes (chains, draws)."""

    z: Array | np.ndarray
    potential: Array | np.ndarray
    energy: Array | np.ndarray
    num_steps: Array | np.ndarray
    accept_prob: Array | np.ndarray
    diverging: Array | np.ndarray


class Start(NamedTuple):
    """Where the chains begin: positions (chains, p) and a common inverse mass matrix (p, p)."""

    z: np.ndarray
    inverse_mass: np.ndarray


def _chain_program(regime: Regime, warmup: int, draws: int, batched: bool) -> Any:
    # Traced once, not at each of the places where NUTS calls it.
    traced = jax.jit(partial(potential, regime))

    def potential_of(prior: PriorNumbers, rows: Rows) -> Any:
        return lambda z: traced(z, prior, rows)

    hmc, at_point = nuts_kernels()
    init_kernel, sample_kernel = hmc(potential_fn_gen=potential_of, algo="NUTS")

    def run(key_data: Array, z: Array, inverse_mass: Array, target: Any, prior: PriorNumbers, rows: Rows) -> Chain:
        state = init_kernel(
            # A potential so large, and no force: the first iteration leaves the start with certainty, to a point whose
            # potential is known. With the true ones the gradient would be compiled twice.
            at_point(z, jnp.asarray(_FAR), jnp.zeros_like(z)),
            warmup,
            step_size=0.5,
            inverse_mass_matrix=inverse_mass,
            adapt_mass_matrix=False,
            dense_mass=True,
            target_accept_prob=target,
            max_tree_depth=MAX_TREE_DEPTH,
            model_args=(prior, rows),
            rng_key=jax.random.wrap_key_data(key_data),
        )

        def body(state: Any, _: None) -> tuple[Any, Chain]:
            state = sample_kernel(state, (prior, rows))
            out = Chain(
                state.z,
                state.potential_energy,
                state.energy,
                state.num_steps,
                state.accept_prob,
                state.diverging,
            )
            return state, out

        # One loop for warm-up and sampling, so that the tree builder is compiled once.
        out = jax.lax.scan(body, state, None, length=warmup + draws)[1]
        return jax.tree.map(lambda x: x[warmup:], out)

    return jax.vmap(run, in_axes=(0, 0, None, None, None, None)) if batched else run


def _summary_program(regime: Regime) -> Any:
    def run(draws: tuple[Array, Array], prior: PriorNumbers, rows: Rows) -> DrawSummary:
        return jax.lax.map(
            lambda a: summarise_draw(regime, jax.random.wrap_key_data(a[0]), a[1], prior, rows), draws, batch_size=50
        )

    return run


def start_about(points: WeightedDraws, chains: int, rng: np.random.Generator) -> Start:
    """Starting points drawn from weighted ones, with their covariance as inverse mass matrix.

    A posterior with two modes gets its chains in proportion to the modes' mass.

    Args:
        points: Points of the posterior, or of one raised to a power.
        chains: Number of chains.
        rng: Source of randomness.

    Returns:
        Where the chains begin.
    """
    cov = points.moments()[1]
    return Start(points.resampled(chains, rng), cov + 1e-6 * np.eye(len(cov)))


def compile_chains_ahead(regime: Regime, prior: PriorNumbers, rows: Rows, settings: SamplerSettings) -> None:
    """Begins to compile the program of the chains, in a thread, while their starting points are being looked for."""
    size = len(regime.sampled)
    arguments = (_keys(0, 1)[0], np.zeros(size), np.eye(size), np.asarray(0.9), prior, rows)
    _beside(lambda: program(_chain_program, (regime, settings.warmup, settings.draws, False), *arguments))


def compile_summary_ahead(regime: Regime, prior: PriorNumbers, rows: Rows) -> None:
    """Begins to compile the program that summarises draws, in a thread, while the chains run."""
    draws = (_keys(0, SUMMARISED), np.zeros((SUMMARISED, len(regime.sampled))))
    _beside(lambda: program(_summary_program, (regime,), draws, prior, rows))


def _beside(compile_: Callable[[], Any]) -> None:
    if accelerated():
        return

    def work() -> None:
        with jax.enable_x64(True), suppress(Exception):  # whoever needs the program meets the error
            compile_()

    threading.Thread(target=work, daemon=True).start()


def _keys(seed: int, size: int) -> np.ndarray:
    """Random keys as numbers, shape (size, 2); JAX would compile a program for each way to split one."""
    return np.random.default_rng(seed).integers(0, 2**32, (size, 2), dtype=np.uint32)


def sample(
    regime: Regime,
    seed: int,
    prior: PriorNumbers,
    rows: Rows,
    start: Start,
    settings: SamplerSettings,
    target_accept: float,
) -> Chain:
    """Runs all chains.

    Args:
        regime: The law.
        seed: Seed.
        prior: Priors as numbers.
        rows: Padded rows.
        start: Starting points and mass matrix.
        settings: Length of the chains.
        target_accept: Target acceptance probability.

    Returns:
        Draws with leading axes (chains, draws).
    """
    keys = _keys(seed, settings.chains)
    shared = (start.inverse_mass, np.asarray(target_accept), prior, rows)
    batched = accelerated()
    options = (regime, settings.warmup, settings.draws, batched)
    if batched:
        return call(_chain_program, options, keys, start.z, *shared)

    def one(i: int) -> Chain:
        return call(_chain_program, options, keys[i], start.z[i], *shared)

    pool = ThreadPoolExecutor(max_workers=min(settings.chains, cores()))
    try:
        chains = list(pool.map(one, range(settings.chains)))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupt must not wait for the chains
    return jax.tree.map(lambda *x: np.stack(x), *chains)


def summarise(regime: Regime, seed: int, z: np.ndarray, prior: PriorNumbers, rows: Rows) -> DrawSummary:
    """Linear parameters, curves and leave-one-out conditionals of every draw.

    Args:
        regime: The law.
        seed: Seed.
        z: Draws in the sampler's coordinates, shape (chains, draws, p).
        prior: Priors as numbers.
        rows: Padded rows.

    Returns:
        Arrays with leading axes (chains, draws).
    """
    chains, draws, p = z.shape
    each = (_keys(seed, chains * draws), z.reshape(-1, p))
    out = over_draws(_summary_program, (regime,), SUMMARISED, each, prior, rows)
    return jax.tree.map(lambda x: x.reshape(chains, draws, *x.shape[1:]), out)
