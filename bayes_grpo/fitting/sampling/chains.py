"""Chains side by side, checked, and run once more where the checks fail: the one driver of NUTS.

On a CPU each chain is a single-chain program in its own thread: no chain waits for another's longer tree, and XLA
releases the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax import Array

from bayes_grpo.common.machine import cores
from bayes_grpo.common.programs import call
from bayes_grpo.fitting.sampling.convergence import Convergence

Sites = Mapping[str, np.ndarray]
"""Draws by name, leading axes (chains, draws)."""


def chains_side_by_side(make: Any, options: tuple[Any, ...], each: Any, *shared: Any) -> Any:
    """What a single-chain program returns for every chain.

    Args:
        make: Function of the options that returns the function of (a chain's arguments, *shared) to compile.
        options: Hashable.
        each: Arguments of the chains, a tuple each.
        *shared: Arguments that are the same for all chains.

    Returns:
        NumPy arrays, a leading axis of chains on each.
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

    Args:
        run: Runs the chains; takes those that failed, None at first.
        check: Takes chains and whether they are the second ones; gives what they say and the checks.
        retry: Whether to run them once more.

    Returns:
        What the last chains say, and their checks.
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

    Returns:
        What the chains say, and their checks.
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
        chain.run(key, *arguments, *static, extra_fields=("energy", "num_steps"))
        return chain.get_samples(), chain.get_extra_fields()

    return run
