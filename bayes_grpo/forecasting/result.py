"""The result of a forecast: paths and their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.results import Shown
from bayes_grpo.diagnosis.fallen import Fallen
from bayes_grpo.forecasting.horizon import GIVEN
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.rows.schedule import RemainingRate

if TYPE_CHECKING:
    from xarray import DataTree

    from bayes_grpo.forecasting.references import ReferencesUsed


@dataclass(frozen=True, eq=False)
class Forecast(Shown):
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
        until_from: Source of the horizon, see `bayes_grpo.forecasting.horizon`.
        reference_runs: Effect of the reference runs; None without any.
        fallen: Loss of the reward at its last row; None without a loss.
        not_converged: Regimes left out because no sampler converged.
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
    until_from: str = GIVEN
    reference_runs: ReferencesUsed | None = None
    fallen: Fallen | None = None
    not_converged: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The forecast in words."""
        return summarize_forecast(self).sentence

    @property
    def until(self) -> float:
        """The horizon."""
        return float(self.step[-1])

    def to_datatree(self) -> DataTree:
        """The paths as ArviZ's functions take them, all draws as one chain.

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
        drawn = {g: {n: getattr(self, n)[None] for n in names} for g, names in groups.items()}
        drawn["posterior_predictive"]["y"] = drawn["posterior_predictive"].pop("rows")
        return az.from_dict(
            drawn | {"observed_data": {"logged": self.logged}},
            dims={"y": ["step"], "latent": ["step"], "trend": ["step"], "logged": ["logged_step"]},
            coords={"step": self.step, "logged_step": self.logged_step},
        )
