"""The DataTree of a fit: what goes into which group, so that ArviZ's functions are right about it or refuse.

One likelihood belongs to posterior and prior, that of the logged rows given *all* parameters, the levels included:

- `log_likelihood` holds its logarithm in the two parts of a normal density, ``normalisation`` and ``misfit``, each one
  number a draw. ``arviz.psense`` sums them, which is right; ``arviz.loo`` refuses, because it finds several variables
  and none of them a row's.
- `log_prior` holds the prior's log density of each parameter in the coordinate in which it is normal. There a prior
  raised to the power α is the same prior with its spread over √α.
- `prior_predictive` and `posterior_predictive` are runs drawn from that likelihood, one at each draw of `prior` and of
  `posterior`.

The rows of a run depend on each other, so the terms that leave-one-out needs are no factors of that likelihood. They
have a group of their own, `leave_one_out`, which `bayes_grpo.loo_view` shows in the shape that ArviZ's functions read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.draws import spread
from bayes_grpo.dynamics.state_space import LOG_2PI
from bayes_grpo.fitting.replicates import measured_again, replicate
from bayes_grpo.fitting.result import FORMAT, Fit, model_hash
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.posterior import DrawSummary, prior_numbers, values_of_draws
from bayes_grpo.fitting.sampling.result import Posterior
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.table import RowTable

TRAJECTORIES = 400
"""Draws of the curves that are kept, spread evenly over all draws."""


PRIOR_DRAWS = 4000
"""Draws of the prior that are kept, and runs drawn from them."""


class PriorSide(NamedTuple):
    """What a fit holds of the prior alone; it can be made while the sampler runs.

    Attributes:
        draws: Draws of every parameter, shape (size,) each.
        derived: Derived quantities of these draws.
        rows: A run drawn at each of them, shape (size, n).
        rng: Randomness after these draws, for what follows.
    """

    draws: dict[str, np.ndarray]
    derived: dict[str, np.ndarray]
    rows: np.ndarray
    rng: np.random.Generator


def prior_side(regime: Regime, priors: Mapping[str, Prior], table: RowTable, seed: int) -> PriorSide:
    """Draws of the prior and runs drawn from them.

    Args:
        regime: The law.
        priors: Priors that are used, by parameter.
        table: Rows that are fitted.
        seed: Seed of the fit.
    """
    rng = np.random.default_rng(seed)
    draws = draw_prior(regime, priors, table, rng, PRIOR_DRAWS)
    rows = replicate(regime, table, draws, np.random.default_rng([seed, _PRIOR_RUNS])).rows
    return PriorSide(draws, regime.derived(draws, table), _drawn(rows, table), rng)


_PRIOR_RUNS, _POSTERIOR_RUNS, _HELD_OUT = 1, 2, 3  # streams of a fit's seed


def build_fit(
    run: Run,
    regime: Regime,
    table: RowTable,
    found: Posterior,
    sampler: SamplerSettings,
    seed: int,
    prior: PriorSide | None = None,
) -> Fit:
    """Assembles a fit from the sampler's output; see `Fit.data` for what goes where.

    Args:
        run: The run.
        regime: The law.
        table: Rows that were fitted, unpadded.
        found: The sampler's output.
        sampler: Sampler settings.
        seed: Seed.
        prior: What the fit holds of the prior, if at hand.

    Returns:
        The fit.
    """
    import arviz_base as az

    priors, draws, chain, summary, convergence = found
    n = len(table.y)
    values = dict(draws) | {p.name: np.asarray(summary.linear)[..., i] for i, p in enumerate(regime.linear)}
    prior = prior_side(regime, priors, table, seed) if prior is None else prior
    drawn = _trajectories(summary, values, table, n, prior.rng)
    ours = replicate(regime, table, values, np.random.default_rng([seed, _POSTERIOR_RUNS]))
    held_out = _held_out(summary, table, np.random.default_rng([seed, _HELD_OUT]))
    constant = _constant_data(table, summary, n)
    tree = az.from_dict(
        {
            "posterior": values | regime.derived(values, table),
            "prior": {k: v[None] for k, v in (prior.draws | prior.derived).items()},
            "sample_stats": {
                "energy": chain.energy,
                "lp": -np.asarray(chain.potential),
                "n_steps": chain.num_steps,
                "acceptance_rate": chain.accept_prob,
                "diverging": chain.diverging,
            },
            "log_prior": _log_prior(regime, priors, np.asarray(chain.z), values),
            "log_likelihood": {"normalisation": ours.normalisation, "misfit": ours.misfit},
            "posterior_predictive": {"y": _drawn(ours.rows, table)},
            "prior_predictive": {"y": prior.rows[None]},
            "leave_one_out": held_out,
            "observed_data": {"y": table.y},
            "constant_data": constant,
            "trajectories": drawn,
        },
        dims={name: ["step"] for name in ("y", *held_out, *constant, *drawn)},
        coords={"step": table.step},
        sample_dims=["chain", "draw"],
    )
    tree.attrs.update(_attributes(run, regime, table, priors, convergence, sampler, seed))
    return Fit(tree, regime)


def _log_prior(
    regime: Regime, priors: Mapping[str, Prior], z: np.ndarray, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Log density of each parameter in the coordinate in which its prior is normal, shape (chains, draws)."""
    standard = {p.name: z[..., i] for i, p in enumerate(regime.sampled)}
    standard |= {p.name: (values[p.name] - priors[p.name].median) / priors[p.name].spread for p in regime.linear}
    return {p.name: -0.5 * (standard[p.name] ** 2 + LOG_2PI) - np.log(priors[p.name].spread) for p in regime.parameters}


