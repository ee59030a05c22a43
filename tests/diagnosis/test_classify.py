"""One answer for a whole run: what leads, what a prior adds, what is left to doubt, and which failures alarm."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import root_scalar

from bayes_grpo import diagnose
from bayes_grpo.common.errors import PriorError
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, CLASSES, MODES, PRIOR
from bayes_grpo.diagnosis.classify import (
    ClassPosterior,
    answers_of,
    checked_prior,
    effective,
    leading,
    posterior,
    shifts_of,
)
from bayes_grpo.diagnosis.timeline import ModeTimeline, Timeline
from tests.helpers.runs import evaluated, make_run, steps
from tests.helpers.trends import there, trends_of

HACKING, WASTE, SPENT, LOST = MODES


def timeline(grew=0.5, **under_way):
    """A timeline of which the last row is known."""
    p = {mode: under_way.get(mode, 0.05) for mode in MODES} | {"growing": grew}
    modes = {name: ModeTimeline(name, np.full(3, x), x, 0.0, x, True) for name, x in p.items()}
    return Timeline(steps(3), modes, ())


def wild(seed):
    """Timelines of all kinds, certain ones too."""
    rng = np.random.default_rng(seed)
    grew, *p = rng.beta(0.3, 0.3, 1 + len(MODES)).tolist()
    return timeline(grew, **dict(zip(MODES, p, strict=True)))


def test_default_prior_is_one():
    assert set(PRIOR) == set(ANSWERS)
    assert sum(PRIOR.values()) == pytest.approx(1.0)


def test_a_stated_prior_keeps_the_rest_in_proportion():
    found = checked_prior({"healthy": 0.9})
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["plateaued"] / found["reward_hacking"] == pytest.approx(PRIOR["plateaued"] / PRIOR["reward_hacking"])


@pytest.mark.parametrize("bad", [{"hacking": 0.1}, {"healthy": 1.2}, {"healthy": 0.8, "plateaued": 0.5}])
def test_impossible_priors_are_named(bad):
    with pytest.raises(PriorError, match="--prior"):
        checked_prior(bad)


def test_no_evidence_means_cannot_tell():
    timeline, found = answers_of(None)
    assert timeline is None
    assert found.probability[CANNOT_TELL] == pytest.approx(1.0)
    assert found.own == pytest.approx({mode: PRIOR[mode] for mode in MODES})


def test_what_leads_counted_by_hand():
    """No failure: 0.4 · 0.8 · 0.9 · 1 = 0.288. The odds of the others are 1.5, 0.25 and 0.111."""
    found = leading({LOST: 0.6, WASTE: 0.2, SPENT: 0.1, HACKING: 0.0}, 0.75, PRIOR)
    assert found["healthy"] == pytest.approx(0.75 * 0.288)
    assert found["plateaued"] == pytest.approx(0.25 * 0.288)
    odds = 1.5 + 0.25 + 1.0 / 9.0
    assert found[LOST] == pytest.approx(0.712 * 1.5 / odds)
    assert found[WASTE] == pytest.approx(0.712 * 0.25 / odds)
    assert found[HACKING] == pytest.approx(0.0, abs=1e-12)
    assert sum(found.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(40))
def test_probabilities_are_some_and_no_failure_leads_more_surely_than_it_is_under_way(seed):
    found, given = posterior(wild(seed)), wild(seed)
    assert sum(found.probability.values()) == pytest.approx(1.0)
    assert all(0.0 <= p <= 1.0 for p in (*found.probability.values(), *found.own.values()))
    for mode in MODES:
        assert found.own[mode] == pytest.approx(max(given.modes[mode].under_way, found.probability[mode]))
    assert max(found.own.values()) <= found.failing + 1e-12


def test_certainty_is_finite():
    found = posterior(timeline(1.0, **{LOST: 1.0, WASTE: 1.0, SPENT: 0.0, HACKING: 0.0}))
    assert sum(found.probability.values()) == pytest.approx(1.0)
    assert found.probability[LOST] == pytest.approx(found.probability[WASTE]) == pytest.approx(0.5)
    assert posterior(timeline(1.0, **dict.fromkeys(MODES, 0.0))).probability["healthy"] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(10))
def test_cannot_tell_read_as_the_prior_gives_the_posterior_back(seed):
    given, prior = wild(seed), np.array([PRIOR[name] for name in CLASSES])
    found = posterior(given)
    wanted = leading({mode: given.modes[mode].under_way for mode in MODES}, given.modes["growing"].ever, PRIOR)
    wanted = np.array([wanted[name] for name in CLASSES])
    np.testing.assert_allclose(effective(found.probability, PRIOR), wanted, atol=1e-9)
    assert found.probability[CANNOT_TELL] == pytest.approx(min(1.0, np.min(wanted / (prior / prior.sum()))))
    assert min(found.probability.values()) == pytest.approx(0.0, abs=1e-12)  # nothing of the prior is left in it


def test_what_says_no_more_than_the_prior_cannot_tell():
    """Failures as likely as they are anyway, and a rise as likely."""
    total = 1.0 - PRIOR[CANNOT_TELL]
    wanted = {name: PRIOR[name] / total for name in CLASSES}
    none = wanted["healthy"] + wanted["plateaued"]
    odds = np.array([wanted[mode] for mode in MODES])
    # Under way so often that each leads as often as in the prior.
    scale = root_scalar(lambda x: np.prod(1.0 / (1.0 + x * odds)) - none, bracket=(0.0, 10.0)).root
    p = scale * odds / (1.0 + scale * odds)
    found = posterior(timeline(wanted["healthy"] / none, **dict(zip(MODES, p, strict=True))))
    assert found.probability[CANNOT_TELL] == pytest.approx(1.0, abs=1e-6)
    assert found.answer == CANNOT_TELL


def test_a_prior_that_is_stated_shifts_its_failure_alone():
    assert shifts_of(PRIOR) == pytest.approx(dict.fromkeys(MODES, 0.0))
    found = shifts_of(PRIOR | {HACKING: 0.5, LOST: 0.01})
    assert found[HACKING] == pytest.approx(np.log(0.92 / 0.08))
    assert found[LOST] < 0.0 == found[WASTE]
    assert np.isfinite(list(shifts_of(PRIOR | {HACKING: 1.0, LOST: 0.0}).values())).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_higher_prior_of_a_failure_gives_more_of_it(mode, rising):
    trends = trends_of(make_run(steps(len(rising)), rising))
    low, high = (answers_of(trends, checked_prior({mode: p}))[1] for p in (0.02, 0.4))
    assert high.own[mode] > low.own[mode]
    assert high.probability[mode] > low.probability[mode]
    assert high.failing > low.failing


@pytest.mark.parametrize("grew", [0.3, 0.9])
def test_a_prior_moves_a_healthy_run_and_a_plateau_against_each_other(grew):
    under_way: dict[str, float] = dict.fromkeys(MODES, 0.1)
    usual, more = (leading(under_way, grew, checked_prior(x)) for x in ({}, {"healthy": 0.6}))
    odds = [x["healthy"] / x["plateaued"] for x in (usual, more)]
    # The others share out the rest as usual, so that the plateau has 0.4 · 0.22 / 0.66.
    assert odds[0] == pytest.approx(grew / (1.0 - grew))
    assert odds[1] / odds[0] == pytest.approx((0.6 / (0.4 * 0.22 / 0.66)) / (0.34 / 0.22))
    assert usual[LOST] == more[LOST]


def test_a_higher_prior_of_health_gives_more_of_it_and_less_of_every_failure(rising):
    trends = trends_of(make_run(steps(len(rising)), rising))
    usual, more = (answers_of(trends, checked_prior(x))[1] for x in ({}, {"healthy": 0.6}))
    assert more.probability["healthy"] > usual.probability["healthy"]
    assert all(more.own[mode] < usual.own[mode] for mode in MODES)


def test_what_cannot_be_seen_is_as_probable_whatever_the_log_shows(rising):
    """It is that of logs which cannot show it, moved by a stated prior."""
    n = len(rising)
    runs = [make_run(steps(n), y) for y in (rising, rising[::-1].copy(), np.full(n, 0.5))]
    blind = [there(answers_of(trends_of(run))[0]) for run in runs]
    for mode in (HACKING, SPENT):
        assert len({x.modes[mode].under_way for x in blind}) == 1
        assert not blind[0].modes[mode].seen
        assert 0.01 < blind[0].modes[mode].under_way < 0.3


@pytest.mark.parametrize("stated", [0.02, 0.3, 0.8])
def test_a_stated_prior_of_what_cannot_be_seen_adds_its_own_log_odds(stated, rising):
    trends = trends_of(make_run(steps(len(rising)), rising))
    usual, found = (answers_of(trends, checked_prior(x))[1].own[HACKING] for x in ({}, {HACKING: stated}))
    wanted = shifts_of(checked_prior({HACKING: stated}))[HACKING]
    assert np.log(found / (1.0 - found)) - np.log(usual / (1.0 - usual)) == pytest.approx(wanted)


def leads(**given):
    """Probabilities of classes, the rest shared out."""
    rest = (1.0 - sum(given.values())) / (len(CLASSES) - len(given))
    return {name: given.get(name, rest) for name in CLASSES}


def test_alarms_name_what_is_probable_or_the_best_guess_where_only_their_sum_is():
    own = {HACKING: 0.45, WASTE: 0.1, SPENT: 0.0, LOST: 0.4}
    p = leads(**{HACKING: 0.42, LOST: 0.38, WASTE: 0.05, SPENT: 0.0})
    found = ClassPosterior(p, own)
    assert found.alarming(0.5) == (HACKING,)
    assert found.alarming(0.4) == (HACKING, LOST)
    assert found.alarming(0.95) == ()


@pytest.mark.parametrize("share", [0.6, 0.62])
def test_where_failures_share_the_probability_the_sentence_says_that_something_fails(share):
    """A reward that falls by a fifth of its range while most groups have no spread: lost, or starved?"""
    n = 80
    reward = 0.5 - 0.2 * (steps(n) > 40) + 0.05 * np.random.default_rng(3).standard_normal(n)
    found = diagnose(make_run(steps(n), reward, signals={"frac_reward_zero_std": np.full(n, share)}))
    assert found.probability[found.answer] < 0.5 <= found.failing
    assert found.sentence.startswith("Something fails with probability")
    assert found.to_dict()["failing"] == found.failing
    assert found.alarming(0.5)
    sure = diagnose(make_run(steps(n), np.where(steps(n) > 40, reward - 0.28, reward)))
    assert sure.probability[LOST] > 0.5
    assert "Something fails" not in sure.sentence


@pytest.fixture(scope="module")
def held_out_alone():
    """Nothing but a held-out reward, which falls."""
    n = 60
    held = np.where(steps(n) > 30, 0.1, 0.6) + 0.03 * np.random.default_rng(4).standard_normal(n)
    return make_run(steps(n), np.full(n, np.nan), evals=evaluated(steps(n), held))


def with_norm(run, height):
    """With a gradient norm that rises by so many e-folds in the middle."""
    norm = np.exp(np.where(steps(60) > 30, height, 0.0) + 0.2 * np.random.default_rng(5).standard_normal(60))
    return replace(run, signals={"grad_norm": norm})


def test_a_held_out_reward_alone_that_falls_is_told_by_the_strain_of_other_signals(held_out_alone):
    calm, torn = (diagnose(with_norm(held_out_alone, height)) for height in (0.0, 6.0))
    assert torn.own[LOST] > 0.8
    assert torn.own[LOST] > calm.own[LOST]
    assert torn.probability[HACKING] < 0.1
    assert calm.failing > 0.8


def test_a_held_out_reward_alone_that_falls_says_that_it_could_not_show_hacking(held_out_alone):
    found = diagnose(held_out_alone)
    assert "Not to be seen in this log: reward hacking" in found.sentence
    assert "hacking and instability look alike" in found.evidence[HACKING].sentence
