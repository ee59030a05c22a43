"""Right completions of each prompt: the unbiased estimate of pass@k, and the counts that a model of it needs.

pass@k of a prompt = 1 − C(n − c, k) / C(n, k),     n: completions, c: right ones (Chen et al. 2021, arXiv 2107.03374)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from bayes_grpo.common.errors import MENDING, Argument, FitError, SettingError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.logs.reward_parts import is_task
from bayes_grpo.rollouts.records import Rollouts


class CorrectAnswers(NamedTuple):
    """Which completions are right: 1, 0, or NaN where unknown, shape (n,); and what says so, in words."""

    right: np.ndarray
    by: str


def right_of(rollouts: Rollouts, name: str | None = None) -> CorrectAnswers:
    """Which completions are right: by a part of 0 and 1 or a threshold, else by a reward of two values.

    ``name`` is a part of 0 and 1, or "NAME>=X" with the reward or any part; by default the reward, or the first part of
    0 and 1 that is named after the task.

    Raises:
        SettingError: There is no such part, or it has other values.
        FitError: Nothing says which completions are right.
    """
    if name is not None:
        return _named(rollouts, name)
    values = np.unique(rollouts.reward)
    if len(values) == 2 or (len(values) == 1 and values[0] in (0.0, 1.0)):
        middle = float(values.mean()) if len(values) == 2 else 0.5
        return CorrectAnswers((rollouts.reward > middle).astype(float), "the reward")
    found = next((part for part, x in rollouts.parts.items() if is_task(part) and _binary(x)), None)
    if found is None:
        raise FitError(
            f"pass@k: expected a reward of two values or a part of 0 and 1 for right answers, found neither in "
            f"{rollouts.name}; name one as in {MENDING}",
            mended_by=Argument("right", "reward>=1"),
        )
    return CorrectAnswers(np.asarray(rollouts.parts[found], float), found)


def _named(rollouts: Rollouts, text: str) -> CorrectAnswers:
    """By a part of 0 and 1, or by a threshold of the reward or a part."""
    name, least, number = (x.strip() for x in text.partition(">="))
    known = {"reward": rollouts.reward} | dict(rollouts.parts)
    if name not in known:
        raise SettingError(
            f"expected one of {listed(list(known), 20)}, found {clean(name)!r}; correct it", parameter="right"
        )
    values = np.asarray(known[name], float)
    if not least:
        if not _binary(values):
            raise SettingError(
                f"expected values of 0 and 1, found others in {clean(name)!r}; add a threshold, such as "
                f"{clean(name)}>=0.5",
                parameter="right",
            )
        return CorrectAnswers(values, clean(name))
    try:
        threshold = float(number)
    except ValueError:
        raise SettingError(f"expected NAME>=NUMBER, found {clean(text)!r}; correct it", parameter="right") from None
    return CorrectAnswers(np.where(np.isfinite(values), values >= threshold, np.nan), clean(text))


def _binary(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).any() and np.all(np.isin(values[np.isfinite(values)], (0.0, 1.0))))


def pass_at(n: np.ndarray, c: np.ndarray, k: int | np.ndarray) -> np.ndarray:
    """Unbiased pass@k of prompts with n completions, at least k, of which c are right; arrays of one shape."""
    wrong = np.asarray(n, float) - c
    fits = wrong >= k
    m = np.where(fits, wrong, k)
    log = gammaln(m + 1) - gammaln(m - k + 1) - gammaln(np.asarray(n) + 1.0) + gammaln(np.asarray(n) - k + 1.0)
    return np.where(fits, 1.0 - np.exp(log), 1.0)


class PassCounts(NamedTuple):
    """Groups of a run, shape (g,) each: step, completions n, right ones c, distinct texts among these, prompt.

    ``distinct`` is NaN where texts are not saved, ``prompt`` the number of the group itself where prompts are unknown;
    ``k`` is the usual size of a group.
    """

    step: np.ndarray
    n: np.ndarray
    c: np.ndarray
    distinct: np.ndarray
    prompt: np.ndarray
    k: int


def pass_counts(rollouts: Rollouts, right: CorrectAnswers) -> PassCounts:
    """Counts of each group of at least two.

    Raises:
        FitError: No groups, or groups of one.
    """
    size = rollouts.group_size
    if size is None or size < 2:
        found = "groups of one" if size == 1 else "no groups"
        raise FitError(
            f"pass@k: expected groups of at least 2 completions of a prompt, found {found} in {rollouts.name}; sample "
            f"several completions a prompt, or name its column with {MENDING}",
            mended_by=Argument("columns", "NAME", "prompt"),
        )
    kept = (rollouts.group >= 0) & np.isfinite(right.right)
    group = rollouts.group[kept]
    good = right.right[kept] > 0.5
    numbers, place = np.unique(group, return_inverse=True)
    n = np.bincount(place)
    c = np.bincount(place, good).astype(int)
    first = np.unique(place, return_index=True)[1]
    step, prompt = rollouts.step[kept][first], rollouts.prompt[kept][first]
    answer = rollouts.answer[kept]
    distinct = np.full(len(n), np.nan)
    if np.all(answer[good] != 0):
        pairs = np.unique(np.stack([place[good].astype(np.uint64), answer[good]], axis=1), axis=0)
        distinct = np.bincount(pairs[:, 0].astype(int), minlength=len(n)).astype(float)
    known = prompt if np.all(prompt != 0) else numbers.astype(np.uint64)
    whole = n > 1
    if not whole.any():
        raise FitError(f"pass@k: expected groups with known right answers, found none in {rollouts.name}")
    owner = np.unique(known[whole], return_inverse=True)[1]
    return PassCounts(step[whole], n[whole], c[whole], distinct[whole], owner, size)
