"""Point priors: a parameter that is fixed by a number or by NumPyro's Delta."""

import arviz as az
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayes_grpo import SamplerSettings, fit, get_regime, load_fit, rows_of, save_fit, summarize
from bayes_grpo.common.errors import PriorError
from bayes_grpo.fitting.draws import fast_posterior
from bayes_grpo.fitting.sampling.target import target_of
from tests.helpers.runs import rising_run
from tests.helpers.shown import text_of

TIME, NOISE, START = 12.0, 0.05, 0.3
POINTS = {
    "relaxation_time": dist.Delta(TIME),
    "observation_sd": NOISE,
    "fluctuation_sd": 1e-6,
    "initial_reward": START,
    "fixed_point": (0.5, 0.4),
}


@pytest.fixture(scope="module")
def run():
    return rising_run()


@pytest.fixture(scope="module")
def fitted(run):
    return fit(run, "exponential", priors=POINTS, seed=5, sampler=SamplerSettings(num_chains=2))


def plateau(run) -> tuple[float, float]:
    """Posterior mean and sd of the fixed point: a linear regression on the one shape that is left."""
    rows = rows_of(run)
    left = TIME * (np.exp(-(rows.step - rows.window) / TIME) - np.exp(-rows.step / TIME)) / rows.window
    rest = rows.y - START * left
    weight = rows.precision / NOISE**2
    precision = np.sum(weight * (1 - left) ** 2) + 1 / 0.4**2
    return float((np.sum(weight * (1 - left) * rest) + 0.5 / 0.4**2) / precision), float(precision**-0.5)


def check_draws(run, draws):
    """Fixed parameters stay, the fixed point has the moments of the regression."""
    mean, sd = plateau(run)
    for name, value in {"relaxation_time": TIME, "observation_sd": NOISE, "initial_reward": START}.items():
        np.testing.assert_allclose(draws[name], value, rtol=1e-12)
    assert draws["fixed_point"].mean() == pytest.approx(mean, abs=0.15 * sd)
    assert draws["fixed_point"].std() == pytest.approx(sd, rel=0.1)


def test_the_fast_sampler_moves_in_the_rest_alone(run):
    target = target_of(get_regime("exponential"), rows_of(run), POINTS)
    check_draws(run, fast_posterior(target, seed=1).sample_marginalized(1).values)


@pytest.mark.thorough
def test_nuts_moves_in_the_rest_alone(run, fitted):
    check_draws(run, {k: fitted.draws(k) for k in POINTS})
    assert set(fitted.convergence.parameters) == {"fixed_point"}
    assert fitted.convergence.passed


@pytest.mark.thorough
def test_summary_saved_fit_and_tree_show_it_as_fixed(fitted, tmp_path):
    summary = summarize(fitted)
    rows = {r.name: r for r in summary.rows}
    assert {name for name in POINTS if rows[name].fixed} == set(POINTS) - {"fixed_point"}
    assert not any(r.mostly_prior for r in rows.values() if r.fixed)
    [line] = [x for x in text_of(summary, 120, details=False).splitlines() if x.strip().startswith("observation sd")]
    assert line.split()[2:] == ["0.05", "reward", "fixed"]
    assert list(fitted.data["joint_log_prior"].data_vars) == ["fixed_point"]
    save_fit(fitted, tmp_path / "fit.nc")
    again = load_fit(tmp_path / "fit.nc")
    assert again.priors == fitted.priors
    assert again.priors["relaxation_time"].fixed
    assert summarize(again).verdict == summary.verdict
    with az.from_netcdf(tmp_path / "fit.nc") as tree:
        assert float(az.summary(tree, var_names=["initial_reward"], round_to="none")["mean"].iloc[0]) == pytest.approx(
            START
        )


def test_a_model_has_no_site_for_it(run):
    regime = get_regime("exponential")
    with jax.enable_x64(True), numpyro.handlers.seed(rng_seed=0):
        trace = numpyro.handlers.trace(regime.model).get_trace(rows_of(run), POINTS)
    assert set(trace) == {"fixed_point", "y"}
    for name, value in {"relaxation_time": TIME, "initial_reward": START}.items():
        given = trace["y"]["fn"].values.get(name)
        mean = trace["y"]["fn"].levels.get(name, (given, 0.0))[0]
        assert float(mean) == pytest.approx(value)


def test_all_parameters_fixed_leave_nothing_to_fit(run):
    with pytest.raises(PriorError, match="all of them fixed"):
        fit(run, "exponential", priors=POINTS | {"fixed_point": 0.5})
