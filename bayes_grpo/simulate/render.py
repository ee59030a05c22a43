"""Simulated runs on a terminal: where they are, their settings and their known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from bayes_grpo.simulate.scenarios import SimulatedRun

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = (
    "run", "G", "prompts", "momentum", "refresh", "final reward", "fixed point", "gain", "growth/step", "failure",
)  # fmt: skip


def render_simulated(runs: Sequence[SimulatedRun], paths: Sequence[Path], console: Console) -> None:
    """Prints simulated runs.

    Args:
        runs: The runs, one scenario.
        paths: Where each was written.
        console: Where to.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("run", "failure") else "right")
    for path, run in zip(paths, runs, strict=True):
        t, s = run.truth, run.settings
        table.add_row(
            str(path),
            *(f"{s[name]:g}" for name in ("group_size", "prompts_per_step", "momentum", "refresh_interval")),
            *(_short(x) for x in (t.final_reward, t.fixed_point, t.gain, t.growth_per_step)),
            t.failure_mode or "none",
        )
    out = paths[0].parent
    console.print(
        f"{len(runs)} runs of scenario {runs[0].scenario} in {out}; each is read by `bayes-grpo fit {out}/run-000`"
    )
    console.print(table)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
