"""A regime as a NumPyro model of one log, to run with any of NumPyro's samplers or to read before writing one's own.

    mcmc = MCMC(NUTS(regime.model, dense_mass=True), num_warmup=1000, num_samples=1000)
    mcmc.run(jax.random.key(0), rows_of(run))

It has the priors of `bayes_grpo.fit` and the same posterior. `fit` is faster, because it integrates the linear
parameters out and keeps its compiled programs; here they are sites of their own, so that they can have any prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpyro
import numpyro.distributions as dist

from bayes_grpo.regimes.curve import Curve
from bayes_grpo.regimes.distribution import rows_distribution
from bayes_grpo.regimes.priors import is_distribution, resolve_priors
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.table import RowTable


def model(regime: Curve, table: RowTable, priors: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The model.

    Sites: every linear parameter, and every one with a NumPyro distribution of your own as its prior, under its name;
    ``<name>_free`` for every other one, its normal coordinate, and ``<name>`` as a deterministic site, after
    `Regime.physical` has bound it to the rows (no response faster than they are, say); ``y``, the logged values. To
    condition on a parameter by its name, give it a distribution of your own.

    Args:
        regime: The law.
        table: Rows of the log.
        priors: Overrides, parameter → NumPyro distribution over its values, or (median, spread).

    Returns:
        Every parameter by name.

    Raises:
        FitError: The law cannot be put on these rows.
        PriorError: An override is impossible.
    """
    regime.check(table)
    own = {k: v for k, v in (priors or {}).items() if is_distribution(v)}
    known = resolve_priors(regime, table, {k: v for k, v in (priors or {}).items() if k not in own})
    rows = padded(table, len(table.y))
    free = {}
    for p in regime.sampled:
        prior = known[p.name]
        if p.name in own:
            free[p.name] = numpyro.sample(p.name, own[p.name])
        else:
            u = numpyro.sample(f"{p.name}_free", dist.Normal(p.transform.inverse(prior.median), prior.spread))
            free[p.name] = p.transform.forward(u)
    bound = regime.physical(free, rows)
    values = {k: v if k in own else numpyro.deterministic(k, bound[k]) for k, v in free.items()}
    for p in regime.linear:
        prior = known[p.name]
        values[p.name] = numpyro.sample(p.name, own.get(p.name, dist.Normal(prior.median, prior.spread)))
    numpyro.sample("y", rows_distribution(regime, values, rows), obs=rows.y)
    return values
