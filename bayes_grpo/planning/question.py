"""What a plan is asked, checked before anything is fitted or takes long to import."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.budget import check_amount, check_probability
from bayes_grpo.families.index import LONGEST, Index, index_of
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.candidates import PLANNED, Grid, grid_of
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.gather import Like

if TYPE_CHECKING:
    from bayes_grpo.families.result import Family

RISK = 0.15
"""Largest P(fails) of what is recommended, unless the present settings have more."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a next run may cost and what is wanted of it: the arguments of `bayes_grpo.plan` of the same names."""

    budget: float | None = None
    cost_per_step: float | None = None
    value_per_reward: float | None = None
    reach: float | None = None
    probability: float | None = None
    risk: float = RISK

    def __post_init__(self) -> None:
        """Raises `SettingError` where they are impossible."""
        for name in ("cost_per_step", "value_per_reward", "budget"):
            check_amount(name, getattr(self, name), above=True)
        check_probability("probability", self.probability)
        if self.value_per_reward is not None and self.cost_per_step is None:
            raise SettingError("plan: found a value without a cost; give cost_per_step, in the same unit")
        if self.reach is not None and not math.isfinite(self.reach):
            raise SettingError(f"reach: expected a reward, found {self.reach!r}")
        if self.probability is not None and self.reach is None:
            raise SettingError("plan: found a probability without a reward; give reach, what it is the probability of")
        if not 0.0 < self.risk <= 1.0:
            raise SettingError(f"risk: expected a probability above 0, found {self.risk!r}")


@dataclass(frozen=True, eq=False)
class PlanQuestion:
    """A question that can be answered.

    Attributes:
        run: The present run.
        table: Its rows.
        grid: Candidates.
        stated: Settings that are known of the run besides those that are planned, by the names of `Change`.
        place: Which run of the family it is; None where it is none or there is no family.
        terms: What it may cost and what is wanted of it.
        rollouts: Completions of the run; None without.
        like: Where siblings are; None for none.
        index: What a table says of runs beside their logs; None for none.
    """

    run: Run
    table: RowTable
    grid: Grid
    stated: Mapping[str, float]
    place: int | None
    terms: Terms
    rollouts: Rollouts | None = None
    like: Like | None = None
    index: Index | None = None


def asked(
    present: PathLike | Run,
    values: Mapping[str, Sequence[float] | None],
    terms: Terms,
    *,
    family: Family | None = None,
    index: PathLike | Mapping[str, Mapping[str, Any]] | None = None,
    signal: str = "auto",
    read: Mapping[str, Any] | None = None,
    rollouts: Rollouts | None = None,
    like: Like | None = None,
) -> PlanQuestion:
    """Reads the present run and lists the candidates.

    Args:
        present: The present run, or its log.
        values: Setting → values to try; None for half, same and double.
        terms: What it may cost and what is wanted of it.
        family: A family of runs.
        index: Settings of runs besides their logs, see `index_of`.
        signal: "auto", "reward" (train) or "eval" (held-out).
        read: Keyword arguments of `bayes_grpo.read_log`.
        rollouts: Completions of the run, which tell how far its prompts lie apart.
        like: Siblings, whose outcomes tell what fails.

    Raises:
        LogReadError: The log cannot be read.
        SettingError: An impossible option, or a setting that is not known of the run.
        FitError: The log has no such signal, or too few rows.
    """
    table_of_runs = index_of(index)
    run = present if isinstance(present, Run) else read_log(present, **dict(read or {}))
    run = table_of_runs.stated(run)
    table = rows_of(run, signal, LONGEST)
    place = None if family is None else _place(family, table)
    known = {} if family is None or place is None else dict(family.runs[place].settings)
    for name in (*PLANNED, "epochs", "kl_weight", "clip_range"):
        said = table_of_runs.number(run, name)
        if name not in known and said is not None:
            known[name] = said
    grid = grid_of(run, table, known, values)
    if family is not None and family.signal != table.signal:
        raise SettingError(f"plan: the family is of {family.signal}, the run of {table.signal}; name the same signal")
    stated = {
        name: float(value)
        for name in ("epochs", "kl_weight", "clip_range")
        if (value := known.get(name, getattr(run.settings, name).value)) is not None
    }
    return PlanQuestion(run, table, grid, stated, place, terms, rollouts, like, table_of_runs)


def check_plan(present: PathLike | Run, **options: Any) -> None:
    """Raises what `plan` would raise of its question, in a second and without fitting anything.

    Args:
        present: The present run, or its log.
        **options: As for `plan`, but for `family`, `seed` and `progress`.

    Raises:
        LogReadError: The log cannot be read.
        SettingError: An impossible option, or a setting that is not known of the run.
        FitError: The log has no such signal, or too few rows.
    """
    terms = {f.name: options.pop(f.name) for f in fields(Terms) if f.name in options}
    values = {name: options.pop(name, None) for name in PLANNED}
    asked(present, values, Terms(**terms), **options)


def _place(family: Family, table: RowTable) -> int | None:
    """Which run of a family has these rows; None where none has."""
    same = (np.array_equal(r.step, table.step) and np.array_equal(r.reward, table.y) for r in family.runs)
    return next((i for i, found in enumerate(same) if found), None)