def _held_out(summary: DrawSummary, table: RowTable, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Log density of every row given all others at each draw, and a value drawn from that conditional."""
    n = len(table.y)
    mean, sd = np.asarray(summary.loo_mean)[..., :n], np.sqrt(np.asarray(summary.loo_var)[..., :n])
    drawn = mean + sd * rng.standard_normal(mean.shape)
    return {"log_density": np.asarray(summary.loo_log_density)[..., :n], "predicted": _drawn(drawn, table)}


def _constant_data(table: RowTable, summary: DrawSummary, n: int) -> dict[str, np.ndarray]:
    """The rows' windows, rates and weights, and the posterior mean of latent reward and unforced law."""
    return {
        "row_window": table.window,
        "row_gap": table.gap(),
        "row_rate": table.rate,
        "row_weight": table.weight,
        "latent_mean": summary.latent[..., :n].mean((0, 1)),
        "curve_mean": summary.curve[..., :n].mean((0, 1)),
    } | ({} if table.entropy is None else {"row_entropy": table.entropy})


def _drawn(rows: np.ndarray, table: RowTable) -> np.ndarray:
    """Drawn rows in steps of about 1/4096 of the logged rows' spread, far finer than their noise, as single precision.

    Steps that are a power of two leave zeros behind, so that a file of them is half as long.
    """
    step = 2.0 ** np.floor(np.log2(max(table.scale, 1e-30)) - 12.0)
    with np.errstate(over="ignore"):  # a law that explodes is infinite beyond single precision
        return (np.round(rows / step) * step).astype(np.float32)


def _mass_note(run: Run, table: RowTable) -> str:
    """Where the mass comes from. Momentum kept as an exponential average has the same inertia."""
    return f"momentum {table.optimizer.momentum:g} ({run.settings.momentum.provenance.value})"


def draw_prior(
    regime: Regime, priors: Mapping[str, Prior], table: RowTable, rng: np.random.Generator, size: int = PRIOR_DRAWS
) -> dict[str, np.ndarray]:
    """Draws of every parameter from its prior, shape (size,) each."""
    import jax

    with jax.enable_x64(True):
        z = {p.name: rng.standard_normal(size) for p in regime.parameters}
        numbers = prior_numbers(regime, dict(priors))
        free = values_of_draws(regime, np.stack([z[p.name] for p in regime.sampled], axis=-1), numbers, padded(table))
        levels = {p.name: priors[p.name].median + priors[p.name].spread * z[p.name] for p in regime.linear}
        return {k: np.asarray(v) for k, v in (free | levels).items()}


def _trajectories(
    summary: DrawSummary, values: Mapping[str, Any], table: RowTable, n: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Evenly spread draws of the unforced law, the latent reward and rows about it, shape (1, trajectories, n).

    These rows have the logged run's own latent reward: what the same run would show if it were measured again.
    """
    total = values["observation_sd"].size
    picks = spread(total, TRAJECTORIES)

    def flat(x: Any) -> np.ndarray:
        return x.reshape(total, -1)[picks][:, :n]

    mean, var, noise = flat(summary.latent), flat(summary.latent_var), values["observation_sd"].reshape(total)[picks]
    latent, rows = measured_again(mean, var, noise, table.weight, rng)
    return {"curve": flat(summary.curve)[None], "latent": latent[None], "rows": rows[None]}


def _attributes(
    run: Run,
    regime: Regime,
    table: RowTable,
    priors: Mapping[str, Prior],
    convergence: Convergence,
    sampler: SamplerSettings,
    seed: int,
) -> dict[str, Any]:
    settings = {
        name: {"value": s.value, "provenance": s.provenance.value, "note": s.note} for name, s in run.settings.items()
    }
    return {
        "bayes_grpo_format": FORMAT,
        "bayes_grpo_version": version("bayes-grpo"),
        "regime": regime.name,
        "model_hash": model_hash(regime),
        "signal": table.signal,
        "run_name": run.name,
        "source": run.source,
        "log_format": run.format,
        "log_hash": run.log_hash,
        "seed": seed,
        "sampler": json.dumps(asdict(sampler)),
        "priors": json.dumps({k: asdict(v) for k, v in priors.items()}),
        "settings": json.dumps(settings, default=str),
        "mass": table.optimizer.mass,
        "momentum": table.optimizer.momentum,
        "momentum_convention": table.optimizer.convention,
        "refresh_interval": table.optimizer.refresh,
        "mass_note": _mass_note(run, table),
        "reference_learning_rate": table.reference_rate,
        "start": table.start,
        "from_rest": int(table.from_rest),
        "notes": json.dumps([*run.notes, *table.notes]),
        "convergence": json.dumps(convergence.to_dict()),
        "versions": json.dumps({name: version(name) for name in ("jax", "numpyro", "arviz", "numpy")}),
    }
