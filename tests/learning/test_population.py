"""The population of many logs: found again where it is known, against plain sums and a grid, and how it predicts."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from bayes_grpo.learning.population import Member, learn_population, population_log_score
from bayes_grpo.learning.population_model import (
    BUCKET,
    MEAN_SD,
    SPREAD_FLOOR,
    SPREAD_SCALE,
    LogSums,
    PopulationLogs,
    log_likelihood,
)


def members(rng, groups=12, logs=8, mean=1.5, spread=0.6, between=0.8, slope=-0.7, error=0.8, weak=(-1.0, 1.5)):
    """Logs of a known population, each by draws of its posterior under a weak prior that is off the mark."""
    out = []
    for g in range(groups):
        centre = mean + between * rng.standard_normal()
        for _ in range(logs):
            x = rng.standard_normal()
            theta = centre + slope * x + spread * rng.standard_normal()
            seen = theta + error * rng.standard_normal()
            precision = 1 / error**2 + 1 / weak[1] ** 2
            located = (seen / error**2 + weak[0] / weak[1] ** 2) / precision
            draws = located + rng.standard_normal(200) / math.sqrt(precision)
            out.append(
                Member(
                    group=f"g{g}",
                    draws=np.tile(draws[None, :, None], (2, 1, 1)),
                    weak=-0.5 * ((draws - weak[0]) / weak[1]) ** 2,
                    covariates=np.array([[x], [x]]),
                )
            )
    return out


@pytest.mark.thorough
def test_a_known_population_is_found_again():
    rng = np.random.default_rng(0)
    found = learn_population(members(rng, groups=25), np.array([[True]]), seed=1)
    # Errors are those of 25 groups and 200 logs: 0.8/5 for the mean.
    assert found.mean[0] == pytest.approx(1.5, abs=0.5)
    assert found.slopes[0, 0] == pytest.approx(-0.7, abs=0.2)
    assert found.spread[0] == pytest.approx(0.6, abs=0.25)
    assert found.between[0] == pytest.approx(0.8, abs=0.35)
    assert found.logs == 200
    assert found.groups == 25
    # Under its weak prior the logs' own means lie far off: it was divided out.
    naive = np.mean([m.draws.mean() for m in members(np.random.default_rng(0), groups=25)])
    assert naive < 1.1 < found.mean[0] + 0.3


@pytest.mark.slow
def test_predictions_cover_logs_of_unseen_repositories():
    rng = np.random.default_rng(2)
    found = learn_population(members(rng, error=0.05, weak=(1.5, 30.0)), np.array([[True]]), seed=1)
    fresh = members(rng, groups=300, logs=1, error=0.05, weak=(1.5, 30.0))
    inside = []
    for m in fresh:
        mean, sd = found.predictive(m.covariates[0])
        inside.append(abs(m.draws.mean() - mean[0]) < 1.645 * sd[0])
    assert 0.8 <= np.mean(inside) <= 0.98


@pytest.mark.slow
def test_the_right_population_scores_best():
    rng = np.random.default_rng(3)
    logs = members(rng, groups=22)
    right = learn_population(logs[80:], np.array([[True]]))
    wrong = replace(right, mean=right.mean + 3.0)
    blind = learn_population(logs[80:], np.array([[False]]))
    score = {name: np.mean([population_log_score(p, m) for m in logs[:80]]) for name, p in
             (("right", right), ("wrong", wrong), ("blind", blind))}  # fmt: skip
    assert score["right"] > score["blind"] > score["wrong"]
    assert np.all(blind.slopes == 0)


@pytest.mark.thorough
def test_one_repository_alone_has_no_spread_between():
    rng = np.random.default_rng(4)
    found = learn_population(members(rng, groups=1, logs=20), np.array([[True]]))
    assert found.between[0] == 0.0
    assert found.groups == 1


@pytest.mark.thorough
def test_unknown_covariates_count_as_typical():
    rng = np.random.default_rng(5)
    logs = members(rng)
    some = [replace(m, covariates=m.covariates + 7.0 if i % 2 else np.full((2, 1), np.nan)) for i, m in enumerate(logs)]
    found = learn_population(some, np.array([[True]]))
    assert found.centres[0] == pytest.approx(7.0, abs=0.5)
    assert found.predictive(np.array([np.nan]))[0] == pytest.approx(found.mean)


def test_sums_over_cuts_give_the_likelihood_that_plain_loops_give():
    rng = np.random.default_rng(6)
    p, k, group = 3, 2, np.array([0, 1, 1, 0, 2])
    shapes = [(int(rng.integers(1, 5)), 20) for _ in group]
    logs = [(rng.normal(size=(c, d, p)), rng.normal(size=d), rng.normal(size=(c, k))) for c, d in shapes]
    centre, slopes, spread = rng.normal(size=(3, p)), rng.normal(size=(k, p)), rng.uniform(0.3, 2.0, p)
    plain = [
        logsumexp(
            sum(norm.logpdf(x[c], centre[g] + z[c] @ slopes, spread).sum(axis=1) for c in range(len(x))) / len(x) - weak
        )
        for g, (x, weak, z) in zip(group, logs, strict=True)
    ]
    stacked = PopulationLogs.of([LogSums.of(*log) for log in logs], group)
    padded = stacked.padded()
    assert padded.present.shape == (BUCKET,)
    assert padded.present.sum() == len(logs)
    with jax.enable_x64(True):
        for found in (stacked, padded):
            got = np.asarray(log_likelihood(found, *map(jnp.asarray, (centre[found.group], slopes, spread))))
            assert got[: len(logs)] + 0.5 * p * math.log(1 / (2 * math.pi)) == pytest.approx(plain, rel=1e-10)


@pytest.mark.thorough
def test_logs_known_exactly_give_the_posterior_of_a_grid():
    values = 0.4 + 0.7 * np.random.default_rng(7).standard_normal(12)
    logs = [Member("g", np.full((1, 2, 1), x), np.zeros(2), np.full((1, 1), np.nan)) for x in values]
    found = learn_population(logs, np.array([[False]]), seed=2)
    mean, spread = np.meshgrid(np.linspace(-2, 3, 601), np.linspace(SPREAD_FLOOR, 6, 900), indexing="ij")
    score = norm.logpdf(mean, 0, MEAN_SD) - np.log1p((spread / SPREAD_SCALE) ** 2)
    score += sum(norm.logpdf(x, mean, spread) for x in values)
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    exact = (weight * mean).sum()
    error = math.sqrt((weight * (mean - exact) ** 2).sum())
    assert found.convergence is not None
    assert found.convergence.passed
    # Over 1,000 effective draws: 3% of a posterior sd.
    assert found.mean[0] == pytest.approx(exact, abs=0.1 * error)
    assert found.error[0] == pytest.approx(error, rel=0.1)
    assert found.spread[0] == pytest.approx(math.sqrt((weight * spread**2).sum()), rel=0.04)
    assert found.between[0] == 0.0


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_population():
    logs = members(np.random.default_rng(8), groups=1, logs=20)
    one, same, other = (learn_population(logs, np.array([[True]]), seed) for seed in (1, 1, 2))
    assert np.array_equal(one.mean, same.mean)
    assert np.array_equal(one.spread, same.spread)
    assert not np.array_equal(one.mean, other.mean)
    assert one.mean == pytest.approx(other.mean, abs=0.3 * one.error[0])
