"""The learning rate on the rows of a log, and on those to come: logged, set, or continued and named as assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, SettingError
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.rows.series import Series

SHAPES = ("constant", "linear", "cosine")
_FALLING = 0.02
"""A rate that fell by less than this share of its peak is called constant."""
_SPENT = 0.01
"""A logged rate at or below this share of its peak has ended."""
_HIGH, _LOW = 0.9, 0.5
"""Shares of its peak between which a rate has fallen and risen again where its schedule began anew."""
RATE_ENDED = "the schedule has ended: no further learning"
PLAN_OVER = "the planned steps are over: no further learning"
"""Why nothing more is learned: the rate has decayed, or the run is over at a rate that has not."""


@dataclass(frozen=True)
class RemainingRate:
    """Learning rate from the last logged row on, as a share of the run's reference rate.

    Attributes:
        shape: "constant", "linear" or "cosine".
        now: Last logged step.
        rate_now: Rate there, over the reference rate.
        begin: Step at which the decay began (0 where unknown).
        total_steps: Step at which a decay reaches 0; infinite where the rate is constant.
        assumed: What of this was assumed, for the reader ("" where nothing was).
    """

    shape: str
    now: float
    rate_now: float
    begin: float = 0.0
    total_steps: float = math.inf
    assumed: str = ""

    @property
    def ends(self) -> float:
        """Last step at which a policy moves: now where the rate has ended, infinite where it stays."""
        if self.rate_now <= 0.0:
            return self.now
        return math.inf if self.shape == "constant" else self.total_steps

    def at(self, step: np.ndarray) -> np.ndarray:
        """Rate over the reference one at steps from ``now`` on, continuous there; shape of ``step``."""
        if self.shape == "constant":
            return np.full(np.shape(step), self.rate_now)
        start = decay(self.shape, np.asarray(self.now), self.begin, self.total_steps)
        return self.rate_now * decay(self.shape, np.asarray(step, float), self.begin, self.total_steps) / start

    def mean(self, step: np.ndarray, window: np.ndarray) -> np.ndarray:
        """Mean rate over each window that ends at ``step``; shape of ``step``."""
        return (self.at(step) + self.at(np.maximum(step - window, self.now))) / 2.0


def schedule_of(
    table: Series,
    settings: Mapping[str, Setting],
    schedule: str | None = None,
    total_steps: float | None = None,
) -> RemainingRate:
    """The schedule from the last row on; what the user gives takes precedence over the run's settings.

    Raises:
        SettingError: An unknown schedule, a decay without its length, or a length that the log has passed.
    """
    setting = settings["schedule"]
    plan = settings["total_steps"].value
    now = table.step[-1]
    rate_now = table.rate[-1]
    logged = setting.value
    given = setting.provenance is not Provenance.ASSUMED
    stays = RemainingRate("constant", float(now), float(rate_now))
    if schedule is not None and schedule not in SHAPES:
        raise SettingError(f"expected one of {', '.join(SHAPES)}, found {schedule!r}", parameter="schedule")
    if total_steps is not None and not (math.isfinite(total_steps) and total_steps > 0):
        raise SettingError(f"expected a number of steps above 0, found {total_steps!r}", parameter="total_steps")
    if total_steps is not None and total_steps < now:
        raise SettingError(
            f"the log already reaches step {now:g}, found a schedule of {total_steps:g} steps; give the planned length "
            "of the whole run",
            parameter="total_steps",
        )
    total = total_steps
    if total is None and plan is not None and float(plan) >= now:
        total = float(plan)  # a plan that the log has passed was not the plan
    spent = logged == "logged" and schedule is None and rate_now <= _SPENT * float(np.max(table.rate))
    if rate_now <= 0 or total == now or spent:
        # A rate that does not decay is not spent where the plan ends; the run is over all the same.
        ended = rate_now <= 0 or spent or (schedule or logged) in ("linear", "cosine")
        return replace(stays, rate_now=0.0, assumed=RATE_ENDED if ended else PLAN_OVER)
    if schedule == "constant":
        return stays
    if schedule is not None:
        if total is None:
            text = f"schedule {schedule}: say when it reaches 0 with {MENDING}"
            raise SettingError(text, mended_by=Argument("total_steps", "N"))
        return replace(stays, shape=schedule, total_steps=float(total))
    if logged in ("linear", "cosine") and total is not None:
        note = "" if given else f"learning rate: {logged} decay to 0 at step {total:g}, the trainer's default"
        return replace(stays, shape=logged, total_steps=float(total), assumed=note)
    if logged == "logged":
        return _continued(table.step, table.rate, total, stays)
    if logged == "constant" and given:
        return stays
    unused = "; total_steps states no decay by itself (schedule linear or cosine)"
    words = unused if total_steps is not None and logged == "constant" else ""
    return replace(stays, assumed=f"learning rate: constant from now on{words}")


def _continued(step: np.ndarray, rate: np.ndarray, total_steps: float | None, stays: RemainingRate) -> RemainingRate:
    """The decay that fits the logged rates after their peak best."""
    now, rate_now = stays.now, stays.rate_now
    peak = _last_peak(rate)
    falling = rate[peak] - rate_now > _FALLING * rate[peak]
    if not falling or len(rate) - peak < 4:
        return replace(stays, assumed="learning rate: stays at its last logged value")
    # A row's rate is the mean of the rate before it and its own: what it was in the middle of the two.
    t = (0.5 * (step + np.concatenate([step[:1], step[:-1]])))[peak:]
    r = rate[peak:] / rate[peak]
    begin = float(t[0])
    ends = [float(total_steps)] if total_steps is not None else _ends(t, r, float(now)).tolist()
    fits = [
        (float(np.sum((decay(shape, t, begin, end) - r) ** 2)), shape, end)
        for shape in ("linear", "cosine")
        for end in ends
    ]
    error, shape, end = min(fits)
    if math.sqrt(error / len(r)) > 0.05:
        words = "learning rate: it falls neither linearly nor as a cosine; taken as constant from now on"
        return replace(stays, assumed=words)
    if end - now < 0.5 * (now - step[-2]):
        return replace(stays, rate_now=0.0, assumed=RATE_ENDED)
    where = f"at step {end:.4g}" + ("" if total_steps is not None else ", read off the logged rates")
    return RemainingRate(shape, now, rate_now, begin, end, f"learning rate: continues as {shape} decay to 0 {where}")


def _last_peak(rate: np.ndarray) -> int:
    """Row with the highest rate, the last such; of a schedule that began again and again, in its last phase."""
    share = rate / np.max(rate)
    high = np.flatnonzero(share >= _HIGH)
    low = np.flatnonzero(share < _LOW)
    between = low[(low > high[0]) & (low < high[-1])]
    begin = int(between[-1]) + 1 if len(between) else 0
    return begin + int(len(rate) - begin - 1 - np.argmax(rate[begin:][::-1]))


def _ends(step: np.ndarray, rate: np.ndarray, now: float) -> np.ndarray:
    """Steps at which a decay may end: a grid that reaches far beyond the last row, and the end of a line."""
    gone = step - step[0]
    grid = now + (now - step[0]) * np.geomspace(0.01, 100.0, 400)
    line = step[0] + float(np.sum(gone**2)) / max(float(np.sum(gone * (1.0 - rate))), 1e-300)
    return np.append(grid, line) if line > now else grid


def decay(shape: str, step: np.ndarray, begin: float, end: float) -> np.ndarray:
    """Share of its peak that a learning rate has left, linear or cosine from step ``begin`` to 0 at step ``end``."""
    done = np.clip((step - begin) / (end - begin), 0.0, 1.0)
    return 1.0 - done if shape == "linear" else 0.5 * (1.0 + np.cos(np.pi * done))


def logged_rate(run: Run, step: np.ndarray) -> tuple[np.ndarray, float]:
    """Learning rate on ``step`` over the run's highest one; ones where it was not logged.

    The highest one is the setting's where there is one.
    """
    logged = run.signals.get("learning_rate")
    known = np.zeros(0, bool) if logged is None else np.isfinite(logged) & (logged > 0)
    reference = float(logged[known].max()) if logged is not None and known.any() else float("nan")
    given = run.settings.learning_rate.value
    named = reference if given is None else float(given)
    schedule, total = run.settings.schedule.value, run.settings.total_steps.value
    if schedule != "logged" or logged is None or not known.any():
        decays = schedule in ("linear", "cosine") and total
        return decay(schedule, step, 0.0, float(total)) if decays else np.ones(len(step)), named
    known = np.isfinite(logged) & (logged >= 0)
    # A row's steps ran between the rate logged before it and its own: their mean.
    at_end = np.interp(step, run.step[known], logged[known])
    before = np.interp(np.concatenate([step[:1], step[:-1]]), run.step[known], logged[known])
    return 0.5 * (at_end + before) / reference, named


class FutureGrid(NamedTuple):
    """Rows to come: those that a forecast is for, and others that it needs, increasing in step.

    Attributes:
        step: Steps at which they end, shape (k,), the first not before the last logged row.
        window: Steps averaged into each, shape (k,); 0 = instantaneous.
        rate: Learning rate over the reference one, shape (k,).
        weight: Completions of each row over the typical number, shape (k,).
        forecast_rows: Number of rows of the forecast, h. They follow an instantaneous row at the log's end, the reward
            now; on those after them, beyond the horizon, the trend is followed to where the reward ends.
        logged: Rows that the log would show until the horizon; the forecast has no more of them than `_GRID`.
    """

    step: np.ndarray
    window: np.ndarray
    rate: np.ndarray
    weight: np.ndarray
    forecast_rows: int = 0
    logged: int = 0

    @property
    def of_forecast(self) -> slice:
        """Where the rows of the forecast lie in the columns."""
        return slice(1, 1 + self.forecast_rows)


_GRID = 96
"""Future rows of a forecast at most."""
_BEYOND = 30
"""Steps after the horizon at which the trend is followed on, to find where the reward ends."""
_FAR = 20.0
"""How far it is followed, in lengths of log and horizon together."""


def future_grid(table: Series, horizon: float, ahead: RemainingRate) -> FutureGrid:
    """The rows of a forecast up to its horizon, with the learning rate from now on.

    They are spaced as the log's rows, or wider so that there are `_GRID` at most.

    Raises:
        SettingError: The horizon is not after the last row.
    """
    now = float(table.step[-1])
    if not (math.isfinite(horizon) and horizon > now):
        raise SettingError(
            f"expected a step after the last logged one ({now:g}), found {horizon:g}; the horizon lies in the past",
            parameter="horizon",
        )
    logged = max(1, round((horizon - now) / float(np.median(np.diff(table.step)))))
    step = now + (horizon - now) * np.arange(1, min(_GRID, logged) + 1) / min(_GRID, logged)
    whole = horizon == round(horizon)
    if whole and np.all(table.step == np.round(table.step)):
        step = np.unique(np.round(step))  # whole steps stay whole
        step = step[step > now]
    span = horizon - table.start
    beyond = horizon + span * np.geomspace(0.05, _FAR, _BEYOND)  # at growing distances
    if whole and span > 2 * _BEYOND:
        beyond = np.unique(np.round(beyond))
    return grid_at(table, np.concatenate([step, beyond]), ahead)._replace(forecast_rows=len(step), logged=logged)


def grid_at(table: Series, step: np.ndarray, ahead: RemainingRate) -> FutureGrid:
    """Future rows as the log would show them at steps of shape (k,), after an instantaneous one at its end."""
    now = float(table.step[-1])
    before = np.concatenate([[now], step[:-1]])
    window = np.minimum(float(np.median(table.window)), step - before)
    return FutureGrid(
        step=np.concatenate([[now], step]),
        window=np.concatenate([[0.0], window]),
        rate=np.concatenate([[ahead.rate_now], ahead.mean(step, step - before)]),
        weight=np.ones(1 + len(step)),
        forecast_rows=len(step),
        logged=len(step),
    )
