"""Runs a NumPyro model with everything compiled beforehand, so that only sampling is timed.

A second `MCMC.run` traces and compiles parts again (and raises with vectorised chains), which would be counted
against the peer. So a whole `MCMC.run` is traced into one compiled program, as NumPyro's documentation shows, and
chains are spread as this package spreads its own: on a CPU one single-chain program in threads, on an accelerator one
program of vectorised chains.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from numpyro.infer import MCMC, NUTS, init_to_median


def compiled_sampler(model, arguments, *, warmup, draws, chains=4, **kernel):
    """A function of a seed that samples a model.

    Args:
        model: NumPyro model.
        arguments: Its arguments.
        warmup: Adaptation iterations a chain.
        draws: Draws a chain.
        chains: Number of chains.
        **kernel: Options of `numpyro.infer.NUTS`.

    Returns:
        Function seed → (seconds, draws by name of shape (chains, draws, …), extra fields likewise).
    """
    batched = jax.default_backend() != "cpu"

    def run(key):
        mcmc = MCMC(
            NUTS(model, init_strategy=init_to_median, **kernel),
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains if batched else 1,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(key, *arguments, extra_fields=("num_steps",))
        return mcmc.get_samples(group_by_chain=batched), mcmc.get_extra_fields(group_by_chain=batched)

    options = None if batched else {"xla_cpu_prefer_vector_width": 512}  # as this package compiles its own
    program = jax.jit(run).lower(jax.random.key(0)).compile(compiler_options=options)

    def sample(seed):
        begin = time.perf_counter()
        if batched:
            out = jax.tree.map(np.asarray, program(jax.random.key(seed)))
        else:
            keys = jax.random.split(jax.random.key(seed), chains)
            with ThreadPoolExecutor(max_workers=min(chains, os.cpu_count() or 1)) as pool:
                each = list(pool.map(lambda i: jax.tree.map(np.asarray, program(keys[i])), range(chains)))
            out = jax.tree.map(lambda *x: np.stack(x), *each)
        return time.perf_counter() - begin, *out

    return sample
