"""Facts of a run that decide its actions: numbers and flags from the logged rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.text import StepName, plain
from bayes_grpo.diagnosis.logged import Logged, fall_of
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.story import Resume
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends, fallen_of, rate_spent_at, rise_chance
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import is_share


class Sign(NamedTuple):
    """A sign of instability: a signal with its change, and whether it warrants a look alone."""

    finding: Finding
    strong: bool


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Inputs of the actions' conditions.

    Attributes:
        rows: Logged rewards.
        failing: Probability of any failure.
        signs: Signs of instability in reward, evaluation reward, gradient norm, entropy and KL.
        kl: Mean KL of the last rows; 0 without one where its weight is known to be 0, NaN elsewhere.
        held_out: Whether an evaluation or gold reward is logged.
        checkpoint: Step of the best policy by the logged scores; None where no score can choose one.
        latest: Whether that step is the last one, so that nothing is gained by going back.
        rose: Whether the reward rose since the start.
        crept: Whether it lies above the start almost surely, by any amount.
        resting: Whether its last half has changed by no more than its noise, in enough rows.
        early: Whether few of the planned rewards are logged, or few rewards beneath whose noise a rise may go on.
        level: Its level as a share of its range; NaN where that is unknown.
        at_top: Whether that is the top of the range, with rows enough to tell it from a lower level.
        solved: Whether an evaluation reward is at its maximum too, so that the task itself is solved.
        waste: Share of zero-variance groups or rows; NaN without a signal for it.
        idle: Whether zero-variance groups call for a change: many of them, or many late rows without others.
        all_wrong: Whether the reward was never above its lowest value.
        constant: Whether it was the same in every row.
        truncated: Share of completions that hit the length limit; NaN where it is not logged.
        truncated_pays: Whether the reward is higher, or rose more, than complete completions could earn.
        not_finite: Signals that are NaN at the end.
        learning_rate: Highest learning rate; None where it is unknown.
        step_name: Function from a step to its name in the log.
        group_size: Completions a prompt; None where it is unknown.
        entropy: Whether an entropy is logged.
        noise: Standard deviation of a row.
        noisy: Whether that could hide a relevant rise.
        rate_spent: Step at which the learning rate ended; None where it has not.
        planned: Planned steps where the run has reached them; None elsewhere.
        rows_planned: Rewards that the log has at its planned end; None where that is unknown or reached.
        every_step: Whether a row follows each step, so that no more can be logged.
        stuck: Step at which the reward jumped down to the value of all rows since, but the evaluation reward did not.
        falls: Components and environments in [0, 1] that are being lost.
        held_out_falls: Whether the evaluation reward lies below its best beyond noise.
        held_out_stays: Whether it stays unchanged while the train reward rises.
        suggested: Column that was not recognized → candidate keys of the log.
        resumed: The resume at which a failure under way begins; None without.
    """

    rows: int
    failing: float = 0.0
    signs: tuple[Sign, ...] = ()
    kl: float = np.nan
    held_out: bool = False
    checkpoint: float | None = None
    latest: bool = False
    rose: bool = False
    crept: bool = False
    resting: bool = False
    early: bool = False
    level: float = np.nan
    at_top: bool = False
    solved: bool = False
    waste: float = np.nan
    idle: bool = False
    all_wrong: bool = False
    constant: bool = False
    truncated: float = np.nan
    truncated_pays: bool = False
    not_finite: tuple[str, ...] = ()
    learning_rate: float | None = None
    step_name: Callable[[float], StepName] = StepName
    group_size: float | None = None
    entropy: bool = False
    noise: float = np.nan
    noisy: bool = True
    rate_spent: float | None = None
    planned: float | None = None
    rows_planned: float | None = None
    every_step: bool = False
    stuck: float | None = None
    falls: tuple[Finding, ...] = ()
    held_out_falls: bool = False
    held_out_stays: bool = False
    suggested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resumed: Resume | None = None

    @property
    def broken(self) -> bool:
        """Whether the log ends in NaN values."""
        return bool(self.not_finite)

    @property
    def fails(self) -> bool:
        """Whether a failure is more probable than not."""
        return self.failing > THRESHOLDS.probable

    @property
    def ended(self) -> bool:
        """Whether the learning rate or the planned steps have come to an end."""
        return self.rate_spent is not None or self.planned is not None


