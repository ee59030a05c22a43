"""Inputs of a forecast: the rows, the range of the reward and the remaining learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bayes_grpo.common.errors import FitError
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.rows.reward_range import RewardRange, reward_range
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import RemainingRate, schedule_of
from bayes_grpo.rows.series import Series
from bayes_grpo.signals.loss import Fallen, fallen_in

MIN_FORECAST_ROWS = 8
"""Minimum number of logged rows for a forecast."""


@dataclass(frozen=True, eq=False)
class ForecastInputs:
    """Rows up to the origin, range of the reward, and learning rate from the last row on.

    ``notes`` are remarks of the reader and of the rows; ``fallen`` is a loss of the reward at its last row.
    """

    table: Series
    reward: RewardRange
    ahead: RemainingRate
    notes: tuple[str, ...]
    name: str
    settings: Mapping[str, Setting]
    fallen: Fallen | None = None


def inputs_of_run(
    run: Run,
    signal: str = "auto",
    schedule: str | None = None,
    total_steps: float | None = None,
) -> ForecastInputs:
    """Inputs of a forecast of a run; the user's word on schedule and planned length takes precedence over the log's."""
    table = rows_of(_as_planned(run, schedule, total_steps), signal).evenly_noisy()
    if len(table.y) < MIN_FORECAST_ROWS:
        raise FitError(
            f"{run.source}: a forecast needs at least {MIN_FORECAST_ROWS} rows of {table.signal}, found "
            f"{len(table.y)}; wait for more steps or log more often"
        )
    settings = dict(run.settings.items())
    if run.last_planned_step is not None:
        settings["total_steps"] = replace(settings["total_steps"], value=run.last_planned_step)
    ahead = schedule_of(table, settings, schedule, total_steps)
    return ForecastInputs(
        table=table,
        reward=reward_range(table.y, settings),
        ahead=ahead,
        notes=(*run.notes, *table.notes),
        name=run.name,
        settings=settings,
        fallen=fallen_in(run, table.signal),
    )


def _as_planned(run: Run, schedule: str | None, total_steps: float | None) -> Run:
    """The run with a decay that the user sets; it also covers the past where no learning rate was logged."""
    if schedule not in ("linear", "cosine") or not total_steps or "learning_rate" in run.signals:
        return run
    planned = {"schedule": schedule, "total_steps": total_steps}
    return run.with_settings({name: Setting(value, Provenance.USER) for name, value in planned.items()})
