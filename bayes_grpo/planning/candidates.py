"""Settings of the present run that a plan may move, and the grid of those of the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance
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
                    f"{name}: not known of run {plain(run.name, 80)}, so nothing compares with it; give "
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
