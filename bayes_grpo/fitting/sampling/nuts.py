"""NumPyro's NUTS on a regime or a model, compiled once per bucket of rows and reused for every run; and its checks.

On a CPU the chains run in threads, each a single-chain program: no chain waits for another's longer tree, and XLA
releases the interpreter. On an accelerator they run as one batched program.

The checks are those of `bayes_grpo.fitting.sampling.chain_checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.imports import nuts_kernels
from bayes_grpo.common.programs import accelerated, call, prepare
from bayes_grpo.common.results import Result
from bayes_grpo.common.runtime import cores
from bayes_grpo.fitting.sampling import chain_checks
from bayes_grpo.fitting.sampling.target import Target, potential
from bayes_grpo.regimes.base import Regime

MAX_TREE_DEPTH = 8
_FAR = 1e10


@dataclass(frozen=True)
class SamplerSettings:
    """How long and how carefully to sample.

    Attributes:
        num_chains: Number of chains.
        num_warmup: Adaptation iterations of each chain, discarded.
        num_samples: Iterations of each chain that are kept; the one retry keeps `RETRY_LENGTH` times as many.
        target_accept: Target acceptance of the step-size adaptation.
        retry_target_accept: The same for the one retry.
    """

    num_chains: int = 4
    num_warmup: int = 150
    num_samples: int = 500
    target_accept: float = 0.9
    retry_target_accept: float = 0.99


class Chain(NamedTuple):
    """Draws of one chain, leading axis (draws,), or of all chains, leading axes (chains, draws).

    ``z`` are coordinates of a regime, shape (..., p), or the sites of a model by name.
    """

    z: Any
    potential: Array | np.ndarray
    energy: Array | np.ndarray
    num_steps: Array | np.ndarray
    accept_prob: Array | np.ndarray
    diverging: Array | np.ndarray


class Start(NamedTuple):
    """Where the chains begin: positions (chains, p) and a common inverse mass matrix (p, p)."""

    z: np.ndarray
    inverse_mass: np.ndarray


Begun = tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]
"""First state of a chain, the step from a state to the next one, and what draws of its positions are."""


def run_chains(
    begin: Callable[..., Begun],
    options: tuple[Any, ...],
    keys: np.ndarray,
    z: np.ndarray | None,
    settings: SamplerSettings,
    *shared: Any,
) -> Chain:
    """Runs chains side by side; the one driver of NUTS. Draws with leading axes (chains, draws).

    ``begin``, a function of (*options, warm-up, a random key, a position, *shared), begins a chain. Random keys are
    numbers, shape (chains, 2); positions have the shape (chains, p), None for a sampler that finds its own. Shared by
    all chains are the target acceptance and further arrays or trees of them.
    """
    program = _options(begin, options, settings)
    if accelerated():
        return Chain(*call(_chain_program, program, keys, z, *shared))
    pool = ThreadPoolExecutor(max_workers=min(len(keys), cores()))
    try:
        own = zip(keys, [None] * len(keys) if z is None else z, strict=True)
        found = list(pool.map(lambda each: call(_chain_program, program, *each, *shared), own))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupt must not wait for the chains
    return Chain(*jax.tree.map(lambda *x: np.stack(x), *found))


def _options(begin: Callable[..., Begun], options: tuple[Any, ...], settings: SamplerSettings) -> tuple[Any, ...]:
    return begin, options, settings.num_warmup, settings.num_samples, accelerated()


def _chain_program(begin: Any, options: tuple[Any, ...], warmup: int, draws: int, batched: bool) -> Any:
    def run(key_data: Array, z: Any, *shared: Any) -> tuple[Any, ...]:
        state, move, named = begin(*options, warmup, jax.random.wrap_key_data(key_data), z, *shared)

        def body(state: Any, _: None) -> tuple[Any, tuple[Any, ...]]:
            s = move(state)
            return s, (s.z, s.potential_energy, s.energy, s.num_steps, s.accept_prob, s.diverging)

        # One loop for warm-up and sampling, so that the tree builder is compiled once.
        found = jax.lax.scan(body, state, None, length=warmup + draws)[1]
        z, *statistics = jax.tree.map(lambda x: x[warmup:], found)
        return named(z), *statistics  # plain, so that the program is kept

    def side_by_side(keys: Array, z: Any, *shared: Any) -> tuple[Any, ...]:
        return jax.vmap(lambda key, z: run(key, z, *shared))(keys, z)

    return side_by_side if batched else run


def _on_regime(
    regime: Regime, warmup: int, key: Array, z: Array, target: Array, inverse_mass: Array, *arguments: Any
) -> Begun:
    """NUTS on a regime's posterior, with a mass matrix that stays."""
    # Traced once, not at each of the places where NUTS calls it.
    traced = jax.jit(partial(potential, regime))
    hmc, at_point = nuts_kernels()
    init, sample = hmc(potential_fn_gen=lambda *given: lambda z: traced(z, *given), algo="NUTS")
    state = init(
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
        model_args=arguments,
        rng_key=key,
    )
    return state, lambda state: sample(state, arguments), lambda z: z


