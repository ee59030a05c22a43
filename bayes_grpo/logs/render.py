"""A log's summary on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_grpo.common.wording import listed
from bayes_grpo.logs.summary import RunSummary
from bayes_grpo.logs.unused import grouped_by_reason

if TYPE_CHECKING:
    from rich.console import Console


_SHOWN = 12
"""Keys of one reason that are named; `--json` has all."""


def render_run(summary: RunSummary, console: Console) -> None:
    """Prints a summary: what was read, the columns, the settings, the notes.

    Text from the log is printed as it is; nothing in it is read as markup.
    """
    from rich.table import Table
    from rich.text import Text

    console.print(Text(summary.sentence, style="bold"))
    console.print(Text(f"read as {summary.format} from {summary.source}"))

    columns = Table(title="Logged", title_justify="left")
    for heading in ("column", "key in the log"):
        columns.add_column(heading, overflow="fold")
    for heading in ("values", "lowest", "highest", "first", "last"):
        columns.add_column(heading, justify="right")
    for name, series in {"reward": summary.reward, **summary.signals, "eval_reward": summary.evals}.items():
        numbers = (series.low, series.high, series.first, series.last)
        cells = [name, series.key, str(series.finite), *("" if x is None else f"{x:.4g}" for x in numbers)]
        columns.add_row(*(Text(cell) for cell in cells))
    console.print(columns)

    settings = Table(title="Settings", title_justify="left")
    for heading in ("setting", "value", "origin", "note"):
        settings.add_column(heading, overflow="fold")
    for name, setting in summary.settings.items():
        unknown, column = setting.value is None, name in summary.signals
        cells = (
            name,
            ("see above" if column else "not known") if unknown else f"{setting.value}",
            ("logged" if column else "") if unknown else setting.provenance,
            setting.note,
        )
        settings.add_row(*(Text(cell) for cell in cells))
    console.print(settings)
    for why, keys in grouped_by_reason(summary.unused).items():
        console.print(Text(f"not used, {why}: {listed(keys, _SHOWN)}", style="dim"))
    for note in summary.notes:
        console.print(Text(f"note: {note}"))
