"""`decompose`: what a gain is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import interval
from bayes_grpo.common.text import listed, plain
from bayes_grpo.logs.reward_parts import adding_weights, is_form
from bayes_grpo.rollouts.decomposition import RISEN, Decomposition, GainCourse, GainShare
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.rollouts.shares import Factors, FactorSums, redrawn, shapley, widened

EARLY = 0.1
"""Share of the steps that are "before", and that are "after"."""
LEAST = 5
"""Steps that are at least, where there are enough."""
_DRAWS = 4000
_FORM = ("finished", "formatted")
_BINS = 24
_WORDS = {
    "finished": "finished answers",
    "formatted": "formatted answers",
    "quality": "the reward of formatted answers",
    "others": "the reward of all others",
}


class _Table(NamedTuple):
    """Completions to decompose, m of them; ``finished`` and ``formatted`` are 0 or 1, None where nothing tells.

    Weighted ``parts`` add up to the reward but for a constant, and are empty where a factor is known; ``cluster`` says
    what is resampled.
    """

    step: np.ndarray
    reward: np.ndarray
    finished: np.ndarray | None
    formatted: np.ndarray | None
    parts: dict[str, np.ndarray]
    cluster: np.ndarray


def decompose(rollouts: Rollouts, *, formatted: str | None = None, draws: int = _DRAWS, seed: int = 0) -> Decomposition:
    """Shares of a gain by finishing, format and correctness, and by parts of the reward.

    The first tenth of the steps is set against the last. Intervals are over prompts, resampled ``draws`` times.
    ``formatted`` names the part that says whether an answer is formatted; without it one is found by its name.

    Raises:
        FitError: Fewer than two steps.
        SettingError: There is no such part, or it is not 0 or 1.
    """
    table, clusters, notes = _of_rollouts(rollouts, formatted)
    steps = np.unique(table.step)
    if len(steps) < 2:
        raise FitError(f"expected at least 2 steps to tell a change, found {len(steps)} in {rollouts.name}; give more")
    many = min(max(LEAST, round(EARLY * len(steps))), len(steps) // 2)
    before = steps[many - 1]
    after = steps[-many]
    early = table.step <= before
    drawn, many_clusters = _resampled(table, (early, table.step >= after), draws, seed)
    first, last = (side.factors for side in drawn)
    gain = last.reward - first.reward
    p_gain = float(np.mean(gain > 0.0))
    moved = [
        _Moved(name, name, is_form(name), a, b, b - a)
        for name, a, b in zip(table.parts, *(side.parts for side in drawn), strict=True)
    ] or _factors_moved(table, first, last)
    of_form = [m.change for m in moved if m.is_form]
    p_form = np.nan
    if 0 < len(of_form) < len(moved):
        p_form = float(np.mean((p_gain >= RISEN) & (gain > 0.0) & (np.sum(of_form, axis=0) > 0.5 * gain)))
    return Decomposition(
        name=plain(rollouts.name, 80),
        first=(float(steps[0]), float(before)),
        last=(float(after), float(steps[-1])),
        clusters=f"{many_clusters} {clusters}",
        before=interval(first.reward),
        after=interval(last.reward),
        gain=interval(gain),
        p_gain=p_gain,
        p_form=p_form,
        shares=tuple(_share(m, gain if p_gain >= RISEN else np.full_like(gain, np.nan)) for m in moved),
        course=_course(table, early),
        notes=notes,
    )


class _Side(NamedTuple):
    """Draws of the factors and of the mean of each part, on the first or the last steps, shape (draws,) each."""

    factors: Factors
    parts: list[np.ndarray]


def _resampled(table: _Table, sides: tuple[np.ndarray, np.ndarray], draws: int, seed: int) -> tuple[list[_Side], int]:
    """Draws of both sides, which share the weights of clusters that are in both; and how many clusters there are."""
    numbers = np.unique(table.cluster[sides[0] | sides[1]])
    columns = []
    for kept in sides:
        place = np.searchsorted(numbers, table.cluster[kept])
        columns.append([*_sums(table, kept, place, len(numbers))])
        for values in table.parts.values():
            known = np.isfinite(values[kept])
            columns[-1].append(np.bincount(place[known], values[kept][known], len(numbers)))
            columns[-1].append(np.bincount(place[known], minlength=len(numbers)).astype(float))
    least = min(len(np.unique(table.cluster[kept])) for kept in sides)
    each = np.stack([x for side in columns for x in side], axis=1)
    sums, drawn = (np.split(x, 2, axis=-1) for x in (each.sum(axis=0), redrawn(each, draws, seed)))
    return [_side(a, b, least) for a, b in zip(sums, drawn, strict=True)], len(numbers)


def _side(sums: np.ndarray, drawn: np.ndarray, least: int) -> _Side:
    """A side by its sums, those of `FactorSums` before sum and count of each part, and by draws of them."""
    many = len(FactorSums._fields)
    centre, draws = (FactorSums(*x[..., :many].T).factors for x in (sums, drawn))
    f, t, *rewards = (widened(a, b, least) for a, b in zip(draws, centre, strict=True))
    factors = Factors(np.clip(f, 0.0, 1.0), np.clip(t, 0.0, 1.0), *rewards)
    means = drawn[:, many::2] / np.maximum(drawn[:, many + 1 :: 2], 1e-12)
    return _Side(factors, list(widened(means, sums[many::2] / np.maximum(sums[many + 1 :: 2], 1.0), least).T))


def _of_rollouts(source: Rollouts, formatted: str | None) -> tuple[_Table, str, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    cut = source.truncated
    finished = 1.0 - cut.astype(float) if np.all(cut >= 0) and np.ptp(cut) > 0 else None
    gate = _gate(source, formatted)
    weights = adding_weights(source.reward, source.parts) if finished is None and gate is None else {}
    parts = {name: w * source.parts[name].astype(float) for name, w in weights.items()} if len(weights) > 1 else {}
    if source.prompt.all():
        cluster, words = source.prompt, "prompts"
    elif np.all(source.group >= 0):
        cluster, words = source.group, "groups"
    else:
        cluster, words = source.step, "steps"
        notes = ("intervals are over steps, as prompts and groups are unknown",)
    step = source.step.astype(float)
    return _Table(step, source.reward, finished, gate, parts, cluster), words, notes


def _gate(source: Rollouts, wanted: str | None) -> np.ndarray | None:
    """1 where an answer is formatted, by the part wanted, or the one whose name says so and that moves most."""
    if wanted is not None and wanted not in source.parts:
        raise SettingError(
            f"expected a part ({listed(source.parts)}), found {plain(wanted, 40)!r}; correct it",
            parameter="formatted",
        )
    names = [wanted] if wanted is not None else [name for name in source.parts if is_form(name)]
    found: dict[str, np.ndarray] = {}
    for name in names:
        values = source.parts[name]
        levels = np.unique(values[np.isfinite(values)])
        if len(levels) == 2 and np.isfinite(values).all():
            found[name] = (values == levels[1]).astype(float)
        elif wanted is not None:
            raise SettingError(
                f"expected a part that is yes or no, found {len(levels)} values of {plain(wanted, 40)!r}",
                parameter="formatted",
            )
    if not found:
        return None
    half = source.size // 2
    return max(found.values(), key=lambda x: abs(x[half:].mean() - x[:half].mean()))


def _sums(table: _Table, kept: np.ndarray, cluster: np.ndarray, n: int) -> FactorSums:
    """Sums over some completions of each of n clusters."""
    reward = table.reward[kept]
    ones = np.ones(len(reward))
    finished = ones if table.finished is None else table.finished[kept]
    good = finished if table.formatted is None else finished * table.formatted[kept]
    paid = (reward * good, reward * (finished - good), reward * (1.0 - finished))
    return FactorSums(*(np.bincount(cluster, x, n) for x in (ones, finished, good, *paid)))


class _Moved(NamedTuple):
    """Draws of a factor or a part before and after, and of what it changed of the mean reward."""

    name: str
    words: str
    is_form: bool
    before: np.ndarray
    after: np.ndarray
    change: np.ndarray


def _share(moved: _Moved, gain: np.ndarray) -> GainShare:
    """The share of a gain, whose draws are NaN where it is not clear."""
    of_gain = moved.change / np.where(np.abs(gain) > 1e-12, gain, np.nan)
    found = map(interval, (moved.before, moved.after, moved.change, of_gain))
    return GainShare(moved.name, moved.words, moved.is_form, *found)


def _factors_moved(table: _Table, first: Factors, last: Factors) -> list[_Moved]:
    """Change by each factor; nothing where none is known."""
    if table.finished is None and table.formatted is None:
        return []
    changes = shapley(first, last)
    words = dict(_WORDS)
    if table.formatted is None:
        words["quality"] = "the reward of finished answers"
    shown = _observed_factors(table) + (["others"] if np.any(np.abs(changes["others"]) > 1e-9) else [])
    return [_Moved(x, words[x], x in _FORM, getattr(first, x), getattr(last, x), changes[x]) for x in shown]


def _observed_factors(table: _Table) -> list[str]:
    gates = {"finished": table.finished, "formatted": table.formatted}
    return [name for name, values in gates.items() if values is not None] + ["quality"]


def _course(table: _Table, early: np.ndarray) -> GainCourse:
    """Means over bins of about equally many steps, and what has changed since the first steps."""
    steps = np.unique(table.step)
    bins = np.array_split(steps, min(_BINS, len(steps)))
    number = np.repeat(np.arange(len(bins)), [len(b) for b in bins])[np.searchsorted(steps, table.step)]
    n = len(bins)
    sums = _sums(table, np.ones(len(table.step), bool), number, n)
    reward = np.bincount(number, table.reward, n) / np.bincount(number, minlength=n)
    values: dict[str, np.ndarray] = {}
    changes: dict[str, np.ndarray] = {}
    if table.finished is not None or table.formatted is not None:
        start = _sums(table, early, np.zeros(int(early.sum()), int), 1).factors
        course = sums.factors
        moved = shapley(start, course)
        for name in _observed_factors(table):
            values[name], changes[name] = getattr(course, name), moved[name]
        values["others"], changes["others"] = course.others, moved["others"]
    else:
        for name, part in table.parts.items():
            known = np.isfinite(part)
            mean = np.bincount(number[known], part[known], n) / np.maximum(np.bincount(number[known], minlength=n), 1)
            values[name] = mean
            changes[name] = mean - float(np.nanmean(part[early]))
    return GainCourse(np.array([b.mean() for b in bins]), reward, values, changes)
