import numpy as np
from scipy.stats import norm

from bayes_grpo.backtesting import covered, crps, log_score
from benchmarks.forecast.backtest_parts import pit
from benchmarks.forecast.rivals import RIVALS

STEP = np.arange(1.0, 41.0)
AHEAD = np.arange(41.0, 61.0)


def test_crps_of_a_normal_against_its_closed_form():
    rng = np.random.default_rng(0)
    y = np.array([-1.0, 0.0, 0.5, 3.0])
    draws = rng.standard_normal((20000, 1)) * 2.0 + 0.3
    z = (y - 0.3) / 2.0
    exact = 2.0 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(crps(np.repeat(draws, 4, axis=1), y), exact, atol=0.03)


def test_crps_has_no_bias_with_few_draws():
    rng = np.random.default_rng(1)
    few = np.mean([crps(rng.standard_normal((5, 1)), np.zeros(1))[0] for _ in range(4000)])
    assert abs(few - (np.sqrt(2) - 1) / np.sqrt(np.pi)) < 0.02


def test_log_score_of_a_normal():
    draws = np.random.default_rng(2).standard_normal((20000, 3))
    y = np.array([0.0, 1.0, -2.0])
    np.testing.assert_allclose(log_score(draws, y), norm.logpdf(y), atol=0.06)


def test_coverage_and_pit_of_a_right_forecast():
    rng = np.random.default_rng(3)
    y, draws = rng.standard_normal(2000), rng.standard_normal((500, 2000))
    assert abs(covered(draws, y).mean() - 0.9) < 0.03
    values = pit(draws, y, rng)
    assert np.all((values >= 0) & (values <= 1))
    counts = np.histogram(values, 10, (0, 1))[0]
    assert counts.min() > 140
    assert covered(0.2 * draws, y).mean() < 0.4
    ties = pit(np.zeros((100, 500)), np.zeros(500), rng)
    assert 0.4 < ties.mean() < 0.6


def test_the_rivals_find_the_curve_they_assume():
    rng = np.random.default_rng(4)
    curve = {
        "exponential_ls": lambda t: 0.7 - 0.5 * np.exp(-(t - 1) / 12.0),
        "sigmoid_ls": lambda t: 0.2 + 0.6 / (1.0 + (15.0 / t) ** 3.0),
        "gp": lambda t: 0.5 + 0.3 * np.sin(t / 15.0),
    }
    for name, truth in curve.items():
        found = RIVALS[name](STEP, truth(STEP) + 0.01 * rng.standard_normal(40), AHEAD)
        assert abs(found.mean[0] - truth(AHEAD)[0]) < 0.05, name
        assert 0.004 < found.sd[0] < 0.05, name


def test_a_row_out_of_reach_of_all_draws_has_a_finite_score():
    constant, y = np.full((500, 1), 0.25), np.array([1.0])
    found = float(log_score(constant, y)[0])
    assert -80.0 < found < -10.0
    draws = np.random.default_rng(0).normal(size=(500, 1))
    near, far = (float(log_score(draws, np.array([x]))[0]) for x in (8.0, 80.0))
    assert -25.0 < far < near
