"""Facts of a run that decide its status and its actions: numbers and shares of draws, from one view of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.few_rows import part_of_a_log
from bayes_grpo.diagnosis.mode import Timeline
from bayes_grpo.diagnosis.modes.dynamical_instability import reward_lost
from bayes_grpo.diagnosis.modes.reward_hacking import changes, evaluation_lags
from bayes_grpo.diagnosis.records import Action, Finding, FindingKind
from bayes_grpo.diagnosis.story import Resume
from bayes_grpo.diagnosis.strain import growths
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.signals.path import SignalPath, fit_path
from bayes_grpo.signals.run_paths import SpentRate, best_checkpoint, spent_rate
from bayes_grpo.signals.thresholds import THRESHOLDS

_LAST_ROWS = 3
"""Rows at the end of which all are NaN where a log ends in NaN."""
_EMPTY_TOKENS = 8.0
"""Tokens up to which a completion holds hardly anything, and no limit is what ends it."""
_HALF_PACE = 1.0 / 6.0
"""Share of the gain that the last third of the rows brings at half the mean pace."""
_NEAR_BEST = 0.9
"""Level of an evaluation reward above which it cannot share much of a rise."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about a run, for conditions of causes and actions. Each is computed when it is needed.

    Attributes:
        view: The run.
        timeline: Its modes.
        resumed: The resume at which a failure under way begins; None without.
    """

    view: RunView
    timeline: Timeline
    resumed: Resume | None = None

    @property
    def rows(self) -> int:
        """Logged rewards."""
        return self.view.rows

    @property
    def failing(self) -> float:
        """Probability of any of the four failures."""
        return self.timeline.now.failing

    @property
    def fails(self) -> bool:
        """True if a failure is more probable than not."""
        return self.failing > THRESHOLDS.probable

    def under_way(self, mode: str) -> float:
        """Probability that a mode is under way; 0 of one that this log cannot have."""
        found = self.timeline.modes.get(mode)
        return found.under_way if found is not None else 0.0

    @cached_property
    def lost(self) -> float:
        """Share of the draws in which the reward is lost."""
        return float(reward_lost(self.view)[:, -1].mean())

    @cached_property
    def fell(self) -> float:
        """Share of the draws in which the reward, not the evaluation reward, lies below its best."""
        return float(self.view.reward.fell()[:, -1].mean())

    @property
    def clearly_fell(self) -> bool:
        """True if it lies below its best, and nothing else is to be suspected."""
        return self.fell > 1.0 - THRESHOLDS.suspect

    @property
    def falling(self) -> bool:
        """True if it clearly fell, or more probably fell than not and may be lost."""
        may_be_lost = self.under_way("dynamical_instability") >= THRESHOLDS.suspect
        return self.clearly_fell or (self.fell >= THRESHOLDS.probable and may_be_lost)

    @cached_property
    def declined(self) -> bool:
        """True if it lies below its start by any amount, and nothing else is to be suspected."""
        return float((self.view.rise[:, -1] < 0.0).mean()) > 1.0 - THRESHOLDS.suspect

    @cached_property
    def signs(self) -> tuple[Finding, ...]:
        """Signs of instability: signals that grew, the most certain first."""
        return growths(self.view)

    @cached_property
    def kl(self) -> float:
        """KL to the reference now; 0 without one where its weight is known to be 0, NaN elsewhere."""
        unlogged = self.view.signal("kl") is None
        return 0.0 if unlogged and self.view.run.settings.kl_weight.explicit == 0.0 else self.view.now("kl")

    @property
    def held_out(self) -> bool:
        """True if an evaluation or gold reward is logged that can choose a checkpoint."""
        return self.view.paths.score is not None

    @cached_property
    def checkpoint(self) -> float | None:
        """Step of the best policy by the logged scores; None where no score can choose one."""
        step = best_checkpoint(self.view.paths)
        if step is None and not self.held_out and self.lost >= THRESHOLDS.probable:
            return self.view.reward.best_step
        return step

    @property
    def latest(self) -> bool:
        """True if the best checkpoint is the last one, so that nothing is gained by going back."""
        return self.checkpoint is not None and self.checkpoint >= self.view.last_step

    @property
    def rose(self) -> bool:
        """True if the reward has risen, almost surely and by an amount that matters."""
        return self.view.rose

    @property
    def resting(self) -> bool:
        """True if it more probably rests than not."""
        return self.under_way("plateaued") >= THRESHOLDS.probable

    @cached_property
    def early(self) -> bool:
        """True if few of the planned rewards are logged, or few rewards, whose noise may hide a rise."""
        path = self.view.reward
        gain = path.now - path.start
        late = path.now - path.draws[:, path.draws.shape[1] * 2 // 3]
        may_rise = self.rose and float((late > _HALF_PACE * gain).mean()) > 1.0 - THRESHOLDS.sure  # half the mean pace
        enough = max(THRESHOLDS.plateau_rows * may_rise, THRESHOLDS.half * (self.rows_planned or 0.0))
        return self.rows < enough

    @property
    def level(self) -> float:
        """Level of the reward as a share of its range; NaN where that is unknown."""
        return min(self.view.level_now, 1.0)

    @property
    def at_top(self) -> bool:
        """True if that is the top of the range, almost surely."""
        level = self.view.level[:, -1]
        surely = float(np.quantile(level, 1.0 - THRESHOLDS.sure)) >= THRESHOLDS.near_top
        return self.level > THRESHOLDS.solved and surely

    @property
    def solved(self) -> bool:
        """True if an evaluation reward is at its maximum too, so that the task itself is solved."""
        score = self.view.paths.score
        return score is not None and score.unit == "share" and float(np.median(score.now)) > THRESHOLDS.solved

    @cached_property
    def waste(self) -> float:
        """Share of groups or rows without variance now; NaN where nothing tells."""
        path = self.view.idle
        return float(np.median(path.now)) if path is not None else np.nan

    @property
    def idle(self) -> bool:
        """True if groups without variance call for a change."""
        return self.waste > THRESHOLDS.idle

    @property
    def all_wrong(self) -> bool:
        """True if the reward was never above its lowest value."""
        return self.view.paths.ends.bounded and self.view.unrewarded

    @property
    def mostly_lowest(self) -> bool:
        """True if most rows, but not all, have the lowest reward that was logged."""
        logged = self.view.reward.logged
        return not logged.constant and float((logged.value == logged.value.min()).mean()) > THRESHOLDS.half

    @cached_property
    def one_score(self) -> Finding | None:
        """One reward of most rows that is neither the lowest nor high, where no group is known to vary."""
        view = self.view
        logged = view.reward.logged
        ends = view.paths.ends
        values, count = np.unique(logged.value, return_counts=True)
        score = float(values[count.argmax()])
        varies = view.logged("reward_std").value > 0.0
        differs = bool(len(varies)) and float(varies.mean()) > THRESHOLDS.half
        high = ends.low + THRESHOLDS.near_top * (ends.high - ends.low) if ends.bounded else ends.low
        if logged.rows < THRESHOLDS.direct_rows or logged.constant or differs or not ends.low < score < high:
            return None
        path = fit_path(logged.step, (logged.value == score).astype(float), seed=34, indicator=True)
        p = 0.0 if path is None else float((path.now > THRESHOLDS.waste).mean())
        if p < THRESHOLDS.probable:
            return None
        return Finding.of("one_score", score=score, same=float(count.max()), rows=float(logged.rows), probability=p)

    @property
    def constant(self) -> bool:
        """True if it was the same in every row."""
        return self.view.constant

    @cached_property
    def truncated(self) -> float:
        """Share of completions that hit the length limit now; NaN where it is not logged."""
        return self.view.now("completions_clipped_ratio")

    @property
    def capped(self) -> bool:
        """True if every row has one completion length and one reward, as where all completions end at a limit."""
        length = self.view.logged("completion_length")
        long = bool(len(length.value)) and float(length.value[-1]) > _EMPTY_TOKENS
        return long and length.rows > _LAST_ROWS - 1 and length.constant and self.view.reward.logged.constant

    @property
    def truncated_pays(self) -> bool:
        """True if the reward is higher, or rose more, than complete completions could earn."""
        return self.truncated > THRESHOLDS.half and (self.rose or self.view.level_now > 1.0 - self.truncated)

    @property
    def not_finite(self) -> tuple[str, ...]:
        """Signals that are NaN in every one of the last rows."""
        return tuple(name for name, x in self.view.nan.items() if x.value[-_LAST_ROWS:].all())

    @property
    def broken(self) -> bool:
        """True if the log ends in NaN values."""
        return bool(self.not_finite)

    @cached_property
    def learning_rate(self) -> float | None:
        """Highest learning rate; None where it is unknown."""
        rate = self.view.run.settings.learning_rate.value
        logged = self.view.logged("learning_rate").value
        if rate is None and np.any(logged > 0.0):
            rate = logged.max()
        return None if rate is None else float(rate)

    @property
    def group_size(self) -> float | None:
        """Completions a prompt; None where it is unknown."""
        size = float(self.view.run.settings.group_size.value or 0.0)
        return size if size >= 2 else None

    @property
    def noise(self) -> float:
        """Standard deviation of a row."""
        return self.view.reward.noise

    @property
    def noisy(self) -> bool:
        """True if that could hide a relevant rise."""
        return self.noise > THRESHOLDS.material * self.view.reward.span

    @cached_property
    def spent_rate(self) -> SpentRate | None:
        """The learning rate where it is spent; None where it is not."""
        return spent_rate(self.view.run)

    @cached_property
    def planned(self) -> float | None:
        """Planned steps where the run has reached them; None elsewhere."""
        run = self.view.run
        end = run.last_planned_step
        if end is None or not len(run.step):
            return None
        row = float(np.median(np.diff(run.step))) if len(run.step) > 1 else 1.0
        # A log that goes on beyond the planned steps had another plan.
        return float(run.settings.total_steps.explicit) if end <= run.step[-1] <= end + row else None

    @cached_property
    def rows_planned(self) -> float | None:
        """Rewards that the log has at its planned end, at the logged pace; None where that is unknown or reached."""
        y = self.view.reward.logged
        ahead = (self.view.run.last_planned_step or 0.0) - float(y.step[-1])
        if ahead <= 0.0:
            return None
        return y.rows + float(np.floor(ahead * (y.rows - 1) / (y.step[-1] - y.step[0])))

    @property
    def ended(self) -> bool:
        """True if the learning rate or the planned steps have come to an end."""
        return self.spent_rate is not None or self.planned is not None

    @property
    def part_of_a_log(self) -> Action | None:
        """To pass the whole log where these few rows are from the middle of one."""
        return part_of_a_log(self.view.run) if self.rows < THRESHOLDS.direct_rows else None

    @property
    def every_step(self) -> bool:
        """True if a row follows each step, so that no more can be logged."""
        y = self.view.reward.logged
        return bool(y.step[-1] - y.step[0] <= y.rows - 1)

    @cached_property
    def falls(self) -> tuple[Finding, ...]:
        """Components and environments in [0, 1] that have lost 30% of their best; one that is the total is none."""
        found = {**self.view.paths.components, **self.view.paths.environments}
        total = self.view.reward.logged
        out = []
        for name, path in found.items():
            if np.array_equal(path.logged.step, total.step) and np.allclose(path.logged.value, total.value):
                continue
            fell = path.fell(THRESHOLDS.turned)[:, -1]
            if path.unit == "share" and fell.mean() >= THRESHOLDS.probable:
                kind = {"environment": 1.0} if name in self.view.paths.environments else {}
                p = float(fell.mean())
                out.append(fall_of("component_fell", plain(name, 40), path, fell, p, **kind))
        return tuple(out)

    @cached_property
    def held_out_falls(self) -> float:
        """Share of the draws in which the evaluation reward lies below its best by a tenth of it."""
        path = self.view.held_out
        if path is None or (path.unit == "share" and float(np.median(path.best)) < THRESHOLDS.material):
            return 0.0
        return float(path.fell()[:, -1].mean())

    @cached_property
    def held_out_stays(self) -> float:
        """Share of the draws in which it hardly shares a rise of the train reward, or turns while that holds."""
        path = self.view.held_out
        if path is None:
            return 0.0
        gain, shared = changes(self.view, path)
        stays = evaluation_lags(gain, shared)[:, -1]
        near_top = np.isfinite(path.low) & (path.now > _NEAR_BEST * path.span)
        return float((stays & ~near_top).mean())

    def step_name(self, step: float):
        """A step as the log counts it."""
        return self.view.run.step_name(step)


def fall_of(
    kind: FindingKind, name: str, path: SignalPath, fell: np.ndarray, probability: float = np.nan, **numbers: float
) -> Finding:
    """The fall of a signal, its best level that of the draws in which it fell, shape (draws,)."""
    best = path.best[fell] if fell.any() else path.best
    levels = {"best": path.display_value(best), "now": path.display_value(path.now)}
    return Finding.of(kind, name, probability=probability, **(levels | numbers))
