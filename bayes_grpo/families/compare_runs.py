"""`compare_runs`: is recipe B better than recipe A, when seeds of one recipe differ too?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.families.compared import Compared, Counts, RecipeAnswer, RecipeCurve, SameOrder
from bayes_grpo.families.index import LONGEST, Index
from bayes_grpo.families.members import FamilyLogs, FamilyMember, check_alike, read_runs
from bayes_grpo.families.paired import paired
from bayes_grpo.families.pairs import could_pair
from bayes_grpo.families.readings import RunReading, reading_of
from bayes_grpo.families.recipes import SURE, SeedPrior, Side, difference_of, further_seeds, seed_prior, sides
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import rows_of

_SHOWN = 4000
"""Draws for intervals."""
UNPAIRED = (
    "A and B do not move together at the same steps: their data came in different orders; with the same data seed for "
    "both what the data alone do cancels in the difference (in public families of one order .3 to .8 of a row's noise)"
)


def compare_runs(
    a: FamilyLogs,
    b: FamilyLogs,
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
        Probabilities that B is better: at the step, at equal completions and tokens where the logs state them, at the
        end of each run's own log where lengths differ, and where both would settle.

    Raises:
        LogReadError: A log cannot be read.
        SettingError: A step that some run has not reached.
        FitError: Different signals, rewards or units, or a run that no law can be put on.
    """
    tell = teller(progress)
    tell("reading")
    runs = [
        [FamilyMember(r, rows_of(r, signal, LONGEST), {}, "") for r in read_runs(x, Index({}), read)] for x in (a, b)
    ]
    members = [*runs[0], *runs[1]]
    check_alike(members)
    readings: list[list[RunReading]] = []
    for side, some in zip("AB", runs, strict=True):
        found = []
        for i, m in enumerate(some):
            tell(f"{side}, run {i + 1} of {len(some)}")
            found.append(reading_of(m.run, m.table, seed_of(seed, side, i)))
        readings.append(found)
    tell("comparing")
    everyone, n = [*readings[0], *readings[1]], len(readings[0])
    same = paired([r.table for r in everyone], n)
    without = everyone
    if same is not None:
        tell("the same without what the data did")
        without = [
            reading_of(r.run, same.tables[i], seed_of(seed, "AB"[i >= n], i - n * (i >= n))) if i in same.runs else r
            for i, r in enumerate(everyone)
        ]
    first, last = max(r.table.step[0] for r in everyone), min(r.last for r in everyone)
    if step is not None and not (math.isfinite(step) and first <= step <= last):
        raise SettingError(f"step: expected one that all runs have, {first:g} to {last:g}, found {step:g}")
    prior = seed_prior()
    unit = float(np.std(np.concatenate([m.table.y for m in members])))
    asked = _Asked(unit, prior, seed, n, None if same is None else same.factor)

    def both(values: Callable[[RunReading], np.ndarray]) -> list[list[np.ndarray]]:
        """Readings of all runs as they are logged, and without what the data did."""
        return [[values(r) for r in some] for some in (everyone, without)]

    at = last if step is None else float(step)
    answers = [asked.answer("step", f"at step {at:g}", both(lambda r: r.at(at)))]
    cautions = [] if same is not None or not could_pair([r.table for r in everyone]) else [UNPAIRED]
    for name, words, spent in _compute(everyone):
        budget = min(float(s[-1]) for s in spent)
        places = [float(np.interp(budget, s, r.table.step)) for s, r in zip(spent, everyone, strict=True)]
        if len({round(p, 6) for p in places}) == 1 and places[0] == at:
            continue
        reached = [[r.at(p) for r, p in zip(some, places, strict=True)] for some in (everyone, without)]
        answers.append(asked.answer(name, f"at {budget:.3g} {words}", reached))
    if not any(x.at in ("completions", "tokens") for x in answers) and _completions(members[0].run) is None:
        cautions.append("equal compute: not known; it takes group_size and prompts_per_step of every run")
    if len({r.last for r in everyone}) > 1:
        answers.append(asked.answer("end", "at the end of each log", both(lambda r: r.at(r.last))))
    answers.append(asked.answer("plateau", "where they settle", both(lambda r: r.plateau)))
    given = min(len(side) for side in readings)
    where = prior.words if given == 1 else f"from the runs given and a {prior.words}"
    if given == 1 and max(len(side) for side in readings) == 1:
        cautions.append("one seed of each: how far seeds lie apart is the learned prior alone")
    return Compared(
        signal=members[0].table.signal,
        counts=Counts(*map(len, readings)),
        answers=tuple(answers),
        curves=tuple(_curve(name, r) for name, side in zip("AB", readings, strict=True) for r in side),
        spread_from=where,
        cautions=tuple(cautions),
        same_order=None
        if same is None
        else SameOrder(tuple(plain(everyone[i].run.name, 80) for i in same.runs), same.share),
    )


