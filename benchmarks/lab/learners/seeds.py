"""Learns how far seeds of one recipe lie apart, and recipes of one family, from public logs: `families/seeds.json`.

    python -m benchmarks.lab.learners.seeds --index runs/index.csv runs/more/index.csv

Runs whose names differ in the seed alone (``_s042``, ``_s137``), or that the index calls repeats, are one recipe;
those at the floor of their reward are left out.
Each run is read by its laws at the last step that all runs of its group have; what a run leaves open is no difference
between seeds. The population of spreads, in standard deviations of the group's rows, is log-normal; its two numbers are
posterior means on a grid. The difference between recipes is learned from the families of the index in the same way,
with the seeds' spread taken out.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import atomic_write
from bayes_grpo.families.members import check_comparable
from bayes_grpo.families.readings import RunReading, reading_of
from bayes_grpo.families.recipes import PATH, RecipeReadings, readings_of_recipes
from bayes_grpo.logs import read_log
from bayes_grpo.rows.rows_of import MAX_ROWS_OF_SEVERAL, rows_of
from benchmarks.common import keep, say
from benchmarks.index import rows_in

SEED_NAME = re.compile(r"_s\d{2,5}$")
SPREADS = np.geomspace(0.01, 5.0, 120)
STUCK = 0.5
"""Share of rows with one value from which a run is at its floor, where seeds cannot differ yet."""
CENTRES, WIDTHS = np.linspace(-4.0, 1.0, 60), np.linspace(0.1, 2.0, 40)


class Group(NamedTuple):
    """Readings of some runs in standard deviations of their rows."""

    name: str
    side: RecipeReadings
    repo: str


def recipes_in(rows: Sequence[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """Runs of one recipe, by its name; two at least."""
    out: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        if SEED_NAME.search(row["run_id"]):
            out[SEED_NAME.sub("", row["run_id"])].append(row)
        for name in (x.strip() for x in row["family"].split(";")):
            if name.endswith("repeat"):
                out[name].append(row)
    return {name: some for name, some in out.items() if len(some) > 1}


def families_in(rows: Sequence[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """Runs of one family, repeats left out, one run of every recipe of several seeds."""
    out: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        for name in (x.strip() for x in row["family"].split(";")):
            first = SEED_NAME.sub("", row["run_id"])
            known = any(SEED_NAME.sub("", other["run_id"]) == first for other in out[name])
            if name and not name.endswith("repeat") and not known:
                out[name].append(row)
    return {name: some for name, some in out.items() if len(some) > 1}


def group_of(
    name: str, rows: Sequence[dict[str, str]], read: dict[str, RunReading], moving: bool = False
) -> Group | None:
    """The group's readings at the last step that all have; None where they cannot be compared, or do not move."""
    try:
        for row in rows:
            if row["path"] not in read:
                run = read_log(row["path"])
                read[row["path"]] = reading_of(run, rows_of(run, "auto", MAX_ROWS_OF_SEVERAL))
        some = [read[row["path"]] for row in rows]
        check_comparable([(r.run, r.table) for r in some])
    except BayesGrpoError as error:
        say(f"{name}: left out: {error}")
        return None
    if moving and max(_at_one_value(r) for r in some) > STUCK:
        say(f"{name}: left out: the reward of a run is one value in most rows")
        return None
    last = min(r.last for r in some)
    if last < max(r.table.step[0] for r in some):
        return None
    unit = float(np.std(np.concatenate([r.table.y for r in some])))
    side = readings_of_recipes([r.at(last) for r in some])
    say(f"{name}: {np.round(side.mean, 3)} ± {np.round(side.error, 3)}, rows' sd {unit:.3g}")
    return Group(name, RecipeReadings(side.mean / unit, side.error / unit), rows[0]["repo"])


def _at_one_value(reading: RunReading) -> float:
    """Largest share of the rows that have one value."""
    return float(np.unique(np.round(reading.table.y, 9), return_counts=True)[1].max() / len(reading.table.y))


def restricted(side: RecipeReadings, spread: np.ndarray) -> np.ndarray:
    """Log density of readings about an unknown mean at each spread, shape of ``spread``."""
    var = spread[:, None] ** 2 + side.error**2
    weight = 1.0 / var
    mean = (weight * side.mean).sum(axis=1) / weight.sum(axis=1)
    away = (side.mean - mean[:, None]) ** 2
    return -0.5 * ((away * weight + np.log(var)).sum(axis=1) + np.log(weight.sum(axis=1)))


def population(groups: Sequence[Group]) -> tuple[float, float]:
    """Centre and width of the log spread of a recipe that is not among the groups."""
    log_s = np.log(SPREADS)
    score = np.zeros((len(CENTRES), len(WIDTHS)))
    for i, c in enumerate(CENTRES):
        for j, w in enumerate(WIDTHS):
            weight = -0.5 * ((log_s - c) / w) ** 2
            weight -= np.logaddexp.reduce(weight)
            score[i, j] = sum(np.logaddexp.reduce(weight + restricted(g.side, SPREADS)) for g in groups)
    score += -0.5 * (CENTRES[:, None] - math.log(0.3)) ** 2 - 0.5 * (WIDTHS / 0.7) ** 2
    p = np.exp(score - score.max())
    p /= p.sum()
    centre = float((p * CENTRES[:, None]).sum())
    var = float((p * (CENTRES[:, None] - centre) ** 2).sum()) + float((p * WIDTHS**2).sum())
    return centre, math.sqrt(var)


def between(families: Sequence[Group], centre: float, width: float) -> float:
    """Standard deviation of the difference of two recipes of a family, seeds taken out."""
    d = np.geomspace(0.03, 3.0, 60)
    weight = -0.5 * ((np.log(SPREADS) - centre) / width) ** 2
    weight -= np.logaddexp.reduce(weight)
    score = np.zeros(len(d))
    for g in families:
        for i, x in enumerate(d):
            score[i] += np.logaddexp.reduce(weight + restricted(g.side, np.sqrt(SPREADS**2 + x**2)))
    p = np.exp(score - score.max())
    return math.sqrt(2.0) * math.exp(float((p * np.log(d)).sum() / p.sum()))


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    rows, read = rows_in(options.index), {}
    recipes = [g for name, some in recipes_in(rows).items() if (g := group_of(name, some, read, moving=True))]
    families = [g for name, some in families_in(rows).items() if (g := group_of(name, some, read))]
    centre, width = population(recipes)
    about: dict[str, Any] = {
        "made by": "benchmarks/lab/learners/seeds.py",
        "recipes": len(recipes),
        "runs": sum(len(g.side.mean) for g in recipes),
        "families": len(families),
        "repositories": len({g.repo for g in [*recipes, *families]}),
    }
    found = {"centre": centre, "width": width, "difference": between(families, centre, width), "about": about}
    with atomic_write(options.out) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.out == PATH:
        keep("learn_seeds", found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
