"""The sampler's answers: against quadrature, against themselves, and on what they must report."""

import json
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo import SamplerSettings, fit, load_fit, save_fit, summarize, view
from bayes_grpo.common import programs
from bayes_grpo.common.errors import ConvergenceWarning, SettingError
from bayes_grpo.dynamics import kalman
from bayes_grpo.fitting.alternative import alternative_prior
from bayes_grpo.fitting.sampling import nuts
from bayes_grpo.fitting.sampling.nuts import check_convergence
from bayes_grpo.fitting.sampling.target import log_likelihood, prior_numbers, values_of
from bayes_grpo.fitting.summary import r_squared
from bayes_grpo.regimes.base import Prior
from bayes_grpo.regimes.built_in.exponential import Exponential
from bayes_grpo.regimes.built_in.oscillator import Oscillator
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.paths import not_none
from tests.helpers.runs import make_run


@pytest.fixture(scope="module")
def run():
    rng = np.random.default_rng(3)
    step = np.arange(1.0, 41)
    y = 0.2 + 0.5 * (1 - np.exp(-step / 12)) + 0.05 * rng.standard_normal(40)
    return make_run(step, y, momentum=0.9, group_size=8.0, prompts_per_step=40.0)


@pytest.fixture(scope="module")
def fitted(run):
    return fit(run, "oscillator", seed=1)


def test_posterior_equals_quadrature(run):
    """Exponential law with one free parameter: moments by summing the density over a grid."""
    regime = Exponential()
    priors = {"observation_sd": Prior(0.05, 1e-4), "fluctuation_sd": Prior(0.02, 1e-4)}
    result = fit(run, regime, priors=priors, seed=2)
    assert result.convergence.passed
    table = rows_of(run)
    with jax.enable_x64(True):
        rows, prior = padded(table), prior_numbers(regime, resolve_priors(regime, table, priors))
        grid = np.linspace(-5, 5, 2001)
        density = jax.jit(jax.vmap(lambda u: log_likelihood(regime, jnp.array([u, 0.0, 0.0]), prior, rows)))
        log = np.asarray(density(grid)) - 0.5 * grid**2
        weight = np.exp(log - log.max())
        weight /= weight.sum()
        tau = np.asarray(values_of(regime, np.stack([grid, 0 * grid, 0 * grid], -1), prior, rows)["relaxation_time"])
    mean = weight @ np.log(tau)
    sd = np.sqrt(weight @ (np.log(tau) - mean) ** 2)
    draws = np.log(result.draws("relaxation_time"))
    assert draws.mean() == pytest.approx(mean, abs=0.08 * sd)
    assert draws.std() == pytest.approx(sd, rel=0.08)


def test_levels_are_drawn_from_their_conditional(run):
    """Integrated-out levels against the textbook posterior of a linear regression on the law's two shapes."""
    regime = Exponential()
    tau, noise = 12.0, 0.05
    fixed = {
        "relaxation_time": Prior(tau, 1e-5),
        "observation_sd": Prior(noise, 1e-5),
        "fluctuation_sd": Prior(1e-6, 1e-5),
        "fixed_point": Prior(0.5, 0.4),
        "initial_reward": Prior(0.3, 0.3),
    }
    result = fit(run, regime, priors=fixed, seed=5)
    table = rows_of(run)
    ends, starts = table.step, table.step - table.window
    decay = tau * (np.exp(-starts / tau) - np.exp(-ends / tau)) / table.window
    design = np.stack([1 - decay, decay], axis=1)
    precision = design.T @ design / noise**2 + np.diag([1 / 0.4**2, 1 / 0.3**2])
    cov = np.linalg.inv(precision)
    mean = cov @ (design.T @ table.y / noise**2 + np.array([0.5 / 0.4**2, 0.3 / 0.3**2]))
    draws = np.stack([result.draws("fixed_point").ravel(), result.draws("initial_reward").ravel()])
    np.testing.assert_allclose(draws.mean(1), mean, atol=4 * np.sqrt(np.diag(cov) / 4000).max())
    np.testing.assert_allclose(np.cov(draws), cov, rtol=0.1, atol=0.05 * cov.max())


