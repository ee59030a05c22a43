"""The chain of a mode: exact marginals, what the learner sums over, draws, and numbers that are learned back."""

from itertools import product

import jax
import numpy as np
import pytest
from scipy.special import expit, logsumexp

from bayes_grpo.diagnosis.chain import CHAIN_DRAWS, FIXED, FULL_ROWS, ModeChain, _passes
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.smoothing import TREND_ROWS
from bayes_grpo.diagnosis.timeline import shipped_chains
from benchmarks.lab.learners.episode_cases import OFF, ON, OPEN, EpisodeCase
from benchmarks.lab.learners.episodes import _log_sum, learn_chain
from tests.helpers.runs import make_run, steps

ROWS = 6
HISTORIES = np.array(list(product([False, True], repeat=ROWS)))


def made(seed):
    """What speaks for the mode at each row, chances to begin and to end, and log odds at the first row."""
    rng = np.random.default_rng(seed)
    return 2.0 * rng.standard_normal(ROWS), rng.uniform(0.05, 0.6), rng.uniform(0.05, 0.6), rng.normal()


def log_weights(unary, on, off, start):
    """Log weight of each of the 2^n histories, written out."""
    first = np.where(HISTORIES[:, 0], np.log(expit(start)), np.log(expit(-start)))
    before, after = HISTORIES[:, :-1], HISTORIES[:, 1:]
    moves = np.where(before, np.where(after, np.log(1 - off), np.log(off)), np.where(after, np.log(on), np.log(1 - on)))
    return first + moves.sum(axis=1) + HISTORIES @ unary


@pytest.mark.parametrize("seed", range(4))
def test_marginals_and_drawn_histories_are_those_of_all_histories(seed):
    unary, on, off, start = made(seed)
    weights = log_weights(unary, on, off, start)
    p = np.exp(weights - logsumexp(weights))
    draws = 20_000
    smoothed, drawn = _passes(
        np.tile(unary, (draws, 1)), np.full(draws, on), np.full(draws, off), np.full(draws, start),
        np.random.default_rng(seed),
    )  # fmt: skip
    np.testing.assert_allclose(smoothed[0], p @ HISTORIES, rtol=1e-9)
    np.testing.assert_allclose(drawn.mean(axis=0), smoothed[0], atol=4.0 * 0.5 / np.sqrt(draws))
    # Whole histories too, and not their rows alone.
    at = drawn @ (2 ** np.arange(ROWS)[::-1])
    np.testing.assert_allclose(np.bincount(at, minlength=2**ROWS) / draws, p, atol=4.0 * 0.5 / np.sqrt(draws))


@pytest.mark.parametrize(
    "label", [[OPEN] * 6, [OFF, OPEN, ON, ON, OPEN, OFF], [ON] * 6, [OPEN, OFF, OFF, OPEN, ON, ON]]
)
@pytest.mark.parametrize("rows", [ROWS, 4])
def test_the_learner_sums_over_the_histories_that_agree_with_the_labels(label, rows):
    """Rows beyond the log, which only fill the table, count for nothing."""
    unary, on, off, start = made(7)
    label, inside = np.array(label), np.arange(ROWS) < rows
    agree = ((label == OPEN) | ((label == ON) == HISTORIES) | ~inside).all(axis=1)
    alike = agree & ~(HISTORIES & ~inside).any(axis=1)  # one of the many that differ beyond the log
    before, after = HISTORIES[:, :-1], HISTORIES[:, 1:]
    moves = np.where(before, np.where(after, 1 - off, off), np.where(after, on, 1 - on))
    weight = np.where(HISTORIES[:, 0], expit(start), expit(-start)) * np.where(inside[1:], moves, 1.0).prod(axis=1)
    expected = np.log((weight * np.exp(HISTORIES @ (unary * inside)))[alike].sum())
    with jax.enable_x64(True):
        found = float(_log_sum(unary, label, inside, on, off, start))
    assert found == pytest.approx(expected, rel=1e-9)


def chain(weights=(1.0, 0.5), spread=0.3, sd=0.2, **fixed):
    """A chain with known numbers."""
    numbers = {"seen": -0.5, "unseen": -1.0, "begins": 0.0, "ends": 0.0, "start": -2.0} | fixed
    mean = np.array([*weights, *(numbers[name] for name in FIXED[:-1]), np.log(spread)])
    return ModeChain(tuple("xyz"[: len(weights)]), mean, sd**2 * np.eye(len(mean)), {"runs": 3})


def test_a_probability_is_the_share_of_histories_and_the_same_each_time():
    course = np.column_stack([np.where(steps(40) > 25, 2.0, -2.0), np.zeros(40)])
    found, again = (chain().chances(course) for _ in range(2))
    np.testing.assert_array_equal(found.histories, again.histories)
    assert found.histories.shape == (CHAIN_DRAWS, 40)
    np.testing.assert_allclose(found.histories.mean(axis=0), found.probability, atol=4.0 * 0.5 / np.sqrt(CHAIN_DRAWS))
    assert found.probability[:20].max() < 0.2 < 0.8 < found.probability[-10:].min()