def _on_model(model: Any, warmup: int, key: Array, _: None, target: Array, *arguments: Any) -> Begun:
    """NUTS on a NumPyro model, which adapts its own mass matrix."""
    from numpyro.infer import NUTS, init_to_median

    kernel = NUTS(
        model,
        target_accept_prob=target,  # pyright: ignore[reportArgumentType]
        init_strategy=init_to_median(num_samples=5),
        max_tree_depth=MAX_TREE_DEPTH,
    )
    state = kernel.init(key, warmup, model_args=arguments)
    return state, lambda state: kernel.sample(state, arguments, {}), jax.vmap(kernel.postprocess_fn(arguments, {}))


def random_keys(seed: int, size: int) -> np.ndarray:
    """Random keys as numbers, shape (size, 2); JAX would compile a program for each way to split one."""
    return np.random.default_rng(seed).integers(0, 2**32, (size, 2), dtype=np.uint32)


def sample_chains(target: Target, seed: int, start: Start, settings: SamplerSettings, target_accept: float) -> Chain:
    """Chains of a regime's posterior; draws with leading axes (chains, draws)."""
    keys = random_keys(seed, settings.num_chains)
    accept = np.asarray(target_accept)
    return run_chains(
        _on_regime, (target.regime,), keys, start.z, settings, accept, start.inverse_mass, *target.arguments
    )


def prepare_chains(target: Target, settings: SamplerSettings) -> None:
    """Compiles the program of `sample_chains`."""
    many = (settings.num_chains,) if accelerated() else ()
    size = len(target.regime.sampled)
    shared = np.zeros(()), np.eye(size), *target.arguments
    keys = np.zeros((*many, 2), np.uint32)
    z = np.zeros((*many, size))
    prepare(_chain_program, _options(_on_regime, (target.regime,), settings), keys, z, *shared)


def sample_model[D](
    model: Any,
    arguments: tuple[Any, ...],
    check: Callable[[Chain, bool], tuple[D, Convergence]],
    *,
    seed: int,
    settings: SamplerSettings,
) -> tuple[D, Convergence]:
    """Samples a NumPyro model, a function of arrays or trees of them; with one chain without a retry.

    ``check`` takes chains and whether they are the second ones, and returns a result and its checks.
    """
    first, second = jax.random.split(jax.random.key(seed))

    def run(key: Array, accept: float, lengths: SamplerSettings) -> Chain:
        keys = np.asarray(jax.random.key_data(jax.random.split(key, settings.num_chains)))
        return run_chains(_on_model, (model,), keys, None, lengths, np.asarray(accept), *arguments)

    found = check(run(first, settings.target_accept, settings), False)
    if found[1].passed or settings.num_chains == 1:
        return found
    longer = replace(settings, num_samples=RETRY_LENGTH * settings.num_samples)
    return check(run(second, settings.retry_target_accept, longer), True)


