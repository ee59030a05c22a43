"""One account of a run: what happened leads, a law describes the rows since, no two sentences exclude each other."""

import json
import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bayes_grpo as bg
from bayes_grpo.accounts.advice import UNCHANGED, advised, given
from bayes_grpo.accounts.span import after, law_span
from bayes_grpo.common.errors import FitError
from bayes_grpo.decision.result import Decision
from bayes_grpo.diagnosis.status import MEANING, SEVERITY, TopLine
from tests.decision.test_decision import saturating
from tests.helpers.cases import dipped_then_collapsed, rate_ended
from tests.helpers.runs import make_run, rising_run, steps
from tests.helpers.trends import there

FAST = bg.SamplerSettings(chains=2, warmup=150, draws=100)
FINE = TopLine("fine", "growing", 0.8, "the reward rises, and nothing fails.", "go on.", "the timeline")
FAILED = TopLine("failed", "dynamical_instability", 0.9, "the reward has fallen.", "stop, and go back.", "the trend")
REST = TopLine("done", "plateaued", 0.8, "the reward is at rest at 0.8.", "stop if that is what you need.", "the trend")


def ahead(p_gain: float) -> Any:
    return SimpleNamespace(p_gain=p_gain, threshold=0.01, until=90.0)


def decided(cost: float) -> Decision:
    return bg.decide(saturating(np.full(50, 100.0), np.full(50, 0.3)), cost_per_step=cost, value_per_reward=1.0)


@dataclass(frozen=True)
class Expected:
    sentence: str
    notes: tuple[str, ...] = ("the schedule",)


def test_a_forecast_by_itself_says_what_it_does_not_know():
    summary: Any = Expected("the train reward is expected to rise.")
    told = bg.forecast_given(FAILED, summary)
    assert told.sentence == UNCHANGED + summary.sentence
    assert told.notes[0].startswith("FAILED (90%): the reward has fallen.")
    assert told.notes[1:] == summary.notes
    watch = replace(FAILED, status="watch", probability=0.3)
    assert bg.forecast_given(watch, summary).sentence == summary.sentence
    assert bg.forecast_given(watch, summary).notes[0].startswith("WATCH (probability 0.30)")
    assert bg.forecast_given(FINE, summary) is summary


def test_a_law_describes_the_rows_since_the_collapse():
    run = dipped_then_collapsed()
    span = law_span(run)
    assert there(span.since) == pytest.approx(25.0, abs=1.0)
    assert span.checked().step[0] > there(span.since)
    assert span.told.startswith("The reward fell from 0.88 to 0 after step 25.")
    assert not span.refused


def test_a_law_is_refused_where_too_few_rows_came_since():
    run = dipped_then_collapsed().until(32)
    span = law_span(run)
    assert "a law needs 8" in span.refused
    with pytest.raises(FitError, match="--whole"):
        span.checked()


@dataclass(frozen=True)
class Told:
    verdict: str


def test_a_law_after_the_end_of_the_learning_rate_says_so():
    said: Any = Told("the reward grows.")
    assert law_span(rate_ended()).leads(said).verdict.startswith("the reward grows. The learning rate came to its end")
    assert law_span(rising_run(40)).leads(said) == said


def test_a_run_without_a_break_is_described_whole():
    run = rising_run(40)
    assert law_span(run).run is run
    few = make_run(steps(2), [0.1, 0.2])
    assert law_span(few).run is few


def test_a_fall_that_came_back_is_left_behind():
    reward = np.full(60, 0.8) + 0.02 * np.random.default_rng(0).standard_normal(60)
    reward[15:25] = 0.1
    span = law_span(make_run(steps(60), reward, reward_low=0.0, reward_high=1.0))
    assert 14 <= there(span.since) <= 26
    assert "came back" in span.told


def test_later_rows_keep_their_signals_and_evaluations():
    run = make_run(steps(10), np.arange(10.0), signals={"kl": np.arange(10.0)}, evals={2.0: 0.1, 8.0: 0.2})
    late = after(run, 5.0)
    assert late.step.tolist() == [6.0, 7.0, 8.0, 9.0, 10.0]
    assert late.signals["kl"].tolist() == late.reward.tolist() == [5.0, 6.0, 7.0, 8.0, 9.0]
    assert late.eval_step.tolist() == [8.0]


def test_nothing_that_is_to_come_changes_what_a_failing_run_needs():
    for decision in (None, decided(0.0), decided(1.0)):
        assert advised(FAILED, ahead(0.99), decision) is FAILED
    assert given(FAILED, "The reward rises.") == f"{UNCHANGED}the reward rises."
    assert given(FAILED, "Stop, and start anew: it fell.") == "Stop, and start anew: it fell."
    assert given(FAILED, "Stop, and go back to 3.") == "Stop, and go back to 3."
    assert given(FINE, "The reward rises.") == given(None, "The reward rises.") == "The reward rises."


def test_the_forecast_and_the_costs_say_whether_to_go_on():
    assert advised(FINE, ahead(0.9)).action.startswith("go on: a gain of more than 0.01 until step 90")
    assert advised(FINE, ahead(0.1)).action.startswith("nothing more is to be expected")
    assert advised(REST, ahead(0.9)).status == "fine"
    assert advised(REST, ahead(0.5)) is REST
    assert advised(FINE, ahead(0.9), decided(1.0)).action.startswith("stop: no later step is expected to pay")
    onward = advised(REST, ahead(0.9), decided(1e-6))
    assert (onward.status, onward.action.startswith("go on to step ")) == ("fine", True)
    watched = replace(FINE, status="watch", action="raise the limit on completions.")
    assert advised(watched, ahead(0.1), decided(1.0)) is watched


def test_every_status_has_a_meaning_and_a_level():
    assert MEANING.keys() == SEVERITY.keys()
    assert FAILED.alarming
    assert not FINE.alarming
    assert FAILED.sentence == "FAILED (90%): the reward has fallen. Do now: stop, and go back."
    assert FAILED.to_dict()["meaning"] == FAILED.meaning


def test_an_account_tells_everything_in_one_order():
    run = rising_run(40, reward_low=0.0, reward_high=1.0)
    question = bg.Question(cost_per_step=0.001, value_per_reward=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.BayesGrpoWarning)  # so short a sampling does not always converge
        found = bg.account(run, question=question, regime="exponential", sampler=FAST)
    assert found.sentence.startswith(found.top.sentence)
    places = [found.sentence.index(x) for x in (found.diagnosis.sentence, there(found.fit).verdict[1:])]
    assert places == sorted(places)
    assert not found.reasons
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["top"]["status"] == found.top.status == "fine"
    short = bg.account(make_run(steps(3), [0.1, 0.2, 0.1]))
    assert set(short.reasons) == {"fit", "forecast"}
