"""`compare_runs`: is recipe B better than recipe A, when seeds of one recipe differ too?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.files import RUN_MARK
from bayes_grpo.common.intervals import LEVEL, better_of, interval
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.common.text import listed, plain
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.families.members import check_comparable, read_runs, settings_that_differ
from bayes_grpo.families.readings import RunReading, reading_of
from bayes_grpo.families.recipes import (
    FURTHER,
    Measure,
    RecipeAnswer,
    difference_of,
    differences,
    further_seeds,
    readings_of_recipes,
    seed_prior,
    shared_parts,
    why_not_comparable,
)
from bayes_grpo.logs.run import Run
from bayes_grpo.references.gather import RunSources
from bayes_grpo.rows.rows_of import MAX_ROWS_OF_SEVERAL, rows_of
from bayes_grpo.rows.series import RewardLevels, Series
from bayes_grpo.signals.path import fit_path

if TYPE_CHECKING:
    import pandas as pd

_MAX_PARTS = 4
"""Parts that the sentence names."""
_INTERVAL_DRAWS = 4000
"""Draws for intervals."""


@dataclass(frozen=True)
class ComparedRun(Result):
    """One run of recipe "A" or "B": rows of the compared reward, levels without their noise, and how it stands."""

    recipe: str
    name: str
    rows: int
    last_step: float
    levels: RewardLevels
    status: Status

    @classmethod
    def of(cls, recipe: str, run: Run, table: Series) -> ComparedRun:
        """A run with the rows that are compared; its path is the one that other commands show, where there is one."""
        found = diagnose(run)
        path = None
        if found.paths is not None:
            path = found.paths.reward if found.paths.reward_key == table.signal else found.paths.held_out
        path = path or fit_path(table.step, table.y)
        assert path is not None  # a recipe's readings need more rows than a path
        return cls(recipe, run.name, len(table.y), float(table.step[-1]), path.display_levels, found.status)


@dataclass(frozen=True, eq=False)
class Compared(Result):
    """Two recipes, a few seeds each.

    Attributes:
        signal: "reward" or "eval_reward".
        not_comparable: Why the totals are no comparison; "" where they are one.
        differs: What differs between the recipes besides: settings and length.
        answers: By the total: at a step, at equal completions, at the end, at the plateau.
        parts: By what both sides log besides: evaluation reward, gold reward, accuracy, parts of the reward.
        runs: First, last and best reward of every run, and how it stands; those of A first.
        readings: The runs of "A" and of "B".
        spread_from: Where the spread between seeds comes from.
        cautions: What not to believe, one sentence each.
    """

    signal: str
    not_comparable: str
    differs: tuple[str, ...]
    answers: tuple[RecipeAnswer, ...]
    parts: tuple[RecipeAnswer, ...]
    runs: tuple[ComparedRun, ...]
    readings: Mapping[str, Sequence[RunReading]]
    spread_from: str
    cautions: tuple[str, ...]

    interval_level = LEVEL
    also_in_json = ("sentence", "interval_level", "counts")
    not_in_json = ("readings",)

    @property
    def counts(self) -> dict[str, int]:
        """Runs of each recipe."""
        return {side.lower(): len(runs) for side, runs in self.readings.items()}

    def answer(self, at: str) -> RecipeAnswer:
        """One answer by its place, or by the name of a part; `KeyError` where there is none."""
        return {x.at: x for x in (*self.answers, *self.parts)}[at]

    @property
    def sentence(self) -> str:
        """The first answer in words; where the totals are no comparison, those of the parts."""
        return ": ".join(self.clauses)

    @property
    def clauses(self) -> tuple[str, str]:
        """The answer in words, and the numbers behind it as sentences."""
        level = f"({LEVEL:.0%} interval, mean over seeds)"
        if self.not_comparable:
            shared = "; ".join(f"{x.words}: {x.verdict}, {x.numbers}" for x in self.parts)
            by = (
                f"By signals that both log, over the last fifth of the rows: {shared} {level}."
                if shared
                else "They share no other signal."
            )
            return "The totals are not comparable", f"{self.not_comparable}. {by}"
        x = self.answers[0]
        if x.verdict != "cannot tell":
            return f"{x.verdict} {x.words}", f"{x.numbers} {level}.{self._by_parts}"
        if x.further is None:
            more = f"{FURTHER[-1]} further seeds of each would probably not settle it either"
        else:
            more = f"{x.further} further seed{'s' * (x.further > 1)} of each would settle it with 80% probability"
        return f"Cannot tell which is better {x.words}", f"{x.numbers} {level}; {more}.{self._by_parts}"

    @property
    def _by_parts(self) -> str:
        """The parts of the reward behind the total, each with its verdict, as a sentence; "" without any."""
        shown = "; ".join(f"{x.words}: {x.verdict}" for x in self.parts[:_MAX_PARTS])
        more = f"; and {len(self.parts) - _MAX_PARTS} more" if len(self.parts) > _MAX_PARTS else ""
        return f" By parts: {shown}{more}." if shown else ""

    def to_frame(self) -> pd.DataFrame:
        """One row an answer."""
        return frame_of((*self.answers, *self.parts), "at")


def compare_runs(
    a: RunSources,
    b: RunSources,
    *,
    step: float | None = None,
    signal: str = "auto",
    part: str | None = None,
    read: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Compared:
    """Compares two recipes by the runs of each; one seed of each is allowed.

    Args:
        a: Logs of recipe A: files, folders, patterns, ``FILE#RUN`` for one of several runs in a file, and runs; each
            log is a seed.
        b: Logs of recipe B.
        step: Optimizer step at which to compare; the last one that all runs have if None.
        signal: "auto", "reward" (train) or "eval" (evaluations), the same for all.
        part: Reward function or environment to take in place of the total.
        read: Keyword arguments of `bayes_grpo.read_log`, the same for all logs.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        First, last and best reward of every run and how it stands, what differs, whether the totals are a comparison,
        and probabilities that B is better: at the step, at equal completions where the logs state them, at the end of
        each run's own log where lengths differ, where both would settle, and by parts of the reward and evaluation
        rewards that both log.

    Raises:
        LogReadError: A log cannot be read.
        SettingError: A step that some run has not reached.
        FitError: Different signals, rewards or units, or a run with too few rows.
    """
    progress = or_silent(progress)
    progress("reading")
    both = [[(run, rows_of(run, signal, MAX_ROWS_OF_SEVERAL)) for run in read_runs(x, read, part)] for x in (a, b)]
    every = [*both[0], *both[1]]
    n = len(both[0])
    runs = [run for run, _ in every]
    _check_two(runs[:n], runs[n:])
    check_comparable(every)
    unit = float(np.std(np.concatenate([table.y for _, table in every])))
    readings, compared = [], []
    for i, (run, table) in enumerate(every):
        side, place = ("A", i) if i < n else ("B", i - n)
        progress(f"{side}, run {place + 1}")
        readings.append(reading_of(run, table, seed_of(seed, side, place)))
        compared.append(ComparedRun.of(side, run, table))
    first = max(r.table.step[0] for r in readings)
    last = min(r.last for r in readings)
    if step is not None and not (math.isfinite(step) and first <= step <= last):
        raise SettingError(f"expected one that all runs have, {first:g} to {last:g}, found {step:g}", parameter="step")
    at = last if step is None else float(step)
    where = [("step", f"at step {at:g}", [r.at(at) for r in readings])]
    cautions = []
    if max(n, len(runs) - n) == 1:
        cautions.append("one seed of each: the spread between seeds comes from the learned prior alone")
    completions = np.array([_completions(run) for run in runs])
    if np.isnan(completions).any():
        cautions.append("no comparison at equal compute: set group_size and prompts_per_step of every run")
    elif np.ptp(completions) > 0.0:
        budget = float(np.min(completions * [r.last for r in readings]))
        reached = [r.at(budget / c) for c, r in zip(completions, readings, strict=True)]
        where.append(("completions", f"at {budget:.3g} completions", reached))
    if len({r.last for r in readings}) > 1:
        where.append(("end", "at the end of each log", [r.at(r.last) for r in readings]))
    where.append(("plateau", "where they settle", [r.plateau for r in readings]))
    answers = [
        _answer(Measure(at, words, readings_of_recipes(x[:n]), readings_of_recipes(x[n:]), unit), seed)
        for at, words, x in where
    ]
    parts = [_answer(x, seed) for x in shared_parts(runs[:n], runs[n:], every[0][1].signal)]
    for side, some in (("A", runs[:n]), ("B", runs[n:])):
        if within := settings_that_differ(some):
            cautions.append(f"runs of {side} differ in {', '.join(within)}: their spread is not noise of seeds alone")
    return Compared(
        signal=every[0][1].signal,
        not_comparable=why_not_comparable(runs[:n], runs[n:], answers[0], parts),
        differs=differences(runs[:n], runs[n:]),
        answers=tuple(answers),
        parts=tuple(parts),
        runs=tuple(compared),
        readings={"A": tuple(readings[:n]), "B": tuple(readings[n:])},
        spread_from=("" if min(n, len(runs) - n) == 1 else "from the runs given and a ") + seed_prior().words,
        cautions=tuple(cautions),
    )


def _check_two(a: Sequence[Run], b: Sequence[Run]) -> None:
    """Raises `SettingError` where one run stands on both sides, with the names of those next to it in its file."""
    on_a = {(run.source, run.log_hash, run.name) for run in a}
    for run in b:
        if (run.source, run.log_hash, run.name) not in on_a:
            continue
        file = Path(run.source).name
        names = [plain(f"{file}{RUN_MARK}{x.name}", 80) for x in run.trainings if x.rewards]
        how = f"name two of its runs: {listed(names)}" if len(names) > 1 else "leave it out of one of them"
        raise SettingError(f"{plain(run.source, 200)}: expected other runs in B than in A, found it in both; {how}")


def _answer(x: Measure, seed: int) -> RecipeAnswer:
    prior = seed_prior()
    rng = np.random.default_rng(seed_of(seed, x.at))
    found = difference_of(x.a, x.b, x.unit, prior)
    draws = found.draws(_INTERVAL_DRAWS, rng)
    p = float(found.p_better)
    return RecipeAnswer(
        at=x.at,
        words=x.words,
        a=interval(draws["a"]),
        b=interval(draws["a"] + draws["difference"]),
        difference=interval(draws["difference"]),
        p_better=p,
        spread=interval(draws["spread"]),
        further=further_seeds(x.a, x.b, x.unit, prior, rng) if better_of(p) == "cannot tell" else None,
    )


def _completions(run: Run) -> float:
    """Completions of an optimizer step; NaN where the log does not have them."""
    size, prompts = run.settings.group_size.value, run.settings.prompts_per_step.value
    return math.nan if size is None or prompts is None else float(size) * float(prompts)
