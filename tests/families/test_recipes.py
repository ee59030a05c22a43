"""The difference of two recipes, against draws and against its limits."""

import numpy as np
import pytest
from scipy.stats import norm

from bayes_grpo.families.recipes import SeedPrior, Side, difference_of, further_seeds, seed_prior

PRIOR = SeedPrior(np.log(0.2), 0.5, 1.0, {"recipes": 4, "runs": 10})


def side(*values: float, error: float = 0.0) -> Side:
    return Side(np.array(values), np.full(len(values), error))


def test_equal_recipes_are_equal_and_swapping_them_swaps_the_probability():
    assert difference_of(side(0.5), side(0.5), 0.2, PRIOR).p_better == pytest.approx(0.5)
    a, b = side(0.5, 0.55, error=0.02), side(0.6, 0.52, error=0.03)
    there, back = difference_of(a, b, 0.2, PRIOR).p_better, difference_of(b, a, 0.2, PRIOR).p_better
    # The prior is about A and the difference: of no account beside data on both.
    assert there + back == pytest.approx(1.0, abs=1e-3)
    assert there > 0.5


def test_a_known_spread_gives_the_textbook_answer():
    sharp = SeedPrior(np.log(0.5), 1e-6, 1e3, {})
    found = difference_of(side(0.0, 0.2), side(0.4, 0.3, 0.5), 0.2, sharp)
    sd = 0.1 * np.sqrt(1 / 2 + 1 / 3)
    assert found.p_better == pytest.approx(norm.cdf((0.4 - 0.1) / sd), abs=1e-4)
    draws = found.draws(20000, np.random.default_rng(0))
    assert draws["difference"].mean() == pytest.approx(0.3, abs=0.003)
    assert draws["difference"].std() == pytest.approx(sd, rel=0.03)


def test_probabilities_are_calibrated_over_draws_from_the_prior():
    rng = np.random.default_rng(4)
    p, truth = [], []
    for _ in range(1500):
        spread, true = 0.2 * np.exp(PRIOR.centre + PRIOR.width * rng.standard_normal()), 0.2 * rng.standard_normal()
        a = Side(0.5 + spread * rng.standard_normal(2) + 0.01 * rng.standard_normal(2), np.full(2, 0.01))
        b = Side(0.5 + true + spread * rng.standard_normal(1) + 0.01 * rng.standard_normal(1), np.full(1, 0.01))
        p.append(float(difference_of(a, b, 0.2, PRIOR).p_better))
        truth.append(true > 0)
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0)):
        inside = (np.array(p) >= low) & (np.array(p) <= high)
        error = 3.0 * np.sqrt(0.25 / max(inside.sum(), 1))
        assert abs(np.mean(np.array(truth)[inside]) - np.mean(np.array(p)[inside])) < error


def test_seeds_that_differ_widen_the_spread():
    alike = difference_of(side(0.5, 0.51, 0.5), side(0.6), 0.2, PRIOR)
    apart = difference_of(side(0.2, 0.8, 0.5), side(0.6), 0.2, PRIOR)
    assert (alike.weight * alike.spread).sum() < 0.5 * (apart.weight * apart.spread).sum()
    assert alike.p_better > apart.p_better


def test_further_seeds_are_few_for_a_clear_difference_and_none_are_enough_for_none():
    rng = np.random.default_rng(1)
    clear = further_seeds(side(0.50), side(0.58), 0.2, PRIOR, rng)
    assert clear is not None
    hidden = further_seeds(side(0.5, 0.5, 0.5, 0.5), side(0.5, 0.5, 0.5, 0.5), 0.2, PRIOR, rng)
    assert hidden is None or hidden > clear


def test_the_kept_prior_says_where_it_is_from():
    prior = seed_prior()
    assert prior.about["made by"] == "benchmarks/lab/learners/seeds.py"
    assert f"{prior.about['recipes']} public recipes" in prior.words
    assert prior.width > 0
    assert prior.difference > 0
