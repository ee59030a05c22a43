"""What runs did next whose reward had fallen, and that nothing moves once the learning rate has ended."""

import numpy as np
import pytest

from bayes_grpo.events.fallen import fallen_of, last_lost, last_near_best
from bayes_grpo.forecasting.aftermath import REGAINED, Aftermath, fallen_in, held, shipped_aftermath
from bayes_grpo.forecasting.mixture import still_after
from bayes_grpo.laboratory.learners.aftermath import DISTANCES, fallen_cases, learn_aftermath
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.cases import dipped_then_collapsed
from tests.helpers.runs import rising_run
from tests.helpers.trends import fit_trend, there


def settings(run):
    return dict(run.settings.items())


def fallen():
    run = dipped_then_collapsed()
    return there(fallen_in(rows_of(run), settings(run)))


def test_a_collapse_is_a_fact_of_the_curve():
    found = fallen()
    assert found.probability > 0.99
    assert found.best_step == pytest.approx(25.0, abs=1.0)
    assert found.best == pytest.approx(0.88, abs=0.03)
    assert found.now == 0.0
    assert 25.0 < found.since < 31.0
    run = rising_run(40)
    assert fallen_in(rows_of(run), settings(run)) is None


def test_a_fall_that_came_back_is_none_at_the_end():
    y = np.full(48, 0.8) + 0.01 * np.random.default_rng(0).standard_normal(48)
    y[10:18] = 0.1
    trend = fit_trend(np.arange(1.0, 49.0), y)
    assert fallen_of(trend, 1.0, 0.0) is None
    first, last = there(last_lost(trend, 1.0, 0.0))
    assert 9.0 <= first <= 13.0
    assert 15.0 <= last <= 20.0
    assert last_near_best(trend, 10.0) <= 10.0


def test_paths_regain_what_the_table_says():
    table = Aftermath(np.array([0.5, 1.0]), np.array([[0.0, 0.0, 0.5], [0.0, 0.2, 1.0]]), 0.5, {})
    ahead = np.array([0.0, 20.0, 40.0, 80.0])
    latent, trend, rows, settles, initial = table.paths(fallen(), 40, ahead, 1000, 0, RewardRange(0.0, 1.0))
    lost = fallen().best - fallen().now
    assert np.median(latent[:, 0]) == pytest.approx(0.0, abs=0.02)
    assert np.median(latent[:, 2]) == pytest.approx(0.2 * lost, abs=0.03)
    np.testing.assert_array_equal(latent[:, 2] > 0.9 * lost, latent[:, 3] > 0.9 * lost)  # held beyond the last line
    assert np.isnan(initial).all()
    assert settles.shape == (1000,)
    assert rows.std() > 0.0
    assert (trend >= 0.0).all()
    again = Aftermath.from_dict(table.to_dict())
    np.testing.assert_array_equal(again.regained, table.regained)
    assert held(fallen(), np.array([1e9, -1e9])) == pytest.approx(
        [fallen().now + share * lost for share in REGAINED[::-1]]
    )


def test_the_shipped_table_widens_with_the_distance():
    table = shipped_aftermath()
    assert 0.0 <= table.share <= 1.0
    assert table.ahead.tolist() == list(DISTANCES)
    assert (np.diff(table.regained, axis=1) >= 0.0).all()
    assert np.ptp(table.regained[-1]) >= np.ptp(table.regained[0]) - 1e-9


def test_what_is_learned_is_what_came():
    cases = list(fallen_cases("a", dipped_then_collapsed()))
    assert cases
    assert all(abs(c.regained) < 0.1 for c in cases if c.step >= 30.0)
    near = [case for case in cases if abs(case.regained) < 0.1]
    both = [*near, *(case._replace(repo="b", regained=1.0) for case in near[:1])]  # repositories count alike
    table = learn_aftermath([case._replace(ahead=ahead) for ahead in DISTANCES for case in both], 0.5, {"cases": 2})
    assert np.quantile(table.regained, 0.1) < 0.2 < 0.9 < np.quantile(table.regained, 0.9)


def test_nothing_moves_after_the_learning_rate_has_ended():
    step = np.array([10.0, 12.0, 14.0, 16.0, 18.0])
    paths = np.arange(5.0)[None, :]
    assert still_after(paths, step, np.inf).tolist() == paths.tolist()
    assert still_after(paths, step, 13.0).tolist() == [[0.0, 1.0, 2.0, 2.0, 2.0]]
    assert still_after(paths, step, 10.0).tolist() == [[0.0] * 5]
