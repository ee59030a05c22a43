"""Seeds, evenly spread draws and densities that several rooms share."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayes_grpo.common.intervals import digits, from_to
from bayes_grpo.common.sampling import seed_of, spawn, spread
from bayes_grpo.fitting.sampling.adaptive import log_student_t


@pytest.mark.parametrize(("p", "freedom"), [(1, 2.5), (3, 5.0), (9, 6.0)])
def test_student_t_is_scipys(p, freedom):
    rng = np.random.default_rng(p)
    root = np.tril(rng.standard_normal((p, p))) + 3.0 * np.eye(p)
    centre, x = rng.standard_normal(p), 4.0 * rng.standard_normal((20, p))
    scale: Any = root @ root.T
    expected = stats.multivariate_t(centre, scale, freedom).logpdf(x)
    np.testing.assert_allclose(log_student_t(x, centre, root, freedom), expected, rtol=1e-12)
    assert log_student_t(x[3], centre, root, freedom) == pytest.approx(expected[3], rel=1e-12)


def test_spread_draws_reach_from_the_first_to_the_last():
    np.testing.assert_array_equal(spread(9, 3), [0, 4, 8])
    np.testing.assert_array_equal(spread(4, 100), [0, 1, 2, 3])
    np.testing.assert_array_equal(np.bincount(spread(4, 13, repeat=True)), [4, 4, 4, 1])
    gaps = np.diff(spread(1000, 37))
    assert gaps.max() - gaps.min() <= 1


def test_seeds_of_parts_differ_by_name_and_by_seed():
    names = [("fit", "flat"), ("fit", "logistic"), ("paths", "flat"), ("fit", 1), ("fit", "1"), ("fit",), ()]
    found = {seed_of(seed, *name) for seed in range(50) for name in names}
    assert len(found) == 50 * len(names)
    assert seed_of(3, "fit", "flat") == seed_of(3, "fit", "flat")
    assert all(0 <= x < 2**32 for x in found)


def test_parts_of_neighbouring_seeds_share_nothing():
    """Seeds that were added up would: part 1 of seed 0 would be part 0 of seed 1."""
    parts = [spawn(seed, 100) for seed in range(50)]
    assert len({x for each in parts for x in each}) == 5000
    assert spawn(7, 3) == spawn(7, 5)[:3]


def test_a_negative_zero_is_zero():
    assert digits(-0.0) == "0"


def test_two_levels_are_told_apart():
    assert from_to(1.121, 1.078) == "from 1.12 to 1.08"
    assert from_to(0.882, 0.63) == "from 0.88 to 0.63"
    assert from_to(152.0, 131.0) == "from 152 to 131"
    assert from_to(0.5, 0.5) == "from 0.5 to 0.5"
