"""R-hat, effective sizes and E-BFMI are ArviZ's, which is imported here alone."""

import math

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from bayes_grpo.fitting.sampling import chain_checks

SHAPES = [(2, 10), (4, 101), (4, 500), (5, 64)]


def chains(shape: tuple[int, int], memory: float, seed: int = 0) -> np.ndarray:
    """Chains of an autoregression."""
    x = np.random.default_rng(seed).standard_normal(shape)
    for i in range(1, shape[1]):
        x[:, i] += memory * x[:, i - 1]
    return x


KINDS = {
    "plain": lambda x: x,
    "rounded": np.round,
    "apart": lambda x: x + 3.0 * np.arange(len(x))[:, None],
    "heavy": lambda x: x**5,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("memory", [-0.8, 0.0, 0.5, 0.97])
@pytest.mark.parametrize("kind", KINDS)
def test_checks_are_those_of_arviz(shape, memory, kind):
    x = KINDS[kind](chains(shape, memory))
    theirs = (
        array_stats.rhat(x),
        array_stats.ess(x, method="bulk"),
        array_stats.ess(x, method="tail", prob=(0.05, 0.95)),
    )
    ours = chain_checks.rhat(x), chain_checks.bulk_size(x), chain_checks.tail_size(x)
    np.testing.assert_allclose(ours, np.asarray(theirs, float), rtol=1e-9)
    np.testing.assert_allclose(chain_checks.bfmi(x), array_stats.bfmi(x), rtol=1e-12)


def test_chains_that_stand_still_have_no_rhat():
    still = np.full((4, 50), 0.3)
    assert chain_checks.bulk_size(still) == 200.0
    assert math.isnan(chain_checks.rhat(still))


def test_draws_that_are_not_numbers_have_no_check():
    x = chains((4, 100), 0.5)
    x[1, 3] = np.nan
    assert all(math.isnan(f(x)) for f in (chain_checks.rhat, chain_checks.bulk_size, chain_checks.tail_size))
