"""Hand labels of completions: their ids, the file that they come from, and which completions to label next.

The id of a completion is STEP.GROUP.SAMPLE: the third group of step 12 has the completions 12.3.1, 12.3.2, …, in the
order in which the trainer wrote them. Completions without a group are numbered within their step, as 12.0.1, ….
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import LogReadError, SettingError
from bayes_grpo.common.files import written_whole
from bayes_grpo.common.text import clean, listed
from bayes_grpo.rollouts.passes import Right, right_of
from bayes_grpo.rollouts.records import Rollouts

NEXT = 20
"""Completions that are proposed for labeling."""
_IDS = ("id", "completion_id", "completion")
_LABELS = ("right", "label", "correct", "is_right", "is_correct")
_YES = frozenset({"1", "1.0", "true", "right", "correct", "yes", "y"})
_NO = frozenset({"0", "0.0", "false", "wrong", "incorrect", "no", "n"})


class Labels(NamedTuple):
    """Hand labels of some completions.

    Attributes:
        place: Numbers of the labeled completions, shape (m,).
        right: Whether each is right, shape (m,), bool.
        notes: What a user should know, such as ids that match nothing.
        by: Who labels: "hand", or the name of a second scorer.
    """

    place: np.ndarray
    right: np.ndarray
    notes: tuple[str, ...] = ()
    by: str = "hand"


def ids_of(rollouts: Rollouts) -> np.ndarray:
    """Step, group within the step and sample within the group of each completion, shape (n, 3), from 1."""
    order = np.lexsort((np.arange(rollouts.size), rollouts.group, rollouts.step))
    step, group = rollouts.step[order], rollouts.group[order]
    first_of_step = np.r_[True, np.diff(step) != 0]
    begins = np.r_[True, (np.diff(step) != 0) | (np.diff(group) != 0)]
    starts = np.flatnonzero(begins)
    sample = np.arange(len(order)) - starts[np.cumsum(begins) - 1] + 1
    counted = np.cumsum(begins & (group >= 0))
    before = np.maximum.accumulate(np.where(first_of_step, counted - (begins & (group >= 0)), 0))
    found = np.empty((rollouts.size, 3), int)
    found[order] = np.stack([step, np.where(group >= 0, counted - before, 0), sample], axis=1)
    return found


def places_of(rollouts: Rollouts) -> dict[str, int]:
    """Id → number of each completion."""
    return {f"{a}.{b}.{c}": place for place, (a, b, c) in enumerate(ids_of(rollouts).tolist())}


def labels_of(rollouts: Rollouts, named: str, verdict: Right) -> Labels:
    """Labels of a file, or those of a second scorer, with what its agreement with a verdict says without any label.

    Where two scorers disagree one of them is wrong, so that one is wrong in at least half of these completions. An
    error that both make is not seen, and nothing bounds it from above.

    Raises:
        LogReadError: There is no such file, or it lacks the columns.
        SettingError: Labels that cannot be used, or a scorer that is the verifier itself.
    """
    if Path(named).exists() or named.partition(">=")[0].strip() not in (*rollouts.parts, "reward"):
        return read_labels(Path(named), rollouts)
    other = right_of(rollouts, named)
    place = np.flatnonzero(np.isfinite(other.right) & np.isfinite(verdict.right))
    if other.by == verdict.by or not len(place):
        raise SettingError(f"--labels: expected another scorer of the same completions than {verdict.by}, found none")
    share = float(np.mean(other.right[place] != verdict.right[place]))
    note = f"{verdict.by} and {other.by} disagree on {share:.1%} of {len(place)} completions: one of them is wrong in"
    return Labels(place, other.right[place] > 0.5, (f"{note} at least {share / 2.0:.1%}",), other.by)


def read_labels(path: Path, rollouts: Rollouts) -> Labels:
    """Labels of a CSV file with the columns id and right; rows without a label are left out.

    Raises:
        LogReadError: There is no such file, or it lacks the columns.
        SettingError: A label is neither right nor wrong, or no id matches a completion.
    """
    if not path.is_file():
        raise LogReadError(
            f"{path}: expected a CSV file with the columns id and right, found no file; --to-label {path} writes one"
        )
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = csv.DictReader(file)
        names = {str(x).strip().lower(): x for x in rows.fieldnames or ()}
        key = next((names[x] for x in _IDS if x in names), None)
        label = next((names[x] for x in _LABELS if x in names), None)
        if key is None or label is None:
            raise LogReadError(
                f"{path}: expected the columns id and right, found {listed([clean(x) for x in names], 10)}; "
                "an id is STEP.GROUP.SAMPLE"
            )
        given = [(str(row[key] or "").strip(), str(row[label] or "").strip().lower()) for row in rows]
    given = [(i, x) for i, x in given if x]
    if not given:
        raise SettingError(f"{path}: expected labels, found none yet; fill in the column right with 1 or 0")
    if wrong := next(((i, x) for i, x in given if x not in _YES | _NO), None):
        raise SettingError(f"{path}: expected right or wrong (1 or 0), found {clean(wrong[1])!r} for {clean(wrong[0])}")
    known = places_of(rollouts)
    found = {known[i]: x in _YES for i, x in given if i in known}
    lost = [i for i, _ in given if i not in known]
    if not found:
        raise SettingError(
            f"{path}: expected ids of completions of {rollouts.name}, such as {next(iter(known))}, found "
            f"{listed([clean(x) for x in lost], 3)}; --to-label writes a file with ids"
        )
    notes = [f"{len(lost)} labels match no completion: {listed([clean(x) for x in lost], 3)}"] if lost else []
    twice = len(given) - len(lost) - len(found)
    notes += [f"{twice} completions are labeled more than once; the last label counts"] if twice else []
    return Labels(np.array(list(found), int), np.array(list(found.values()), bool), tuple(notes))


def to_label(
    rollouts: Rollouts, accepted: np.ndarray, labels: Labels | None = None, many: int = NEXT, seed: int = 0
) -> tuple[str, ...]:
    """Ids of ``many`` completions whose labels say most about the true success rate, given the labels so far.

    ``accepted`` is the verdict of the verifier: 1, 0, or NaN where unknown, shape (n,). Labels go to accepted and to
    rejected completions so that the variance of w p + (1 − w) q falls most, w the accepted share, p and q the right
    shares of both. Within each they are a random sample, spread over steps and lengths.
    """
    done = np.zeros(rollouts.size, bool)
    counts = np.full((2, 2), 0.5)
    if labels is not None and labels.by == "hand":
        done[labels.place] = True
        known = np.isfinite(accepted[labels.place])
        np.add.at(counts, (accepted[labels.place][known].astype(int), labels.right[known].astype(int)), 1.0)
    share = np.array([np.mean(accepted == 0.0), np.mean(accepted == 1.0)])
    wanted = [0, 0]
    for _ in range(many):
        total = counts.sum(axis=1) + wanted
        p = counts[:, 1] / counts.sum(axis=1)
        gain = share**2 * p * (1.0 - p) * (1.0 / total - 1.0 / (total + 1.0))
        wanted[int(np.argmax(gain))] += 1
    rng, ids, out = np.random.default_rng(seed), ids_of(rollouts), []
    length = np.nan_to_num(rollouts.length)
    for verdict, size in enumerate(wanted):
        free = rng.permutation(np.flatnonzero((accepted == verdict) & ~done))
        place = np.searchsorted(np.quantile(rollouts.step, np.linspace(0.0, 1.0, 6)[1:-1]), rollouts.step[free])
        free = free[np.lexsort((length[free], place))]
        chosen = free[((np.arange(size) + rng.random()) * len(free) / max(size, 1)).astype(int)] if len(free) else free
        out += np.unique(chosen).tolist()
    return tuple(".".join(map(str, ids[i])) for i in rng.permutation(out).astype(int))


def write_labels(path: Path, ids: tuple[str, ...]) -> None:
    """Writes a CSV file to fill in: the columns id and right, the second one empty."""
    if path.exists():
        raise SettingError(f"--to-label: expected a new file, found {path}; name another, or append its rows by hand")
    with written_whole(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "right"])
        writer.writerows([i, ""] for i in ids)
