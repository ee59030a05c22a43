"""Failures beside others, and which of them sound an alarm."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.diagnosis.classes import CLASSES, MODES
from bayes_grpo.diagnosis.classify import ClassPosterior, log_odds, under_way
from bayes_grpo.diagnosis.layer import Comorbidity, shipped_layer
from bayes_grpo.laboratory.learners.diagnosis import LabelledCase, learn_comorbidity
from tests.helpers.runs import evaluated, make_run, steps

HACKING, WASTE, SPENT, LOST = MODES


def leads(**given):
    """Probabilities of classes, the rest shared out."""
    rest = (1.0 - sum(given.values())) / (len(CLASSES) - len(given))
    return {name: given.get(name, rest) for name in CLASSES}


def test_what_keeps_its_odds_beside_another_is_the_probability_against_no_failure():
    p = leads(**{LOST: 0.6, WASTE: 0.2, "healthy": 0.1})
    own = under_way(p, Comorbidity(0.0, 1.0))
    none = p["healthy"] + p["plateaued"]
    against = p[WASTE] / (p[WASTE] + none)
    assert own[WASTE] == pytest.approx(p[WASTE] + (sum(p[m] for m in MODES) - p[WASTE]) * against)


def test_a_failure_is_under_way_at_least_as_surely_as_it_leads_and_no_surer_than_something_fails():
    rng, comorbidity = np.random.default_rng(0), shipped_layer().comorbidity
    for p in rng.dirichlet(np.full(len(CLASSES), 0.4), 200):
        found: dict[str, float] = dict(zip(CLASSES, p.tolist(), strict=True))
        own = under_way(found, comorbidity)
        fails = sum(found[m] for m in MODES)
        assert all(found[m] - 1e-12 <= own[m] <= fails + 1e-12 for m in MODES)
        assert ClassPosterior(found, own).failing == pytest.approx(fails)


def test_log_odds_of_certainty_are_finite():
    p = dict.fromkeys(CLASSES, 0.0) | {LOST: 1.0}
    assert np.isfinite(log_odds(p)).all()
    assert under_way(p, Comorbidity(-2.0, 0.3))[LOST] == pytest.approx(1.0)


def test_alarms_name_what_is_probable_or_the_best_guess_where_only_their_sum_is():
    own = {HACKING: 0.45, WASTE: 0.1, SPENT: 0.0, LOST: 0.4}
    p = leads(**{HACKING: 0.42, LOST: 0.38, WASTE: 0.05, SPENT: 0.0})
    found = ClassPosterior(p, own)
    assert found.alarming(0.5) == (HACKING,)
    assert found.alarming(0.4) == (HACKING, LOST)
    assert found.alarming(0.95) == ()


def test_two_numbers_are_learned_back():
    """Runs whose second failure is there as often as the formula says."""
    rng, layer, true = np.random.default_rng(1), shipped_layer(), Comorbidity(-1.0, 0.6)
    cases = []
    for _ in range(1500):
        lost, waste = (float(x) for x in rng.uniform(-2.0, 2.0, 2))
        features = {"grew": -1.0, "going": 0.0, "collapse": lost, "wasted": waste, "broken": -2.0}
        p = _leading(features)
        own = under_way(p, true)
        there = tuple(m for m in MODES if rng.uniform() < own[m])
        cases.append((LabelledCase("healthy", "made", features, there), 1.0))
    found = learn_comorbidity(cases, layer)
    assert found.intercept == pytest.approx(true.intercept, abs=0.25)
    assert found.slope == pytest.approx(true.slope, abs=0.15)


def _leading(features):
    from bayes_grpo.diagnosis.classes import PRIOR
    from bayes_grpo.diagnosis.classify import leading

    return leading(features, PRIOR, shipped_layer())


@pytest.mark.parametrize("share", [0.5, 0.6])
def test_where_failures_share_the_probability_the_sentence_says_that_something_fails(share):
    """A reward that falls by a fifth of its range while half of the groups have no spread: lost, or starved?"""
    n = 80
    reward = 0.5 - 0.2 * (steps(n) > 40) + 0.05 * np.random.default_rng(3).standard_normal(n)
    found = diagnose(make_run(steps(n), reward, signals={"frac_reward_zero_std": np.full(n, share)}))
    assert found.probability[found.answer] < 0.5 <= found.failing
    assert "that something fails" in found.sentence
    assert found.to_dict()["failing"] == found.failing
    assert found.alarming(0.5)
    sure = diagnose(make_run(steps(n), np.where(steps(n) > 40, reward - 0.28, reward)))
    assert sure.probability[LOST] > 0.5
    assert "that something fails" not in sure.sentence


def test_a_held_out_reward_alone_that_falls_is_told_by_the_strain_of_other_signals():
    """Nothing but a held-out reward: it may have parted from the train reward, unless the gradient exploded."""
    n, rng = 60, np.random.default_rng(4)
    held = np.where(steps(n) > 30, 0.1, 0.6) + 0.03 * rng.standard_normal(n)
    alone = make_run(steps(n), np.full(n, np.nan), evals=evaluated(steps(n), held))
    norm = np.exp(np.where(steps(n) > 30, 6.0, 0.0) + 0.2 * rng.standard_normal(n))
    calm, torn = (
        diagnose(replace(alone, signals={"grad_norm": x})) for x in (np.exp(0.2 * rng.standard_normal(n)), norm)
    )
    assert calm.probability[HACKING] > 0.4 > 0.1 > torn.probability[HACKING]
    assert torn.own[LOST] > 0.8
    assert calm.failing > 0.8
