"""A pool is scored from its parts, and its numbers are learned from such scores."""

import numpy as np
import pytest

from bayes_grpo.backtesting import crps
from bayes_grpo.forecasting.pool import FEATURES
from benchmarks.lab.learners.pieces import Piece, apart, piece_of
from benchmarks.lab.learners.pool import learn_pool


def drawn(seed, shift=0.0, scale=1.0, size=2000, horizon=4):
    return shift + scale * np.random.default_rng(seed).standard_normal((size, horizon))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_crps_of_a_pool_follows_from_its_parts(share):
    laws, level, y = drawn(0), drawn(1, 1.5, 0.4), drawn(2, 0.5, 1.0, 1)[0]
    piece = piece_of("a", 0.5, np.zeros(5), laws, level, y, 2.0)
    rng = np.random.default_rng(3)
    both = np.where(rng.random((40_000, 4)) < share, drawn(4, 1.5, 0.4, 40_000), drawn(5, size=40_000))
    assert piece.crps(share) == pytest.approx(crps(both, y).mean() / 2.0, abs=0.01)
    assert piece.below(share) == pytest.approx(np.mean(both < y, axis=0), abs=0.03)


def test_the_log_score_of_a_pool_is_that_of_the_mixture():
    laws, level, y = drawn(0), drawn(1, 3.0), drawn(2, 1.5, 1.0, 1)[0]
    piece = piece_of("a", 0.5, np.zeros(5), laws, level, y, 1.0)
    density = [np.exp(-0.5 * (y - m) ** 2) / np.sqrt(2 * np.pi) for m in (0.0, 3.0)]
    assert piece.log_score(0.3) == pytest.approx(np.log(0.7 * density[0] + 0.3 * density[1]).mean(), abs=0.08)


def test_distributions_that_are_the_same_are_not_apart():
    draws = drawn(6)
    assert apart(draws, draws) == pytest.approx(0.0, abs=1e-12)
    zero, one = np.zeros((50, 1)), np.ones((50, 1))
    assert apart(zero, one) == pytest.approx(1.0)


def pieces(level_is_better):
    """Where late rows rise the laws are right, elsewhere the level, if it ever is."""
    rng = np.random.default_rng(7)
    out = []
    for i in range(120):
        late = rng.normal()
        good = level_is_better and late < 0
        features = tuple(np.where(np.array(FEATURES) == "late_rise", late, rng.normal(size=5)).tolist())
        out.append((f"repo {i % 8}", Piece("a", 0.5, features, 0.6, 0.4 if good else 0.8, 0.05, (), (), (), ())))
    return out


def test_the_share_is_learned_where_it_pays():
    learned = learn_pool(pieces(True))
    at = np.zeros(5)
    low, high = (learned.share(np.where(np.array(FEATURES) == "late_rise", x, at)) for x in (-1.5, 1.5))
    assert low > 0.8
    assert high < 0.2
    assert learn_pool(pieces(False)).share(at) < 0.1


def test_a_repository_of_many_logs_does_not_drown_the_others():
    few = [x for x in pieces(True) if x[0] != "repo 0"]
    many = few + 40 * [("repo 0", Piece("b", 0.5, (0.0,) * 5, 0.9, 0.1, 0.0, (), (), (), ()))]
    flood = few + [(f"other {i}", piece) for i, (_, piece) in enumerate(many[len(few) :])]
    shares = [learn_pool(x).share(np.zeros(5)) for x in (few, many, flood)]
    assert shares == sorted(shares)
    assert shares[0] < shares[2]