RETRY_LENGTH = 3
"""Of the chains of the one retry, over that of the first ones."""
RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
BFMI_LIMIT = 0.3


@dataclass(frozen=True)
class ParameterCheck:
    """Checks of one parameter: R-hat, bulk ESS and tail ESS."""

    rhat: float
    ess_bulk: float
    ess_tail: float


@dataclass(frozen=True)
class Convergence(Result):
    """Checks of the draws, and the reasons where one fails.

    Attributes:
        parameters: Checks of each parameter.
        divergences: Divergent transitions after warm-up, all chains.
        ebfmi: Smallest energy Bayesian fraction of missing information over the chains.
        retried: Whether these are the draws of the one retry.
    """

    parameters: Mapping[str, ParameterCheck]
    divergences: int
    ebfmi: float
    retried: bool

    also_in_json = ("passed", "reasons")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Failed checks, one clause each; empty where every check holds."""
        reasons = []
        for name, c in self.parameters.items():
            if not c.rhat <= RHAT_LIMIT:
                reasons.append(f"R-hat of {name} is {c.rhat:.3f} (limit {RHAT_LIMIT})")
            smallest = min(c.ess_bulk, c.ess_tail)
            if not smallest >= ESS_LIMIT:
                reasons.append(f"ESS of {name} is {smallest:.0f} (limit {ESS_LIMIT:.0f})")
        if self.divergences:
            reasons.append(f"{self.divergences} divergent transitions (limit 0)")
        if not self.ebfmi >= BFMI_LIMIT:
            reasons.append(f"E-BFMI is {self.ebfmi:.2f} (limit {BFMI_LIMIT})")
        return tuple(reasons)

    @property
    def passed(self) -> bool:
        """True where every check holds."""
        return not self.reasons

    @property
    def worst(self) -> ParameterCheck:
        """Largest R-hat and smallest ESS over the parameters."""
        checks = self.parameters.values()
        return ParameterCheck(
            rhat=max(c.rhat for c in checks),
            ess_bulk=min(c.ess_bulk for c in checks),
            ess_tail=min(c.ess_tail for c in checks),
        )

    @property
    def usable(self) -> bool:
        """True where the draws serve as weights and for paths: looser than for reported parameters."""
        worst = self.worst
        return worst.rhat <= 1.05 and min(worst.ess_bulk, worst.ess_tail) >= 100 and self.divergences <= 20

    @property
    def sentence(self) -> str:
        """One line with the numbers."""
        w = self.worst
        numbers = (
            f"R-hat ≤ {w.rhat:.3f}, ESS ≥ {w.ess_bulk:.0f} (bulk) and {w.ess_tail:.0f} (tail), "
            f"{self.divergences} divergences, E-BFMI ≥ {self.ebfmi:.2f}"
        )
        again = " after one retry" if self.retried else ""
        if self.passed:
            return f"Converged{again}: {numbers}."
        return f"NOT CONVERGED{again}: {'; '.join(self.reasons)} ({numbers})."


def check_convergence(
    draws: Mapping[str, Any],
    energy: np.ndarray,
    diverging: np.ndarray,
    retried: bool,
) -> Convergence:
    """Checks draws of every parameter, their energies and divergences, all of shape (chains, draws)."""
    checks = {
        name: ParameterCheck(
            rhat=chain_checks.rhat(x),
            ess_bulk=chain_checks.bulk_size(x),
            ess_tail=chain_checks.tail_size(x),
        )
        for name, x in ((name, np.asarray(x)) for name, x in draws.items())
    }
    ebfmi = float(np.min(chain_checks.bfmi(np.asarray(energy))))
    return Convergence(checks, int(np.sum(diverging)), ebfmi, retried)
