"""A saved fit in ArviZ's own functions: right, or refused; never a number that means something else."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import norm

import bayes_grpo as bg
from bayes_grpo.fitting.sensitivity import sensitivities
from bayes_grpo.regimes.base import Prior
from tests.helpers.reference import dense_log_density, oscillator_moments, stretches
from tests.helpers.runs import rising_run, steps

PINNED = {
    "observation_sd": Prior(0.05, 1e-4),
    "fluctuation_sd": Prior(1e-6, 1e-4),
    "fixed_point": Prior(0.5, 0.4),
    "initial_reward": Prior(0.3, 0.3),
}
"""Noise is known and fluctuation absent: the rows are a linear regression on the law's two shapes, given its time."""
ROWS = 40


@pytest.fixture(scope="module")
def run():
    return rising_run(ROWS, seed=4)


@pytest.fixture(scope="module")
def fitted(run):
    return bg.fit(run, "exponential", seed=1)


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    """The fit as a user of ArviZ alone has it."""
    path = tmp_path_factory.mktemp("saved") / "fit.nc"
    bg.save_fit(fitted, path)
    tree = az.from_netcdf(path)
    yield tree.load()
    tree.close()


def shapes(time: float) -> np.ndarray:
    """Mean of each row's window for a fixed point of 1 and for an initial reward of 1, shape (n, 2)."""
    ends = steps(ROWS)
    left = time * (np.exp(-(ends - 1) / time) - np.exp(-ends / time))
    return np.stack([1 - left, left], axis=1)


# What power scaling needs.


@pytest.mark.thorough
def test_log_likelihood_is_that_of_all_rows_given_all_parameters(run):
    """Against a dense normal from matrix exponentials, the levels held at their draws."""
    made = bg.fit(run, "oscillator", seed=0)
    total = made.data["joint_log_likelihood"].to_dataset().to_array().sum("variable")
    precision = bg.rows_of(run).precision  # the noise of a share of successes differs from row to row
    for chain, draw in ((0, 0), (1, 250), (3, 499)):
        at = {k: float(v[chain, draw]) for k, v in made.data["posterior"].dataset.items()}
        rows = stretches(bg.rows_of(run))
        levels = (at["fixed_point"], 0.0), (at["initial_reward"], 0.0)
        mean, cov = oscillator_moments(
            at["damping_ratio"], at["natural_frequency"], at["fluctuation_sd"], rows, *levels
        )
        expected = dense_log_density(made.observed(), mean, cov + at["observation_sd"] ** 2 * np.diag(1.0 / precision))
        assert float(total[chain, draw]) == pytest.approx(expected, rel=1e-8)


def test_log_prior_is_the_normal_density_of_each_parameter(saved, fitted):
    group = saved["joint_log_prior"].dataset
    assert list(group.data_vars) == [p.name for p in fitted.regime.parameters]
    for p in fitted.regime.parameters:
        prior, draws = fitted.priors[p.name], fitted.draws(p.name)
        u, centre = (np.log(draws), np.log(prior.median)) if p.transform.positive else (draws, prior.median)
        np.testing.assert_allclose(group[p.name], norm.logpdf(u, centre, prior.spread), rtol=1e-8, atol=1e-8)


def test_psense_of_arviz_is_in_the_summary(saved, fitted):
    tree = saved.copy()
    tree["log_prior"], tree["log_likelihood"] = tree["joint_log_prior"], tree["joint_log_likelihood"]
    table = az.psense_summary(tree, round_to=12)
    for row in bg.summarize(fitted).rows:
        theirs = table.loc[row.name]
        assert row.prior_sensitivity == pytest.approx(theirs["prior"], rel=1e-9)
        assert row.likelihood_sensitivity == pytest.approx(theirs["likelihood"], rel=1e-9)


def test_quantities_with_draws_that_are_not_finite_have_no_sensitivity(fitted):
    tree = fitted.data.copy()
    values = tree["posterior"].to_dataset()
    values["fixed_point"] = values["fixed_point"].where(values["draw"] > 0)
    tree["posterior"].dataset = values
    found = sensitivities(bg.Fit.of_tree(tree, fitted.regime))
    assert np.isnan(found["fixed_point"][0])
    assert found["initial_reward"][0] > 0


# Predictive draws.