class _Asked(NamedTuple):
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
        """The answer at one place, from draws of every run's reading there, as logged and without what the data did.

        How well the recipes do is told by the rows as they are, how far they lie apart without what is in both.
        """
        logged, same = (sides(x) for x in values)
        error = same.error if self.factor is None else same.error * np.array(self.factor)
        n = self.first
        a, b = Side(same.mean[:n], error[:n]), Side(same.mean[n:], error[n:])
        found = difference_of(a, b, self.unit, self.prior)
        rng = np.random.default_rng(seed_of(self.seed, at))
        draws, p = found.draws(_SHOWN, rng), float(found.p_better)
        levels = draws
        if self.factor is not None:
            one, two = Side(logged.mean[:n], logged.error[:n]), Side(logged.mean[n:], logged.error[n:])
            levels = difference_of(one, two, self.unit, self.prior).draws(_SHOWN, rng)
        return RecipeAnswer(
            at=at,
            words=words,
            a=interval(levels["a"]),
            b=interval(levels["a"] + levels["difference"]),
            difference=interval(draws["difference"]),
            p_better=p,
            p_next=found.p_next,
            spread=interval(draws["spread"]),
            further=further_seeds(a, b, self.unit, self.prior, rng) if 1.0 - SURE < p < SURE else None,
        )


def _compute(readings: Sequence[RunReading]) -> list[tuple[str, str, list[np.ndarray]]]:
    """Compute that was spent until every row of every run, in each measure that all logs state."""
    each = [_completions(r.run) for r in readings]
    known = [c for c in each if c is not None]
    if len(known) < len(readings):
        return []
    out = [("completions", "completions", [c * r.table.step for c, r in zip(known, readings, strict=True)])]
    lengths = [_lengths(r) for r in readings]
    sizes = [x for x in lengths if x is not None]
    if len(sizes) == len(readings):
        spent = [
            c * np.cumsum(x * np.diff(r.table.step, prepend=r.table.start))
            for c, x, r in zip(known, sizes, readings, strict=True)
        ]
        out.append(("tokens", "tokens", spent))
    return out


def _completions(run: Run) -> float | None:
    """Completions of an optimizer step, where the log states them."""
    size, prompts = run.settings.group_size.value, run.settings.prompts_per_step.value
    return None if size is None or prompts is None else float(size) * float(prompts)


def _lengths(reading: RunReading) -> np.ndarray | None:
    """Mean tokens of a completion at every row, where they are logged."""
    logged = reading.run.signals.get("completion_length")
    known = None if logged is None else np.isfinite(logged) & (logged > 0)
    if logged is None or known is None or not known.any():
        return None
    return np.interp(reading.table.step, reading.run.step[known], logged[known])


def _curve(side: str, reading: RunReading) -> RecipeCurve:
    tail = (1.0 - LEVEL) / 2.0
    low, middle, high = np.quantile(reading.latent, [tail, 0.5, 1.0 - tail], axis=0)
    return RecipeCurve(side, plain(reading.run.name, 80), reading.table.step, reading.table.y, middle, low, high)
