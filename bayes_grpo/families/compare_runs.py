"""`compare_runs`: is recipe B better than recipe A, when seeds of one recipe differ too?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.families.compared import Compared, Counts, RecipeAnswer, RecipeCurve
from bayes_grpo.families.differing import differences, part_words, shared_parts, why_not_comparable
from bayes_grpo.families.members import check_alike, read_runs, settings_that_differ
from bayes_grpo.families.readings import RunReading, reading_of
from bayes_grpo.families.recipes import SURE, Side, difference_of, further_seeds, seed_prior, sides
from bayes_grpo.logs.run import Run
from bayes_grpo.references.gather import RunSources
from bayes_grpo.rows.rows_of import MAX_ROWS_OF_SEVERAL, rows_of

_SHOWN = 4000
"""Draws for intervals."""


def compare_runs(
    a: RunSources,
    b: RunSources,
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
    runs = [run for run, _ in every]
    readings = []
    for i, (run, table) in enumerate(every):
        side, place = ("A", i) if i < n else ("B", i - n)
        tell(f"{side}, run {place + 1}")
        readings.append(reading_of(run, table, seed_of(seed, side, place)))
    first, last = max(r.table.step[0] for r in readings), min(r.last for r in readings)
    if step is not None and not (math.isfinite(step) and first <= step <= last):
        raise SettingError(f"step: expected one that all runs have, {first:g} to {last:g}, found {step:g}")
    prior = seed_prior()
    unit = float(np.std(np.concatenate([table.y for _, table in every])))
    at = last if step is None else float(step)
    where = [("step", f"at step {at:g}", [r.at(at) for r in readings])]
    cautions = []
    completions = [_completions(run) for run in runs]
    if None not in completions and len(set(completions)) > 1:
        rate = [c for c in completions if c is not None]
        budget = min(c * r.last for c, r in zip(rate, readings, strict=True))
        reached = [r.at(budget / c) for c, r in zip(rate, readings, strict=True)]
        where.append(("completions", f"at {budget:.3g} completions", reached))
    elif None in completions:
        cautions.append("equal compute: not known; it takes group_size and prompts_per_step of every run")
    if len({r.last for r in readings}) > 1:
        where.append(("end", "at the end of each log", [r.at(r.last) for r in readings]))
    where.append(("plateau", "where they settle", [r.plateau for r in readings]))
    answers = [_answer(place, words, *_sides(sides(x), n), unit, seed) for place, words, x in where]
    parts = [
        _answer(x.name, part_words(x.name), x.a, x.b, x.unit, seed)
        for x in shared_parts(runs[:n], runs[n:], every[0][1].signal)
    ]
    fewest, most = sorted((n, len(runs) - n))
    if most == 1:
        cautions.append("one seed of each: the spread between seeds comes from the learned prior alone")
    for side, some in (("A", runs[:n]), ("B", runs[n:])):
        if within := settings_that_differ(some):
            cautions.append(f"runs of {side} differ in {', '.join(within)}: their spread is not noise of seeds alone")
    return Compared(
        signal=every[0][1].signal,
        counts=Counts(n, len(runs) - n),
        not_comparable=why_not_comparable(runs[:n], runs[n:], answers[0], parts),
        differs=differences(runs[:n], runs[n:]),
        answers=tuple(answers),
        parts=tuple(parts),
        curves=tuple(_curve("AB"[i >= n], r) for i, r in enumerate(readings)),
        spread_from=prior.words if fewest == 1 else f"from the runs given and a {prior.words}",
        cautions=tuple(cautions),
    )


def _sides(every: Side, n: int) -> tuple[Side, Side]:
    """The readings of A and B, those of A first."""
    return Side(every.mean[:n], every.error[:n]), Side(every.mean[n:], every.error[n:])


def _answer(at: str, words: str, a: Side, b: Side, unit: float, seed: int) -> RecipeAnswer:
    prior, rng = seed_prior(), np.random.default_rng(seed_of(seed, at))
    found = difference_of(a, b, unit, prior)
    draws, p = found.draws(_SHOWN, rng), float(found.p_better)
    return RecipeAnswer(
        at=at,
        words=words,
        a=interval(draws["a"]),
        b=interval(draws["a"] + draws["difference"]),
        difference=interval(draws["difference"]),
        p_better=p,
        spread=interval(draws["spread"]),
        further=further_seeds(a, b, unit, prior, rng) if 1.0 - SURE < p < SURE else None,
    )


def _completions(run: Run) -> float | None:
    """Completions of an optimizer step, where the log states them."""
    size, prompts = run.settings.group_size.value, run.settings.prompts_per_step.value
    return None if size is None or prompts is None else float(size) * float(prompts)


def _curve(side: str, reading: RunReading) -> RecipeCurve:
    tail = (1.0 - LEVEL) / 2.0
    low, middle, high = np.quantile(reading.latent, [tail, 0.5, 1.0 - tail], axis=0)
    return RecipeCurve(side, plain(reading.run.name, 80), reading.table.step, reading.table.y, middle, low, high)
