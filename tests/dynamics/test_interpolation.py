"""Moments of a step at many rows from a few nodes, beside those computed row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.dynamics.oscillator import oscillator_step

ROWS = 300


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@jax.jit
def from_nodes(a, b, t, share):
    return jnp.stack(oscillator_step(a, b * share, t))


@jax.jit
def row_by_row(a, b, t, share):
    return jnp.stack(oscillator_step(jnp.full(ROWS, a), b * share, t))


def relative(found, expected):
    return np.max(np.abs(found - expected), axis=-1) / np.max(np.abs(expected), axis=-1)


SHARES = {
    "falling": np.linspace(1.0, 0.0, ROWS),
    "warm-up and cosine": np.where(np.arange(ROWS) < 20, np.arange(ROWS) / 20, np.cos(np.arange(ROWS) / 200) ** 2),
    "constant": np.ones(ROWS),
}


# From a step far below every time of the law to one of more than a period; after five nothing is left to compare.
@pytest.mark.parametrize("omega", [1e-4, 0.03, 0.7, 4.0, 9.0])
@pytest.mark.parametrize("zeta", [-0.2, 0.0, 0.02, 1.0, 8.0])
@pytest.mark.parametrize("share", SHARES)
def test_steps_are_those_of_every_row_by_itself(share, zeta, omega):
    at = (2.0 * zeta * omega, omega**2, 1.0, SHARES[share])
    assert relative(from_nodes(*at), row_by_row(*at)).max() < 1e-11


@pytest.mark.thorough
@pytest.mark.parametrize("omega", [0.05, 6.0])
def test_slopes_are_those_of_every_row_by_itself(omega):
    share = SHARES["falling"]
    point = 0.6 * omega, omega**2
    for which in (0, 1):
        found, expected = (
            jax.jacfwd(lambda a, b, f=f: f(a, b, 2.0, share), argnums=which)(*point) for f in (from_nodes, row_by_row)
        )
        assert relative(found, expected).max() < 1e-11
        back, forth = (
            jax.grad(lambda a, b, f=f: jnp.sum(jnp.sin(f(a, b, 2.0, share))), argnums=which)(*point)
            for f in (from_nodes, row_by_row)
        )
        assert float(back) == pytest.approx(float(forth), rel=1e-9)
