"""Rules and regrets of the benchmarks of decisions on problems without fits; a small benchmark as a slow test."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.forecast.decision_problems import Problem, coarser, forecasts_of, problems
from benchmarks.forecast.decisions import OURS, chosen, evaluated, ours, patience, report, rules, taken
from benchmarks.forecast.decisions_public import problem_of, replayed
from tests.decision.test_decision import made
from tests.helpers.paths import not_none


@pytest.fixture
def problem(synthetic_run):
    """The curve of 40 steps, seen to step 10, checkpoints at every second; half of what it gains pays for the steps."""
    true = np.append(synthetic_run.reward, synthetic_run.reward[-1])
    return Problem("made", synthetic_run, true, 10, 0.004, 1.0, 1.0, np.arange(2, 40, 2), true, "made")


def looks_of(problem, draws=100):
    """Forecasts that know the curve."""
    rng = np.random.default_rng(0)
    for now in problem.looks():
        ahead = made(np.tile(problem.true[now + 1 :], (draws, 1)), latent_now=problem.true[now], now=now, every=1.0)
        ahead.rows = ahead.latent + 1e-3 * rng.standard_normal(ahead.latent.shape)
        seen = problem.run.until(float(now))
        ahead.logged_step, ahead.logged = seen.step, seen.reward
        yield now, ahead


def test_no_stop_is_better_than_the_best_in_hindsight(problem):
    assert problem.net(10, taken=10) == 0.0
    assert problem.best_net() >= max(problem.net(s) for s in range(10, 41)) > 0.0
    assert problem.net(40, taken=40) == pytest.approx(problem.true[40] - problem.true[10] - 30 * 0.004)
    assert problem.net(20, taken=12) == pytest.approx(problem.true[12] - problem.true[10] - 10 * 0.004)
    assert problem.on_disk(11.0).tolist() == [2, 4, 6, 8, 10, 11]
    assert problem.best_scored(30) == problem.on_disk(30)[np.argmax(problem.true[problem.on_disk(30)])]
    unscored = dataclasses.replace(problem, score=np.full(41, np.nan))
    assert unscored.best_scored(30) == 30
    assert problem.looks()[:3] == [10, 14, 18]


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
    assert min(rules(late).values()) >= 38
    assert rules(problem)["80% of the plan"] == 32


def test_who_knows_the_curve_loses_next_to_nothing(problem, capsys):
    found = evaluated(problem, list(looks_of(problem)))
    assert min(found.regret.values()) >= 0.0
    assert max(found.regret[name] for name in OURS) < 0.025  # less than a tenth of what there is to gain
    assert found.regret["now"] > 0.1
    assert found.claims[0][1]
    assert found.chosen[0].keys() == {"ours", "ours, rows alone", "best score", "last"}
    result = report([found, found])
    assert result["runs"] == 2
    assert "our choice" in capsys.readouterr().out


def test_a_log_that_nothing_can_be_said_of_is_stopped(problem):
    nothing = [(10, SimpleNamespace(step=None))]
    assert ours(problem, nothing)[0] == dict.fromkeys(OURS, 10.0)


def test_choices_are_judged_by_what_is_deserved(problem):
    off = problem.score.copy()
    off[4] = 2.0  # one lucky score
    lucky = dataclasses.replace(problem, score=off)
    found = chosen(lucky, 40)
    assert found["best score"][0] == pytest.approx(problem.true[problem.on_disk(40)].max() - problem.true[4])
    assert found["best score"][1] == pytest.approx(2.0 - problem.true[4])
    assert found["last"][0] < found["best score"][0]
    assert taken(problem, 40) > 20


def test_a_long_log_is_averaged_and_ends_where_it_ended(synthetic_run):
    few = coarser(synthetic_run, 10)
    assert len(few.step) == 10
    assert few.step[-1] == synthetic_run.step[-1]
    assert few.reward[-1] == pytest.approx(synthetic_run.reward[-4:].mean())
    assert few.window[0] == 4.0 * synthetic_run.window[0]


def test_a_public_log_is_worth_its_held_out_trend(synthetic_run):
    evals = np.arange(4.0, 41.0, 4.0)
    run = dataclasses.replace(
        synthetic_run, eval_step=evals, eval_reward=0.5 * synthetic_run.reward[evals.astype(int) - 1]
    )
    found = not_none(problem_of(run, 0.1))
    assert np.ptp(found.true) == pytest.approx(np.ptp(run.eval_reward), rel=0.3)
    assert found.kept.tolist() == evals.tolist()
    assert problem_of(dataclasses.replace(run, eval_reward=np.full(10, 0.5)), 0.1) is None


@pytest.mark.slow
def test_decisions_beat_running_to_the_end(tmp_path: Path):
    found = problems(16, seed=1)
    result = report([evaluated(p, list(forecasts_of(p, tmp_path))) for p in found])
    assert result["restored"]["every tenth, our choice"] < result["restored"]["end"]
    assert replayed(found[0], tmp_path)["ours"][1] >= 0.0
