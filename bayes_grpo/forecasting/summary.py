"""The numbers of a forecast, and the first step at which each path reaches a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from bayes_grpo.common.document import ranged
from bayes_grpo.common.errors import MENDING, Argument, SettingError
from bayes_grpo.common.intervals import LEVEL, QUANTILES, Interval, interval, percent
from bayes_grpo.common.results import About, frame_of, reward_words
from bayes_grpo.forecasting.events import COLLAPSE, TAKEOFF
from bayes_grpo.forecasting.expected import Expected, FarHorizon
from bayes_grpo.forecasting.references import ReferencesUsed
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.schedule import PLAN_OVER
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.run_paths import fit_reward

if TYPE_CHECKING:
    import pandas as pd

    from bayes_grpo.forecasting.forecast import Forecast


@dataclass(frozen=True)
class Reach:
    """When the underlying reward first reaches a value.

    Attributes:
        reward: The value.
        rising: Whether it is reached from below.
        already: Probability that it is reached by now.
        by_horizon: Probability that it is reached by the horizon.
        step: Median and interval over paths; the last logged step stands for "by now", infinity for "not by the
            horizon".
        until: The horizon.
        now: Last logged step.
    """

    reward: float
    rising: bool
    already: float
    by_horizon: float
    step: Interval
    until: float
    now: float

    @property
    def sentence(self) -> str:
        """The answer in words."""
        what = f"the underlying reward {'reaches' if self.rising else 'falls to'} {self.reward:g}"
        if self.already > 0.5:
            return f"{what}: {percent(self.already)} chance that it is there now"
        text = f"{what} by step {self.until:g}: {percent(self.by_horizon)} chance"
        if not math.isfinite(self.step.low):
            return text
        low, middle, high = (self._step_text(x) for x in (self.step.low, self.step.median, self.step.high))
        return f"{text}, at step {middle} [{low}, {high}] ({self.step.level:.0%})"

    def _step_text(self, step: float) -> str:
        if math.isinf(step):
            return "later"
        return f"{self.now:g} or before" if step <= self.now else f"{step:.0f}"


def reach_of(forecast: Forecast, reward: float) -> Reach:
    """When a forecast's paths reach a value; between two rows of the forecast by a straight line."""
    f = forecast
    if not math.isfinite(reward) or not f.low <= reward <= f.high:
        span = f"between {f.low:g} and {f.high:g}" if math.isfinite(f.low) or math.isfinite(f.high) else "a number"
        raise SettingError(
            f"expected a reward {span}, found {reward:g}; correct it, or state its range with {MENDING}",
            parameter="reach",
            mended_by=Argument("settings", "VALUE", "reward_high"),
        )
    path = np.concatenate([f.latent_now[:, None], f.latent], axis=1)
    step = np.concatenate([[f.now], f.step])
    rising = bool(np.median(f.latent_now) < reward)
    first = crossings(step, path if rising else -path, reward if rising else -reward)
    # Between a finite step and "never" there is nothing to interpolate.
    low, median, high = np.quantile(first, QUANTILES, method="inverted_cdf")
    return Reach(
        reward=float(reward),
        rising=rising,
        already=float(np.mean(first <= f.now)),
        by_horizon=float(np.mean(np.isfinite(first))),
        step=Interval(float(median), float(low), float(high), LEVEL),
        until=f.until,
        now=f.now,
    )


def crossings(step: np.ndarray, path: np.ndarray, target: float) -> np.ndarray:
    """First step at which each path is at or above a value, shape (draws,); infinity where it never is.

    Paths, shape (draws, h), are straight between steps, shape (h,); one that starts there has the first step.
    """
    done = path >= target
    first = done.argmax(axis=1)
    before = np.maximum(first - 1, 0)
    draws = np.arange(len(path))
    rise = path[draws, first] - path[draws, before]
    part = np.where(rise != 0, (target - path[draws, before]) / np.where(rise != 0, rise, 1.0), 1.0)
    at = step[before] + np.clip(part, 0.0, 1.0) * (step[first] - step[before])
    return np.where(done.any(axis=1), np.where(first == 0, step[0], at), np.inf)


LIKELY_FROM = 0.6
"""Probability from which a course is called likely: at one half it is no more likely than not."""
LIKELIER = 4.0
"""How many times as probable as the other way a course has to be to be called likely."""


