"""Every scenario does what its name says, by true quantities."""

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.reduction import onset_of_oscillation
from bayes_grpo.simulate.scenarios import SCENARIOS, simulate_scenario
from benchmarks.lab.fixed_points import linearized
from tests.helpers.paths import not_none

FAILURES = {
    "unstable": "dynamical_instability",
    "reward_hacking": "reward_hacking",
    "advantage_degeneracy": "advantage_degeneracy",
    "policy_concentration": "policy_concentration",
}


def near(run):
    return not_none(linearized(run.trajectory, run.structure, run.numbers, run.environment))


SHOWS = {
    "healthy": lambda run: run.truth.final_reward > run.trajectory.true_reward[0] + 0.3,
    # Half of the growth comes after a third of the run.
    "slow_start": lambda run: run.trajectory.true_reward[133] < 0.5 * run.truth.final_reward,
    "oscillatory": lambda run: (
        run.truth.best_gold_reward > near(run).point.reward + 0.05
        and near(run).gain > onset_of_oscillation(run.numbers.momentum)
        and near(run).growth_per_step < 1
    ),
    "unstable": lambda run: near(run).growth_per_step > 1,
    "reward_hacking": lambda run: run.truth.final_reward > run.truth.final_gold_reward + 0.3,
    "advantage_degeneracy": lambda run: run.trajectory.frac_reward_zero_std.mean() > 0.6,
    "policy_concentration": lambda run: run.trajectory.entropy[-1] < 0.1 * run.trajectory.entropy[0],
    "plateau": lambda run: np.ptp(run.trajectory.true_reward) < 0.1,
}


def check(run):
    assert run.truth.failure_mode == FAILURES.get(run.scenario), (run.scenario, run.index)
    assert SHOWS[run.scenario](run), (run.scenario, run.index)
    assert all(np.isfinite(leaf).all() for leaf in run.trajectory)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_shows_what_it_is_named_for(scenario_runs, name):
    assert [run.index for run in scenario_runs(name)] == list(range(len(scenario_runs(name))))
    for run in scenario_runs(name):
        check(run)


@pytest.mark.thorough
def test_a_larger_set_begins_with_the_smaller_one(scenario_runs):
    first = scenario_runs("slow_start")[0]
    (alone,) = simulate_scenario("slow_start", 1, seed=0)
    assert alone.numbers == first.numbers
    assert alone.seed == first.seed
    np.testing.assert_allclose(alone.trajectory.reward, first.trajectory.reward, atol=1e-6)
    second = scenario_runs("slow_start")[1]
    assert second.numbers != first.numbers
    (other,) = simulate_scenario("slow_start", 1, seed=1)
    assert other.numbers != first.numbers


def test_bad_requests_are_named():
    for request, words in (
        (("helthy", 1, 0), "healthy, slow_start"),
        (("healthy", 0, 0), "number of runs"),
        (("healthy", 1, -1), "seed"),
    ):
        with pytest.raises(SettingError, match=words):
            simulate_scenario(*request)
