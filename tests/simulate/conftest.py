"""Simulated runs shared by the tests of this room."""

import pytest

from bayes_grpo.simulate.scenarios import scenario_names, simulate_scenario


@pytest.fixture(scope="session")
def scenario_runs():
    """A run of every scenario and two of the bandits that compile fast, seed 0."""
    return {
        name: simulate_scenario(name, 2 if name in ("slow_start", "plateau") else 1, seed=0)
        for name in scenario_names()
    }
