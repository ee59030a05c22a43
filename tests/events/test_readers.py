"""Diagnosis, laboratory and forecast ask one definition: the same curve is a collapse for all of them, or for none."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo.events import collapse
from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, FORECAST, TRUTH
from bayes_grpo.events.catalogue import DEFINITIONS
from bayes_grpo.events.collapse import at_stake, collapsed, lost, started_high
from bayes_grpo.events.entropy import spent_early
from bayes_grpo.events.growth import learned
from bayes_grpo.events.hazards import COLLAPSE, event_after, origin_state
from bayes_grpo.events.trend import Trend
from bayes_grpo.rows.reward_range import RewardRange

ROWS = 1000


def curve(first: float, now: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows that jump from one level to another, and rows after them."""
    return np.where(np.arange(ROWS) < ROWS // 4, first, now), np.full(ROWS, end)


def exact(y: np.ndarray) -> Trend:
    """A trend that knows its rows."""
    step = np.arange(len(y), dtype=float)
    return Trend(step, y, np.repeat(y[None, :], 3, axis=0), 1e-9, len(y), step, y)


def verdicts(first: float, now: float, end: float) -> set[bool]:
    """Whether each reader calls a curve a collapse."""
    seen, came = curve(first, now, end)
    judged = np.concatenate([seen, came])
    best = np.maximum.accumulate(judged)
    truth = lost(best - judged, at_stake(first, best), BORDERS.material_truth)
    forecast = event_after(origin_state(seen, RewardRange(0.0, 1.0)), came)[0] == COLLAPSE
    return {bool(collapsed(exact(judged), 1.0, 0.0).all()), bool(truth[-1]), forecast}


@pytest.mark.parametrize(("end", "falls"), [(0.37, True), (0.43, False)])
def test_a_run_that_climbed_collapses_with_half_of_its_gain_for_every_reader(end, falls):
    assert verdicts(0.1, 0.7, end) == {falls}


@pytest.mark.parametrize(("end", "falls"), [(0.38, True), (0.42, False)])
def test_a_run_that_started_high_collapses_with_half_of_its_level_for_every_reader(end, falls):
    assert verdicts(0.8, 0.8, end) == {falls}


def test_another_border_is_another_one_for_every_reader(monkeypatch):
    monkeypatch.setattr(collapse, "BORDERS", replace(BORDERS, lost=0.9))
    assert verdicts(0.1, 0.7, 0.37) == {False}
    assert verdicts(0.1, 0.7, 0.1) == {True}


def test_what_is_at_stake_is_the_level_where_most_of_it_was_there_from_the_start():
    start, best = np.array([0.3, 0.5, 0.9]), np.array([0.8, 0.8, 0.9])
    assert started_high(start, best).tolist() == [False, True, True]
    np.testing.assert_allclose(at_stake(start, best), [0.5, 0.8, 0.9])
    np.testing.assert_allclose(at_stake(start, best, low=0.2), [0.5, 0.3, 0.7])
    # Nobody knows the lowest reward: a level counts from nowhere.
    np.testing.assert_allclose(at_stake(start, best, low=-np.inf), best - start)


def test_spent_entropy_is_one_definition_with_two_pairs_of_borders():
    left, missing = np.array([0.15, 0.15, 0.05]), np.array([0.6, 0.3, 0.3])
    assert spent_early(left, 1.0, missing, BORDERS.spent, BORDERS.short).tolist() == [True, False, False]
    assert spent_early(left, 1.0, missing, BORDERS.spent_truth, BORDERS.short_truth).tolist() == [False, False, True]
    # Nothing was there to be spent.
    assert not spent_early(np.zeros(1), 0.0, np.ones(1), BORDERS.spent_truth, BORDERS.short_truth).any()


def test_a_run_without_event_has_learned_or_stands_still():
    line = np.linspace(0.2, 0.6, 100)
    assert learned(line, 0.2)
    assert not learned(np.minimum(2.0 * line, 0.5), 0.2)
    assert learned(np.full(100, 0.95), 0.95)


def test_every_reader_has_definitions_and_none_has_two_of_one_name():
    for reader in (DIAGNOSIS, TRUTH, FORECAST):
        names = [d.name for d in DEFINITIONS if d.reader == reader]
        assert names
        assert len(set(names)) == len(names)
        assert all(d.holds for d in DEFINITIONS)
