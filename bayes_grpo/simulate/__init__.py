"""Simulated GRPO runs of known dynamics: real updates on small softmax policies, logged like a trainer."""

from bayes_grpo.simulate.dataset import write_runs
from bayes_grpo.simulate.fixed_points import FixedPoint, find_fixed_point
from bayes_grpo.simulate.policies import (
    Environment,
    PromptSet,
    bernoulli_bandit,
    contextual_bandit,
    softmax_bandit,
    verifier,
)
from bayes_grpo.simulate.scenarios import SimulatedRun, scenario_names, simulate_scenario
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.trainer_log import trainer_state, write_json
from bayes_grpo.simulate.training import Trajectory, simulate
from bayes_grpo.simulate.truth import Truth, truth_of

__all__ = [
    "Environment",
    "FixedPoint",
    "Numbers",
    "PromptSet",
    "SimulatedRun",
    "Structure",
    "Trajectory",
    "Truth",
    "bernoulli_bandit",
    "contextual_bandit",
    "find_fixed_point",
    "scenario_names",
    "simulate",
    "simulate_scenario",
    "softmax_bandit",
    "trainer_state",
    "truth_of",
    "verifier",
    "write_json",
    "write_runs",
]
