"""The stiffest direction over what a reward shows: a probability that is never sure of few policies."""

import numpy as np
import pytest

from benchmarks.lab.stiffness import FREEDOM, Stiffness, learned_stiffness


def test_a_margin_holds_as_often_as_the_ratio_lies_below_it():
    known = Stiffness(centre=1.0, sd=2.0, policies=10)
    ratio = np.exp(known.centre + known.sd * np.random.default_rng(0).standard_t(FREEDOM, 200_000))
    for margin in (0.5, 5.0, 100.0):
        assert known.stable(np.array([margin])) == pytest.approx(np.mean(ratio < margin), abs=5e-3)
    assert known.stable(np.array([2.0, 50.0])) == pytest.approx(
        0.5 * (known.stable(np.array([2.0])) + known.stable(np.array([50.0])))
    )
    assert known.stable(np.array([np.inf])) == 1.0


def test_what_was_learned_is_wide():
    """In the laboratory the ratio was anything from one to some hundreds."""
    told = learned_stiffness()
    assert told.policies >= 8
    assert told.interval.low < told.interval.median < told.interval.high
    assert told.interval.high > 10.0 * told.interval.low
