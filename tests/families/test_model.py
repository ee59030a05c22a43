"""The model of several runs: its levels against the fit's own draws, its spreads, its data."""

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy.stats import norm

from bayes_grpo.families.members import members_of
from bayes_grpo.families.model import TRAITS, FamilyDraws, draw_runs, family_data, family_model, spread_of
from bayes_grpo.fitting.sampling.batch import level_draws
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import prepare_rows
from tests.families.made import swept
from tests.helpers.reference import dense_log_density

LAW = get_regime("exponential")


def test_levels_of_every_run_are_drawn_as_a_fit_draws_them():
    """Priors of the levels as a fit of the run alone has them: then the draws are those of the fit."""
    members = members_of(swept(3), ["learning_rate"]).members
    data = family_data(members, ["learning_rate"])
    target = target_of(LAW, prepare_rows(members[0].table))
    size, z = len(TRAITS), np.tile([0.3, -0.2, 0.1], (400, 1))
    u = np.asarray(target.numbers.location) + np.asarray(target.numbers.scale) * z
    expected, spread = np.zeros((1, 400, 3, size)), np.ones((1, 400, size))
    expected[..., 3:] = (np.asarray(target.numbers.linear_mean) - data.origin) / data.unit
    spread[..., 3:] = np.asarray(target.numbers.linear_sd) / data.unit
    none = np.zeros((1, 400, size))
    draws = FamilyDraws(none[..., None, :], none, spread, expected, np.repeat(u[None, :, None], 3, axis=2))
    found = draw_runs(data, draws, 0)
    alone = level_draws(target, z, np.random.default_rng(1))
    for name in ("fixed_point", "initial_reward"):
        mine, its = found.values[name][:, 0], alone[name]
        assert mine.mean() == pytest.approx(its.mean(), abs=0.3 * its.std())
        assert mine.std() == pytest.approx(its.std(), rel=0.15)
    assert found.values["relaxation_time"][0, 0] == pytest.approx(np.exp(u[0, 0]))
    curve, rows = found.curve[:, 0], members[0].table
    assert np.abs(curve.mean(axis=0)[: len(rows.y)] - rows.y).mean() < 0.15


def test_a_spread_is_at_least_the_floor_and_grows_with_its_number():
    assert spread_of(np.zeros(len(TRAITS))) == pytest.approx(0.02)
    assert np.all(spread_of(np.full(len(TRAITS), -2.0)) > 0.7)


def test_a_mean_over_more_steps_has_less_noise_and_the_start_is_no_effect_of_the_learning_rate():
    members = members_of(swept(3), ["learning_rate"]).members
    data = family_data(members, ["learning_rate"])
    assert data.slope[0, TRAITS.index("initial_reward")] == 0.0
    assert np.all(data.slope[0, :4] > 0.0)
    assert np.all(data.offset == 0.0)  # windows of one length


def test_the_joint_density_is_that_of_a_dense_normal_for_every_run():
    """Traits by hand from the standard normal numbers, rows by matrix exponentials: no filter, no shared formula."""
    members = members_of(swept(3), ["learning_rate"]).members
    data = family_data(members, ["learning_rate"])
    rng, size = np.random.default_rng(5), len(TRAITS)
    z = {"mean_z": (size,), "slopes_z": (1, size), "spread_z": (size,), "u_z": (3, 3)}
    numbers = {name: 0.5 * rng.standard_normal(shape) for name, shape in z.items()}
    with jax.enable_x64(True):
        found = float(log_density(family_model, (data,), {}, numbers)[0])
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
        rows = first_order_moments(time, fluctuation, t.step, t.window, t.start, levels[0], levels[1])
        wanted += dense_log_density(t.y, rows[0], rows[1] + noise**2 * np.eye(len(t.y)))
    assert found == pytest.approx(wanted, abs=1e-3)  # of 920: the means of windows are sums over 400 instants


def first_order_moments(time, sd, step, window, start, fixed, first):
    """Mean and covariance of window means of an exponential approach with stationary noise, by fine steps."""
    fine = 400
    (centre, centre_sd), (begin, begin_sd) = fixed, first
    mean, cov = np.empty(len(step)), np.empty((len(step), len(step)))
    grids = [b - w + (np.arange(fine) + 0.5) * w / fine for b, w in zip(step, window, strict=True)]
    decay = [float(np.mean(np.exp(-(g - start) / time))) for g in grids]
    for i, a in enumerate(grids):
        mean[i] = centre + (begin - centre) * decay[i]
        for j, b in enumerate(grids):
            late = np.exp(-np.abs(a[:, None] - b[None, :]) / time) - np.exp(
                -(a[:, None] + b[None, :] - 2 * start) / time
            )
            cov[i, j] = sd**2 * late.mean() + centre_sd**2 * (1 - decay[i]) * (1 - decay[j])
            cov[i, j] += begin_sd**2 * decay[i] * decay[j]
    return mean, cov
