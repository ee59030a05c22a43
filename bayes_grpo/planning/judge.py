"""The answer to a plan: every candidate judged at the same draws, the best first.

A gain is therefore a difference and not two intervals side by side. Candidates share a draw's margin to failure, and
each draw's luck is the same for all: where a rate fails, a higher one does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, interval, percent
from bayes_grpo.common.runtime import Progress
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import probabilities_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.outcomes import UNMOVED, Grid, ReferenceOutcomes, reference_outcomes, run_failed, setting_of
from bayes_grpo.planning.outlook import (
    Base,
    Exponents,
    RewardScale,
    base_of_run,
    expected_reward,
    exponent_draws,
    learned_exponents,
    reward_of_one_run,
)
from bayes_grpo.planning.planned import LEAST_BETTER, Candidate, Plan
from bayes_grpo.references.gather import NearbyRuns, RunSources
from bayes_grpo.risk.failure import FailureRisk, failure_risk, shared_rate
from bayes_grpo.risk.threshold import change
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.series import Series

_FLAT, _FAR = 0.2, 4.0
"""Probability of no trend, and factor between settings, from which on a plan warns."""


def judge(
    run: Run,
    table: Series,
    grid: Grid,
    reference_runs: RunSources | None,
    *,
    budget: float | None,
    risk: float,
    seed: int,
    progress: Progress,
) -> Plan:
    """Judges all candidates and puts the best first.

    Args:
        run: The present run.
        table: Its rows.
        grid: The candidates.
        reference_runs: Reference runs; None for none.
        budget: Largest cost of the next run, in steps of the present one; its length if None.
        risk: Largest P(fails) of what is recommended.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Raises:
        FitError: No regime can be put on the rows.
    """
    known = {"refresh_interval": table.optimizer.refresh} | grid.present
    known |= {name: x for name in UNMOVED if (x := setting_of(run, table, name)) is not None}
    tried = None
    if reference_runs is not None:
        progress("reference runs")
        tried = reference_outcomes(run, table, known, grid.rate is not None, reference_runs)
        if isinstance(reference_runs, NearbyRuns) and not tried.runs:
            tried = None
    progress("the present run")
    diagnosed = probabilities_of(RunSoFar.of(run))
    hacked = diagnosed.probability["reward_hacking"] if table.signal == "reward" else 0.0
    reward = reward_range(table.y, dict(run.settings.items()))
    base = base_of_run(table, reward, seed_of(seed, "base"))
    weight = np.diff(table.step, prepend=table.start)
    mean_rate = float(np.average(table.rate, weights=weight))
    adam, tenth = table.optimizer.convention == "ema", max(1, len(table.y) // 10)
    unknown = not math.isfinite(reward.high)
    judging = _Judging(
        base=base,
        exponents=exponent_draws(list(grid.present), len(base), adam, seed_of(seed, "exponents")),
        scale=RewardScale(reward, table.scale, mean_rate * table.length),
        mean_rate=mean_rate,
        most=float(np.max(table.y)) if unknown else math.inf,
        shown=float(np.convolve(table.y, np.full(tenth, 1.0 / tenth), "valid").max()) if unknown else math.inf,
        present=grid.present,
        known=known,
        failed=run_failed(run, table, diagnosed),
        rate=shared_rate(grid.rate, table.optimizer.convention),
        tried=tried or ReferenceOutcomes(),
        budget=table.length if budget is None else budget,
        seed=seed,
    )
    progress(f"{len(grid.candidates)} candidates")
    judged = [judging.candidate(settings) for settings in grid.candidates]
    kept = next(c for c, _ in judged if c.settings == grid.present)
    most = max(risk, kept.failure_risk)

    def rank(judged: tuple[Candidate, float]) -> tuple[bool, float, bool]:
        c, gain = judged
        better = c.failure_risk <= most and c.tried and c.p_better > LEAST_BETTER
        return better or c is kept, gain, c is kept

    candidates = tuple(c for c, _ in sorted(judged, key=rank, reverse=True))
    return Plan(
        run=plain(run.name),
        signal=table.signal,
        present=grid.present,
        candidates=candidates,
        shown=judging.shown,
        budget=judging.budget,
        risk=risk,
        rate_known="learning_rate" not in grid.present or grid.rate is not None,
        present_hacked=hacked if hacked > THRESHOLDS.probable else 0.0,
        cautions=(*_cautions(judging, candidates[0]), *grid.cautions),
        reference_runs=tried,
    )


@dataclass(frozen=True, eq=False)
class _Judging:
    """What every candidate is judged by.

    Attributes:
        base: The present run.
        exponents: Exponents of the settings.
        scale: Scale of the rewards.
        mean_rate: Mean of the learning rate over its highest, by which the schedule slows the run.
        most: Highest reward of a draw; the highest row of the run where the range has no known end. A regime's plateau
            can lie anywhere above the rows, and no row shows that the task allows it.
        shown: Highest expected reward that is named: there, the highest mean of a tenth of the rows. Of 46 public logs
            without a known end, seen to two thirds, 10 were expected above it, by .19 standard deviations of the rows
            too high on average.
        present: Present settings that a plan may move.
        known: All settings of the present run that P(fails) uses, by the names of `Change`.
        failed: Whether the present run failed.
        rate: Its learning rate on the scale that runs share; None without one.
        tried: Outcomes of reference runs at their settings.
        budget: Largest cost of the next run, in steps of the present one.
        seed: Seed.
    """

    base: Base
    exponents: Mapping[str, Exponents]
    scale: RewardScale
    mean_rate: float
    most: float
    shown: float
    present: Mapping[str, float]
    known: Mapping[str, float]
    failed: bool
    rate: float | None
    tried: ReferenceOutcomes
    budget: float
    seed: int

    def candidate(self, settings: dict[str, float]) -> tuple[Candidate, float]:
        """Settings with their cost, reward and risk; and what they gain on average, by the regimes."""
        failing = self.failing(settings)
        end = self.end(settings, failing)
        gain, beyond = end - self._kept, float(end.mean()) > self.shown
        one = reward_of_one_run(self.base, end, learned_exponents().run_sd, self.scale)
        none, expected_gain = Interval(math.nan, math.nan, math.nan, LEVEL), float(gain.mean())
        found = Candidate(
            settings=settings,
            steps=self.budget / self.step_cost(settings),
            expected=math.nan if beyond else float(end.mean()),
            next_run=none if beyond else interval(one),
            gain=none if beyond and settings != self.present else interval(gain),
            expected_gain=math.nan if beyond and settings != self.present else expected_gain,
            p_better=float(np.mean(gain > 0) + 0.5 * np.mean(gain == 0)),
            failure_risk=failing.p,
            fails=failing.interval,
            tried=failing.tried,
            evidence=failing.evidence,
        )
        return found, expected_gain

    def step_cost(self, settings: Mapping[str, float]) -> float:
        """Cost of an optimizer step, in steps of the present run: it follows the completions."""
        moved = (settings[n] / self.present[n] for n in ("group_size", "prompts_per_step") if n in settings)
        return math.prod(moved, start=1.0)

    def failing(self, settings: Mapping[str, float]) -> FailureRisk:
        """How probably settings fail."""
        return failure_risk(
            change(self.known, settings),
            rate=self.rate,
            worked_changes=self.tried.worked_changes,
            failed_changes=self.tried.failed_changes,
            failed=self.failed,
        )

    def end(self, settings: Mapping[str, float], failing: FailureRisk) -> np.ndarray:
        """Reward at the end of the budget, mean over seeds, shape (draws,): a run that fails ends where it began."""
        ratio = {name: math.log(value / self.present[name]) for name, value in settings.items()}
        exposure = self.mean_rate * self.budget / self.step_cost(settings)
        end, begin = (expected_reward(self.base, self.exponents, ratio, x, self.scale) for x in (exposure, 0.0))
        return np.minimum(np.where(self._fails(failing), begin, end), self.most)

    @cached_property
    def _kept(self) -> np.ndarray:
        """Reward at the end under the present settings."""
        return self.end(self.present, self.failing(self.present))

    @cached_property
    def _luck(self) -> tuple[np.ndarray, np.ndarray]:
        """Uniform numbers, (draws,), that decide, and which posterior draw and margin a draw has, (draws, 2)."""
        rng, size = np.random.default_rng(seed_of(self.seed, "risk")), len(self.base)
        return rng.permutation((np.arange(size) + 0.5) / size), rng.random((size, 2))

    def _fails(self, failing: FailureRisk) -> np.ndarray:
        """Which draws fail, shape (draws,)."""
        luck, places = self._luck
        row, column = (places * np.array(failing.draws.shape)).astype(int).T
        return luck < failing.draws[row, column]


def _cautions(judging: _Judging, best: Candidate) -> tuple[str, ...]:
    """What a reader should not believe."""
    out = ["one run cannot show the effect of settings, so all exponents are priors learned from public runs"]
    if math.isfinite(judging.shown):
        level = f"expected rewards are capped at {judging.shown:.3g}, the highest level of this run"
        out.insert(0 if math.isnan(best.expected) else 1, f"{level} (--set reward_high=…)")
    if judging.failed:
        out.append(
            "this run has probably failed: P(fails) is that of settings near a failed run, and its curve says little "
            "about stable settings"
        )
    else:
        out.append("P(fails) assumes that this run worked: it is the failed share among variants of such public runs")
    flat = float(np.mean(judging.base.rate == 0))
    if flat > _FLAT:
        out.append(f"{percent(flat)} chance that this log has no trend; then no setting changes the reward's rate")
    if any(max(v / judging.present[n], judging.present[n] / v) > _FAR for n, v in best.settings.items()):
        out.append("the best candidate lies far from the present settings, where exponents need not hold")
    return tuple(out)
