"""Tasks with a verifiable answer, written in tokens: what is asked, what is right, and a disjoint held-out part.

A task has all its prompts in one table, shuffled once by its own seed and cut into training and held-out prompts, so
that no held-out prompt is ever trained on. A new task is a function that makes such a table, entered in `TASKS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

PAD, END = 0, 1
_FIRST = 2
"""First token that means something; a digit d is ``_FIRST + d``."""


@dataclass(frozen=True, eq=False)
class Task:
    """Prompts and answers.

    Attributes:
        name: Which task.
        vocabulary: Number of tokens, `PAD` and `END` among them.
        train: Prompts that are trained on, shape (n, P).
        train_answer: Their answers, ended by `END` and padded, shape (n, A).
        held_out: Prompts that are not, shape (h, P).
        held_out_answer: Their answers, shape (h, A).
    """

    name: str
    vocabulary: int
    train: np.ndarray
    train_answer: np.ndarray
    held_out: np.ndarray
    held_out_answer: np.ndarray


def modular_sum(size: int = 10, seed: int = 0) -> tuple[int, np.ndarray, np.ndarray]:
    """``a + b =`` modulo ``size``, a token a number; the answer is one token."""
    a, b = (x.ravel() for x in np.meshgrid(np.arange(size), np.arange(size), indexing="ij"))
    plus, equals = _FIRST + size, _FIRST + size + 1
    prompts = np.stack([_FIRST + a, np.full_like(a, plus), _FIRST + b, np.full_like(a, equals)], axis=1)
    return _FIRST + size + 2, prompts, _FIRST + ((a + b) % size)[:, None]


def sorting(length: int = 4, symbols: int = 6, seed: int = 0) -> tuple[int, np.ndarray, np.ndarray]:
    """Symbols in the order of their numbers: ``3 1 2 1 >`` is answered ``1 1 2 3``."""
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.integers(0, symbols, (600, length)), axis=0)
    arrow = np.full((len(drawn), 1), _FIRST + symbols)
    return _FIRST + symbols + 1, np.hstack([_FIRST + drawn, arrow]), _FIRST + np.sort(drawn, axis=1)


def brackets(length: int = 6, seed: int = 0) -> tuple[int, np.ndarray, np.ndarray]:
    """Round and square brackets that are open are to be closed: ``( [ ( ) [`` is answered ``] ] )``."""
    rng = np.random.default_rng(seed)
    opening, closing = (_FIRST, _FIRST + 1), (_FIRST + 2, _FIRST + 3)
    found: dict[tuple[int, ...], list[int]] = {}
    for _ in range(4000):
        if len(found) == 400:
            break
        text, open_ = [], []
        for left in range(length, 0, -1):
            # A bracket is closed only where enough places are left for the answer to have something to close.
            if open_ and rng.random() < 0.35 and len(open_) + left > 2:
                text.append(closing[open_.pop()])
            else:
                open_.append(int(rng.integers(2)))
                text.append(opening[open_[-1]])
        if open_:
            found[tuple(text)] = [closing[x] for x in reversed(open_)]
    prompts = np.array([[*text, _FIRST + 4] for text in found])
    answers = np.full((len(found), length), PAD)
    for row, answer in zip(answers, found.values(), strict=True):
        row[: len(answer)] = answer
    return _FIRST + 5, prompts, answers


TASKS: dict[str, Callable[..., tuple[int, np.ndarray, np.ndarray]]] = {
    "modular_sum": modular_sum,
    "sorting": sorting,
    "brackets": brackets,
}


def make_task(name: str, *, held_out: float = 0.25, seed: int = 0, **options: int) -> Task:
    """A task with its prompts cut into two.

    Args:
        name: One of `TASKS`.
        held_out: Share of the prompts that are never trained on.
        seed: Seed of the prompts and of the cut.
        options: The task's own sizes.

    Returns:
        The task.
    """
    vocabulary, prompts, answers = TASKS[name](seed=seed, **options)
    ended = np.hstack([answers, np.full((len(answers), 1), PAD)])
    ended[np.arange(len(answers)), (answers != PAD).sum(axis=1)] = END
    order = np.random.default_rng(seed).permutation(len(prompts))
    cut = round(held_out * len(prompts))
    rest, kept = order[cut:], order[:cut]
    return Task(name, vocabulary, prompts[rest], ended[rest], prompts[kept], ended[kept])
