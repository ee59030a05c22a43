"""The public runs that the questions to the paper are asked of: rows, settings by the index, and which are comparable.

Two runs are comparable in a setting where they are of one family of the index, one task and one model and all their
other stated settings agree: a *cell*. Only differences within cells say what a setting does. Rows of runs that saw the
same data at the same steps are freed of what the data alone did (`bayes_grpo.references`).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bayes_grpo import Run, read_log, rows_of
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.references.curve import cuts_of, smooth_curve
from bayes_grpo.references.order import orders_of
from bayes_grpo.rows.series import Series
from benchmarks.calibration.known_noise import whole
from benchmarks.common import say
from benchmarks.index import rows_in

SETTINGS = ("group_size", "learning_rate", "model_size", "prompts_per_step", "refresh")
"""Settings that are asked about; `refresh` is optimizer steps per rollout."""
_ALIAS = {"model_size": "model_params_b"}
_STEPS = (
    r"(\d+) (?:optimizer updates?|opt steps?)\b",
    r"mu=(\d+)",
    r"\((\d+) opt steps?/rollout\)",
    r"^(\d+) epoch\(s\)",
    r"ppo_epochs (\d+)",
    r"^(\d+)$",
)
LONGEST = 512
"""Rows of a run; longer logs are averaged in blocks."""
_TOO_FEW = 6
"""Fewer rows than this tell neither a course nor its scatter."""


@dataclass(frozen=True, eq=False)
class PaperRun:
    """A public run.

    Attributes:
        name: Its name in the index.
        author: Owner of its repository.
        repo: Its repository.
        families: Families of the index that it is of.
        task: Its task as the index calls it.
        settings: `SETTINGS` and the KL weight by name; NaN where the index does not say.
        words: All of the index's row.
        run: The log.
        table: Its rows.
    """

    name: str
    author: str
    repo: str
    families: tuple[str, ...]
    task: str
    settings: Mapping[str, float]
    words: Mapping[str, str]
    run: Run
    table: Series

    @property
    def failed(self) -> bool:
        """Whether its authors or its curve say that it failed."""
        return self.words["outcome_label"] not in ("healthy", "plateau", "plateaued", "")


def public_runs(indices: Sequence[Path]) -> list[PaperRun]:
    """All runs of the indices that have rows to look at."""
    out = []
    for row in rows_in(indices):
        try:
            run = read_log(row["path"])
            known = {name: whole(row[name]) for name in ("group_size", "prompts_per_step")}
            stated = replace(run.settings, **{k: Setting(v, Provenance.USER) for k, v in known.items() if v})
            run = replace(run, name=row["run_id"], settings=stated)
            table = rows_of(run, "auto", LONGEST)
        except (BayesGrpoError, OSError) as error:
            say(f"left out: {row['run_id']}: {error}")
            continue
        if len(table.y) >= _TOO_FEW:
            families = tuple(x.strip() for x in row["family"].split(";") if x.strip())
            settings = {s: _number(row, s) for s in (*SETTINGS, "kl_beta")}
            author = row["repo"].split("/")[0]
            out.append(PaperRun(row["run_id"], author, row["repo"], families, row["task"], settings, row, run, table))
    return out


def _number(row: Mapping[str, str], setting: str) -> float:
    """A setting of the index; NaN where it states none, or none that is a number."""
    text = (row.get(_ALIAS.get(setting, setting)) or "").strip()
    if setting == "refresh":
        found = next((m for p in _STEPS if (m := re.search(p, text))), None)
        return float(found.group(1)) if found else math.nan
    if setting in ("group_size", "prompts_per_step"):
        return float(whole(text) or math.nan)
    try:
        return float(text)
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class Place:
    """Where a run stands in a question about a setting: one run may stand in several families, in one question in one.

    Attributes:
        name: The run.
        author: Its author.
        family: Its family.
        cell: Runs that differ in the setting alone.
        value: The setting.
    """

    name: str
    author: str
    family: str
    cell: str
    value: float


def places_of(runs: Sequence[PaperRun], setting: str) -> list[Place]:
    """Runs that say something of a setting: those of cells with two values of it at least."""
    cells: dict[str, list[Place]] = defaultdict(list)
    taken: set[str] = set()
    for family in sorted({f for r in runs for f in r.families if not f.endswith("repeat")}):
        for r in (r for r in runs if family in r.families):
            value = r.settings[setting]
            if not (math.isfinite(value) and value > 0):
                continue
            others = [f"{k}={v:g}" for k, v in r.settings.items() if k != setting]
            model = "" if setting == "model_size" else r.words["model"].split("(")[0].strip()
            cell = " | ".join([family, r.task, model, r.table.signal, *others])
            cells[cell].append(Place(r.name, r.author, family, cell, value))
    out = []
    for some in cells.values():
        fresh = [p for p in some if p.name not in taken]
        if len({p.value for p in fresh}) > 1:
            out += fresh
            taken |= {p.name for p in fresh}
    return out


@dataclass(frozen=True, eq=False)
class Cleaned:
    """Rows without what the data alone did, and what that does to the error of a reading."""

    table: Series
    factor: float
    share: float


def without_order(runs: Sequence[PaperRun]) -> dict[str, Cleaned]:
    """Runs that share an order of data with others of their author, task and signal, freed of its effect.

    What it leaves in a run of n, 1 − 2ρ + nρ² / (1 + (n − 1)ρ) of the noise, sets the factor.
    """
    groups: dict[tuple[str, str, str], list[PaperRun]] = defaultdict(list)
    for r in runs:
        groups[r.author, r.task.split("(")[0].split(",")[0].strip(), r.table.signal].append(r)
    out: dict[str, Cleaned] = {}
    for some in (x for x in groups.values() if len(x) > 1):
        cuts = cuts_of([r.table for r in some])
        known = [(r, c) for r in some if (c := smooth_curve(r.table, cuts)) is not None]
        courses = [c for _, c in known]
        for order in orders_of(courses) if len(courses) > 1 else ():
            n, share = len(order.members), order.share.median
            left = 1.0 - 2.0 * share + n * share**2 / (1.0 + (n - 1) * share)
            for i in order.members:
                r, course = known[i]
                at = order.at(np.stack([r.table.step, r.table.window]))
                y = r.table.y - course.sd * math.sqrt(share) * at.mean
                out[r.name] = Cleaned(replace(r.table, y=y), math.sqrt((1.0 - share) / left), share)
    return out
