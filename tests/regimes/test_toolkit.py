"""What a user of NumPyro and ArviZ does with a regime, by public names alone."""

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import bayes_grpo as bg
from bayes_grpo.regimes import NOISES
from tests.helpers.runs import rising_run

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("double_precision")]
NAMED = bg.get_regime("stiffness_damping")


def hierarchy(rows):
    """Partial pooling of the stiffness over logs."""
    centre, spread = numpyro.sample("centre", dist.Normal(-4.0, 2.0)), numpyro.sample("spread", dist.HalfNormal(1.0))
    noises = {p.name: numpyro.sample(p.name, dist.LogNormal(jnp.log(0.03), 1.0)) for p in NOISES}
    damping = numpyro.sample("damping", dist.LogNormal(-1.0, 1.0))
    with numpyro.plate("logs", len(rows.y)):
        offset = numpyro.sample("offset", dist.Normal())
        stiffness = numpyro.deterministic("stiffness", jnp.exp(centre + spread * offset))
        levels = {"fixed_point": (0.5, 0.5), "initial_reward": (0.2, 0.5)}
        values = {"stiffness": stiffness, "damping": damping, **noises, **levels}
        numpyro.sample("y", NAMED.distribution(values, rows), obs=rows.y)


def test_a_hierarchy_over_six_runs_in_a_dozen_lines():
    rows = bg.stacked([rising_run(30 + 2 * i, i) for i in range(6)])
    mcmc = MCMC(
        NUTS(hierarchy), num_warmup=200, num_samples=200, num_chains=2, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.key(0), rows)
    assert mcmc.get_samples()["stiffness"].shape == (400, 6)
    assert float(az.rhat(az.from_numpyro(mcmc), var_names=["centre"])["centre"]) < 1.1


@pytest.mark.filterwarnings("ignore:There are not enough devices")
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("method", ["sequential", "vectorized", "parallel"])
def test_numpyro_samples_the_model_with_every_chain_method_in_both_precisions(method, double):
    with jax.enable_x64(double):
        table, kernel = bg.rows_of(rising_run()), NUTS(bg.get_regime("exponential").model, target_accept_prob=0.9)
        mcmc = MCMC(kernel, num_warmup=300, num_samples=300, num_chains=2, chain_method=method, progress_bar=False)
        mcmc.run(jax.random.key(0), table)
    exact = bg.fit(rising_run(), "exponential", seed=1).draws("fixed_point")
    low, middle, high = np.quantile(np.asarray(mcmc.get_samples()["fixed_point"]), [0.25, 0.5, 0.75])
    assert abs(middle - np.median(exact)) < 0.3 * exact.std()
    assert high - low == pytest.approx(np.subtract(*np.quantile(exact, [0.75, 0.25])), rel=0.3)
