"""Supervised starts: success rises, and the policy of a stated success is the first that had it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from benchmarks.lab.rollout import score, write
from benchmarks.lab.settings import Lab
from benchmarks.lab.training import network_from
from benchmarks.lab.warm_start import Ladder, warm_start
from tests.lab.conftest import NETWORK


@pytest.fixture(scope="module")
def lab():
    return Lab(network=NETWORK, limit=4)


def scores_of(lab, task, parameters):
    """Scores of 64 completions of every training prompt."""
    policy = network_from(lab, task.vocabulary)[1](jnp.asarray(parameters))
    which = np.repeat(np.arange(len(task.train)), 64)
    completions = jax.jit(write, static_argnums=2)(policy, task.train[which], lab.limit, jax.random.key(0))
    return score(completions, jnp.asarray(task.train_answer[which]))


@pytest.fixture(scope="module")
def ladder(lab, sums):
    return warm_start(lab, sums, seed=0)


def test_success_rises(ladder):
    assert ladder.success[0] < 0.1
    assert ladder.success[-10:].mean() > 0.9
    assert len(ladder.parameters) == len(ladder.success)


def test_at_is_the_first_that_reached_it(ladder):
    chosen = ladder.at(0.5)
    at = int(np.flatnonzero((ladder.parameters == chosen).all(axis=1))[0])
    assert ladder.success[at] >= 0.5
    assert np.all(ladder.success[:at] < 0.5)


def test_the_policy_has_the_success_that_the_ladder_says(lab, sums, ladder):
    stated = ladder.success[ladder.success >= 0.5][0]
    assert scores_of(lab, sums, ladder.at(0.5)).right.mean() == pytest.approx(stated, abs=0.1)


def test_what_was_not_reached_is_refused():
    with pytest.raises(SettingError, match=r"success rate of 0\.9, found 0\.70 after 10 updates"):
        Ladder(np.zeros((2, 3)), np.array([0.1, 0.7])).at(0.9)


def test_a_clumsy_policy_goes_on_after_the_answer(lab, sums):
    clumsy = warm_start(lab, sums, seed=0, clumsy=0.5)
    found = scores_of(lab, sums, clumsy.parameters[-1])
    assert found.anywhere.mean() > 0.9
    assert found.right.mean() == pytest.approx(0.5, abs=0.1)
    assert found.ended.mean() == pytest.approx(0.5, abs=0.1)
