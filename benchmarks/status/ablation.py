"""What every threshold of the diagnosis changes on labeled public logs when it is left out.

    python -m benchmarks.status.ablation FOLDER ... [--only NAME ...] [--keep]

A threshold is left out by a value at which its condition asks for nothing. Every log is looked at after 5, 9,
15 and 30 rows and at its end. Nothing is fitted anew: the paths of a log are the same whatever is asked of them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.diagnosis.causes import status_of
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.mode import timeline_of
from bayes_grpo.diagnosis.plausibility import of_groups
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.logs.reading import read_log
from bayes_grpo.signals.thresholds import THRESHOLDS, Thresholds
from benchmarks.common import RESULTS, keep, say, side_by_side
from benchmarks.index import rows_in
from benchmarks.status.status import LABELS

NONE = "none"
BEGINNINGS = (5, 9, 15, 30)
OFF: Mapping[str, float] = {
    **dict.fromkeys((b.name for b in fields(Thresholds)), 0.0),
    "shared": 1e9, "spent": 1e9, "rests": 1e9, "dead_groups": 2.0, "near_top": 2.0, "solved": 2.0,
    "sure": 0.5, "probable": 0.4, "suspect": 0.5, "waste_rows": 0,
    "plateau_rows": 0, "direct_rows": 0, "half": 0.25, "rate_spent": -1.0,
}  # fmt: skip
"""Threshold → value at which its condition asks for nothing; halved or doubled where there is no such value."""


class Found(NamedTuple):
    """A log at its looks under every ablation: name → (alarm, word, label named) per look."""

    failed: bool
    rows: int
    looks: Mapping[str, Mapping[int, tuple[bool, str, bool]]]


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """The table without one threshold."""
    if name == NONE:
        yield
        return
    before = getattr(THRESHOLDS, name)
    object.__setattr__(THRESHOLDS, name, OFF[name])
    try:
        yield
    finally:
        object.__setattr__(THRESHOLDS, name, before)


def looked(view: RunView, label: str) -> tuple[bool, str, bool]:
    """Alarm, finding and whether the label is named, of a view whose paths are fitted."""
    fresh = replace(view)
    fresh.__dict__["idle"] = view.idle
    timeline = timeline_of(fresh)
    status = status_of(Facts(fresh, timeline))
    named = timeline.now.probability.get(label, 0.0) >= 0.5 or status.finding.mode == label
    return status.alarming, f"{status.status} {status.finding.kind} {status.action.kind}", status.alarming and named


def ablated(row: Mapping[str, str], names: tuple[str, ...]) -> Found | None:
    """One log under every ablation."""
    warnings.simplefilter("ignore")
    try:
        run = of_groups(read_log(row["path"]))
    except BayesGrpoError:
        return None
    step, _ = run.rewards
    n = len(step)
    looks: dict[str, dict[int, tuple[bool, str, bool]]] = {name: {} for name in names}
    for cut in sorted({n, *(c for c in BEGINNINGS if n >= c + 5)}):
        view = RunView.of(run if cut == n else run.until(float(step[cut - 1])))
        if view is None:
            continue
        for name in names:
            with left_out(name):
                looks[name][cut] = looked(view, row["outcome_label"])
    say(row["run_id"])
    return Found(row["outcome_label"] in MODES, n, looks)


def summary(found: Iterable[Found], name: str) -> dict[str, Any]:
    """Numbers of one ablation, and how many of all looks have another status, finding or action."""
    logs = list(found)
    good = [x for x in logs if not x.failed]
    bad = [x for x in logs if x.failed]
    cuts = [x.looks[name][c][0] for x in good for c in BEGINNINGS if c in x.looks[name] and x.rows >= c + 5]
    changed = [x.looks[name][c][1] != x.looks[NONE][c][1] for x in logs for c in x.looks[name]]
    return {
        "beginnings": sum(cuts),
        "ends": sum(x.looks[name][x.rows][0] for x in good),
        "named": sum(x.looks[name][x.rows][2] for x in bad),
        "looks changed": round(float(np.mean(changed)), 4),
    }


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these thresholds; others keep their stored numbers")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    every_name = (NONE, *(b.name for b in fields(Thresholds)))
    names = every_name if options.only is None else (NONE, *options.only)
    rows = rows_in(options.folders, LABELS)
    every = [x for x in side_by_side(partial(ablated, names=names), rows) if x is not None]
    result = {name: summary(every, name) for name in names}
    for name, numbers in result.items():
        print(f"{name:14s} {numbers}")
    if options.keep:
        before = {} if options.only is None else json.loads((RESULTS / "ablation.json").read_text("utf-8"))["result"]
        keep("ablation", {name: {**before, **result}[name] for name in every_name})


if __name__ == "__main__":
    main()
