"""Advantage degeneracy: groups whose rewards are all the same have no advantage, and so no gradient.

The share of such groups is compared with what the reward's level and the group size imply when the prompts' success
rates follow a Beta law: E[p^G + (1 - p)^G]. Where the share is not logged, rows without any signal (no spread, a loss
of exactly 0 among others, or a mean reward at the end of its range) bound it from below.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import WASTE, Waste, dead_share, wasted, wasted_by
from bayes_grpo.diagnosis.evidence import Evidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.onset import last_true, steps_between
from bayes_grpo.diagnosis.trend import Trend

CONCENTRATION = 1.0
"""a + b of the Beta law of success rates over prompts; 1 is U-shaped, as graded sets of problems mostly are."""
TYPICAL_GROUP = 8
"""Group size where nobody states one."""
_NEARLY_ALL = 0.999


class AdvantageDegeneracy(Mode):
    """Advantage degeneracy."""

    name = "advantage_degeneracy"
    label = "advantage degeneracy"
    signals = ("frac_reward_zero_std", "reward_std")

    def evidence(self, courses: Courses) -> Evidence:
        """Share of zero-spread groups, its excess, and rows without any signal."""
        share = excess = None
        quantities, used, missing, parts = [], [], [], []
        level = courses.share(_late(courses.progress))
        known_level = courses.has_range and not courses.uses_eval
        course = courses.signals.get("frac_reward_zero_std")
        if course is not None:
            share = np.clip(_late(course), 0.0, 1.0)
            used.append("frac_reward_zero_std")
            quantities.append(
                quantity("zero_share", share, "", "share of groups without spread, second half of the log")
            )
            prompts = courses.run.settings.prompts_per_step.value
            if prompts:
                quantities.append(
                    quantity("usable_groups", (1.0 - share) * float(prompts), "1/step", "groups with spread")
                )
            if known_level:
                size = float(courses.run.settings.group_size.value or TYPICAL_GROUP)
                implied = implied_share(np.clip(level, 0.002, 0.998), size)
                excess = share - implied
                quantities.append(quantity("zero_excess", excess, "", "share minus what reward and group size imply"))
            s = quantities[0].posterior
            parts.append(f"{s.median:.0%} [{s.low:.0%}, {s.high:.0%}] ({s.level:.0%}) of the groups have no spread")
        else:
            missing.append("frac_reward_zero_std")
        dead = dead_rows(courses)
        if dead is not None:
            draws, meaning = dead_share(dead), "share of rows without any spread, second half of the log"
            quantities.append(quantity("dead_rows", draws, "", meaning))
            parts.append(f"{int(dead.sum())} of the last {len(dead)} rows show no spread at all")
            used += [name for name in ("reward_std", "loss") if name in courses.run.signals]
        waste = Waste(share, excess, dead, level if known_level else None)
        event = wasted(waste)
        probability = np.nan if event is None else float(event.mean())
        features = {"wasted": wasted_by(waste)}
        if known_level and course is not None and quantities[0].posterior.median > 0.3:
            middle = float(np.median(level))
            if middle < 0.2 or middle > 0.8:
                parts.append(f"at a reward of {middle:.2f} most of them are too {'hard' if middle < 0.2 else 'easy'}")
        sentence = "; ".join(parts) or "no signal tells how many groups have no spread"
        return Evidence(self.name, probability, tuple(quantities), tuple(used), tuple(missing), sentence, features)

    def onset(self, courses: Courses) -> tuple[np.ndarray, str] | None:
        """Where the share without spread last rose above its failing range, or rows without spread became frequent."""
        share = courses.signals.get("frac_reward_zero_std")
        if share is not None:
            steps = steps_between(share.step[0], share.step[-1])
            last = last_true(share.at(steps) <= WASTE)
            return steps[last], f"share without spread rises above {WASTE}"
        dead = dead_rows(courses, all_rows=True)
        if dead is None or not dead.any():
            return None
        # Rows alive or dead with one rate before and another after: the marginal likelihood of every cut.
        steps = courses.progress.raw_step
        steps = steps[-len(dead) :]
        log_weight = np.array([_two_rates(dead[:k]) + _two_rates(dead[k:]) for k in range(len(dead))])
        weight = np.exp(log_weight - log_weight.max())
        draws = np.random.default_rng(0).choice(steps, 400, p=weight / weight.sum())
        return draws, "rows without spread become more frequent"

    def remedies(self, courses: Courses, evidence: Evidence, onset: Interval | None) -> tuple[str, ...]:
        """Larger groups, and prompts whose groups differ."""
        out = []
        size = int(courses.run.settings.group_size.value or TYPICAL_GROUP)
        level = float(courses.share(courses.progress.mean[-1]))
        if courses.has_range:
            p = np.array(np.clip(level, 0.02, 0.98))
            now, then = (float(1.0 - implied_share(p, g)) for g in (size, 4 * size))
            out.append(
                f"a larger group: from G = {size} to {4 * size} a reward of {level:.2f} lets one expect {now:.0%} to "
                f"{then:.0%} of the groups to have spread"
            )
            if level > 0.8:
                out.append("drop prompts that are solved, or sample prompts by their success rate (0.2 to 0.8)")
            elif level < 0.2:
                out.append(
                    "easier prompts first, partial credit, or a supervised start: nearly all groups fail as a whole"
                )
            else:
                out.append("drop prompts that are always or never solved, and resample until groups have spread")
        else:
            out.append(f"a larger group than G = {size}, and prompts whose rewards differ within a group")
            out.append("resample prompts until the batch is full of groups with spread")
        share = evidence.posterior("zero_share")
        if share is not None:
            out.append(
                f"at a share of {share.median:.0%} a step does the work of {1.0 - share.median:.0%} of its batch"
            )
        return tuple(out)


def implied_share(success_rate: np.ndarray, group_size: float, concentration: float = CONCENTRATION) -> np.ndarray:
    """Expected share of groups without spread, E[p^G + (1 - p)^G] over a Beta law of success rates.

    Args:
        success_rate: Mean success rate, in (0, 1), any shape.
        group_size: Completions a prompt, G.
        concentration: a + b of the Beta law.

    Returns:
        Shares of the same shape.
    """
    i = np.arange(round(group_size))
    p = np.asarray(success_rate, dtype=float)[..., None]
    below = concentration + i
    return np.prod((concentration * p + i) / below, -1) + np.prod((concentration * (1 - p) + i) / below, -1)


def dead_rows(courses: Courses, all_rows: bool = False) -> np.ndarray | None:
    """Which logged rows of the second half show no spread at all, or None where no signal tells.

    Args:
        courses: Courses of the run.
        all_rows: The whole log instead of its second half.
    """
    run = courses.run
    if not run.has_reward:
        return None
    kept = np.isfinite(run.reward)
    told, dead = np.zeros(len(kept), bool), np.zeros(len(kept), bool)
    share, spread, loss = (run.signals.get(k) for k in ("frac_reward_zero_std", "reward_std", "loss"))
    if share is not None:
        told |= np.isfinite(share)
        dead |= np.nan_to_num(share) >= _NEARLY_ALL
    if spread is not None:
        told |= np.isfinite(spread)
        dead |= np.isfinite(spread) & (spread <= 1e-3 * max(float(np.nanmax(np.abs(run.reward))), 1e-9))
    if loss is not None and _typical_size(loss) > 1e-4:
        # A loss is 0 in every row where the surrogate has no penalty; only among others does a 0 mean no advantage.
        told |= np.isfinite(loss)
        dead |= loss == 0.0
    if courses.has_range:
        told |= kept
        dead |= (run.reward == courses.low) | (run.reward == courses.high)
    chosen = np.flatnonzero(kept & told)
    if not len(chosen):
        return None
    return dead[chosen if all_rows else chosen[len(chosen) // 2 :]]


def _two_rates(dead: np.ndarray) -> float:
    """Log marginal likelihood of a block of rows with one unknown rate of dead ones."""
    k, n = int(dead.sum()), len(dead)
    return lgamma(k + 1) + lgamma(n - k + 1) - lgamma(n + 2)


def _late(course: Trend) -> np.ndarray:
    """Draws of the mean over the second half."""
    draws = course.draws
    return draws[:, draws.shape[1] // 2 :].mean(axis=1)


def _typical_size(values: np.ndarray) -> float:
    """Median size of the values that are not 0."""
    size = np.abs(values[np.isfinite(values) & (values != 0.0)])
    return float(np.median(size)) if len(size) else 0.0


MODE = AdvantageDegeneracy()
