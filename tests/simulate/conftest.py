"""Simulated runs shared by the tests of this room."""

from collections.abc import Callable
from functools import cache

import pytest

from bayes_grpo.simulate.scenarios import SimulatedRun, simulate_scenario


@pytest.fixture(scope="session")
def scenario_runs() -> Callable[[str], list[SimulatedRun]]:
    """A run of a scenario by its name, two of the bandits that compile fast, seed 0; simulated when it is asked for."""
    return cache(lambda name: list(simulate_scenario(name, 2 if name in ("slow_start", "plateau") else 1, seed=0)))