def test_same_seed_same_numbers_and_one_program_for_a_bucket(run):
    short = SamplerSettings(num_chains=2)  # the program of the fits above
    other = make_run(run.step[:38], run.reward[:38] * 0.8, momentum=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = fit(run, "exponential", seed=4, sampler=short)
        before = programs._cached_program.cache_info().misses
        two = fit(run, "exponential", seed=4, sampler=short)
        fit(other, "exponential", sampler=short, priors={"relaxation_time": (9.0, 0.3)})
    assert programs._cached_program.cache_info().misses == before
    np.testing.assert_array_equal(one.draws("relaxation_time"), two.draws("relaxation_time"))


def test_checks_find_what_is_wrong():
    rng = np.random.default_rng(0)
    good = rng.standard_normal((4, 1000))
    energy, calm = rng.standard_normal((4, 1000)), np.zeros((4, 1000), bool)
    assert check_convergence({"a": good}, energy, calm, False).passed
    apart = good + np.array([[0.0], [0.0], [0.0], [3.0]])
    assert "R-hat of a" in check_convergence({"a": apart}, energy, calm, False).reasons[0]
    sticky = np.repeat(good[:, ::50], 50, axis=1)
    assert any("ESS of a" in r for r in check_convergence({"a": sticky}, energy, calm, False).reasons)
    one = calm.copy()
    one[0, 3] = True
    assert "1 divergent" in check_convergence({"a": good}, energy, one, False).reasons[0]
    wandering = np.cumsum(energy, axis=1)
    assert "E-BFMI" in check_convergence({"a": good}, wandering, calm, False).reasons[0]


def test_r_squared():
    y = np.array([1.0, 2.0, 3.0, 4.0])
    assert r_squared(y, y) == 1.0
    assert r_squared(y, np.full(4, 2.5)) == 0.0


@pytest.mark.thorough
def test_prior_dominated_parameters_are_named(fitted):
    rng = np.random.default_rng(0)
    flat = make_run(np.arange(1.0, 41), 0.5 + 0.1 * rng.standard_normal(40))
    summary = summarize(fit(flat, "oscillator", seed=0))
    rows = {r.name: r for r in summary.rows}
    assert rows["damping_ratio"].mostly_prior
    assert any("Weakly identified" in w and "damping_ratio" in w for w in summary.warnings)
    assert not {r.name: r for r in summarize(fitted).rows}["response_time"].mostly_prior


@pytest.mark.thorough
def test_round_trip_through_netcdf(run, fitted, tmp_path):
    path = tmp_path / "fit.nc"
    save_fit(fitted, path)
    again = load_fit(path)
    table, kept = rows_of(run), again.as_draws.rows
    assert kept.level == table.level is not None
    np.testing.assert_array_equal(kept.noise, table.noise)
    assert "expected from mean and batch size" in summarize(again).measured
    assert json.dumps(summarize(again).to_dict()) == json.dumps(summarize(fitted).to_dict())
    np.testing.assert_array_equal(again.draws("stiffness"), fitted.draws("stiffness"))
    assert again.priors == fitted.priors
    assert again.convergence == fitted.convergence
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


@pytest.mark.parametrize(
    "bad",
    [{"num_chains": 1}, {"num_warmup": 3}, {"num_samples": 2.5}, {"target_accept": 1.0}, {"retry_target_accept": 0.2}],
)
def test_impossible_sampler_settings(run, bad):
    with pytest.raises(SettingError, match="expected"):
        fit(run, sampler=SamplerSettings(**bad))


def test_half_gain_step_solves_the_law():
    from scipy.integrate import solve_ivp

    from bayes_grpo.regimes.built_in.oscillator import half_gain_time

    for zeta in (-0.3, 0.0, 0.4, 1.0, 2.5, 30.0):
        omega = 0.3
        half = float(half_gain_time(np.array(zeta), np.array(omega)))
        path = solve_ivp(
            lambda t, s, z=zeta, w=omega: [s[1], -2 * z * w * s[1] - w**2 * s[0]],
            (0, half),
            [1.0, 0.0],
            rtol=1e-10,
            atol=1e-12,
            method="LSODA",
        )
        assert path.y[0, -1] == pytest.approx(0.5, abs=1e-6)
        assert (path.y[0, :-1] > 0.5).all()


def test_unstable_damping_is_reachable_and_bounded():
    """The prior's unstable side grows by a few e-folds over the log, whatever the response time."""
    regime = Oscillator()
    table = rows_of(make_run(np.arange(1.0, 101), np.sin(np.arange(100))))
    with jax.enable_x64(True):
        rows = padded(table)
        for response in (2.0, 20.0, 2000.0):
            raw = {"response_time": jnp.asarray(response), "damping_ratio": jnp.asarray(-1.0)}
            zeta = float(regime.physical(raw, rows)["damping_ratio"])
            growth = -zeta * np.sqrt(1 + 4 * zeta**2) / response * table.length
            assert 0.5 < growth < 4.0


@pytest.mark.slow
def test_accelerator_path_gives_the_same_posterior(run, fitted, monkeypatch):
    """Batched chains on the associative scan, run on whatever device there is, against threads on the sequential."""
    programs.forget_programs()
    monkeypatch.setattr(kalman, "accelerated", lambda: True)
    monkeypatch.setattr(nuts, "accelerated", lambda: True)
    other = fit(run, "oscillator", seed=1)
    programs.forget_programs()
    assert other.convergence.passed
    for name in ("response_time", "damping_ratio", "observation_sd", "fixed_point"):
        one, two = np.arcsinh(fitted.draws(name)), np.arcsinh(other.draws(name))
        # ESS is at least 400 in both: the means differ by a few standard errors at most.
        assert abs(one.mean() - two.mean()) < 4 * np.hypot(one.std(), two.std()) / np.sqrt(400)


@pytest.mark.thorough
def test_quantities_that_move_with_the_prior_are_named_and_shown(fitted):
    """Stiffness and damping rest on the prior of the damping ratio more than any parameter does."""
    summary = summarize(fitted)
    rows = {r.name: r for r in summary.rows}
    [line] = [w for w in summary.warnings if "prior-sensitive" in w]
    named = line.split(": ")[1].split(" (")[0].split(", ")
    assert named == [r.name for r in summary.rows if r.moves_with_prior]
    assert set(named) - set(fitted.priors)
    marks = {row[0].text: row[-1].text for row in not_none(view(summary).table).rows}
    for name in ("stiffness", "damping"):
        assert (marks[name] == "mostly the prior") == rows[name].rests_on_prior
    bound = replace(rows["stiffness"], prior_sensitivity=0.2, likelihood_sensitivity=0.1, mostly_prior=False)
    bound_rows = tuple(bound if r.name == "stiffness" else r for r in summary.rows)
    shown = not_none(view(replace(summary, rows=bound_rows)).table)
    assert {row[0].text: row[-1].text for row in shown.rows}["stiffness"] == "mostly the prior"


@pytest.mark.thorough
def test_medians_under_another_prior_are_those_of_a_fit_with_it(run, fitted):
    found = not_none(alternative_prior(fitted))
    assert found.usable
    other = {"damping_ratio": (found.other, fitted.priors["damping_ratio"].spread)}
    again = fit(run, "oscillator", priors=other, seed=2)
    for name in ("stiffness", "damping", "damping_ratio", "half_gain_step", "fixed_point"):
        before, after = found.medians[name]
        assert before == np.median(fitted.draws(name))
        u, v = (np.log(np.abs(x)) for x in (after, np.median(again.draws(name))))
        assert u == pytest.approx(v, abs=0.3 * np.log(np.abs(again.draws(name))).std())
    moved = np.log(found.medians["damping"][1] / found.medians["damping"][0])
    assert moved == pytest.approx(np.log(np.median(again.draws("damping")) / found.medians["damping"][0]), rel=0.5)
    [section] = [x for x in view(summarize(fitted)).sections if x.title == "Another prior"]
    assert f"{found.effective:.0f} effective draws" in section.tables[0].note
