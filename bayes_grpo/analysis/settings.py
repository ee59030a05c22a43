"""Settings of an analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_grpo.decision.costs import StoppingCosts
    from bayes_grpo.fitting.sampling.nuts import SamplerSettings
    from bayes_grpo.references.gather import RunSources
    from bayes_grpo.rollouts.records import Rollouts

PARTS = ("fit", "regimes", "check", "forecast", "diagnosis", "stability")
"""What can be computed of a run."""


@dataclass(frozen=True, kw_only=True)
class AnalysisSettings:
    """Settings of an analysis.

    Attributes:
        horizon: Horizon of the forecast, an optimizer step; None for the planned length, else half as far again.
        schedule: Learning rate from now on: "constant", "linear" or "cosine"; None to continue it as logged.
        total_steps: Step at which a decaying learning rate reaches 0; None for what the log says.
        costs: Costs and values of a decision about stopping; None for no decision.
        signal: "auto", "reward" (train) or "eval" (evaluations).
        regime: Regime of the fit.
        priors: Prior overrides of the fit, as in `fit`; None without.
        regimes: Regimes that the forecast averages over; None for its default.
        threshold: Gain of reward that counts; None for the forecast's own.
        reach: Rewards for which to report the first step.
        seed: Seed of all randomness.
        nuts: Whether a forecast uses NUTS where the fast posterior of a regime cannot be trusted; otherwise that regime
            is left out.
        sampler: Settings of NUTS; None for the default.
        paths: Paths of the forecast.
        rollouts: Completions of the run, to explain its gain; None without.
        reference_runs: Reference runs: files, folders, stores, patterns and runs; None without.
    """

    horizon: float | None = None
    schedule: str | None = None
    total_steps: float | None = None
    costs: StoppingCosts | None = None
    signal: str = "auto"
    regime: str = "oscillator"
    priors: Mapping[str, Any] | None = None
    regimes: Sequence[str] | None = None
    threshold: float | None = None
    reach: Sequence[float] = ()
    seed: int = 0
    nuts: bool = True
    sampler: SamplerSettings | None = None
    paths: int = 2000
    rollouts: Rollouts | None = None
    reference_runs: RunSources | None = None
