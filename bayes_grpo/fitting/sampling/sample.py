"""A regime's posterior on rows: starting points, sample, check, sample once more where the checks fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.imports import preload
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.fitting.sampling.convergence import Convergence, check_convergence
from bayes_grpo.fitting.sampling.nuts import (
    Chain,
    SamplerSettings,
    Start,
    compile_chains_ahead,
    compile_summary_ahead,
    sample,
    start_about,
    summarise,
)
from bayes_grpo.fitting.sampling.points import weighted_posterior
from bayes_grpo.fitting.sampling.posterior import PriorNumbers, prior_numbers, values_of_draws
from bayes_grpo.fitting.sampling.result import Posterior
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import Rows, padded
from bayes_grpo.rows.table import RowTable


def sample_posterior(
    regime: Regime,
    table: RowTable,
    *,
    priors: Mapping[str, Any] | None = None,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
    progress: Progress | None = None,
    rows: Rows | None = None,
    retry: bool = True,
) -> Posterior:
    """Samples a regime's posterior on rows; `fit` without the DataTree, for the many refits of a validation.

    Args:
        regime: The regime.
        table: Rows of the log.
        priors: Overrides, parameter → (median, spread).
        seed: Seed of all randomness.
        sampler: Length and care of the sampling.
        progress: Called with a short phrase at the start of every stage.
        rows: The table's rows in another padding, so that refits on fewer rows use the programs of the whole log.
        retry: Whether to sample once more where the checks fail.

    Returns:
        Draws, curves and checks.

    Raises:
        FitError: The law cannot be put on these rows.
        PriorError: An override is impossible.
    """
    settings, tell = sampler or SamplerSettings(), progress or (lambda _: None)
    regime.check(table)
    resolved = resolve_priors(regime, table, priors)
    imports = preload()
    with jax.enable_x64(True):
        rows, prior = padded(table) if rows is None else rows, prior_numbers(regime, resolved)
        compile_chains_ahead(regime, prior, rows, settings)
        tell("finding starting points")
        start, trusted = starting_points(regime, prior, rows, seed, settings.chains)
        compile_summary_ahead(regime, prior, rows)
        tell("sampling")

        def run(part: str, start: Start, target: float) -> Chain:
            return sample(regime, seed_of(seed, part), prior, rows, start, settings, target)

        if not trusted:
            # The chains move by the covariance that they begin with: a first run finds it.
            start = _restart(run("first chains", start, settings.target_accept), start)
        chain = run("chains", start, settings.target_accept)
        imports.join()
        summary, convergence = _summarise(regime, seed_of(seed, "levels"), chain, prior, rows, retried=False)
        if retry and not convergence.passed:
            tell("sampling again, more carefully")
            # Twice: the first run only lengthens the warm-up, without compiling another program for it.
            start = _restart(chain, start)
            start = _restart(run("careful first chains", start, settings.retry_target_accept), start)
            chain = run("careful chains", start, settings.retry_target_accept)
            summary, convergence = _summarise(regime, seed_of(seed, "levels again"), chain, prior, rows, retried=True)
        draws = values_of_draws(regime, np.asarray(chain.z), prior, rows)
    return Posterior(resolved, draws, chain, summary, convergence)


_ENOUGH = Care(effective=500.0, rounds=16)
"""Points for a covariance; more of them would change no chain."""


def starting_points(regime: Regime, prior: PriorNumbers, rows: Rows, seed: int, chains: int) -> tuple[Start, bool]:
    """Where the chains begin, and whether the covariance there is the posterior's.

    Args:
        regime: The law.
        prior: Priors as numbers.
        rows: Padded rows.
        seed: Seed of the fit.
        chains: Number of chains.

    Returns:
        The start, and whether the weighted points that it is made of reached the posterior.
    """
    found, trust = weighted_posterior(regime, prior, rows, seed_of(seed, "start"), _ENOUGH)
    trusted = trust.power == 1.0 and trust.effective >= 0.5 * _ENOUGH.effective
    return start_about(found, chains, np.random.default_rng(seed_of(seed, "chains"))), trusted


def _summarise(
    regime: Regime, seed: int, chain: Chain, prior: PriorNumbers, rows: Rows, retried: bool
) -> tuple[Any, Convergence]:
    """Linear parameters, curves and checks; R-hat and ESS are checked on the sampler's own coordinates too."""
    summary = summarise(regime, seed, np.asarray(chain.z), prior, rows)
    draws = {p.name: np.asarray(chain.z)[..., i] for i, p in enumerate(regime.sampled)}
    levels = [p.name for p in regime.parameters if p.linear]
    draws |= {name: summary.linear[..., i] for i, name in enumerate(levels)}
    return summary, check_convergence(
        draws, np.asarray(chain.energy), np.asarray(chain.diverging), np.asarray(chain.num_steps), retried
    )


def _restart(chain: Chain, start: Start) -> Start:
    """Where the retry begins: at the chains' ends, with the spread that all of them have seen."""
    z = np.asarray(chain.z)
    flat = z.reshape(-1, z.shape[-1])
    cov = np.atleast_2d(np.cov(flat.T))
    if not np.all(np.isfinite(cov)):
        return start
    return Start(z[:, -1], cov + 1e-6 * np.eye(len(cov)))


def check_settings(settings: SamplerSettings, seed: int) -> None:
    """Raises `SettingError` where a sampler setting or the seed is impossible."""
    for name, low in (("chains", 2), ("warmup", 50), ("draws", 100)):
        value = getattr(settings, name)
        if not (isinstance(value, int) and value >= low):
            raise SettingError(f"sampler setting {name}: expected an integer of at least {low}, found {value!r}")
    for name in ("target_accept", "retry_target_accept"):
        value = getattr(settings, name)
        if not 0.5 <= value < 1.0:
            raise SettingError(f"sampler setting {name}: expected a number in [0.5, 1), found {value!r}")
    if seed < 0:
        raise SettingError(f"seed: expected an integer of at least 0, found {seed!r}")