def test_a_long_log_is_as_sure_as_a_short_one_of_the_same_course():
    def end(n):
        return chain().chances(np.full((n, 2), 1.0)).probability[-1]

    assert end(FULL_ROWS) == pytest.approx(end(10 * FULL_ROWS), abs=0.05)


def test_fewer_rows_say_less():
    ends = [chain().chances(np.full((n, 2), 1.0)).probability[-1] for n in (3, 6, FULL_ROWS)]
    assert ends[0] < ends[1] < ends[2]


def test_what_is_not_logged_adds_nothing_and_without_the_signal_itself_the_course_plays_no_part():
    course = np.random.default_rng(0).normal(size=(30, 2))
    gap, zero = course.copy(), course.copy()
    gap[:, 1], zero[:, 1] = np.nan, 0.0
    np.testing.assert_array_equal(chain().chances(gap).probability, chain().chances(zero).probability)
    blind, other = course.copy(), -course
    blind[:, 0] = other[:, 0] = np.nan
    found, same = (chain().chances(x) for x in (blind, other))
    assert not found.seen
    np.testing.assert_array_equal(found.probability, same.probability)


@pytest.mark.parametrize("shift", [-2.0, 2.0])
def test_a_prior_adds_to_the_log_odds_at_the_last_row_and_moves_every_other_the_same_way(shift):
    course = np.random.default_rng(1).normal(size=(30, 2))
    usual, found = chain(spread=1.5).chances(course).probability, chain(spread=1.5).chances(course, shift)
    p = found.probability
    assert np.log(p[-1] / (1 - p[-1])) - np.log(usual[-1] / (1 - usual[-1])) == pytest.approx(shift)
    assert np.all((p > usual) == (shift > 0.0))
    np.testing.assert_allclose(found.histories.mean(axis=0), p, atol=0.2)


def test_authors_who_differ_widen_the_answer():
    course = np.full((30, 2), 1.5)
    alike, apart = (chain(spread=s, sd=0.01).chances(course).probability[-1] for s in (0.01, 2.0))
    assert alike > apart > 0.5


def test_numbers_come_back_from_the_table():
    for name, found in shipped_chains().items():
        again = ModeChain.from_dict(found.to_dict())
        assert again.predictors == found.predictors, name
        np.testing.assert_array_equal(again.mean, found.mean)
        np.testing.assert_array_equal(again.covariance, found.covariance)
        assert again.learned_from == found.learned_from


class Made(Mode):
    """A mode of two made-up predictors."""

    name = "made"
    label = "made"
    predictors = ("x", "y")


def simulated(true, runs, seed=0):
    """Runs whose labels are histories drawn from a chain; every sixth row is left open."""
    rng, cases = np.random.default_rng(seed), []
    exact = ModeChain(true.predictors, true.mean, 1e-12 * np.eye(len(true.mean)), {})
    for i in range(runs):
        n = int(rng.integers(15, TREND_ROWS + 1))
        course = np.cumsum(rng.normal(size=(n, 2)), axis=0) / np.sqrt(n) * 2.0
        label = exact.chances(course, seed=1000 + i).histories[0].astype(int)
        labels = {"made": np.where(np.arange(n) % 6 == 5, OPEN, label)}
        run = make_run(steps(n), np.zeros(n))
        cases.append(EpisodeCase(str(i), f"author {i}", n, steps(n), {"made": course}, labels, (), run))
    return cases


@pytest.fixture(scope="module")
def runs():
    return simulated(chain((1.2, 0.6), begins=0.4, ends=0.2), 120)


@pytest.mark.thorough
def test_numbers_are_learned_back_within_their_stated_sd(runs):
    true, found = chain((1.2, 0.6), begins=0.4, ends=0.2), learn_chain(runs, Made())
    k, sd = 2, np.sqrt(np.diag(found.covariance))
    known = [*range(k), *(k + FIXED.index(name) for name in ("seen", "begins", "ends", "start"))]
    assert found.predictors == ("x", "y")
    assert np.abs((found.mean - true.mean) / sd)[known].max() < 3.0
    assert sd[:k].max() < 0.35
    assert found.learned_from["runs"] == found.learned_from["authors"] == 120


@pytest.mark.thorough
def test_an_author_left_out_teaches_nothing(runs):
    odd = runs[0]._replace(labels={"made": 1 - np.clip(runs[0].labels["made"], 0, 1)})
    told, untold = (learn_chain(x, Made(), without="author 0") for x in ([odd, *runs[1:]], runs))
    np.testing.assert_allclose(told.mean, untold.mean, atol=1e-9)
    assert untold.learned_from["runs"] == 119
