"""The model of several runs: its density, its spreads, its data."""

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy.stats import norm

from bayes_grpo.families.members import members_of
from bayes_grpo.families.model import TRAITS, spread_of, sweep_data, sweep_model
from tests.families.made import swept
from tests.helpers.reference import dense_log_density, exponential_moments, stretches


def test_a_spread_is_at_least_the_floor_and_grows_with_its_number():
    assert spread_of(np.zeros(len(TRAITS))) == pytest.approx(0.02)
    assert np.all(spread_of(np.full(len(TRAITS), -2.0)) > 0.7)


def test_a_mean_over_more_steps_has_less_noise_and_the_start_is_no_effect_of_the_learning_rate():
    members = members_of(swept(3), ["learning_rate"])[0]
    data = sweep_data(members, ["learning_rate"])
    assert data.slope[0, TRAITS.index("initial_reward")] == 0.0
    assert np.all(data.slope[0, :4] > 0.0)
    assert np.all(data.offset == 0.0)  # windows of one length


def test_the_joint_density_is_that_of_a_dense_normal_for_every_run():
    """Traits by hand from the standard normal numbers, rows by matrix exponentials: no filter, no shared formula."""
    members = members_of(swept(3), ["learning_rate"])[0]
    data = sweep_data(members, ["learning_rate"])
    rng, size = np.random.default_rng(5), len(TRAITS)
    z = {"mean_z": (size,), "slopes_z": (1, size), "spread_z": (size,), "u_z": (3, 3)}
    numbers = {name: 0.5 * rng.standard_normal(shape) for name, shape in z.items()}
    with jax.enable_x64(True):
        density = jax.jit(lambda given: log_density(sweep_model, (data,), {}, given)[0])
        found = float(density(numbers))
    wanted = sum(float(norm.logpdf(x).sum()) for x in numbers.values())
    mean = np.asarray(data.centre) + np.asarray(data.width) * numbers["mean_z"]
    scale = np.array([0.5, 0.4, 0.4, 0.5, 0.5])
    spread = np.sqrt(0.02**2 + (scale * numbers["spread_z"]) ** 2)
    rates = np.log([m.settings["learning_rate"] for m in members])
    for i, member in enumerate(members):
        trait = mean + (rates[i] - rates.mean()) * np.asarray(data.slope)[0] * numbers["slopes_z"][0]
        time, noise, fluctuation = np.exp(trait[:3] + spread[:3] * numbers["u_z"][i])
        levels = [(data.origin + data.unit * trait[j], data.unit * spread[j]) for j in (3, 4)]
        t = member.table
        row_mean, row_cov = exponential_moments(time, fluctuation, stretches(t), *levels)
        wanted += dense_log_density(t.y, row_mean, row_cov + noise**2 * np.eye(len(t.y)))
    assert found == pytest.approx(wanted, abs=1e-6)
