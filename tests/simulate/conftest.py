"""Simulated runs shared by the tests of this room."""

import pytest

from bayes_grpo.simulate.scenarios import SimulatedRun, simulate_scenario


class Scenarios(dict[str, list[SimulatedRun]]):
    """A run of a scenario by its name, two of the bandits that compile fast, seed 0; simulated when it is asked for."""

    def __missing__(self, name: str) -> list[SimulatedRun]:
        self[name] = list(simulate_scenario(name, 2 if name in ("slow_start", "plateau") else 1, seed=0))
        return self[name]


@pytest.fixture(scope="session")
def scenario_runs() -> Scenarios:
    return Scenarios()
