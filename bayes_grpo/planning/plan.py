"""`plan`: from a run or a stiffness to what the settings of the next run do.

A reward curve identifies its saturation time far better than stiffness and damping separately. So the gain is derived
from that time, g = (1 − μ)/τ, or is a parameter of the regime (`reduction`). The reward shows the directions that it
feels; stiffer ones, which decide about stability, may exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import MENDING, Argument, SettingError
from bayes_grpo.common.intervals import interval
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.diagnosis.mode import failure_of, probabilities_of
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.dynamics.reduction import MomentumConvention, effective_learning_rate
from bayes_grpo.fitting.result import Fit
from bayes_grpo.logs.reading import RunLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.noise import GroupSettings, RowNoise, correlation_of, row_noises
from bayes_grpo.planning.outcomes import ChangedSetting, OtherRuns, outcomes_of_similar_changes
from bayes_grpo.planning.result import NoiseModel, Plan, StiffnessSource, StiffnessUsed
from bayes_grpo.planning.thresholds import (
    PlannedSettings,
    gains_of,
    largest_momentum,
    largest_refresh_interval,
    thresholds_of,
)
from bayes_grpo.probing.estimate import Probe
from bayes_grpo.probing.predict import limits_of
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from bayes_grpo.signals.loss import rows_collapsed

MOMENTUM = 0.9
"""Momentum without a log that gives one."""
LADDER = (0.5, 2.0, 4.0, 10.0)
"""Ratios of the learning rate for which the outcomes of others are counted besides the planned one."""


class CurrentRun(NamedTuple):
    """The present run: its rows, group size and prompts per step, whether it failed, a fit where one is needed."""

    name: str
    table: Series
    groups: GroupSettings
    failed: bool
    fit: Fit | None

    @property
    def settings(self) -> PlannedSettings:
        """Its settings."""
        optimizer = self.table.optimizer
        convention: Any = optimizer.convention
        return PlannedSettings(self.table.reference_rate, optimizer.momentum, convention, optimizer.refresh)


def plan(
    present: RunLike | Fit | None = None,
    *,
    stiffness: ArrayLike | None = None,
    probe: Probe | None = None,
    learning_rate: float | None = None,
    momentum: float | None = None,
    convention: MomentumConvention | None = None,
    refresh_interval: float | None = None,
    lag_exposure: float | None = None,
    group_size: float | None = None,
    prompts_per_step: float | None = None,
    signal: str = "auto",
    read: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Thresholds of planned settings, what happened to others who changed them, and noise at equal cost.

    The stiffness is ``stiffness`` where it is given, else that of ``probe``, else that of a fit of the present run.

    Args:
        present: The present run, its log, or a fit of it; None for a stiffness without a run.
        stiffness: K per unit learning rate and step, a value or draws; Adam: in preconditioned units.
        probe: A stiffness that was measured (`bayes_grpo.probing`).
        learning_rate: Planned highest learning rate; that of the present run if None, as the others below.
        momentum: μ or Adam's β₁, in [0, 1); 0.9 without a run.
        convention: "heavy_ball" or "ema" (Adam); without a run that of the probe, else "ema".
        refresh_interval: Optimizer steps between refreshes of the sampling policy, at least 1; 1 without a run.
        lag_exposure: Share of the gradient that is late, in [0, 1]; that of the probe, else 1.
        group_size: Planned completions per prompt.
        prompts_per_step: Planned prompts per step.
        signal: "auto", "reward" (train) or "eval" (evaluations).
        read: Keyword arguments of `bayes_grpo.read_log`.
        seed: Seed of the fit.
        progress: Called with a short phrase at every stage.

    Returns:
        The plan.

    Raises:
        LogReadError: The log cannot be read.
        SettingError: No stiffness and no run, no learning rate, or a setting that is out of range.
        FitError: No regime can be fitted to the rows.

    Examples:
        >>> plan(stiffness=3.2, learning_rate=0.1, momentum=0.9, convention="heavy_ball").verdict
        'stable'
    """
    if present is None and stiffness is None and probe is None:
        raise SettingError("plan: expected a log, a stiffness or a probe, found none; give one of them")
    fitted = stiffness is None and probe is None
    now = None if present is None else _current_run(present, fitted, signal, read, seed, or_silent(progress))
    given = {
        "learning_rate": learning_rate,
        "momentum": momentum,
        "convention": convention,
        "refresh_interval": refresh_interval,
        "lag_exposure": lag_exposure,
    }
    defaults = PlannedSettings(math.nan, MOMENTUM, "ema", 1.0) if now is None else now.settings
    if probe is not None and now is None and probe.optimizer != "adam":
        defaults = defaults._replace(convention="heavy_ball")
    if probe is not None:
        defaults = defaults._replace(lag_exposure=probe.late_share)
    settings = defaults._replace(**{name: value for name, value in given.items() if value is not None})
    if math.isnan(settings.learning_rate) and not (now is not None and now.fit is not None):
        raise SettingError("expected the rate of the planned run, found none; give it", parameter="learning_rate")
    used, draws = _stiffness(now, stiffness, probe, settings)
    gains = gains_of(settings, draws)
    middle = float(np.median(draws))
    planned_groups = GroupSettings(group_size, prompts_per_step)
    noise, model = _noise(now, planned_groups)
    return Plan(
        run="" if now is None else now.name,
        settings=settings,
        present=None if now is None else now.settings,
        stiffness=used,
        gain=interval(gains),
        thresholds=thresholds_of(settings, gains),
        largest_refresh_interval=largest_refresh_interval(settings, float(np.median(gains))),
        largest_momentum=largest_momentum(settings, middle),
        others=_similar_changes(now, settings, planned_groups),
        noise=noise,
        noise_model=model,
        run_failed=now is not None and now.failed,
        converged=now is None or now.fit is None or now.fit.convergence.passed,
    )


