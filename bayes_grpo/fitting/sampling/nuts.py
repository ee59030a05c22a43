"""NumPyro's NUTS on a regime or a model, compiled once per bucket of rows and reused for every run after it.

On a CPU the chains run in threads, each a single-chain program: no chain waits for another's longer tree, and XLA
releases the interpreter. On an accelerator they run as one batched program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.imports import nuts_kernels
from bayes_grpo.common.machine import cores
from bayes_grpo.common.programs import accelerated, call
from bayes_grpo.fitting.sampling.batch import random_keys
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.target import PriorNumbers, Target, potential
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

Sites = Mapping[str, np.ndarray]
"""Draws by name, leading axes (chains, draws)."""


def chains_side_by_side(make: Any, options: tuple[Any, ...], each: Any, *shared: Any) -> Any:
    """What a single-chain program returns for every chain, as NumPy arrays with a leading axis of chains.

    ``make`` takes the hashable options and returns the function of (a chain's arguments, *shared) to compile.
    """
    pool = ThreadPoolExecutor(max_workers=min(len(each), cores()))
    try:
        found = list(pool.map(lambda own: call(make, options, *own, *shared), each))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupt must not wait for the chains
    return jax.tree.map(lambda *x: np.stack(x), *found)


def converged[C, D](
    run: Callable[[C | None], C], check: Callable[[C, bool], tuple[D, Convergence]], retry: bool = True
) -> tuple[D, Convergence]:
    """Runs chains and checks them; where the checks fail, once more and more carefully.

    ``run`` takes the chains that failed, None at first; ``check`` takes chains and whether they are the second ones.
    """
    chains = run(None)
    found = check(chains, False)
    return check(run(chains), True) if retry and not found[1].passed else found


def sample_model[D](
    model: Any,
    static: tuple[Any, ...],
    arguments: tuple[Any, ...],
    check: Callable[[Sites, Sites, bool], tuple[D, Convergence]],
    *,
    seed: int,
    chains: int,
    warmup: int,
    draws: int,
    target_accept: tuple[float, float],
    max_tree_depth: int = 10,
) -> tuple[D, Convergence]:
    """Samples a NumPyro model by NUTS.

    Args:
        model: The model, a function of (*arguments, *static).
        static: Its hashable arguments, the last ones.
        arguments: Its other arguments, arrays or trees of them.
        check: Takes the sites, the sampler's statistics and whether the chains are the second ones; gives what they
            say and the checks.
        seed: Seed.
        chains: Number of chains; with one there is no second time.
        warmup: Adaptation iterations of each.
        draws: Iterations of each that are kept.
        target_accept: Target acceptance at first and in the second time.
        max_tree_depth: Doublings of a trajectory at most.
    """
    first, second = jax.random.split(jax.random.key(seed))
    options = (model, static, warmup, draws, max_tree_depth)

    def run(failed: tuple[Sites, Sites] | None) -> tuple[Sites, Sites]:
        key, accept = (first, target_accept[0]) if failed is None else (second, target_accept[1])
        with jax.enable_x64(True):
            each = [(k,) for k in jax.random.split(key, chains)]
        return chains_side_by_side(_model_program, options, each, np.asarray(accept), *arguments)

    return converged(run, lambda found, retried: check(*found, retried), retry=chains > 1)


def _model_program(model: Any, static: tuple[Any, ...], warmup: int, draws: int, max_tree_depth: int) -> Any:
    from numpyro.infer import MCMC, NUTS, init_to_median

    def run(key: Array, target: Any, *arguments: Any) -> tuple[Any, Any]:
        kernel = NUTS(
            model,
            target_accept_prob=target,
            init_strategy=init_to_median(num_samples=5),
            max_tree_depth=max_tree_depth,
        )
        chain = MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False)
        chain.run(key, *arguments, *static, extra_fields=("energy",))
        return chain.get_samples(), chain.get_extra_fields()

    return run


MAX_TREE_DEPTH = 8
_FAR = 1e10


@dataclass(frozen=True)
class SamplerSettings:
    """How long and how carefully to sample.

    Attributes:
        num_chains: Number of chains.
        num_warmup: Adaptation iterations of each chain, discarded.
        num_samples: Iterations of each chain that are kept.
        target_accept: Target acceptance of the step-size adaptation.
        retry_target_accept: The same for the one retry.
    """

    num_chains: int = 4
    num_warmup: int = 150
    num_samples: int = 1000
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

    def run(key_data: Array, z: Array, inverse_mass: Array, target: Any, prior: PriorNumbers, rows: Rows) -> Any:
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
        return tuple(x[warmup:] for x in out)  # plain, so that the program is kept

    return jax.vmap(run, in_axes=(0, 0, None, None, None, None)) if batched else run


def sample_chains(target: Target, seed: int, start: Start, settings: SamplerSettings, target_accept: float) -> Chain:
    """Runs all chains; draws with leading axes (chains, draws)."""
    keys = random_keys(seed, settings.num_chains)
    shared = (start.inverse_mass, np.asarray(target_accept), *target.arguments)
    options = (target.regime, settings.num_warmup, settings.num_samples, accelerated())
    if accelerated():
        return Chain(*call(_chain_program, options, keys, start.z, *shared))
    each = list(zip(keys, start.z, strict=True))
    return Chain(*chains_side_by_side(_chain_program, options, each, *shared))
