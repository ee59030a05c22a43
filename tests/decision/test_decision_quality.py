"""Rules and regrets of benchmarks/decision.py on problems without fits; a small benchmark as a slow test."""

import dataclasses

import numpy as np
import pytest

from bayes_grpo.decision.decide import decide
from bayes_grpo.decision.limit import Limit
from benchmarks.decision import OURS, Problem, decider, evaluate, followed, patience, problems, report, rivals
from tests.decision.test_decision import made


@pytest.fixture
def problem(synthetic_run):
    """The curve of 40 steps, seen to step 10; half of what it still gains pays for the steps."""
    true = np.append(synthetic_run.reward, synthetic_run.reward[-1])
    return Problem("made", synthetic_run, true, now=10, cost=0.004, value=1.0)


def test_the_oracle_has_no_regret_and_no_stop_beats_it(problem):
    best = problem.oracle()
    assert 10 < best < 40
    assert problem.net(10) == 0.0
    assert all(problem.net(best) >= problem.net(s) for s in range(10, 41))
    assert problem.net(40) == pytest.approx(problem.true[40] - problem.true[10] - 30 * 0.004)


def test_patience_waits_for_rows_without_a_new_best():
    step = np.arange(1.0, 41.0)
    reward = np.minimum(step, 15.0)
    assert patience(step, reward, 5.0, counted_before=False) == 25.0
    assert patience(step, reward, 20.0, counted_before=False) == 30.0
    assert patience(step, reward, 20.0, counted_before=True) == 25.0
    assert patience(step, reward, 30.0, counted_before=True) == 30.0
    assert patience(step, step, 5.0, counted_before=True) == 40.0


def test_rules_never_stop_in_the_past(problem):
    late = dataclasses.replace(problem, now=38)
    assert min(rivals(late).values()) >= 38
    assert rivals(problem)["80% of the plan"] == 32


def knows_the_curve(problem):
    def judge(seen, _):
        now = float(seen.step[-1])
        ahead = made(problem.true[int(now) + 1 :], latent_now=problem.true[int(now)], now=now, every=1.0)
        return decide(ahead, cost_per_step=problem.cost, value_per_reward=problem.value).stopping

    return judge


def test_who_knows_the_curve_has_no_regret(problem):
    record = evaluate(problem, knows_the_curve(problem))
    assert [record["regret"][name] for name in OURS] == pytest.approx([0.0, 0.0, 0.0])
    assert min(record["regret"].values()) >= 0.0
    assert record["paid"]
    assert record["regret"]["end"] > 0.01


def test_a_log_that_nothing_can_be_said_of_is_stopped(problem):
    record = evaluate(problem, lambda *_: None)
    assert record["regret"]["recommended"] == record["regret"]["now"] > 0


def test_a_limit_is_followed_row_by_row(problem):
    first = knows_the_curve(problem)(problem.run.until(10.0), problem)
    assert first is not None
    later = problem.run.reward[problem.run.step > 10]
    limit = Limit(float(later[4]), False, 40.0, 1.0, 0.0, 0.0, 1.0, "")
    bounded = dataclasses.replace(first, limit=limit)
    stop = followed(problem, bounded)
    assert 10 < stop <= 15
    assert problem.run.reward[problem.run.step == stop] >= limit.reward
    assert followed(problem, bounded, until=10.0) == np.inf
    never = dataclasses.replace(first, limit=dataclasses.replace(limit, reward=9.0, latest=20.0))
    assert followed(problem, never) == 20.0


@pytest.mark.slow
def test_decisions_beat_running_to_the_end():
    judge = decider(("flat", "exponential", "bernoulli"), "weak", 1)
    means = report([evaluate(problem, judge) for problem in problems(40, seed=1)])
    assert means["decided every 10%"] < means["end"]
    assert means["recommended"] < means["80% of the plan"]
