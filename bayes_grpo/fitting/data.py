"""The DataTree of a fit: what goes into which group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.fitting.result import FORMAT, Fit, model_hash
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.posterior import DrawSummary
from bayes_grpo.fitting.sampling.result import Posterior
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.table import RowTable

if TYPE_CHECKING:
    pass


TRAJECTORIES = 400
"""Draws of the curves that are kept, spread evenly over all draws."""


def build_fit(
    run: Run,
    regime: Regime,
    table: RowTable,
    found: Posterior,
    sampler: SamplerSettings,
    seed: int,
) -> Fit:
    """Assembles a fit from the sampler's output; see `Fit.data` for what goes where.

    Args:
        run: The run.
        regime: The law.
        table: Rows that were fitted, unpadded.
        found: The sampler's output.
        sampler: Sampler settings.
        seed: Seed.

    Returns:
        The fit.
    """
    import arviz_base as az

    priors, draws, chain, summary, convergence, _ = found
    n = len(table.y)
    mass_note = _mass_note(run, table)
    values = dict(draws) | {p.name: summary.linear[..., i] for i, p in enumerate(regime.linear)}
    rng = np.random.default_rng(seed)
    prior_draws = draw_prior(regime, priors, table, rng)
    curve, latent, replicated = _trajectories(summary, values, table, n, rng)
    tree = az.from_dict(
        {
            "posterior": values | regime.derived(values, table),
            "prior": {k: v[None] for k, v in (prior_draws | regime.derived(prior_draws, table)).items()},
            "sample_stats": {
                "energy": chain.energy,
                "lp": -np.asarray(chain.potential),
                "n_steps": chain.num_steps,
                "acceptance_rate": chain.accept_prob,
                "diverging": chain.diverging,
            },
            "log_likelihood": {"y": summary.loo_log_density[..., :n]},
            "posterior_predictive": {"y": replicated[None]},
            "observed_data": {"y": table.y},
            "constant_data": {
                "row_window": table.window,
                "row_gap": table.gap(),
                "row_rate": table.rate,
                "row_weight": table.weight,
                "latent_mean": summary.latent[..., :n].mean((0, 1)),
                "curve_mean": summary.curve[..., :n].mean((0, 1)),
            }
            | ({} if table.entropy is None else {"row_entropy": table.entropy}),
            "trajectories": {"curve": curve[None], "latent": latent[None]},
        },
        dims={
            k: ["step"] for k in ("y", "row_window", "row_gap", "row_rate", "row_weight", "latent_mean", "curve_mean")
        }
        | ({} if table.entropy is None else {"row_entropy": ["step"]})
        | {"curve": ["step"], "latent": ["step"]},
        coords={"step": table.step},
        sample_dims=["chain", "draw"],
    )
    tree.attrs.update(_attributes(run, regime, table, priors, convergence, sampler, seed, mass_note))
    return Fit(tree, regime)


def _mass_note(run: Run, table: RowTable) -> str:
    """Where the mass comes from. Momentum kept as an exponential average has the same inertia."""
    return f"momentum {table.optimizer.momentum:g} ({run.settings.momentum.provenance.value})"


def draw_prior(
    regime: Regime, priors: Mapping[str, Prior], table: RowTable, rng: np.random.Generator, size: int = 4000
) -> dict[str, np.ndarray]:
    """Draws of every parameter from its prior, shape (size,) each."""
    import jax
    import jax.numpy as jnp

    from bayes_grpo.regimes.quantiles import interpolated, slopes_of

    with jax.enable_x64(True):
        free = {}
        levels = {}
        for p in regime.parameters:
            prior = priors[p.name]
            z = rng.standard_normal(size)
            u = p.transform.inverse(prior.median) + prior.spread * z
            if prior.quantiles is not None:
                quantiles = np.array([prior.quantiles])
                u = interpolated(jnp.asarray(quantiles), jnp.asarray(slopes_of(quantiles)), jnp.asarray(z)[:, None])[
                    :, 0
                ]
            (levels if p.linear else free)[p.name] = p.transform.forward(u)
        free = regime.physical(free, padded(table))
        return {k: np.asarray(v) for k, v in (free | levels).items()}


def _trajectories(
    summary: DrawSummary, values: Mapping[str, Any], table: RowTable, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evenly spread draws of the unforced law, the latent reward and replicated rows, shape (trajectories, n)."""
    total = values["observation_sd"].size
    picks = np.linspace(0, total - 1, min(TRAJECTORIES, total)).astype(int)

    def flat(x: Any) -> np.ndarray:
        return x.reshape(total, -1)[picks][:, :n]

    curve, mean, var = flat(summary.curve), flat(summary.latent), flat(summary.latent_var)
    latent = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal(mean.shape)
    noise = values["observation_sd"].reshape(total, 1)[picks] / np.sqrt(table.weight)
    return curve, latent, latent + noise * rng.standard_normal(mean.shape)


def _attributes(
    run: Run,
    regime: Regime,
    table: RowTable,
    priors: Mapping[str, Prior],
    convergence: Convergence,
    sampler: SamplerSettings,
    seed: int,
    mass_note: str,
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
        "mass_note": mass_note,
        "reference_learning_rate": table.reference_rate,
        "start": table.start,
        "from_rest": int(table.from_rest),
        "notes": json.dumps([*run.notes, *table.notes]),
        "convergence": json.dumps(convergence.to_dict()),
        "versions": json.dumps({name: version(name) for name in ("jax", "numpyro", "arviz", "numpy")}),
    }
