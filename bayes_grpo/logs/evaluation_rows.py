"""An evaluation whose keys say not that they are one: a block of them in seldom rows of a training.

Scripts that write ``{"step": 5, "mean_reward": 0.8, "accuracy": 0.6, "correct": 90, "total": 150}`` in every fifth row
name the results of an evaluation as they would those of a batch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

import numpy as np

from bayes_grpo.logs.keyindex import KeyIndex, normal
from bayes_grpo.logs.lines import is_total_reward

_FEWEST_KEYS, _MOST_KEYS = 3, 60
_FEWEST_ROWS = 3
"""Rows from which on a constant interval says something; two always have one."""
_SHARE = 0.5
"""Share of the rows of the training up to which a block is seldom."""
_COUNT = re.compile(r"(?:n|num|total|count)(?:_\w{1,40})?|\w{1,40}_(?:n|total|count|correct)|correct|solved|passed")
_SCORE = re.compile(r"(?:\w{1,40}_)?(?:accuracy|acc|(?:correct|success|solve|pass|win)_rate|exact_match)")
_EXACT, _ROUNDED = 1e-9, 1e-3
"""Distances from a ratio of counts up to which a number is the ratio, and is it after rounding."""


def evaluation_block(index: KeyIndex, step: np.ndarray | None) -> tuple[str, list[str]] | None:
    """The key of the score of an evaluation in the rows of a training, and all of its keys; None where none are.

    These are keys in the same seldom rows at a constant interval, one of which counts what was evaluated. The score is
    a ratio of two of the counts, else the only accuracy.
    """
    if step is None:
        return None
    rows = {key: np.isfinite(index.table.column(key)) & np.isfinite(step) for key in index.keys}
    trained = sum((rows[key] for key in index.keys if is_total_reward(normal(key))), np.zeros(len(step), bool))
    blocks: dict[bytes, list[str]] = {}
    for key, known in rows.items():
        if 1 < known.sum() <= _SHARE * trained.sum():
            blocks.setdefault(known.tobytes(), []).append(key)
    for keys in blocks.values():
        known = rows[keys[0]]
        interval = np.diff(step[known])
        if not _FEWEST_KEYS <= len(keys) <= _MOST_KEYS or np.ptp(interval) > 0 or interval[0] <= 0:
            continue
        if (score := _score(index, keys, known)) is not None:
            return score, keys
    return None


def _score(index: KeyIndex, keys: Sequence[str], rows: np.ndarray) -> str | None:
    """The score among keys whose ``rows``, shape (n,), hold a number; None where it is not clear."""
    values = {key: index.table.column(key)[rows] for key in keys}
    counts = {k: x for k, x in values.items() if _COUNT.fullmatch(normal(k)) and not np.any(x % 1.0) and x.min() >= 0.0}
    totals = [key for key, x in counts.items() if x.min() > 1.0 and np.ptp(x) == 0.0]
    ratios = [counts[a] / counts[b] for a, b in permutations(counts, 2) if b in totals]
    ratios = [x for x in ratios if x.max() > 0.0 and x.min() < 1.0 and x.max() <= 1.0]
    for close in (_EXACT, _ROUNDED):
        found = [k for k, x in values.items() if any(np.all(np.abs(x - ratio) <= close) for ratio in ratios)]
        if found:
            return found[0]
    scores = [key for key in keys if _SCORE.fullmatch(normal(key))]
    return scores[0] if len(scores) == 1 and totals and rows.sum() >= _FEWEST_ROWS else None
