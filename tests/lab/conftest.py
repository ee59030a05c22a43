"""A tiny network whose policies differ from one another, and a small task."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import Array

from benchmarks.lab.network import Network, Transformer, flat, fresh, unflattened
from benchmarks.lab.tasks import Task, make_task


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The laboratory is no part of the package: its tests are thorough ones."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.thorough)


NETWORK = Network(layers=1, width=16, heads=2, hidden=16)


def large_weights(network: Network, vocabulary: int, seed: int) -> Array:
    """Fresh weights, eight times as large as usual but for the gains of norms, which are 1."""
    weights = flat(fresh(network, vocabulary, jax.random.key(seed)))
    return jnp.where(weights == 1.0, 1.0, 8.0 * weights)


@pytest.fixture(scope="module", autouse=True)
def single():
    """Random numbers of JAX depend on its precision, which a test of another folder may have set for good."""
    with jax.enable_x64(False):
        yield


@pytest.fixture(scope="session")
def sums() -> Task:
    return make_task("modular_sum", size=4)


@pytest.fixture(scope="session")
def parameters(sums: Task) -> Array:
    with jax.enable_x64(False):
        return large_weights(NETWORK, sums.vocabulary, 1)


@pytest.fixture(scope="session")
def policy(sums: Task, parameters: Array) -> Transformer:
    with jax.enable_x64(False):
        return unflattened(NETWORK, sums.vocabulary)[1](parameters)