def facts_of(trends: RunTrends, rows: RunSoFar, failing: float, resumed: Resume | None = None) -> Facts:
    """The facts of a run.

    Args:
        trends: Trends of the run, for its settings.
        rows: All of its rows.
        failing: Probability that something fails.
        resumed: The resume at which a failure under way begins.
    """
    run, y, held_out, settings = trends.run, rows.reward, rows.held_out, trends.run.settings
    rate, group = settings.learning_rate.value, float(settings.group_size.value or 0.0)
    if rate is None and np.any((logged := Logged.of(run.step, run.values("learning_rate")).value) > 0.0):
        rate = logged.max()
    truncated = rows.signal("completions_clipped_ratio").lately
    judged, few, step = rows.judged, THRESHOLDS.least_rows, rows.held_out_best
    if judged is None and (fallen := fallen_of(trends.reward, rows.ends)) is not None:
        step = fallen.saved_step  # what forecast and decision go by
    least = rows.level - THRESHOLDS.going_errors * y.error / (np.sqrt(2.0) * rows.span)
    planned, rows_planned = _plan(run, y)
    parts = {name: Logged.of(run.step, x) for name, x in {**run.components, **run.environments}.items()}
    scored = held_out.rows >= THRESHOLDS.held_out_rows - 1
    scored = scored and not (is_share(held_out.value) and held_out.best < THRESHOLDS.hollow)
    rose = rows.rose or rise_chance(trends) >= THRESHOLDS.sure
    (gain, _), (late, error) = y.change(0), y.change(1)
    may_rise = rose and late + THRESHOLDS.going_errors * error > THRESHOLDS.half * gain  # half: as on a straight line
    enough = max(2 * THRESHOLDS.waste_rows * may_rise, THRESHOLDS.early * (rows_planned or 0.0))
    return Facts(
        rows=y.rows,
        failing=failing,
        signs=_signs(rows),
        kl=float(np.fmax(rows.signal("kl").lately, 0.0 if settings.kl_weight.given == 0.0 else np.nan)),
        held_out=judged is not None,
        checkpoint=step,
        latest=step is not None and step >= rows.last_step,
        rose=rose,
        crept=float(np.mean(trends.reward.change() > 0.0)) >= THRESHOLDS.sure,
        early=y.rows < enough,
        resting=y.rows >= THRESHOLDS.waste_rows and abs(rows.late_change) <= 1.0,
        level=float(np.minimum(rows.level, 1.0)),
        at_top=rows.level > THRESHOLDS.solved and least >= THRESHOLDS.easy,
        solved=judged is not None and is_share(judged.value) and judged.now > THRESHOLDS.solved,
        waste=rows.waste,
        idle=bool(rows.waste > THRESHOLDS.share_named) or rows.idle.lately > THRESHOLDS.dead,
        all_wrong=rows.ends.known and bool(np.all(y.value <= rows.ends.low)),
        constant=rows.constant,
        truncated=truncated,
        truncated_pays=bool(truncated > THRESHOLDS.truncated) and (rows.rise > 1.0 or rows.level > 1.0 - truncated),
        not_finite=tuple(n for n, x in rows.nan.items() if x.rows >= few and x.value[-few:].all()),
        learning_rate=None if rate is None else float(rate),
        step_name=run.step_name,
        group_size=group if group >= 2 else None,
        entropy="entropy" in rows.signals,
        noise=y.noise,
        noisy=y.noise > THRESHOLDS.risen * rows.span,
        rate_spent=rate_spent_at(run),
        planned=planned,
        rows_planned=rows_planned,
        every_step=bool(y.rows > 1 and y.step[-1] - y.step[0] <= y.rows - 1),
        stuck=rows.stuck if scored and held_out.now > THRESHOLDS.half * held_out.best else None,
        falls=tuple(
            fall_of(plain(n, 40), x, "component_fell") for n, x in parts.items() if is_share(x.value) and x.loss() > 1.0
        ),
        held_out_falls=scored and held_out.fell(THRESHOLDS.rose_errors, THRESHOLDS.held_out_fall),
        held_out_stays=_held_out_stays(rows),
        suggested=run.suggested,
        resumed=resumed,
    )


def _plan(run: Run, y: Logged) -> tuple[float | None, float | None]:
    """Planned steps where they are over, and rewards at the planned end, at the logged pace, where it is to come."""
    planned, over = float(run.settings.total_steps.given or 0.0), False
    if len(run.step):  # a log that goes on far beyond the planned steps had another plan
        from_zero = bool(np.isfinite(run.reward[0]) and run.step[0] == 0.0)  # a train reward of step 0: to N - 1
        over = planned <= float(run.step[-1]) + from_zero <= THRESHOLDS.past_plan * planned + 1.0
    ahead = planned - float(y.step[-1])
    rows = y.rows + float(np.floor(ahead * (y.rows - 1) / (y.step[-1] - y.step[0]))) if ahead > 0.0 else None
    return planned if planned and over else None, rows


def _signs(rows: RunSoFar) -> tuple[Sign, ...]:
    """Signs of instability, the strongest first."""
    found = []
    for name, y in (("reward", rows.reward), ("eval_reward", rows.held_out)):
        if y.rows >= THRESHOLDS.held_out_rows - 1 and y.fell():
            clear = y is not rows.reward and y.best - y.now > THRESHOLDS.gain_errors * y.error
            found.append(Sign(fall_of(name, y), clear))
    for signal, most, strong in (
        ("grad_norm", THRESHOLDS.sign_grad, THRESHOLDS.strong_grad),
        ("entropy", THRESHOLDS.calm_entropy, np.inf),
        ("kl", THRESHOLDS.kl_times, np.inf),
    ):
        size = np.abs(rows.signal(signal).value)
        if len(size) < THRESHOLDS.trend_rows:
            continue
        quarter = len(size) // THRESHOLDS.late_part
        early, late = float(np.median(size[:quarter])), float(np.quantile(size[-quarter:], 0.75))
        # Steps without reward variance have hardly a gradient, and half of the early ones may be such steps.
        ordinary = float(np.quantile(size[:quarter], 0.75)) if signal == "grad_norm" else 0.0
        if signal == "kl" and late < THRESHOLDS.calm_kl:
            continue
        if early > 0.0 and late > max(most * early, THRESHOLDS.doubled * ordinary):
            grew = Finding(kind="signal_grew", signals=(signal,), numbers={"early": early, "late": late})
            found.append(Sign(grew, late > strong * early))
    return tuple(sorted(found, key=lambda s: not s.strong))


def _held_out_stays(rows: RunSoFar) -> bool:
    """Whether it stays unchanged, or near 0, while the train reward rises."""
    gain, carried = rows.carried or (0.0, 0.0)
    noise, nothing = THRESHOLDS.going_errors * rows.held_out.error, THRESHOLDS.hack_shared * THRESHOLDS.hollow
    return gain > 0.0 and carried < THRESHOLDS.hack_shared * gain and (carried < noise or rows.held_out.now < nothing)
