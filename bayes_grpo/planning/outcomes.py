"""Settings that a plan may move, and the outcomes of reference runs at theirs: each run worked or failed.

P(fails) of a candidate (`bayes_grpo.risk.failure`) uses runs that worked as lower bounds of the failure threshold and
runs that failed as upper bounds. A reference run without a known learning rate is skipped; other unknown settings count
as unchanged, as in the training data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.mode import failure_of, probabilities_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import ModeProbabilities
from bayes_grpo.diagnosis.trend import rows_collapsed
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance
from bayes_grpo.references.gather import ExcludedRun, RunSources, gather_references
from bayes_grpo.risk.threshold import Change, change
from bayes_grpo.rows.series import Series

PLANNED = ("group_size", "prompts_per_step", "learning_rate", "refresh_interval")
"""Settings that a plan may move."""
UNMOVED = ("epochs", "kl_weight", "clip_range")
"""Settings that P(fails) knows and a plan does not move."""
_LEAST: Mapping[str, float] = {
    "group_size": 2.0,
    "prompts_per_step": 1.0,
    "learning_rate": 0.0,
    "refresh_interval": 1.0,
}
UNKNOWN_RATE = 1.0
"""The present learning rate where it is not known: candidates are times it."""
WHOLE = ("group_size", "prompts_per_step")
FACTORS = (0.5, 1.0, 2.0)
"""Candidates of a setting, over what the present run has, where none are given."""
_RUNGS = 8
"""Learning rates at most between the present one and the highest that is tried."""
_MOST = 5000
"""Candidates at most."""


class Grid(NamedTuple):
    """Candidates.

    Attributes:
        present: Present settings that are moved, by name.
        candidates: Settings of every candidate, the present ones among them.
        cautions: What was left out, one sentence each.
        rate: Learning rate of the present run; None where it is not known and counts as 1.
    """

    present: dict[str, float]
    candidates: list[dict[str, float]]
    cautions: tuple[str, ...]
    rate: float | None


def grid_of(run: Run, table: Series, requested: Mapping[str, Sequence[float] | None]) -> Grid:
    """Candidates of the next run.

    Args:
        run: The present run.
        table: Its rows.
        requested: Setting → values to try; None or empty for half, same and double.

    Raises:
        SettingError: A value that is impossible, a setting that is not known of the run, or too many candidates.
    """
    present, values, cautions = {}, {}, []
    rate: float | None = None
    for name in PLANNED:
        wanted = [_checked(name, x) for x in requested.get(name) or ()]
        now = setting_of(run, table, name)
        if now is None:
            if wanted:
                raise SettingError(
                    f"{name}: not known of run {plain(run.name, 80)}, so no comparison is possible; give "
                    f"--set {name}=… or a line in bayes_grpo.toml by the log"
                )
            if name == "learning_rate":
                now = UNKNOWN_RATE
                times = "candidates are times the present one (--set learning_rate=…)"
                cautions.append(f"learning_rate: not recognized in this log; {times}")
            else:
                cautions.append(f"{name}: not known, so it is not varied; give --set {name}=…")
        elif name == "learning_rate":
            rate = float(now)
        elif name in WHOLE and not wanted and getattr(run.settings, name).provenance is Provenance.ASSUMED:
            note = getattr(run.settings, name).note
            cautions.append(f"{name}: {now:g} is {note}, so it is not varied; give --set {name}=…")
            continue
        # A policy refreshed every step cannot be refreshed more often, and seldom is no cheaper here.
        if now is None or (name == "refresh_interval" and now <= 1.0 and not wanted):
            continue
        present[name] = float(now)
        near = {_rounded(name, factor * now) for factor in FACTORS}
        rungs = _rungs(now, max(wanted, default=2.0 * now)) if name == "learning_rate" else set()
        values[name] = sorted({*(wanted or near), *rungs, float(now)})
    size = math.prod(len(v) for v in values.values())
    if size > _MOST:
        raise SettingError(f"plan: expected at most {_MOST} candidates, found {size}; name fewer values")
    return Grid(present, [dict(zip(values, x, strict=True)) for x in product(*values.values())], tuple(cautions), rate)


def _rungs(now: float, most: float) -> set[float]:
    """Learning rates between the present one and the highest that is tried, each √2 times the one before."""
    if most <= now:
        return set()
    steps = math.floor(2.0 * math.log2(most / now) - 1e-6)
    return {float(f"{now * 2.0 ** (0.5 * (i + 1)):.3g}") for i in range(min(steps, _RUNGS))}


def setting_of(run: Run, table: Series, name: str) -> float | None:
    """A setting of a run by its log; None where it is not known.

    Args:
        run: The run.
        table: Its rows.
        name: One of `PLANNED` or `UNMOVED`.
    """
    if name == "learning_rate":
        return table.reference_rate if math.isfinite(table.reference_rate) and table.reference_rate > 0 else None
    if name == "refresh_interval":
        return table.optimizer.refresh
    value: Any = getattr(run.settings, name).value
    return None if value is None or not float(value) >= _LEAST.get(name, -math.inf) else float(value)


def _rounded(name: str, value: float) -> float:
    whole = float(round(value)) if name in WHOLE else value
    return max(whole, _LEAST[name])


def _checked(name: str, value: float) -> float:
    number, least = float(value), _LEAST[name]
    above = number > 0.0 if name == "learning_rate" else number >= least
    if not (math.isfinite(number) and above) or (name in WHOLE and number != round(number)):
        kind = "whole numbers" if name in WHOLE else "numbers"
        bound = "above 0" if name == "learning_rate" else f"of at least {least:g}"
        raise SettingError(f"{name}: expected {kind} {bound}, found {value:g}")
    return number


_NAMED = 5
"""Reference runs that a sentence names."""


class ReferenceOutcome(NamedTuple):
    """A reference run, its known settings, their change from the present ones, and whether it failed."""

    name: str
    settings: Mapping[str, float]
    change: Change
    failed: bool


@dataclass(frozen=True)
class ReferenceOutcomes(Result):
    """Reference runs at their settings.

    Attributes:
        runs: Runs with known settings.
        left_out: The others, with the reasons.
    """

    runs: tuple[ReferenceOutcome, ...] = ()
    left_out: tuple[ExcludedRun, ...] = ()

    @property
    def worked_changes(self) -> tuple[Change, ...]:
        """Changes of runs that worked."""
        return tuple(x.change for x in self.runs if not x.failed)

    @property
    def failed_changes(self) -> tuple[Change, ...]:
        """Changes of runs that failed."""
        return tuple(x.change for x in self.runs if x.failed)

    @property
    def sentence(self) -> str:
        """How many failed, and from which learning rate on."""
        if not self.runs:
            why = f" ({self.left_out[-1].name}: {self.left_out[-1].why})" if self.left_out else ""
            return f"reference runs: none shows what fails at which settings{why}"
        total = sum(x.failed for x in self.runs)
        rates = sorted(x.settings["learning_rate"] for x in self.runs if x.failed)
        where = f", at learning rates from {rates[0]:g} on" if rates else ""
        names = ", ".join(x.name for x in self.runs[:_NAMED]) + ", …" * (len(self.runs) > _NAMED)
        return f"reference runs: {total} of {len(self.runs)} failed{where} ({names})"


def reference_outcomes(
    run: Run, table: Series, present: Mapping[str, float], rated: bool, reference_runs: RunSources
) -> ReferenceOutcomes:
    """Outcomes of reference runs at their settings.

    Args:
        run: The present run.
        table: Its rows.
        present: Its settings, by the names of `Change`.
        rated: Whether its learning rate is known; without it, no change to reference runs is known.
        reference_runs: Sources of reference runs.

    Raises:
        LogReadError: A path that was named does not exist or cannot be read.
    """
    found = gather_references(run, table, reference_runs)
    runs, left_out = [], list(found.left_out)
    for other, rows in found.runs:
        settings = {k: v for k in present if (v := setting_of(other, rows, k)) is not None}
        if not rated or "learning_rate" not in settings:
            whose = "its log" if rated else "the present run's log"
            left_out.append(ExcludedRun(plain(other.name, 80), f"{whose} does not state the learning rate"))
            continue
        runs.append(
            ReferenceOutcome(plain(other.name, 80), settings, change(present, settings), run_failed(other, rows))
        )
    return ReferenceOutcomes(tuple(runs), tuple(left_out))


def run_failed(run: Run, table: Series, diagnosed: ModeProbabilities | None = None) -> bool:
    """Whether a run failed: its rows collapsed, or its diagnosis finds a failure more probably than not.

    Args:
        run: The run.
        table: Its rows.
        diagnosed: Its failure probabilities, where they are known already.
    """
    return rows_collapsed(table.y) or failure_of(diagnosed or probabilities_of(RunSoFar.of(run))) is not None
