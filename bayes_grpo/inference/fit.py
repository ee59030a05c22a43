"""`Fit`: the posterior of one regime on one run, as an ArviZ DataTree with everything that led to it.

Nothing is stored that could be derived: summaries, sentences and plots are functions of a fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayes_grpo.inference.convergence import Convergence, ParameterCheck
from bayes_grpo.inference.posterior import DrawSummary
from bayes_grpo.inference.sampler import Chain, SamplerSettings
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime, linear
from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.regimes.rows import RowTable

if TYPE_CHECKING:
    from xarray import DataTree

FORMAT = 1
"""Version of the saved layout; a file of another one is refused."""
TRAJECTORIES = 400
"""Draws of the curves that are kept, spread evenly over all draws."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A posterior with its data.

    Attributes:
        data: DataTree with the groups posterior (parameters and derived quantities), prior, sample_stats,
            log_likelihood (leave-one-out conditionals with a ``step`` dimension; the linear parameters are
            integrated out), posterior_predictive, trajectories (unforced law and latent reward),
            observed_data and constant_data. Attributes hold regime, priors, settings, versions, seed, the
            log's hash and the convergence checks.
    """

    data: DataTree

    @property
    def regime(self) -> Regime:
        """The law that was fitted."""
        return get_regime(self.data.attrs["regime"])

    @property
    def priors(self) -> dict[str, Prior]:
        """Priors that were used, by parameter."""
        return {k: Prior(**v) for k, v in json.loads(self.data.attrs["priors"]).items()}

    @property
    def convergence(self) -> Convergence:
        """Convergence checks of the sampler."""
        stored = json.loads(self.data.attrs["convergence"])
        checks = {k: ParameterCheck(**v) for k, v in stored.pop("parameters").items()}
        return Convergence(**{**stored, "reasons": tuple(stored["reasons"])}, parameters=checks)

    @property
    def signal(self) -> str:
        """What was fitted: "reward" or "eval_reward"."""
        return self.data.attrs["signal"]

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The run's settings with their provenance."""
        return json.loads(self.data.attrs["settings"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What reader and rows did that a user should know."""
        return tuple(json.loads(self.data.attrs["notes"]))

    def draws(self, name: str) -> np.ndarray:
        """Draws of a parameter or derived quantity, shape (chains, draws)."""
        return self.data["posterior"].dataset[name].to_numpy()

    def step(self) -> np.ndarray:
        """Steps of the rows, shape (n,)."""
        return self.data["observed_data"].dataset["step"].to_numpy()

    def observed(self) -> np.ndarray:
        """Logged values of the rows, shape (n,)."""
        return self.data["observed_data"].dataset["y"].to_numpy()

    def trajectories(self, name: str) -> np.ndarray:
        """Draws of "curve" (the unforced law) or "latent" (the latent reward), shape (trajectories, n)."""
        return self.data["trajectories"].dataset[name].to_numpy()


class Posterior(NamedTuple):
    """What sampling a regime on rows gave.

    Attributes:
        priors: Priors that were used.
        draws: Sampled parameters in their units, shape (chains, draws) each.
        chain: The sampler's output.
        summary: Linear parameters, curves and leave-one-out conditionals, padded rows.
        convergence: The checks.
        effective: Effective size of the importance weights where the draws were resampled by them, because the
            sampler that `convergence` describes mixed badly; None for the sampler's own draws.
    """

    priors: dict[str, Prior]
    draws: dict[str, np.ndarray]
    chain: Chain
    summary: DrawSummary
    convergence: Convergence
    effective: float | None = None

    @property
    def usable(self) -> bool:
        """Whether the draws serve as weights and for paths."""
        return self.effective is not None or self.convergence.usable


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
    values = dict(draws) | {p.name: summary.linear[..., i] for i, p in enumerate(linear(regime))}
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
    return Fit(tree)


def _mass_note(run: Run, table: RowTable) -> str:
    """Where the mass comes from. Momentum kept as an exponential average has the same inertia."""
    return f"momentum {table.optimizer.momentum:g} ({run.settings.momentum.provenance.value})"


def draw_prior(
    regime: Regime, priors: Mapping[str, Prior], table: RowTable, rng: np.random.Generator, size: int = 4000
) -> dict[str, np.ndarray]:
    """Draws of every parameter from its prior, shape (size,) each."""
    import jax

    with jax.enable_x64(True):
        free = {}
        levels = {}
        for p in regime.parameters:
            prior = priors[p.name]
            u = p.transform.inverse(prior.median) + prior.spread * rng.standard_normal(size)
            (levels if p.linear else free)[p.name] = p.transform.forward(u)
        free = regime.physical(free, table.padded())
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


def model_hash(regime: Regime) -> str:
    """Fingerprint of a regime's parameters; a fit of another model must not be read as this one."""
    text = ";".join(f"{p.name}[{p.unit}]:{p.transform.name}:{p.linear}" for p in regime.parameters)
    return hashlib.sha256(f"{regime.name}|{text}".encode()).hexdigest()[:16]
