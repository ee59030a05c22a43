"""`fit`: a run and a regime in, a checked posterior out, of which ArviZ's functions are right or refuse.

`Fit` says which group holds what. One likelihood belongs to posterior and prior, that of the logged rows given
*all* parameters, the levels included. The rows of a run depend on each other, so the terms that leave-one-out needs are
no factors of it, and power scaling would add them up. So no group is named `log_prior`, without which
``arviz.psense_summary`` refuses the tree as it is.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common import imports
from bayes_grpo.common.errors import ConvergenceWarning
from bayes_grpo.common.programs import over_draws
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.dynamics.sampling import draw_rows
from bayes_grpo.dynamics.state_space import LOG_2PI
from bayes_grpo.fitting.draws import Draws, SmoothedDraws, check_settings, sample_posterior
from bayes_grpo.fitting.groups import Group, Variable, group, of_draws
from bayes_grpo.fitting.result import COLUMNS, FORMAT, Fit, model_hash
from bayes_grpo.fitting.sampling.nuts import Convergence, SamplerSettings
from bayes_grpo.fitting.sampling.target import Target, target_of, values_of_draws
from bayes_grpo.fitting.window import FitRows, FitWindow, rows_to_fit
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from bayes_grpo.signals.run_paths import spent_rate

PRIOR_DRAWS = 2000
"""Draws of the prior that are kept, and runs drawn from them."""


PriorSide = tuple[dict[str, np.ndarray], np.ndarray, np.random.Generator]
"""Draws of the prior, parameters and derived quantities, a run drawn at each, and the randomness after them."""


def prior_side(target: Target, seed: int) -> PriorSide:
    """Draws of the prior and runs drawn from them, by the seed of a fit."""
    rng = np.random.default_rng(seed)
    draws = draw_prior(target, rng, PRIOR_DRAWS)
    table = target.rows
    rows = replicate(target, draws, np.random.default_rng([seed, _PRIOR_RUNS]))[0]
    return draws | target.regime.derived(draws, table), _drawn(rows, table), rng


_PRIOR_RUNS, _POSTERIOR_RUNS, _LOO_DRAWS = 1, 2, 3  # streams of a fit's seed


def build_fit(
    run: Run, window: FitWindow, found: SmoothedDraws, prior: PriorSide, sampler: SamplerSettings, seed: int
) -> Fit:
    """Assembles a fit from the draws of NUTS; see `Fit` for what goes where."""
    draws = found.draws
    chains = found.draws.chains
    if chains is None or not isinstance(draws.diagnostics, Convergence):
        raise ValueError("expected the draws of NUTS, found those of another sampler")
    regime, table, values = draws.regime, draws.rows, draws.values
    prior_draws, prior_rows, rng = prior
    latent, rows = found.measured_again(rng)
    trajectories = {"curve": found.curve[:, found.trajectory_draws], "latent": latent, "rows": rows}
    trajectories = {k: (("chain", "draw", "step"), v) for k, v in trajectories.items()}
    means = {"latent": ("step", found.latent_mean), "curve": ("step", found.curve_mean)}
    density = replicate(draws.target, values, np.random.default_rng([seed, _POSTERIOR_RUNS]))[1]
    rng = np.random.default_rng([seed, _LOO_DRAWS])
    columns = {"step": table.step, "gap": table.gap()} | {name: getattr(table, name) for name in COLUMNS}
    loo_draws = found.loo_mean + np.sqrt(found.loo_var) * rng.standard_normal(found.loo_mean.shape)
    statistics = {
        "energy": chains.energy,
        "lp": -np.asarray(chains.potential),
        "n_steps": chains.num_steps,
        "tree_depth": np.ceil(np.log2(np.asarray(chains.num_steps) + 1)).astype(int),
        "acceptance_rate": chains.accept_prob,
        "diverging": chains.diverging,
    }

    def of_rows(y: np.ndarray) -> Group:
        return of_draws({"y": y}, "step", step=table.step)

    groups = {
        "posterior": _described(of_draws(dict(values) | regime.derived(values, table)), regime),
        "prior": _described(of_draws({k: v[None] for k, v in prior_draws.items()}), regime),
        "sample_stats": replace(of_draws(statistics), attrs=asdict(sampler)),
        "joint_log_prior": of_draws(_log_prior(draws)),
        "log_likelihood": of_rows(found.loo_log_density),
        "joint_log_likelihood": of_draws({"rows": density}),
        "posterior_predictive": of_rows(_drawn(loo_draws, table)),
        "prior_predictive": of_rows(prior_rows[None]),
        "observed_data": group({"y": ("step", table.y)}, step=table.step),
        "trajectories": group(trajectories, chain=np.arange(len(latent)), draw=found.trajectory_draws, step=table.step),
        "posterior_mean": group(means, step=table.step),
        "constant_data": group({f"row_{k}": ("step", v) for k, v in columns.items() if v is not None}, step=table.step),
    }
    return Fit(
        groups=groups,
        regime=regime,
        rows=replace(table, notes=(*run.notes, *table.notes)),
        priors=draws.priors,
        settings=dict(run.settings.items()),
        convergence=draws.diagnostics,
        window=window,
        attrs=_attributes(run, regime, seed),
    )


def _described(found: Group, regime: Regime) -> Group:
    """The same with the unit and the meaning of every parameter and derived quantity."""
    described = {}
    for name, x in found.variables.items():
        unit, meaning = regime.described(name)
        described[name] = Variable(x.dims, x.values, {"units": unit, "long_name": meaning})
    return replace(found, variables=described)


def _log_prior(draws: Draws) -> dict[str, np.ndarray]:
    """Log density of each parameter in the coordinate in which its prior is normal, shape (chains, draws).

    A parameter that is fixed has none.
    """
    regime, priors = draws.regime, draws.priors
    free = [p.name for p in regime.parameters if not priors[p.name].fixed]
    standard = {p.name: draws.z[..., i] for i, p in enumerate(regime.sampled)}
    for p in regime.marginalized:
        if p.name in free:
            standard[p.name] = (draws.values[p.name] - priors[p.name].median) / priors[p.name].spread
    return {name: -0.5 * (standard[name] ** 2 + LOG_2PI) - np.log(priors[name].spread) for name in free}


def _drawn(rows: np.ndarray, table: Series) -> np.ndarray:
    """Drawn rows in steps of about 1/4096 of the logged rows' spread, far finer than their noise, as single precision.

    Steps that are a power of two leave zeros behind, so that a file of them is half as long.
    """
    step = 2.0 ** np.floor(np.log2(max(table.scale, 1e-30)) - 12.0)
    with np.errstate(over="ignore"):  # a regime that explodes is infinite beyond single precision
        return (np.round(rows / step) * step).astype(np.float32)


def draw_prior(target: Target, rng: np.random.Generator, size: int = PRIOR_DRAWS) -> dict[str, np.ndarray]:
    """Draws of every parameter from its prior, shape (size,) each."""
    regime, priors = target.regime, target.priors
    z = {p.name: rng.standard_normal(size) for p in regime.parameters}
    free = values_of_draws(target, np.stack([z[p.name] for p in regime.sampled], axis=-1))
    return free | {p.name: priors[p.name].median + priors[p.name].spread * z[p.name] for p in regime.marginalized}


_VERSIONS = ("bayes_grpo", "jax", "numpyro", "arviz", "numpy")


def _attributes(run: Run, regime: Regime, seed: int) -> dict[str, Any]:
    """The origin of the fit."""
    spent = spent_rate(run)
    ended = None if spent is None else spent.zero_step
    return {
        "bayes_grpo_format": FORMAT,
        "regime": regime.name,
        "model_hash": model_hash(regime),
        "run_name": run.name,
        "source": run.source,
        "log_format": run.format,
        "log_hash": run.log_hash,
        "sampled_levels": " ".join(regime.sampled_levels),
        "seed": seed,
        "rate_ended": math.nan if ended is None else ended,
    } | {f"{name}_version": version(name) for name in _VERSIONS}


def replicate(
    target: Target, values: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A run drawn at every draw of all parameters, shape (..., n), and log p(logged rows | them), shape (...).

    The levels are known here, as every other parameter is; only the path of the latent reward is integrated out. So
    the runs are the predictive of these draws, and the likelihood is the one that belongs to a prior of all parameters.
    """
    regime = target.regime
    rows = target.arrays
    n = len(target.rows.y)
    known = {p.name: np.asarray(values[p.name], float) for p in regime.parameters}
    shape = next(iter(known.values())).shape
    noise = np.zeros((math.prod(shape), len(rows.y)))
    noise[:, :n] = rng.standard_normal((len(noise), n))
    each = ({k: v.ravel() for k, v in known.items()}, noise)
    shown, log_density = over_draws(_replicated, (regime,), each, rows, rarely=True)
    return shown[:, :n].reshape(*shape, n), log_density.reshape(shape)


