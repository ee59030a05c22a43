"""`forecast`, and its result: paths and their inputs.

Every regime is fitted to the rows under priors for forecasting. Then come weights, the last-value forecaster, paths
and unmodeled events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import band
from bayes_grpo.common.results import Displayed
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.forecasting.events import shipped_event_rates
from bayes_grpo.forecasting.expected import FAR_HORIZON, REQUESTED, FarHorizon, horizon_of
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, Ensemble, fit_ensemble, trusted
from bayes_grpo.forecasting.inputs import ForecastInputs, inputs_of_run
from bayes_grpo.forecasting.mixture import freeze_after_schedule, mix_events, regimes_and_last_value
from bayes_grpo.forecasting.pool import pooled
from bayes_grpo.forecasting.references import paths_with_references
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.references.gather import RunSources, gather_references
from bayes_grpo.references.transfer import JointReading, read_jointly
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.schedule import FutureGrid, RemainingRate, future_grid
from bayes_grpo.rows.series import ExpectedNoise
from bayes_grpo.signals.loss import Fallen
from bayes_grpo.signals.run_paths import may_be_counted

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

    from bayes_grpo.forecasting.references import ReferencesUsed


@dataclass(frozen=True, eq=False)
class Forecast(Displayed):
    """Posterior-predictive paths, averaged over regimes.

    Attributes:
        now: Last logged step.
        step: Future steps, shape (h,), increasing; the last is the horizon.
        latent: Underlying (latent) reward of the rows that end at these steps, shape (draws, h).
        rows: What logged rows would show: the same with measurement noise, shape (draws, h).
        trend: Expectation of the latent reward under the regime, given the present state, shape (draws, h).
        latent_now: Latent reward at ``now``, shape (draws,).
        at_infinity: Fixed point: where the reward would settle at a constant learning rate, shape (draws,).
        final: Where it ends up under the remaining schedule: the fixed point, or the trend's value when the
            learning rate reaches 0, shape (draws,).
        regime: Name of the regime of each draw, shape (draws,).
        event: Unmodeled event of each draw before the horizon, "collapse" or "takeoff"; "" without, shape (draws,).
            A draw with an event settles at the level after the event.
        weights: Weight of each regime.
        signal: "reward" or "eval_reward".
        logged_step: Steps of the logged rows, shape (n,).
        logged: Logged values, shape (n,).
        low: Smallest possible reward, given or assumed; minus infinity otherwise.
        high: Largest possible reward, given or assumed; infinity otherwise.
        schedule: Learning rate from now on.
        assumed: Assumed settings, as sentences.
        notes: Remarks on the computation for the user.
        name: Name of the run.
        lag: Mean age of the policy behind a logged row, in steps, see `Series.lag`.
        until_from: Source of the horizon, see `bayes_grpo.forecasting.expected.Horizon`.
        reference_runs: Effect of the reference runs; None without any.
        fallen: Loss of the reward at its last row; None without a loss.
        far: The horizon, where it is too far ahead for these rows; None elsewhere.
        not_converged: Regimes left out because their posterior was not reached.
        expected: Standard deviation that a logged row is expected to have; None where the log says nothing of it.
        counted: Whether a logged row may be of so few completions that its successes are counted.
    """

    now: float
    step: np.ndarray
    latent: np.ndarray
    rows: np.ndarray
    trend: np.ndarray
    latent_now: np.ndarray
    at_infinity: np.ndarray
    final: np.ndarray
    regime: np.ndarray
    event: np.ndarray
    weights: dict[str, float]
    signal: str
    logged_step: np.ndarray
    logged: np.ndarray
    low: float
    high: float
    schedule: RemainingRate
    assumed: tuple[str, ...]
    notes: tuple[str, ...]
    name: str
    lag: float = 0.0
    until_from: str = REQUESTED
    reference_runs: ReferencesUsed | None = None
    fallen: Fallen | None = None
    far: FarHorizon | None = None
    not_converged: tuple[str, ...] = ()
    expected: ExpectedNoise | None = None
    counted: bool = False

    @property
    def sentence(self) -> str:
        """The forecast in words."""
        return summarize_forecast(self).sentence

    @property
    def until(self) -> float:
        """The horizon."""
        return float(self.step[-1])

    def to_frame(self) -> pd.DataFrame:
        """One row a step ahead: median and 90% interval of the logged reward (``row_…``) and the latent one."""
        import pandas as pd

        bands = {"row": band(self.rows), "latent": band(self.latent)}
        places = {"median": 1, "low": 0, "high": 2}
        columns = {f"{name}_{word}": x[i] for name, x in bands.items() for word, i in places.items()}
        return pd.DataFrame(columns, index=pd.Index(self.step, name="step"))

    def to_datatree(self) -> DataTree:
        """The paths as ArviZ's functions take them, in up to four chains.

        Draws are independent, so that any split of them is one of chains; they are shuffled first, because they lie
        regime by regime.

        Returns:
            `posterior` holds ``latent_now``, ``at_infinity`` and ``final``; `posterior_predictive` the rows as ``y``,
            ``latent`` and ``trend`` by step; `sample_stats` the ``regime`` and the ``event`` of each draw;
            `observed_data` the logged rows.
        """
        import arviz_base as az

        groups = {
            "posterior": ("latent_now", "at_infinity", "final"),
            "posterior_predictive": ("rows", "latent", "trend"),
            "sample_stats": ("regime", "event"),
        }
        size = len(self.latent_now)
        chains = next(c for c in (4, 2, 1) if size % c == 0)
        order = np.random.default_rng(0).permutation(size).reshape(chains, -1)
        drawn = {g: {n: getattr(self, n)[order] for n in names} for g, names in groups.items()}
        drawn["posterior_predictive"]["y"] = drawn["posterior_predictive"].pop("rows")
        return az.from_dict(
            drawn | {"observed_data": {"logged": self.logged}},
            dims={"y": ["step"], "latent": ["step"], "trend": ["step"], "logged": ["logged_step"]},
            coords={"step": self.step, "logged_step": self.logged_step},
        )


FALLEN = "the reward has fallen since about step {:.0f}, so the forecast also uses what other collapsed runs did next"
ALONE = "a single regime: no weights, no last-value forecaster and no unmodeled events"


def forecast(
    source: RunLike,
    horizon: float | None = None,
    *,
    schedule: str | None = None,
    total_steps: float | None = None,
    signal: str = "auto",
    regimes: Sequence[str | Regime] | None = None,
    draws: int = 2000,
    seed: int = 0,
    nuts: bool = True,
    sampler: SamplerSettings | None = None,
    reference_runs: RunSources | None = None,
    progress: Progress | None = None,
) -> Forecast:
    """Forecasts the reward of a run.

    Every regime is fitted to the run under priors for forecasting (`bayes_grpo.forecasting.fits`). The weights of
    the regimes come from their one-step-ahead predictive densities (`bayes_grpo.forecasting.fits`). With several
    regimes, the last-value forecaster gets a learned share (`bayes_grpo.forecasting.pool`), because the trend of a
    regime may be wrong. A few paths meet an unmodeled event, a collapse or a take-off, as often as other logs did
    (`bayes_grpo.forecasting.events`).

    Args:
        source: A run or what `read_log` makes one of.
        horizon: Horizon, an optimizer step after the last logged one; None for the planned length where it lies ahead,
            else half as far again as the log, but not beyond the end of its learning rate.
        schedule: Learning rate from now on: "constant", "linear" or "cosine"; by default taken from the log and its
            settings, or continued as ``assumed`` describes.
        total_steps: Step at which a decaying learning rate reaches 0.
        signal: "auto", "reward" (train) or "eval" (evaluations).
        regimes: Regimes to average over; None for `FORECAST_REGIMES`.
        draws: Number of paths.
        seed: Seed.
        nuts: Whether to use NUTS where no regime's fast posterior can be trusted; where some can, the others are
            left out.
        sampler: Sampler settings.
        reference_runs: Reference runs, other runs of the same task: files, folders, stores, patterns and runs. A
            shared data order predicts part of the future rows. Where the runs are similar, some paths follow them
            (`bayes_grpo.forecasting.references`). A run is never its own reference run.
        progress: Called with a short phrase at every stage.

    Returns:
        The forecast.

    Raises:
        FitError: Too few rows, no such signal, or no regime could be fitted.
        SettingError: A horizon in the past, or an impossible schedule.
        LogReadError: Reference runs that do not exist or cannot be read.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> ahead = forecast(run, horizon=60.0)
        >>> ahead.until, len(ahead.step)
        (60.0, 30)
    """
    if not (isinstance(draws, int) and draws >= 100):
        raise SettingError(f"expected an integer of at least 100, found {draws!r}", parameter="draws")
    run = as_run(source)
    inputs = inputs_of_run(run, signal, schedule, total_steps)
    # A horizon in the past is refused before anything is fitted.
    planned = inputs.settings
    if total_steps:
        planned = {**planned, "total_steps": Setting(total_steps, Provenance.USER)}
    step = inputs.table.step
    end = horizon_of(planned, float(step[-1]), horizon, float(step[0]), inputs.ahead.ends)
    requested = future_grid(inputs.table, end.until, inputs.ahead)
    joint = None
    if reference_runs is not None:
        or_silent(progress)("reference runs")
        gathered = gather_references(run, inputs.table, reference_runs)
        if gathered.runs or not gathered.searched:
            joint = read_jointly(inputs.table, gathered)
    names = FORECAST_REGIMES if regimes is None else regimes
    options = {"reward": inputs.reward, "seed": seed, "progress": or_silent(progress)}
    fitted = trusted(fit_ensemble(inputs.table, names, strict=False, **options))
    if nuts and not any(x.usable for x in fitted.draws.values()):
        fitted = fit_ensemble(inputs.table, names, sampler=sampler, **options)
    made = forecast_of_regimes(inputs, fitted, requested, draws=draws, seed=seed, joint=joint)
    return replace(made, until_from=end.origin, not_converged=fitted.not_converged)


def forecast_of_regimes(
    inputs: ForecastInputs,
    fitted: Ensemble,
    requested: FutureGrid,
    *,
    draws: int = 2000,
    seed: int = 0,
    joint: JointReading | None = None,
) -> Forecast:
    """Forecast of the requested rows from fitted regimes and the last-value forecaster, in proportion to their weights.

    Some of the paths meet an unmodeled event, some follow reference runs. A single regime is followed as it is.
    """
    several = len(fitted.draws) > 1
    fallen = inputs.fallen if several else None
    shares = pooled(inputs.table, fitted, requested.logged) if several else fitted.weights
    mixture = regimes_and_last_value(inputs, fitted, requested, shares, draws, seed, fallen)
    used = None
    if joint is not None:
        row = requested.forecast_rows
        paths, follows, used = paths_with_references(mixture.paths, requested, joint, inputs.reward, row, seed)
        mixture = mixture.following(paths, follows, used.share)
    if several and fallen is None:
        mixture = mix_events(mixture, inputs, requested, shipped_event_rates(), seed)
    mixture = freeze_after_schedule(mixture, requested, inputs.ahead)
    notes = inputs.notes + fitted.notes
    until = float(requested.step[requested.of_forecast][-1])
    length = float(inputs.table.step[-1]) - inputs.table.start
    if fallen is not None:
        notes += (FALLEN.format(fallen.best_step),)
    if not several:
        notes += (ALONE,)
    if inputs.reward.bounded and not inputs.reward.assumed:
        notes += (f"the reward is {inputs.reward.sentence}: draws that settle outside are replaced, paths are clipped",)
    if used is not None:
        notes += used.notes
    # The paths begin now and go on beyond the horizon.
    table = inputs.table
    reward = inputs.reward
    paths = mixture.paths
    h = 1 + requested.forecast_rows
    return Forecast(
        now=float(table.step[-1]),
        step=requested.step[requested.of_forecast],
        latent=paths.latent[:, 1:h],
        rows=paths.rows[:, 1:h],
        trend=paths.trend[:, 1:h],
        latent_now=paths.latent[:, 0],
        at_infinity=mixture.fixed,
        final=mixture.final,
        regime=mixture.regime,
        event=mixture.event,
        weights=mixture.shares,
        signal=table.signal,
        logged_step=table.step,
        logged=table.y,
        expected=table.expected,
        counted=may_be_counted(inputs.settings),
        low=reward.low,
        high=reward.high,
        schedule=inputs.ahead,
        assumed=tuple(x for x in (inputs.ahead.assumed, reward.assumed) if x),
        notes=notes,
        name=inputs.name,
        lag=table.lag,
        reference_runs=used,
        fallen=inputs.fallen,
        far=FarHorizon(until, length) if until - float(table.step[-1]) > FAR_HORIZON * length else None,
    )
