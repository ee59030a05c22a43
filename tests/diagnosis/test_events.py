"""Events beside their borders: a broken reward, a run that goes on, a rise that matters, losses of 0."""

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.diagnosis.gather import gather
from bayes_grpo.diagnosis.modes.advantage_degeneracy import dead_rows
from bayes_grpo.diagnosis.modes.dynamical_instability import MODE as INSTABILITY
from bayes_grpo.diagnosis.modes.policy_concentration import MODE as SPENT
from bayes_grpo.diagnosis.modes.reward_hacking import MODE as HACKING
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.broken import broken
from bayes_grpo.events.growth import going
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import evaluated, make_run, steps
from tests.helpers.trends import fit_trend, there, trends_of

SURE = BORDERS.log_odds_bound
EVERY_FOURTH = np.arange(4.0, ROWS + 1, 4)


def noise(seed, size=ROWS):
    return np.random.default_rng(seed).standard_normal(size)


def end_of_course(run):
    """What speaks for reward hacking at the last row."""
    return float(HACKING.course(trends_of(run))[-1, 0])


@pytest.fixture
def failing(rising):
    """A reward that is 0 from one row to the next."""
    return np.where(np.arange(ROWS) < ROWS // 2, rising, 0.0)


@pytest.mark.parametrize(
    ("entropy", "value"),
    [
        (np.ones(ROWS), SURE),  # the policy is what it was
        (np.where(np.arange(ROWS) < ROWS // 2, 1.0, 5.0), -SURE),  # it went along
        (None, 0.5 * SURE),  # nobody knows
    ],
)
def test_a_verifier_that_fails_leaves_the_policy_alone(failing, entropy, value):
    signals = {} if entropy is None else {"entropy": entropy * np.exp(0.02 * noise(4))}
    assert broken(trends_of(make_run(steps(ROWS), failing, signals=signals))) == value


def test_a_reward_that_falls_over_rows_or_moves_on_is_not_broken(rising, failing):
    slope = np.clip((0.6 - np.arange(ROWS) / ROWS) / 0.2, 0.0, 1.0)
    for reward in (rising, rising * slope, failing + 0.01 * noise(5), np.zeros(ROWS)):
        assert broken(trends_of(make_run(steps(ROWS), reward))) == -SURE


def test_a_verifier_that_fails_at_a_low_reward_is_broken_too():
    """Where the fall is small beside the range, but all of the level and beyond the spread of the rows."""
    works, entropy = np.arange(ROWS) < ROWS // 2, np.exp(0.02 * noise(4))
    low = np.where(works, 0.09 + 0.02 * noise(18), 0.0)
    found = trends_of(make_run(steps(ROWS), low, signals={"entropy": entropy}, reward_low=0, reward_high=1))
    assert broken(found) == SURE
    # Rows that are mostly 0 tell of no break when the last of them are.
    rare = np.where(works, np.maximum(0.02 * noise(18), 0.0), 0.0)
    found = trends_of(make_run(steps(ROWS), rare, signals={"entropy": entropy}, reward_low=0, reward_high=1))
    assert broken(found) == -SURE


@pytest.mark.parametrize(("after", "value"), [(0.6, SURE), (0.0, -SURE)])
def test_a_held_out_reward_that_stands_tells_that_the_verifier_broke(failing, after, value):
    """Though completions change, as they may where nothing is rewarded any more."""
    works = np.arange(ROWS) < ROWS // 2
    signals = {"entropy": np.where(works, 1.0, 5.0) * np.exp(0.02 * noise(4))}
    held = np.where(EVERY_FOURTH <= ROWS // 2, 0.6, after) + 0.01 * noise(19, 20)
    found = trends_of(make_run(steps(ROWS), failing, signals=signals, evals=evaluated(EVERY_FOURTH, held)))
    assert broken(found) == value


def test_both_rewards_of_nothing_tell_neither():
    """One verifier may have scored them, or the policy fails at both."""
    works = np.arange(ROWS) < ROWS // 2
    held = np.where(EVERY_FOURTH <= ROWS // 2, 0.6, 0.0)
    signals = {"entropy": np.exp(0.02 * noise(4))}
    found = trends_of(
        make_run(steps(ROWS), np.where(works, 0.6 + 0.02 * noise(20), 0.0), signals=signals,
                 evals=evaluated(EVERY_FOURTH, held))
    )  # fmt: skip
    assert broken(found) == 0.0


def test_the_rest_of_a_collapse_is_no_break():
    low = np.select([np.arange(ROWS) < 20, np.arange(ROWS) < 50], [0.8, 0.06], 0.0) + 0.0
    rows = np.where(low > 0, low + 0.004 * noise(21), 0.0)
    signals = {"entropy": np.exp(0.02 * noise(4))}
    assert broken(trends_of(make_run(steps(ROWS), rows, signals=signals, reward_low=0, reward_high=1))) == -SURE


def test_a_run_goes_on_where_its_second_half_gains():
    line = np.linspace(0.0, 1.0, ROWS)
    for late, goes in ((2.0 * BORDERS.going, True), (0.0, False)):
        curve = np.where(line < 0.5, 0.6 * line, 0.3 + 2.0 * late * (line - 0.5))
        found = going(there(fit_trend(steps(ROWS), curve + 0.002 * noise(6))), 1.0)
        assert np.mean(found) > 0.95 if goes else np.mean(found) < 0.05


@pytest.mark.parametrize(("gain", "matters"), [(0.05, False), (0.3, True)])
def test_a_rise_that_no_held_out_reward_follows_has_to_matter(gain, matters):
    reward = 0.1 + gain * np.linspace(0.0, 1.0, ROWS) + 0.005 * noise(7)
    run = make_run(steps(ROWS), reward, evals=evaluated(EVERY_FOURTH, 0.02 + 0.001 * noise(8, 20)))
    found = HACKING.evidence(trends_of(run))
    assert (found.probability > 0.88) == matters
    assert (end_of_course(run) > 1.0) == matters


def test_a_held_out_reward_that_turns_over_tells_without_a_large_rise():
    reward = 0.4 + 0.05 * np.linspace(0.0, 1.0, ROWS) + 0.003 * noise(9)
    held = 0.4 * np.concatenate([np.linspace(0.5, 1.0, 10), np.linspace(1.0, 0.1, 10)]) + 0.01 * noise(10, 20)
    run = make_run(steps(ROWS), reward, evals=evaluated(EVERY_FOURTH, held))
    assert HACKING.evidence(trends_of(run)).probability > 0.88
    assert end_of_course(run) > 1.0


def test_a_high_reward_beside_a_held_out_one_of_nothing_is_hollow():
    """Even where the rise came before the log did."""
    at, reward = EVERY_FOURTH, 0.7 + 0.01 * noise(16)
    for held, hacked in ((0.01, True), (0.3, False)):
        run = make_run(
            steps(ROWS), reward, evals=evaluated(at, held + 0.002 * noise(17, 20)), reward_low=0, reward_high=1
        )
        assert (HACKING.evidence(trends_of(run)).probability > 0.88) == hacked
        assert (end_of_course(run) > 1.0) == hacked
    low = make_run(steps(ROWS), 0.3 * reward, evals=evaluated(at, 0.0 * at), reward_low=0, reward_high=1)
    assert HACKING.evidence(trends_of(low)).probability < 0.5
    assert end_of_course(low) < 0.0


def test_a_loss_of_zero_tells_only_beside_losses_far_above_the_last_digit():
    reward = 0.4 + 0.05 * noise(11)
    zeros = np.arange(ROWS) % 2 == 0
    rounded = np.where(zeros, 0.0, np.round(3e-4 * np.abs(noise(12)) + 1e-4, 4))
    large = np.where(zeros, 0.0, np.round(0.2 + 0.05 * noise(13), 4))
    assert not np.any(there(dead_rows(trends_of(make_run(steps(ROWS), reward, signals={"loss": rounded})))))
    told = there(dead_rows(trends_of(make_run(steps(ROWS), reward, signals={"loss": large}))))
    assert np.mean(told) == pytest.approx(0.5, abs=0.02)
    spread = {"loss": large, "reward_std": np.full(ROWS, 0.3)}
    assert not np.any(dead_rows(trends_of(make_run(steps(ROWS), reward, signals=spread))))


def speaks(mode, run):
    """What speaks for a mode at each row."""
    return mode.course(there(gather(run)).trends)


def test_a_verifier_that_breaks_is_no_instability(failing):
    """The reward is gone, and the policy did not lose it; where completions change with it, it did."""
    known, moved = (make_run(steps(ROWS), failing, signals={"entropy": x * np.exp(0.02 * noise(4))}) for x in (
        np.ones(ROWS), np.where(np.arange(ROWS) < ROWS // 2, 1.0, 5.0)
    ))  # fmt: skip
    broke, lost = (speaks(INSTABILITY, run)[-10:, 0] for run in (known, moved))
    assert broke.max() < 0.0 < lost.min()
    said = [diagnose(run).own for run in (known, moved)]
    assert said[0]["dynamical_instability"] < 0.2 < 0.8 < said[1]["dynamical_instability"]
    assert said[0]["advantage_degeneracy"] > 0.8  # rows of 0 teach nothing, whoever gave them


def test_a_verifier_that_may_have_broken_is_half_excused(failing):
    known, unknown = (
        speaks(INSTABILITY, make_run(steps(ROWS), failing, signals=x))[-1, 0]
        for x in ({"entropy": np.exp(0.02 * noise(4))}, {})
    )
    assert known < unknown < BORDERS.log_odds_bound


def test_entropy_that_is_spent_counts_where_nothing_was_earned_with_it(rising):
    entropy = {"entropy": np.exp(-np.arange(ROWS) / 15.0)}
    stuck, earned = (
        speaks(SPENT, make_run(steps(ROWS), y, signals=entropy, reward_low=0, reward_high=1))[-1, 0]
        for y in (0.3 + 0.02 * noise(1), rising)
    )
    assert stuck > 1.0
    assert earned < 0.0