def test_predictive_draws_pair_with_the_parameters(run):
    """Residuals of drawn runs about the law of their own draw are the known noise, independent from row to row."""
    regression = bg.fit(run, "exponential", priors=PINNED, seed=2)
    rows, draws = regression.data["prior_predictive"].dataset["y"], regression.data["prior"].dataset
    for dim in ("chain", "draw"):
        np.testing.assert_array_equal(rows[dim], draws[dim])
    values = rows.to_numpy().reshape(-1, ROWS)
    levels = np.stack([draws[k].to_numpy().ravel() for k in ("fixed_point", "initial_reward")], axis=-1)
    times = draws["relaxation_time"].to_numpy().ravel()
    residual = np.array([v - shapes(t) @ b for v, t, b in zip(values, times, levels, strict=True)]) / 0.05
    count = residual.size
    assert residual.mean() == pytest.approx(0.0, abs=4 / np.sqrt(count))
    assert residual.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / count))
    neighbours = np.mean(residual[:, 1:] * residual[:, :-1])
    assert neighbours == pytest.approx(0.0, abs=4 / np.sqrt(count))


def test_large_groups_are_small_in_the_file(saved, fitted, tmp_path):
    for group in ("posterior_predictive", "prior_predictive", "log_likelihood"):
        assert {str(x.dtype) for x in saved[group].dataset.data_vars.values()} == {"float32"}
    np.testing.assert_array_equal(saved["posterior_predictive"]["y"], fitted.data["posterior_predictive"]["y"])
    np.testing.assert_allclose(saved["log_likelihood"]["y"], fitted.data["log_likelihood"]["y"], rtol=1e-6, atol=1e-6)
    # Steps of the drawn rows are far below the noise.
    step = np.min(np.diff(np.unique(np.asarray(fitted.data["posterior_predictive"]["y"]))))
    assert step < 1e-3 * np.median(fitted.draws("observation_sd"))


# Pictures and tables.


@pytest.fixture
def agg():
    from matplotlib import pyplot as plt

    before = mpl.get_backend()
    mpl.use("Agg")
    yield
    plt.close("all")
    mpl.use(before)


@pytest.mark.usefixtures("agg")
@pytest.mark.parametrize("name", ["trace", "rank", "prior_posterior", "khat", "loo_pit", "ppc_dist", "prior_ppc", "lm"])
def test_plots_of_arviz_run_on_a_saved_fit(saved, name):
    parameters = ["relaxation_time", "fixed_point"]
    plots = {
        "trace": lambda: az.plot_trace(saved, var_names=parameters),
        "rank": lambda: az.plot_rank(saved, var_names=parameters),
        "prior_posterior": lambda: az.plot_prior_posterior(saved, var_names=parameters),
        "khat": lambda: az.plot_khat(az.loo(saved, pointwise=True)),
        "loo_pit": lambda: az.plot_loo_pit(saved),
        "ppc_dist": lambda: az.plot_ppc_dist(saved),
        "prior_ppc": lambda: az.plot_ppc_dist(saved, group="prior_predictive"),
        "lm": lambda: az.plot_lm(saved, x="row_step", y="y"),
    }
    figure = plots[name]().viz["figure"].item()
    assert sum(len(a.lines) + len(a.collections) for a in figure.axes) > 0


def test_variables_have_units_and_names_and_arviz_sums_them_up(fitted):
    table = az.summary(fitted.to_datatree())
    assert list(table.index) == list(fitted.posterior.data_vars)
    assert fitted.posterior["relaxation_time"].attrs["units"] == "step"
    assert all(x.attrs["long_name"] for x in fitted.posterior.data_vars.values())
    depth, steps = (fitted.data["sample_stats"][k] for k in ("tree_depth", "n_steps"))
    assert ((2 ** (depth - 1) <= steps) & (steps < 2**depth)).all()


def test_trajectories_stand_under_the_chain_and_draw_that_they_are_of(fitted):
    """At t → ∞ the curve is the fixed point of the same draw: far out it follows it draw by draw."""
    curve, values = fitted.data["trajectories"]["curve"], fitted.data["posterior"].dataset
    assert curve.sizes["chain"] * curve.sizes["draw"] == 400
    end, time = float(curve["step"][-1]) - 0.5, values["relaxation_time"]
    share = np.exp(-end / time) * 2.0 * time * np.sinh(0.5 / time)
    law = values["fixed_point"] + (values["initial_reward"] - values["fixed_point"]) * share
    np.testing.assert_allclose(curve.isel(step=-1), law.sel(chain=curve["chain"], draw=curve["draw"]), atol=1e-6)
