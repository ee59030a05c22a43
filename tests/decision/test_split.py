"""Steps split over several runs, against cases that can be solved by hand; and the rules that it is measured beside."""

import io

import numpy as np
import pytest
from rich.console import Console

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.render import render_split
from bayes_grpo.decision.split import split_budget
from benchmarks.budgets import Member, halving, judged, reached, to_the_end
from tests.decision.test_decision import made
from tests.helpers.runs import make_run

H = 20


def line(start, slope, draws=200):
    """A forecast that rises straight from step 100 on, ten steps a row."""
    return made(np.tile(start + slope * np.arange(1, H + 1), (draws, 1)), latent_now=start)


def test_a_low_run_that_rises_beats_a_high_one_that_stands():
    found = split_budget({"high": line(0.6, 0.0), "rising": line(0.3, 0.03), "dead": line(0.1, 0.0)}, 200.0)
    assert found.runs[0].name == "rising"
    assert (found.runs[0].until, found.spent) == (300.0, 200.0)
    assert found.runs[0].best == 1.0
    assert (found.now, found.then) == (pytest.approx(0.6), pytest.approx(0.9))
    assert "Go on with rising to step 300" in found.sentence
    assert "stop the other 2" in found.sentence
    short = split_budget({"high": line(0.6, 0.0), "rising": line(0.3, 0.03)}, 90.0)
    assert short.spent == 0.0  # nine rows do not bring it past the other: nothing is worth a step
    assert short.sentence.startswith("Stop all 2 runs")


def test_where_either_may_win_both_are_tried():
    rng = np.random.default_rng(0)
    open_ = [made(rng.uniform(0.0, 0.05, (400, 1)) * np.arange(1, H + 1), latent_now=0.0) for _ in range(2)]
    found = split_budget({"a": open_[0], "b": open_[1]}, 400.0)
    assert [run.steps for run in found.runs] == [200.0, 200.0]
    assert found.runs[0].best == pytest.approx(0.5, abs=0.1)
    assert found.then == pytest.approx(2.0 / 3.0, abs=0.05)  # the larger of two uniform ones
    out = io.StringIO()
    render_split(found, Console(file=out, width=120))
    assert "P(best in the end)" in out.getvalue()
    with pytest.raises(SettingError, match="at least one run"):
        split_budget({}, 10.0)
    with pytest.raises(SettingError, match="budget"):
        split_budget({"a": open_[0]}, -1.0)


def sweep():
    """Four runs of 40 rows; the third is the best from its tenth row on."""
    rows = np.arange(1.0, 41.0)
    tops = (0.3, 0.4, 0.9, 0.5)
    runs = [make_run(rows, np.minimum(rows / 10.0, 1.0) * top) for top in tops]
    return [Member(run, run.reward) for run in runs]


def test_halving_keeps_the_better_half():
    until = halving(sweep(), 80.0)
    assert until.tolist() == [10.0, 10.0, 40.0, 20.0]
    assert reached(sweep(), until) == 0.9
    assert to_the_end(sweep(), 40.0) == pytest.approx(np.mean([0.3, 0.4, 0.9, 0.5]), abs=0.05)


@pytest.mark.slow
def test_a_sweep_is_judged():
    found = judged(sweep(), 0.5)
    assert found["ours"] == pytest.approx(1.0, abs=0.05)
    assert found["whole budget"] == 1.0
