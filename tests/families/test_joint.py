"""The family's posterior against chains over the parameters of every run at once: an independent computation."""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS, init_to_median

from bayes_grpo.families.design import together_of
from bayes_grpo.families.index import Index
from bayes_grpo.families.members import members_of
from bayes_grpo.families.model import spread_of
from bayes_grpo.families.posterior import Together, family_posterior
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import Rows, stacked
from tests.families.made import swept

LAW = get_regime("exponential")


def joint(together: Together, rows: Rows) -> None:
    """Every run has its own parameters, not centred; the levels are integrated out by the filter, not by nodes."""
    priors, n = together.priors, len(together.tables)
    size, p = len(priors.centre), len(LAW.sampled)
    standard: Any = dist.Normal(0.0, 1.0)
    mean: Any = priors.centre + priors.width * numpyro.sample("mean", standard.expand([size]).to_event(1))
    slopes: Any = priors.slope * numpyro.sample("slopes", standard.expand([len(priors.slope), size]).to_event(2))
    spread: Any = numpyro.deterministic(
        "spread", spread_of(priors, numpyro.sample("spread_z", standard.expand([size]).to_event(1)))
    )
    numpyro.deterministic("slope", slopes[0])
    numpyro.deterministic("centre", mean)
    expected = mean + together.x @ slopes + together.offset
    own: Any = numpyro.sample("u", standard.expand([n, p]).to_event(2))
    u = expected[:, :p] + spread[:p] * own
    values: dict[str, Any] = {q.name: q.transform.forward(u[:, j]) for j, q in enumerate(LAW.sampled)}
    unit = together.scale.unit
    for j, q in enumerate(LAW.linear, p):
        values[q.name] = (together.scale.origin + unit * expected[:, j], unit * spread[j])
    numpyro.sample("y", LAW.distribution(values, rows).to_event(1), obs=rows.y)


@pytest.mark.slow
def test_nodes_and_joint_chains_agree():
    members = members_of(swept(5), ["learning_rate"], Index({}), LAW).members
    together = together_of(LAW, members, ["learning_rate"])
    found = family_posterior(together)
    assert found.convergence.passed
    with jax.enable_x64(True):
        kernel = NUTS(joint, target_accept_prob=0.9, init_strategy=init_to_median())
        chains = MCMC(
            kernel, num_warmup=400, num_samples=800, num_chains=2, chain_method="sequential", progress_bar=False
        )
        chains.run(jax.random.key(0), together, stacked(together.tables))
    sites = {k: np.asarray(v) for k, v in chains.get_samples().items()}
    draws = found.draws.flat()
    moved = together.priors.slope[0] > 0
    for mine, theirs in (
        (draws.mean, sites["centre"]),
        (draws.slopes[:, 0, moved], sites["slope"][:, moved]),
        (draws.spread, sites["spread"]),
    ):
        sd = theirs.std(axis=0)
        assert np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) / sd == pytest.approx(0.0, abs=0.25)
        assert mine.std(axis=0) / sd == pytest.approx(1.0, abs=0.2)
