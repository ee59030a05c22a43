"""Logs with one known trouble each, made from formulas and seeds."""

import numpy as np
import pytest

from bayes_grpo.logs.run import Run
from tests.helpers.runs import evaluated, make_run, steps

ROWS = 80


@pytest.fixture(scope="session")
def rising() -> np.ndarray:
    """A reward from 0.2 to 0.8 with noise of 0.03."""
    return 0.8 - 0.6 * np.exp(-np.arange(ROWS) / 25.0) + 0.03 * np.random.default_rng(0).standard_normal(ROWS)


@pytest.fixture(scope="session")
def hacked(rising) -> Run:
    """The train reward rises, the evaluation reward rises for 20 steps and then falls."""
    at = np.arange(4.0, ROWS + 1, 4)
    noise = 0.02 * np.random.default_rng(1).standard_normal(len(at))
    held = np.where(at < 20, 0.2 + 0.01 * at, 0.4 - 0.005 * (at - 20)) + noise
    return make_run(steps(ROWS), rising, evals=evaluated(at, held))


@pytest.fixture(scope="session")
def honest(rising) -> Run:
    """The evaluation reward follows the train reward."""
    at = np.arange(4.0, ROWS + 1, 4)
    held = 0.75 - 0.55 * np.exp(-at / 25.0) + 0.02 * np.random.default_rng(2).standard_normal(len(at))
    return make_run(steps(ROWS), rising, evals=evaluated(at, held))
