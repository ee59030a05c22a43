"""Laboratory runs on a terminal: where they are, what was set to go wrong and what happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.lab.runs import DeepRun

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = (
    "run", "task", "G", "prompts", "rate", "refresh", "causes",
    "first gold", "best gold", "final gold", "event", "onset",
)  # fmt: skip
_WORDS = ("run", "task", "causes", "event")


def render_deep(runs: Sequence[DeepRun], paths: Sequence[Path], console: Console) -> None:
    """Prints laboratory runs.

    Args:
        runs: The runs, one family.
        paths: Where each was written.
        console: Where to.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in _WORDS else "right")
    for path, run in zip(paths, runs, strict=True):
        truth, settings, base = run.truth, run.settings, run.draw.numbers.base
        table.add_row(
            str(path.name),
            run.draw.setup.task,
            f"{settings['group_size']}",
            f"{settings['prompts_per_step']}",
            f"{float(base.learning_rate):.2g}",
            f"{settings['refresh_interval']}",
            ", ".join(truth.causes) or "none",
            *(f"{x:.2f}" for x in (truth.first_gold, truth.best_gold, truth.final_gold)),
            truth.event,
            "" if truth.onset is None else f"{truth.onset}",
        )
    out = paths[0].parent
    console.print(
        f"{len(runs)} runs of family {runs[0].draw.family} in {out}; each is read by `bayes-grpo fit {out}/run-000`"
    )
    console.print(table)