def _replicated(regime: Regime, draw: tuple[dict[str, Array], Array], rows: Rows) -> tuple[Array, Array]:
    values, noise = draw
    levels = {p.name: (values[p.name], 0.0) for p in regime.marginalized}
    return draw_rows(regime.on_rows(values, levels, rows), jnp.asarray(rows.y), noise)


def fit(
    run: RunLike,
    regime: str | Regime = "oscillator",
    *,
    signal: str = "auto",
    rows: FitRows = "since_break",
    priors: Mapping[str, Any] | None = None,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Fits a regime to a run's reward with NumPyro's NUTS.

    Everything is computed in float64, whatever JAX's setting outside. The same seed gives the same numbers on the
    same machine.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        regime: Name of a regime, or one.
        signal: "auto", "reward" (train) or "eval" (evaluations).
        rows: "since_break" for the rows since the reward last collapsed, all where it did not, or "all"
            (`bayes_grpo.fitting.window`).
        priors: Overrides, parameter → (median, spread), see `bayes_grpo.regimes.base.Prior`, or → a NumPyro
            distribution over its values; a number or ``numpyro.distributions.Delta`` fixes the parameter.
        seed: Seed of all randomness.
        sampler: Length and care of the sampling.
        progress: Called with a short phrase at the start of every stage.

    Returns:
        The fit. Whether its sampler converged stands in `Fit.convergence`; if it did not, a
        `ConvergenceWarning` is raised as a warning too.

    Raises:
        FitError: The run has no such signal, too few rows or too few since its reward collapsed, or a reward that
            never changes.
        PriorError: An override is impossible.
        SettingError: Unknown regime or signal, or an impossible sampler setting.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> round(float(fit(run, "exponential").posterior["fixed_point"].median()), 1)
        0.8
    """
    settings = sampler or SamplerSettings()
    progress = or_silent(progress)
    check_settings(settings, seed)
    run, window = rows_to_fit(as_run(run), rows, signal)
    target = target_of(get_regime(regime), rows_of(run, signal), priors)
    imports.lapack()
    with ThreadPoolExecutor(1) as executor:  # a core is free while the sampler's programs are made
        prior = executor.submit(prior_side, target, seed)
        found = sample_posterior(target, seed=seed, sampler=settings, progress=progress)
        progress("summarizing")
        result = build_fit(run, window, found, prior.result(), settings, seed)
    checks = result.convergence
    if not checks.passed:
        words = f"{run.source}, regime {result.regime.name}: {checks.sentence}"
        warnings.warn(words, ConvergenceWarning, stacklevel=2)
    return result
