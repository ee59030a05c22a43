"""NumPyro's NUTS on a regime, compiled once per regime and bucket of rows and reused for every run after it.

On a CPU the chains run side by side in threads, each a single-chain program: no chain waits for another's longer
tree. On an accelerator they run as one batched program.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from bayes_grpo.common.imports import nuts_kernels
from bayes_grpo.common.programs import over_draws, program
from bayes_grpo.dynamics.likelihood import accelerated
from bayes_grpo.fitting.sampling.posterior import (
    DrawSummary,
    PriorNumbers,
    log_likelihood,
    potential,
    summarise_draw,
)
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

SCOUTS = 512
"""Prior draws from which the chains' starting points are resampled by their likelihood."""
MAX_TREE_DEPTH = 8
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
    warmup: int = 400
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

    init_kernel, sample_kernel = nuts_kernels()(potential_fn_gen=potential_of, algo="NUTS")

    def run(key: Array, z: Array, inverse_mass: Array, target: Any, prior: PriorNumbers, rows: Rows) -> Chain:
        state = init_kernel(
            z,
            warmup,
            step_size=0.5,
            inverse_mass_matrix=inverse_mass,
            dense_mass=True,
            target_accept_prob=target,
            max_tree_depth=MAX_TREE_DEPTH,
            model_args=(prior, rows),
            rng_key=key,
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


def _scout_program(regime: Regime) -> Any:
    def run(z: Array, prior: PriorNumbers, rows: Rows) -> Array:
        return jax.vmap(lambda one: log_likelihood(regime, one, prior, rows))(z)

    return run


def _summary_program(regime: Regime) -> Any:
    def run(draws: tuple[Array, Array], prior: PriorNumbers, rows: Rows) -> DrawSummary:
        return jax.lax.map(
            lambda a: summarise_draw(regime, jax.random.wrap_key_data(a[0]), a[1], prior, rows), draws, batch_size=50
        )

    return run


def scout(regime: Regime, key: Array, prior: PriorNumbers, rows: Rows, chains: int) -> Start:
    """Starting points from the prior, resampled by their likelihood.

    A posterior with two modes gets its chains in proportion to the modes' mass, and the mass matrix starts from the
    spread of the same draws.
    """
    draw_key, pick_key = jax.random.split(key)
    z = np.asarray(jax.random.normal(draw_key, (SCOUTS, len(regime.sampled))))
    score = np.asarray(program(_scout_program, (regime,), z, prior, rows)(z, prior, rows))
    score = np.where(np.isfinite(score), score, -np.inf)
    if not np.isfinite(score).any():
        return Start(0.1 * z[:chains], np.eye(z.shape[1]))
    # Tempered weights: with plain ones a single scout would carry nearly everything.
    weight = _tempered(score - score.max())
    rng = np.random.default_rng(np.asarray(jax.random.key_data(pick_key)))
    picks = rng.choice(SCOUTS, size=chains, p=weight)
    centre = weight @ z
    cov = (z - centre).T @ (weight[:, None] * (z - centre))
    return Start(z[picks], 0.9 * cov + 0.1 * np.diag(np.diag(cov)) + 1e-4 * np.eye(len(cov)))


def log_likelihoods(regime: Regime, z: np.ndarray, prior: PriorNumbers, rows: Rows) -> np.ndarray:
    """Log density of the logged rows for many draws, by the scouts' program, so that nothing is compiled for it.

    Args:
        regime: The law.
        z: Draws in the sampler's coordinates, shape (..., p).
        prior: Priors as numbers.
        rows: Padded rows.

    Returns:
        Shape (...).
    """
    flat = np.reshape(z, (-1, z.shape[-1]))
    return over_draws(_scout_program, (regime,), SCOUTS, flat, prior, rows).reshape(z.shape[:-1])


def _tempered(score: np.ndarray, effective: float = 20.0) -> np.ndarray:
    """Weights ``exp(score × power)`` with the largest power ≤ 1 that leaves an effective size of ``effective``."""
    low, high = 0.0, 1.0
    for power in (1.0, *([None] * 30)):
        power = 0.5 * (low + high) if power is None else power
        weight = np.exp(score * power)
        weight /= weight.sum()
        if 1.0 / np.sum(weight**2) >= effective:
            low = power
            if power == 1.0:
                break
        else:
            high = power
    weight = np.exp(score * low)
    return weight / weight.sum()


def compile_ahead(regime: Regime, key: Array, prior: PriorNumbers, rows: Rows) -> threading.Thread | None:
    """Compiles the program that summarises draws while the chains are still being compiled and run."""
    if accelerated():
        return None

    def work() -> None:
        with jax.enable_x64(True):
            program(_summary_program, (regime,), _some_draws(regime, key), prior, rows)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def compile_programs(regime: Regime, prior: PriorNumbers, rows: Rows, settings: SamplerSettings) -> None:
    """Compiles all that a fit runs, in the calling thread; for laws whose turn comes later."""
    if accelerated():
        return
    with jax.enable_x64(True):
        p, key = len(regime.sampled), jax.random.key(0)
        program(_scout_program, (regime,), np.zeros((SCOUTS, p)), prior, rows)
        options = (regime, settings.warmup, settings.draws, False)
        program(_chain_program, options, key, np.zeros(p), np.eye(p), np.asarray(0.9), prior, rows)
        program(_summary_program, (regime,), _some_draws(regime, key), prior, rows)


def _some_draws(regime: Regime, key: Array) -> tuple[Any, np.ndarray]:
    """A chunk of draws of the shape that `summarise` sends."""
    return _key_data(key, SUMMARISED), np.zeros((SUMMARISED, len(regime.sampled)))


def _key_data(key: Array, draws: int) -> np.ndarray:
    """Random keys of draws as numbers, shape (draws, ...)."""
    return np.asarray(jax.random.key_data(jax.random.split(key, draws)))


def sample(
    regime: Regime,
    key: Array,
    prior: PriorNumbers,
    rows: Rows,
    start: Start,
    settings: SamplerSettings,
    target_accept: float,
) -> Chain:
    """Runs all chains.

    Args:
        regime: The law.
        key: Random key.
        prior: Priors as numbers.
        rows: Padded rows.
        start: Starting points and mass matrix.
        settings: Length of the chains.
        target_accept: Target acceptance probability.

    Returns:
        Draws with leading axes (chains, draws).
    """
    keys = jax.random.split(key, settings.chains)
    shared = (start.inverse_mass, np.asarray(target_accept), prior, rows)
    batched = accelerated()
    options = (regime, settings.warmup, settings.draws, batched)
    if batched:
        out = program(_chain_program, options, keys, start.z, *shared)(keys, start.z, *shared)
        return jax.tree.map(np.asarray, out)
    run = program(_chain_program, options, keys[0], start.z[0], *shared)

    def one(i: int) -> Chain:
        with jax.enable_x64(True):  # a thread does not inherit the caller's setting
            return jax.tree.map(np.asarray, run(keys[i], start.z[i], *shared))

    pool = ThreadPoolExecutor(max_workers=min(settings.chains, os.cpu_count() or 1))
    try:
        chains = list(pool.map(one, range(settings.chains)))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupt must not wait for the chains
    return jax.tree.map(lambda *x: np.stack(x), *chains)


def summarise(regime: Regime, key: Array, z: np.ndarray, prior: PriorNumbers, rows: Rows) -> DrawSummary:
    """Linear parameters, curves and leave-one-out conditionals of every draw.

    Args:
        regime: The law.
        key: Random key.
        z: Draws in the sampler's coordinates, shape (chains, draws, p).
        prior: Priors as numbers.
        rows: Padded rows.

    Returns:
        Arrays with leading axes (chains, draws).
    """
    chains, draws, p = z.shape
    each = (_key_data(key, chains * draws), z.reshape(-1, p))
    out = over_draws(_summary_program, (regime,), SUMMARISED, each, prior, rows)
    return jax.tree.map(lambda x: x.reshape(chains, draws, *x.shape[1:]), out)
