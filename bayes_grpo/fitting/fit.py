"""`fit`: a run and a regime in, a checked posterior out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bayes_grpo.common.errors import ConvergenceWarning
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.fitting.data import build_fit, prior_side
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.sample import check_settings, sample_posterior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.fitting.window import FitRows, rows_to_fit
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import prepare_rows
from bayes_grpo.rows.rows_of import rows_of


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
        signal: "auto", "reward" (train) or "eval" (held-out).
        rows: "since_break" for the rows since the reward last collapsed, all where it did not, or "all"
            (`bayes_grpo.fitting.window`).
        priors: Overrides, parameter → (median, spread), see `bayes_grpo.regimes.parameters.Prior`, or → a NumPyro
            distribution over its values.
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
    """
    settings, tell = sampler or SamplerSettings(), teller(progress)
    check_settings(settings, seed)
    run, window = rows_to_fit(as_run(run), rows, signal)
    target = target_of(get_regime(regime), prepare_rows(rows_of(run, signal)), priors)
    with ThreadPoolExecutor(1) as beside:  # a core is free while the sampler's programs are made
        prior = beside.submit(prior_side, target, seed)
        found = sample_posterior(target, seed=seed, sampler=settings, progress=tell)
        tell("summarising")
        result = build_fit(run, window, found, prior.result(), settings, seed)
    checks = result.convergence
    if not checks.passed:
        words = f"{run.source}, regime {result.regime.name}: {checks.sentence}"
        warnings.warn(words, ConvergenceWarning, stacklevel=2)
    return result
