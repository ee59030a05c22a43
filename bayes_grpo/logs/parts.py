"""Several files: the parts of one run, such as train, evaluation and completions, or runs of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import clean, counted
from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.keyindex import KeyIndex, of_evaluation
from bayes_grpo.logs.mapping import Choices, map_columns
from bayes_grpo.logs.options import configured
from bayes_grpo.logs.table import COMPLETION_TEXTS, Table

_EVALUATION = re.compile(r"(?:^|[_.-])(?:eval|evals|evaluation|val|valid|validation|test|dev)(?:$|[_.-])", re.I)
_COMPLETIONS = re.compile(r"rollout|completion|sample|generation|trajector|trace", re.I)
_TRAIN = re.compile(r"train|metric|log|step|history|progress", re.I)
"""Kinds of rows by the name of a file."""
_LOGS = (".jsonl", ".csv")
_NEAR_START = 0.25
"""Part of the steps of a run in which another one begins that is no resume of it."""
_LEAST_SHARED = 2
_OF_ONE_RUN = ("group_size", "prompts_per_step", "learning_rate", "momentum")
"""Settings that the parts of one run have in common."""


def parts_in(folder: Path) -> tuple[Path, ...]:
    """The files of one run in a folder, that of training first; none where their names do not say so."""
    files = sorted(x for x in folder.iterdir() if x.is_file() and x.suffix.lower() in _LOGS)
    others = [x for x in files if _EVALUATION.search(x.stem) or _COMPLETIONS.search(x.stem)]
    train = [x for x in files if x not in others and _TRAIN.search(x.stem)]
    whole = len(train) == 1 and others and len(files) == 1 + len(others)
    return (train[0], *others) if whole else ()


def as_one_run(files: Sequence[tuple[Path, Parsed]], choices: Choices) -> list[Parsed]:
    """Several parsed files as one run: keys of evaluations marked, tables of single completions left out.

    Raises:
        LogReadError: Two of the files are runs of their own.
    """
    metrics = [(path, _marked(path, parsed)) for path, parsed in files if not _has_completions(parsed.table)]
    omitted = [clean(path.name) for path, parsed in files if _has_completions(parsed.table)]
    if not metrics:
        return [parsed for _, parsed in files]
    for one, other in combinations(metrics, 2):
        if (why := _difference(one[1], other[1], choices)) is not None:
            names = " ".join(clean(path, 200) for path, _ in files)
            raise LogReadError(
                f"expected the parts of one run, found {clean(one[0].name)} and {clean(other[0].name)}, which {why}; "
                f"compare them with `bayes-grpo compare-runs {names}`, or list them with `bayes-grpo batch {names}`"
            )
    notes = [
        f"{name} has one line a completion and is left out; read it with `bayes-grpo rollouts`" for name in omitted
    ]
    (_, first), *others = metrics
    return [first.noted(*notes), *(parsed for _, parsed in others)]


def _has_completions(table: Table) -> bool:
    return any(key.strip().lower() in COMPLETION_TEXTS and not table.has_numbers(key) for key in table.keys)


def _marked(path: Path, parsed: Parsed) -> Parsed:
    """The rows of a file that is named as an evaluation's, with "eval/" before the keys of what was measured."""
    if not _EVALUATION.search(path.stem):
        return parsed
    names = list(of_evaluation(dict.fromkeys(parsed.table.keys)))
    return replace(parsed, table=parsed.table.renamed(names))


def _difference(one: Parsed, other: Parsed, choices: Choices) -> str | None:
    """Why two files are no parts of one run; None where they may be.

    They are two where both have a train reward, other values at the same steps, and begin near each other, or where a
    setting differs. A run that was resumed in another file begins late in the first.
    """
    settings = [configured(x.config, "") | dict(x.settings) for x in (one, other)]
    for name in _OF_ONE_RUN:
        values = [x[name].value for x in settings if name in x and x[name].explicit is not None]
        if len({*values}) > 1:
            return f"have {name} {values[0]:g} and {values[1]:g}"
    rewards = [_rewards_of(x, choices) for x in (one, other)]
    if rewards[0] is None or rewards[1] is None:
        return None
    (steps, values), (others, theirs) = sorted((x for x in rewards if x is not None), key=lambda x: x[0][0])
    if others[0] > steps[0] + _NEAR_START * np.ptp(steps):
        return None
    shared, a, b = np.intersect1d(steps, others, return_indices=True)
    differ = int(np.sum(~np.isclose(values[a], theirs[b], rtol=1e-3, atol=1e-6)))
    if len(shared) < _LEAST_SHARED or differ <= len(shared) // 2:
        return None
    return f"have other rewards at {counted(differ, 'step')} of {len(shared)} that both have"


def _rewards_of(parsed: Parsed, choices: Choices) -> tuple[np.ndarray, np.ndarray] | None:
    """Steps and train rewards of a file, the last of each step; None where it has no step or no train reward."""
    known = {name: key for name, key in choices.items() if key in KeyIndex(parsed.table).keys}
    try:
        columns = map_columns(parsed.table, known, parsed.trainer)
    except LogReadError:
        return None
    reward = columns.train["reward"]
    step = columns.step
    if step is None or not (rows := np.isfinite(reward) & np.isfinite(step)).any():
        return None
    steps, last = np.unique(step[rows][::-1], return_index=True)
    return steps, reward[rows][::-1][last]
