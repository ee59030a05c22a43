"""What a definition of a failure looks at: the logged rows of a run up to a step, and what follows from them.

Nothing here is fitted, so a definition applies to logs of new authors without change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.diagnosis.logged import NOTHING, Logged
from bayes_grpo.diagnosis.parts import weights_of
from bayes_grpo.diagnosis.plausibility import of_groups
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import TREND_ROWS
from bayes_grpo.diagnosis.wording import signal_words
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import RewardRange, both_ends
from bayes_grpo.rows.series import is_share, stretches

if TYPE_CHECKING:
    from bayes_grpo.rollouts.decomposition import Decomposition

EVERY_ROW = ("reward", "loss", "grad_norm")
"""Signals whose NaN breaks the weights."""
TYPICAL_GROUP = 8.0
"""Completions a prompt where a log names none; groups of one are the default of other algorithms."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSoFar:
    """A run up to a step.

    Attributes:
        reward: Train reward, or evaluation reward where no train reward is logged.
        held_out: Gold or evaluation reward of a run that logs a train reward too; without rows elsewhere.
        uses_eval: Whether the reward is the evaluation reward.
        signals: Canonical name → logged values.
        parts: Reward function → its values, times the weight with which it enters the total where they add up to it.
        nan: Signal → whether the trainer wrote a value that is no number, one a row.
        block: Rows that one look covers.
        ends: Range of the reward, with both ends or none.
        group_size: Completions a prompt: of the run, else a usual number.
        gain: Decomposition of its gain by rollouts; None without rollouts.
    """

    reward: Logged
    held_out: Logged
    uses_eval: bool
    signals: Mapping[str, Logged]
    parts: Mapping[str, Logged]
    nan: Mapping[str, Logged]
    block: int
    ends: RewardRange
    group_size: float
    gain: Decomposition | None

    @classmethod
    def of(cls, run: Run, gain: Decomposition | None = None) -> RunSoFar:
        """All rows of a run.

        Args:
            run: The run.
            gain: Decomposition of its gain by rollouts.
        """
        run = of_groups(run)
        train, held_out = Logged.of(run.step, run.reward), Logged.of(run.eval_step, run.eval_reward)
        signals = {name: Logged.of(run.step, values) for name, values in run.signals.items()}
        uses_eval, gold = train.rows < THRESHOLDS.least_rows, signals.get("gold_reward", NOTHING)
        held_out = gold if gold.rows > held_out.rows and not uses_eval else held_out
        reward = held_out if uses_eval else train
        weights = weights_of(run, run.components)
        group = float(run.settings.group_size.value or 0.0)
        return cls(
            reward=reward,
            held_out=NOTHING if uses_eval else held_out,
            uses_eval=uses_eval,
            signals=signals,
            parts={
                n: Logged.of(run.step, x * (weights.get(n, 0.0) if weights else 1.0)) for n, x in run.components.items()
            },
            nan={n: Logged.of(run.step, lost) for n in EVERY_ROW if (lost := run.not_finite(n)).any()},
            block=max(1, round(reward.rows / TREND_ROWS)),
            ends=both_ends(reward.value, dict(run.settings.items())) if reward.rows else RewardRange(),
            group_size=group if group > 1.0 else TYPICAL_GROUP,
            gain=gain,
        )

    def until(self, step: float) -> RunSoFar:
        """The rows up to a step."""
        cut = {k: {n: x.until(step) for n, x in getattr(self, k).items()} for k in ("signals", "parts", "nan")}
        return replace(self, reward=self.reward.until(step), held_out=self.held_out.until(step), **cut)

    def signal(self, name: str) -> Logged:
        """The logged values of a signal, by its canonical name; without rows where it is not logged."""
        return self.signals.get(name, NOTHING)

    @property
    def judged(self) -> Logged | None:
        """The evaluation reward that checkpoints are chosen by; None where none is logged, or too few of its values."""
        if self.held_out.rows >= THRESHOLDS.least_rows:
            return self.held_out
        return self.reward if self.uses_eval else None

    @property
    def held_out_best(self) -> float | None:
        """Step of the best evaluation reward; None where no score can choose, or it lies before anything was learned.

        None can choose where none differs, or where all count as zero and the best is no better than the last beyond
        noise: it is then the luckiest of equals.
        """
        y = self.judged
        if y is None or np.ptp(y.value) == 0.0:
            return None
        if is_share(y.value) and y.best < THRESHOLDS.hollow and not y.fell():
            return None
        every_row = y.rows > self.reward.rows // 2  # of which a single one says little
        best = float(y.step[int(y.means.argmax()) + y.window - 1 if every_row else int(y.value.argmax())])
        return best if best > self.reward.step[0] else None

    @property
    def last_step(self) -> float:
        """Step of the last reward."""
        return max(float(x.step[-1]) for x in (self.reward, self.held_out) if x.rows)

    @property
    def reward_key(self) -> str:
        """Name of the reward that counts: "reward" or "eval_reward"."""
        return "eval_reward" if self.uses_eval else "reward"

    @property
    def reward_name(self) -> str:
        """The reward in sentences."""
        return signal_words(self.reward_key)

    @property
    def span(self) -> float:
        """Range of the reward: the known one, or what the rows show of it."""
        return self.ends.high - self.ends.low if self.ends.known else max(float(np.ptp(self.reward.value)), 1e-9)

    @property
    def level(self) -> float:
        """Where the reward stands, as a share of its range; NaN where that is not known."""
        return (self.reward.now - self.ends.low) / self.span if self.ends.known else np.nan

    @property
    def loss(self) -> float:
        """`Logged.loss` of the reward: above 1 it is lost."""
        return self.reward.loss(self.ends)

    @property
    def rise(self) -> float:
        """By how many times what counts the reward has risen since its start: above 1 it did."""
        y, least = self.reward, THRESHOLDS.risen * self.span
        gains = y.change(0), (y.now - y.start, y.error)
        return max(min(gain / (THRESHOLDS.rise_errors * error), gain / least) for gain, error in gains)

    @property
    def rose(self) -> bool:
        """Whether the last third of the rows lies above the first beyond noise, however little, or the reward rose."""
        gain, error = self.reward.change(0)
        return self.rise > 1.0 or gain > THRESHOLDS.rose_errors * error

    @property
    def carried(self) -> tuple[float, float] | None:
        """Changes of both rewards since the first evaluations, where the train reward rose clearly."""
        y, held_out = self.reward, self.held_out
        if held_out.rows < THRESHOLDS.held_out_rows - 1 or y.rows < THRESHOLDS.trend_rows:
            return None
        then = y.between(held_out.step[0], held_out.step[held_out.window - 1])
        if len(then) < THRESHOLDS.least_rows:
            return None
        gain = y.now - float(then.mean())
        least = max(
            THRESHOLDS.rise_errors * y.error, THRESHOLDS.risen * self.span, THRESHOLDS.carry_errors * held_out.error
        )
        return (gain, held_out.now - held_out.start) if gain > least else None

    @property
    def late_change(self) -> float:
        """The last third of the rows less the middle one, over what counts as a change of them."""
        change, error = self.reward.change(1)
        return change / (THRESHOLDS.going_errors * error)

    @property
    def constant(self) -> bool:
        """Whether the reward was the same in every row, in enough of them."""
        y = self.reward
        return y.rows >= THRESHOLDS.direct_rows and bool(np.ptp(y.value) == 0.0)

    @property
    def stuck(self) -> float | None:
        """Step at which the reward jumped down to a value that every row has had since; None where it did not."""
        y = self.reward
        first = stretches(y.value == y.value[-1])[-1][0] if y.rows else 0
        before = y.value[max(0, first - THRESHOLDS.least_rows) : first]
        sudden = len(before) and before.mean() - y.value[-1] > THRESHOLDS.half * (y.best - y.value[-1])
        return float(y.step[first]) if sudden and y.rows - first >= THRESHOLDS.direct_rows else None

    def without_spread(self, least_share: float) -> Logged:
        """Which rows have no group with spread, of the rows that tell; none of them where no signal of a spread does.

        Args:
            least_share: Share of zero-variance groups from which on a row has none, where the share is logged.
        """
        share, spread = (self.signal(name) for name in ("frac_reward_zero_std", "reward_std"))
        if share.rows >= THRESHOLDS.least_rows:
            return Logged(share.step, share.value >= least_share)
        if spread.rows < THRESHOLDS.least_rows or self.uses_eval:
            return NOTHING
        largest = max(float(np.abs(self.reward.value).max()), 1e-9)
        return Logged(spread.step, spread.value <= THRESHOLDS.dead_spread * largest)

    @cached_property
    def idle(self) -> Logged:
        """Which rows have no group with any spread, or else a loss of 0 among others; none where no signal tells."""
        if (found := self.without_spread(THRESHOLDS.dead_groups)).rows:
            return found
        loss = self.signal("loss")
        other = np.abs(loss.value[loss.value != 0.0])
        if loss.rows >= THRESHOLDS.least_rows and len(other) and float(np.median(other)) > THRESHOLDS.loss_typical:
            return Logged(loss.step, loss.value == 0.0)
        return NOTHING

    @property
    def waste(self) -> float:
        """Share of zero-variance groups late in the log, or of rows without any; NaN where no signal tells."""
        share = self.signal("frac_reward_zero_std")
        if share.rows >= THRESHOLDS.least_rows:
            return float(np.median(share.late(THRESHOLDS.late_part)))
        return float(self.idle.late(2).mean()) if self.idle.rows else np.nan