Direction = Literal["over", "stays", "rises", "falls", "unclear"]
"""Where the reward goes until the horizon; "over" where no planned step or learning rate is left."""


class RewardOutlook(NamedTuple):
    """Where the reward goes: in one word, as a clause, and its probability where the clause does not imply it."""

    direction: Direction
    clause: str
    chance: float | None = None

    @property
    def words(self) -> str:
        """The clause with its chance."""
        return self.clause if self.chance is None else f"{self.clause} ({percent(self.chance)})"


@dataclass(frozen=True, kw_only=True)
class ForecastSummary(Expected):
    """Summary of a forecast, as printed.

    Attributes:
        outlook: Where the reward goes.
        row_at_horizon: What a row logged at the horizon would show.
        at_infinity: Fixed point, where the reward would settle at a constant learning rate.
        final: Where it ends under the remaining schedule.
        final_gain: Reward in the end minus now.
        reach: When each requested reward is reached.
        assumed: Assumed settings.
        notes: Remarks on the computation for the user.
        about: Which rows the forecast rests on.
        draws: Number of paths.
        interval_level: Probability inside the intervals.
        schedule: Learning rate from now on: "constant", "linear" or "cosine".
        schedule_ends: Step at which it reaches 0; infinite where it does not.
        threshold_from: Where the gain that counts comes from; "" where it was given.
        reference_runs: Effect of the reference runs; None without any.
        far: The horizon, where it is too far ahead for these rows; None elsewhere.
        not_converged: Regimes left out because their posterior was not reached.
        so_far: What the logged rows show that the steps to come do not continue; "" where they may.
    """

    outlook: RewardOutlook
    row_at_horizon: Interval
    at_infinity: Interval
    final: Interval
    final_gain: Interval
    reach: tuple[Reach, ...]
    assumed: tuple[str, ...]
    notes: tuple[str, ...]
    about: About
    draws: int
    interval_level: float
    schedule: str
    schedule_ends: float
    threshold_from: str
    reference_runs: ReferencesUsed | None = None
    far: FarHorizon | None = None
    not_converged: tuple[str, ...] = ()
    so_far: str = ""

    not_in_json = ("outlook", "so_far")

    def to_frame(self) -> pd.DataFrame:
        """One row a quantity with its unit: rewards, gains, and probabilities, which have no interval."""
        names = ("now", "at_horizon", "row_at_horizon", "at_infinity", "final", "remaining_gain", "final_gain")
        rows = [{"quantity": name, "unit": "reward", "value": getattr(self, name)} for name in names]
        chances = ("p_gain", "p_peaked", "p_collapse", "p_takeoff")
        rows += [{"quantity": name, "unit": "probability", "value": getattr(self, name)} for name in chances]
        return frame_of(rows, "quantity")


def summarize_forecast(
    forecast: Forecast, threshold: float | None = None, reach: Sequence[float] = ()
) -> ForecastSummary:
    """Summarizes a forecast, with the first step that reaches each of some rewards.

    The gain that counts is by default 1% of the reward's range where that is known, otherwise a tenth of the standard
    deviation of the logged rows.
    """
    now = _now(forecast)
    f = _begun_at(forecast, now)
    usual = 0.01 * (f.high - f.low) if math.isfinite(f.high - f.low) else 0.1 * float(np.std(f.logged))
    size = usual if threshold is None else float(threshold)
    source = "a tenth of the spread of the logged rows"
    if math.isfinite(f.high - f.low):
        source = "1% of the reward's range"
    gain = f.latent[:, -1] - f.latent_now
    change = f.trend - f.latent_now[:, None]
    peaked = (change[:, -1] < -size) & (change.max(axis=1) <= size)
    summary = ForecastSummary(
        sentence="",
        outlook=_outlook(f, gain, size),
        now=now,
        at_horizon=_later(now, f.latent[:, -1], f.latent_now),
        row_at_horizon=interval(f.rows[:, -1]),
        at_infinity=interval(f.at_infinity),
        final=_later(now, f.final, f.latent_now),
        remaining_gain=interval(gain),
        final_gain=interval(f.final - f.latent_now),
        reach=tuple(reach_of(f, value) for value in reach),
        highest=math.inf if math.isfinite(f.high) else float(np.max(f.logged)),
        threshold=size,
        threshold_from="" if threshold is not None else source,
        p_gain=float(np.mean(gain > size)),
        p_peaked=float(np.mean(peaked)),
        p_collapse=float(np.mean(f.event == COLLAPSE)),
        p_takeoff=float(np.mean(f.event == TAKEOFF)),
        weights=f.weights,
        assumed=f.assumed,
        notes=f.notes,
        about=About(f.name, f.signal, len(f.logged), float(f.logged_step[0]), f.now),
        until=f.until,
        until_from=f.until_from,
        draws=len(f.latent),
        interval_level=LEVEL,
        schedule=f.schedule.shape,
        schedule_ends=f.schedule.total_steps,
        reference_runs=f.reference_runs,
        far=f.far,
        not_converged=f.not_converged,
    )
    return replace(summary, sentence=_sentence(summary))