def run_failed(run: Run, table: Series) -> bool:
    """True if a run failed: its rows collapsed, or its diagnosis finds a failure more probably than not."""
    return rows_collapsed(table.y) or failure_of(probabilities_of(RunView.of(run))) is not None


def _current_run(
    present: RunLike | Fit, fitted: bool, signal: str, read: Mapping[str, Any] | None, seed: int, progress: Progress
) -> CurrentRun:
    """The present run, with a fit of its reward where the stiffness comes from it."""
    if isinstance(present, Fit):
        groups = GroupSettings(*(present.settings[name].explicit for name in GroupSettings._fields))
        return CurrentRun(present.about.run, present.rows, groups, False, present)
    progress("reading")
    run = present if isinstance(present, Run) else read_log(present, **dict(read or {}))
    table = rows_of(run, signal)
    groups = GroupSettings(run.settings.group_size.explicit, run.settings.prompts_per_step.explicit)
    fit = None
    if fitted:
        if not math.isfinite(table.reference_rate):
            raise SettingError(
                f"plan: expected the learning rate of {run.name}, found none in its log; give {MENDING}",
                mended_by=Argument("settings", "RATE", "learning_rate"),
            )
        from bayes_grpo.fitting.fit import fit as fit_run  # takes seconds to import, which a refusal need not wait for

        fit = fit_run(run, signal=signal, seed=seed, progress=progress)
    return CurrentRun(run.name, table, groups, run_failed(run, table), fit)


def _stiffness(
    now: CurrentRun | None, stiffness: ArrayLike | None, probe: Probe | None, settings: PlannedSettings
) -> tuple[StiffnessUsed, np.ndarray]:
    """The stiffness with its origin, and its draws."""
    if stiffness is not None:
        draws = np.atleast_1d(np.asarray(stiffness, dtype=np.float64)).ravel()
        return StiffnessUsed(interval(draws), "given"), draws
    if probe is not None:
        # Refuses a stiffness that is not measured, and one of another optimizer.
        limits_of(
            probe,
            settings.learning_rate,
            settings.momentum,
            settings.refresh_interval,
            convention=settings.convention,
            lag_exposure=settings.lag_exposure,
        )
        return StiffnessUsed(probe.stiffest.interval, "probe"), probe.stiffest.draws()
    assert now is not None  # without a stiffness or a probe the present run is fitted
    assert now.fit is not None
    rate = now.table.reference_rate
    if math.isnan(rate) and not math.isnan(settings.learning_rate):
        raise SettingError(
            f"plan: expected the learning rate of the fitted run, found none in its log; fit it with {MENDING}",
            mended_by=Argument("settings", "RATE", "learning_rate"),
        )
    return stiffness_of_fit(now.fit, 1.0 if math.isnan(rate) else rate)


def stiffness_of_fit(fit: Fit, learning_rate: float) -> tuple[StiffnessUsed, np.ndarray]:
    """Stiffness from the fitted learning time of a run with this highest learning rate, and its draws."""
    optimizer = fit.as_draws.rows.optimizer
    if "gain" in fit.quantities:
        quantity = "gain"
        gain = fit.draws("gain").ravel()
    elif "relaxation_time" in fit.quantities:
        quantity = "relaxation_time"
        time = fit.draws("relaxation_time").ravel()
        gain = (1.0 - optimizer.momentum) / time[np.isfinite(time) & (time > 0)]
    else:
        raise SettingError(f"stiffness from a fit: regime {fit.regime.name} has no learning time; fit another")
    if not gain.size:
        raise SettingError("stiffness from a fit: every draw is unstable, so there is no learning time; fit another")
    convention: Any = optimizer.convention
    draws = gain / effective_learning_rate(learning_rate, optimizer.momentum, convention)
    source: StiffnessSource = "low_lag_run" if optimizer.refresh <= 1 else "lagged_run"
    return StiffnessUsed(interval(draws), source, fit.regime.name, quantity), draws


def _similar_changes(now: CurrentRun | None, settings: PlannedSettings, groups: GroupSettings) -> tuple[OtherRuns, ...]:
    """Others who changed the planned settings, and those who changed the learning rate by the ratios of `LADDER`."""
    before = settings if now is None else now.settings
    rate = before.learning_rate if now is not None and before.convention == "ema" else math.nan
    moved: dict[ChangedSetting, tuple[float | None, float | None]] = {
        "learning_rate": (before.learning_rate, settings.learning_rate),
        "refresh_interval": (before.refresh_interval, settings.refresh_interval),
        "group_size": (None if now is None else now.groups.group_size, groups.group_size),
        "prompts_per_step": (None if now is None else now.groups.prompts_per_step, groups.prompts_per_step),
    }
    planned = [
        outcomes_of_similar_changes(name, new / old, rate, planned=True)
        for name, (old, new) in moved.items()
        if old and new and math.isfinite(new / old) and new != old
    ]
    taken = {x.ratio for x in planned if x.setting == "learning_rate"}
    others = (outcomes_of_similar_changes("learning_rate", ratio, rate) for ratio in LADDER if ratio not in taken)
    return (*planned, *others)


def _noise(now: CurrentRun | None, planned: GroupSettings) -> tuple[tuple[RowNoise, ...], NoiseModel | None]:
    """Noise of rows, and what it rests on; nothing where group size or prompts per step are unknown."""
    present = now.groups if now is not None and now.groups.complete else planned
    if not present.complete:
        return (), None
    level = None if now is None else now.table.level
    correlation, logged = correlation_of(level, float(present.group_size or 0.0))
    sd = math.nan if level is None else level.sd
    return row_noises(present, planned, correlation, sd), NoiseModel(correlation, logged)
