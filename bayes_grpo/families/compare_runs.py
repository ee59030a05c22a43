"""`compare_runs`: is recipe B better than recipe A, when seeds of one recipe differ too?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.families.compared import Compared, Counts, RecipeAnswer, RecipeCurve, SameOrder
from bayes_grpo.families.differing import differences, part_words, shared_parts, why_not_comparable
from bayes_grpo.families.members import check_alike, read_runs, settings_that_differ
from bayes_grpo.families.paired import paired
from bayes_grpo.families.readings import RunReading, reading_of
from bayes_grpo.families.recipes import SURE, SeedPrior, Side, difference_of, further_seeds, seed_prior, sides
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import MAX_ROWS_OF_SEVERAL, rows_of
from bayes_grpo.siblings.gather import Like

_SHOWN = 4000
"""Draws for intervals."""
_SEEN = 20
"""Common rows from which a shared order of data would be seen."""


def compare_runs(
    a: Like,
    b: Like,
    *,
    step: float | None = None,
    signal: str = "auto",
    read: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Compared:
    """Compares two recipes by the runs of each; one seed of each is allowed.

    Args:
        a: Logs of recipe A: files, folders, patterns and runs; each log is a seed.
        b: Logs of recipe B.
        step: Optimizer step at which to compare; the last one that all runs have if None.
        signal: "auto", "reward" (train) or "eval" (held-out), the same for all.
        read: Keyword arguments of `bayes_grpo.read_log`, the same for all logs.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        What differs, whether the totals are a comparison, and probabilities that B is better: at the step, at equal
        completions where the logs state them, at the end of each run's own log where lengths differ, where both would
        settle, and by parts of the reward and held-out scores that both log.

    Raises:
        LogReadError: A log cannot be read.
        SettingError: A step that some run has not reached.
        FitError: Different signals, rewards or units, or a run with too few rows.
    """
    tell = teller(progress)
    tell("reading")
    both = [[(run, rows_of(run, signal, MAX_ROWS_OF_SEVERAL)) for run in read_runs(x, read)] for x in (a, b)]
    every, n = [*both[0], *both[1]], len(both[0])
    check_alike(every)
    runs, tables = [run for run, _ in every], [table for _, table in every]

    def read_all(tables: Sequence[Any], places: Sequence[int]) -> dict[int, RunReading]:
        out = {}
        for i in places:
            tell(f"{'AB'[i >= n]}, run {i % n + 1 if i < n else i - n + 1}")
            out[i] = reading_of(runs[i], tables[i], seed_of(seed, "AB"[i >= n], i - n * (i >= n)))
        return out

    known = read_all(tables, range(len(runs)))
    everyone = [known[i] for i in range(len(runs))]
    same = paired(tables, n)
    without = everyone
    if same is not None:
        tell("the same without the effects of the data")
        again = read_all(same.tables, same.runs)
        without = [again.get(i, r) for i, r in enumerate(everyone)]
    first, last = max(r.table.step[0] for r in everyone), min(r.last for r in everyone)
    if step is not None and not (math.isfinite(step) and first <= step <= last):
        raise SettingError(f"step: expected one that all runs have, {first:g} to {last:g}, found {step:g}")
    prior = seed_prior()
    unit = float(np.std(np.concatenate([t.y for t in tables])))
    comparison = _Comparison(unit, prior, seed, n, None if same is None else same.factor)

    def each(values: Callable[[RunReading], np.ndarray]) -> list[list[np.ndarray]]:
        """Readings of all runs as they are logged, and without the effects of the data."""
        return [[values(r) for r in some] for some in (everyone, without)]

    at = last if step is None else float(step)
    answers = [comparison.answer("step", f"at step {at:g}", each(lambda r: r.at(at)))]
    cautions = []
    completions = [_completions(run) for run in runs]
    if None not in completions and len(set(completions)) > 1:
        rate = [c for c in completions if c is not None]
        budget = min(c * r.last for c, r in zip(rate, everyone, strict=True))
        reached = [[r.at(budget / c) for c, r in zip(rate, some, strict=True)] for some in (everyone, without)]
        answers.append(comparison.answer("completions", f"at {budget:.3g} completions", reached))
    elif None in completions:
        cautions.append("equal compute: not known; it takes group_size and prompts_per_step of every run")
    if len({r.last for r in everyone}) > 1:
        answers.append(comparison.answer("end", "at the end of each log", each(lambda r: r.at(r.last))))
    answers.append(comparison.answer("plateau", "where they settle", each(lambda r: r.plateau)))
    parts = [
        comparison._replace(unit=x.unit, factor=None).by_sides(x.name, part_words(x.name), x.a, x.b)
        for x in shared_parts(runs[:n], runs[n:], tables[0].signal)
    ]
    fewest, most = sorted((n, len(runs) - n))
    if most == 1:
        cautions.append("one seed of each: the spread between seeds comes from the learned prior alone")
    for side, some in (("A", runs[:n]), ("B", runs[n:])):
        if within := settings_that_differ(some):
            cautions.append(f"runs of {side} differ in {', '.join(within)}: their spread is not noise of seeds alone")
    common = reduce(np.intersect1d, [t.step for t in tables])
    order = True if same is not None else False if len(common) >= _SEEN else None
    return Compared(
        signal=tables[0].signal,
        counts=Counts(n, len(runs) - n),
        not_comparable=why_not_comparable(runs[:n], runs[n:], answers[0], parts),
        differs=differences(runs[:n], runs[n:], order),
        answers=tuple(answers),
        parts=tuple(parts),
        curves=tuple(_curve("AB"[i >= n], r) for i, r in enumerate(everyone)),
        spread_from=prior.words if fewest == 1 else f"from the runs given and a {prior.words}",
        cautions=tuple(cautions),
        same_order=None if same is None else SameOrder(tuple(plain(runs[i].name, 80) for i in same.runs), same.share),
    )


class _Comparison(NamedTuple):
    """What every answer needs.

    Attributes:
        unit: Standard deviation of all rows.
        prior: What is known of seeds.
        seed: Seed.
        first: Number of the runs of A.
        factor: Of every run, what its error without the data's effects is multiplied by; None where none is shared.
    """

    unit: float
    prior: SeedPrior
    seed: int
    first: int
    factor: tuple[float, ...] | None

    def answer(self, at: str, words: str, values: Sequence[Sequence[np.ndarray]]) -> RecipeAnswer:
        """The answer at one place, from draws of every run's reading there, as logged and without the data's effects.

        The logged rows give the level of each recipe; the rows without the data's shared effects give the difference.
        """
        logged, same = (sides(x) for x in values)
        error = same.error if self.factor is None else same.error * np.array(self.factor)
        n = self.first
        one, two = Side(same.mean[:n], error[:n]), Side(same.mean[n:], error[n:])
        levels = None
        if self.factor is not None:
            levels = Side(logged.mean[:n], logged.error[:n]), Side(logged.mean[n:], logged.error[n:])
        return self.by_sides(at, words, one, two, levels)

    def by_sides(self, at: str, words: str, a: Side, b: Side, levels: tuple[Side, Side] | None = None) -> RecipeAnswer:
        """The answer from each run's reading and its error; ``levels``: other readings for the levels of A and B."""
        found = difference_of(a, b, self.unit, self.prior)
        rng = np.random.default_rng(seed_of(self.seed, at))
        draws, p = found.draws(_SHOWN, rng), float(found.p_better)
        shown = draws if levels is None else difference_of(*levels, self.unit, self.prior).draws(_SHOWN, rng)
        return RecipeAnswer(
            at=at,
            words=words,
            a=interval(shown["a"]),
            b=interval(shown["a"] + shown["difference"]),
            difference=interval(draws["difference"]),
            p_better=p,
            p_next=found.p_next,
            spread=interval(draws["spread"]),
            further=further_seeds(a, b, self.unit, self.prior, rng) if 1.0 - SURE < p < SURE else None,
        )


def _completions(run: Run) -> float | None:
    """Completions of an optimizer step, where the log states them."""
    size, prompts = run.settings.group_size.value, run.settings.prompts_per_step.value
    return None if size is None or prompts is None else float(size) * float(prompts)


def _curve(side: str, reading: RunReading) -> RecipeCurve:
    tail = (1.0 - LEVEL) / 2.0
    low, middle, high = np.quantile(reading.latent, [tail, 0.5, 1.0 - tail], axis=0)
    return RecipeCurve(side, plain(reading.run.name, 80), reading.table.step, reading.table.y, middle, low, high)