def _now(f: Forecast) -> Interval:
    """Where the reward stands, by its path: the number that the diagnosis says too."""
    ends = RewardRange(f.low, f.high)
    evaluation = f.signal == "eval_reward"
    path = fit_reward(Logged.of(f.logged_step, f.logged), ends, evaluation, noise=f.expected, counted=f.counted)
    return interval(f.latent_now if path is None else path.now)


def _later(now: Interval, later: np.ndarray, before: np.ndarray) -> Interval:
    """Where the reward will stand: where it stands now, if no path moves any more."""
    return now if np.array_equal(later, before) else interval(later)


def _begun_at(f: Forecast, now: Interval) -> Forecast:
    """The paths moved to where the reward stands, so that what is said of now, later and the gain adds up.

    The regimes and the path of the reward are two models, and see the present up to one standard deviation of a row
    apart. Where paths begin makes no difference to how close they come: over 314 beginnings of public logs the reward
    ahead lay .84 such deviations from those moved here and from those left where the regimes see the present.
    """
    move = now.median - float(np.median(f.latent_now))

    def moved(values: np.ndarray) -> np.ndarray:
        """Values that lie in the range of the reward stay in it."""
        inside = (values >= f.low) & (values <= f.high)
        return np.where(inside, np.clip(values + move, f.low, f.high), values + move)

    return replace(
        f,
        latent_now=moved(f.latent_now),
        latent=moved(f.latent),
        rows=moved(f.rows),
        trend=moved(f.trend),
        at_infinity=moved(f.at_infinity),
        final=moved(f.final),
    )


def _outlook(f: Forecast, change: np.ndarray, threshold: float) -> RewardOutlook:
    what = f"the {reward_words(f.signal)}"
    until = f"until step {f.until:g}"
    p_up = float(np.mean(change > threshold))
    p_down = float(np.mean(change < -threshold))
    p_still = 1.0 - p_up - p_down
    p_way = max(p_up, p_down)
    way: Direction = "rises" if p_up > p_down else "falls"
    verb = "rise" if p_up > p_down else "fall"
    if f.schedule.ends <= f.now:
        planned = f.schedule.assumed == PLAN_OVER
        why = "the planned steps are over" if planned else "the learning-rate schedule has ended"
        return RewardOutlook("over", f"{why}, so no further change of {what} is expected")
    if p_still >= 0.8:
        return RewardOutlook("stays", f"{what} is expected to stay within {threshold:.2g} of where it is {until}")
    if p_still >= LIKELY_FROM:
        return RewardOutlook(
            "stays", f"{what} is likely to stay within {threshold:.2g} of where it is {until}", p_still
        )
    if p_way >= 0.8:
        return RewardOutlook(way, f"{what} is expected to {verb} {until}")
    if p_way >= max(LIKELY_FROM, LIKELIER * min(p_up, p_down)):
        return RewardOutlook(way, f"{what} is likely to {verb} {until}", p_way)
    ways = f"rise ({percent(p_up)}), fall ({percent(p_down)}) or stay within {threshold:.2g} ({percent(p_still)})"
    return RewardOutlook("unclear", f"{what} may {ways} {until}")


def _sentence(s: ForecastSummary) -> str:
    rewards = f"{s.reward_text(s.at_horizon)} after {ranged(s.now)} now, a gain of {ranged(s.remaining_gain)}"
    return f"{s.outlook.words}: {rewards} ({s.now.level:.0%} intervals)."
