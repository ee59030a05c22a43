"""Successes of few completions a row: one rate or several, and what a diagnosis makes of a few."""

from collections.abc import Sequence

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.signals.counts import at_one_rate, counts_of, flatten_by_counts
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Watching
from tests.helpers.runs import make_run, steps
from tests.helpers.selection import few

SPARSE = [0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]


def rate_of(share: Sequence[float]) -> float:
    counts = counts_of(np.array(share, float))
    assert counts is not None
    return at_one_rate(counts)


def test_counts_are_shares_of_a_small_number_and_count_less_where_completions_are_alike():
    assert counts_of(np.array([0.0, 0.0, 0.33])) is None
    assert counts_of(np.array([0.25, 0.5, 0.75, 0.0])) is None
    single = counts_of(np.array([0.0, 1.0, 1.0]))
    assert single is not None
    assert single.successes.tolist() == [0.0, 1.0, 1.0]
    pairs = counts_of(np.array([0.0, 0.5, 1.0, 0.0, 0.0]))
    assert pairs is not None
    assert 1.0 < float(pairs.successes[2]) < 2.0


def test_the_probability_of_one_rate_is_that_of_a_sum_over_all_places_of_a_change():
    """Of two rows with two successes: B(2, 1)² / B(3, 1) = 3/4, so that 1 / (1 + 3/4) stays at one rate."""
    assert rate_of([1, 1]) == pytest.approx(1.0 / (1.0 + (1.0 / 4.0) / (1.0 / 3.0)))
    assert 0.4 < rate_of(SPARSE) < 0.6
    assert rate_of([1] * 12 + [0] * 13) < 1e-4
    assert rate_of([0, 0, 1] * 2000) > 0.9


def test_as_many_draws_rest_as_the_counts_say():
    counts = counts_of(np.array(SPARSE, float))
    assert counts is not None
    path = np.tile(np.linspace(0.0, 1.0, 16), (2000, 1))
    mixed = flatten_by_counts(path, counts, np.random.default_rng(0))
    resting = np.ptp(mixed, axis=1) == 0.0
    assert float(resting.mean()) == pytest.approx(at_one_rate(counts), abs=0.04)
    assert float(mixed[resting].mean()) == pytest.approx(4.0 / 18.0, abs=0.02)


@pytest.mark.parametrize("seed", few(range(12), 3))
def test_a_few_successes_at_one_rate_are_no_collapse(seed):
    """Of forty such runs six were failing or failed, and fourteen raised an alarm of the watch."""
    share = (np.random.default_rng(seed).uniform(size=(120, 2)) < 0.06).mean(axis=1)
    run = make_run(steps(120), share)
    found = diagnose(run)
    assert not found.status.alarming
    assert alarms_of(run, found, Watching()) == ()


def test_a_rate_that_is_lost_is_a_collapse_all_the_same():
    rate = np.where(steps(60) > 30, 0.05, 0.5)
    share = (np.random.default_rng(3).uniform(size=(60, 4)) < rate[:, None]).mean(axis=1)
    assert diagnose(make_run(steps(60), share)).status.status == "failed"
    assert not diagnose(make_run(steps(16), SPARSE)).status.alarming
    # A row of 64 completions is known better than its few values make it look.
    lost = [0.75, 0.25, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    many = diagnose(make_run(steps(8), lost, group_size=8, prompts_per_step=8)).probability
    assert many["dynamical_instability"] > diagnose(make_run(steps(8), lost)).probability["dynamical_instability"]
