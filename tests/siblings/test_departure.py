from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.siblings.departure import BORDER, USUAL, compare_at, departure_of, signals_of
from tests.helpers.runs import make_run
from tests.siblings.made import family

RUNS = family([0] * 8, share=0.3, seed=3)


def fallen(by=0.4, after=30):
    """The first run, from a row on lower."""
    run = RUNS[0]
    return replace(run, reward=run.reward - np.where(run.step > after, by, 0.0))


def test_a_run_that_falls_away_departs_since_then_and_the_others_do_not():
    found = departure_of(fallen(), RUNS[1:])
    first = found.signals[0]
    assert found.departs
    assert first.signal == "reward"
    assert first.distance < -BORDER
    assert first.count == 7
    assert found.since is not None
    assert 30.0 < found.since <= 40.0
    assert found.usual <= USUAL[-1][0]
    assert "departs from its reference runs since about step" in found.sentence
    fine = [departure_of(r, [x for x in RUNS if x is not r]) for r in RUNS]
    assert not any(x.departs for x in fine)
    assert all(x.since is None for x in fine)
    assert fine[0].usual > 0.05
    assert "does not depart" in fine[0].sentence


def test_nothing_after_the_look_is_seen_and_a_better_reward_is_no_departure():
    whole, before = fallen(), fallen().until(28.0)
    assert not departure_of(before, RUNS[1:]).departs
    others = [signals_of(r, "reward") for r in RUNS[1:]]
    assert compare_at(signals_of(whole, "reward"), others, 28.0) == compare_at(
        signals_of(before, "reward"), others, 28.0
    )
    above = departure_of(fallen(by=-0.4), RUNS[1:])
    assert above.signals[0].distance > BORDER
    assert not above.departs


def test_other_signals_count_both_ways_and_few_siblings_say_nothing():
    step = RUNS[0].step
    rng = np.random.default_rng(0)

    def logged(run, entropy):
        noise = np.exp(0.05 * rng.standard_normal(len(step)))
        return make_run(run.step, run.reward, signals={"entropy": entropy * noise}, name=run.name)

    siblings = [logged(r, 1.0 + 0.03 * i) for i, r in enumerate(RUNS[1:])]
    found = departure_of(logged(RUNS[0], np.where(step > 30, 0.1, 1.0)), siblings)
    assert found.signals[0].signal == "entropy"
    assert found.departs
    assert found.signals[0].value == pytest.approx(0.1, rel=0.1)
    few = departure_of(fallen(), RUNS[1:4])
    assert not few.signals
    assert not few.departs
    assert few.named == 3
    assert "too few of 3 reference runs" in few.sentence


def test_a_diagnosis_tells_it_and_what_it_left_out():
    run = fallen()
    found = diagnose(run, like=[*RUNS[1:], run])
    assert found.departure is not None
    assert found.departure.departs
    assert found.to_dict()["siblings"]["departs"]
    assert "departs from its reference runs" in found.sentence
    assert any("a copy of it" in note for note in found.notes)
