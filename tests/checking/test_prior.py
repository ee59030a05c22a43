"""The prior predictive check: shares of planted prior runs, and the sentence that says them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import check, fit
from bayes_grpo.fitting.groups import of_draws
from bayes_grpo.fitting.prior_check import check_prior
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from tests.helpers.runs import rising_run
from tests.helpers.saved_fit import unsampled_fit

ROWS = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.6, 0.7, 0.8])


def with_prior_runs(runs, rows=ROWS, **settings):
    """A fit of these rows that has these prior runs, shape (runs, 8)."""
    given = Settings(**{k: Setting(v, Provenance.USER) for k, v in settings.items()})
    one = unsampled_fit()
    return replace(
        one,
        groups=dict(one.groups) | {"prior_predictive": of_draws({"y": np.asarray(runs, np.float32)[None]}, "step")},
        rows=replace(one.rows, y=rows),
        settings=dict(given.items()),
    )


def test_shares_of_planted_runs():
    flat = np.full(8, 0.5)
    outside = np.array([0.5] * 6 + [1.2, 1.2])  # two rows of eight beyond 1.1, less change than the log
    steep = np.linspace(-0.05, 1.05, 8)
    found = check_prior(with_prior_runs([flat, outside, steep, flat]))
    assert (found.runs, found.low, found.high) == (4, pytest.approx(-0.1), pytest.approx(1.1))
    assert (found.inside, found.rows_inside) == (0.75, 30 / 32)
    assert (found.scatter, found.change) == (0.5, 0.5)
    assert not found.unlike
    assert found.sentence == (
        "Of 4 runs drawn from the priors 75% stay in [-0.1, 1.1] (94% of their rows), 50% scatter more than this log "
        "and 50% change more."
    )


def test_without_a_range_the_runs_are_measured_by_the_log_alone():
    found = check_prior(with_prior_runs([ROWS, 3 * ROWS], 2 * ROWS))
    assert math.isnan(found.inside)
    assert found.sentence == ("Of 2 runs drawn from the priors 50% scatter more than this log and 50% change more.")


def test_a_given_range_counts():
    found = check_prior(with_prior_runs([3.0 * ROWS, 6.0 * ROWS], 2 * ROWS, reward_low=0.0, reward_high=3.0))
    assert (found.low, found.high, found.inside) == (pytest.approx(-0.3), pytest.approx(3.3), 0.5)


def test_a_log_beyond_the_prior_runs_is_unlike_them():
    near = with_prior_runs(0.5 + 0.001 * np.random.default_rng(0).standard_normal((50, 8)))
    assert check_prior(near).unlike
    assert check_prior(near).sentence.endswith("the priors hardly allow such a log (--prior changes them).")
    wild = with_prior_runs(np.array([[0.0] * 6 + [np.inf, np.inf]] * 50))
    assert check_prior(wild).scatter == 1.0


def test_a_fit_has_it_in_its_check_and_priors_move_it():
    """As many rows, and the settings, of other tests: one compiled program for all."""
    run = rising_run(seed=4)
    wide = {"fixed_point": (0.5, 3.0), "initial_reward": (0.5, 3.0)}
    default, far = (check(fit(run, "exponential", seed=1, priors=p)).prior for p in (None, wide))
    assert far.inside < default.inside - 0.2
    assert far.change > default.change
