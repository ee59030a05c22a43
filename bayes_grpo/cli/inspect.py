"""`bayes-grpo inspect`."""

from __future__ import annotations

import bayes_grpo as bg
from bayes_grpo.cli.options import Json, LogFile, Plot, Reading, StatedSettings, check_pictures, grouped
from bayes_grpo.cli.terminal import console, print_json


@grouped
def inspect(log: LogFile, plot: Plot = None, json_: Json = False, *, reading: Reading, stated: StatedSettings) -> None:
    """Show what a log holds and what had to be assumed."""
    check_pictures(plot)
    run = reading.read(log, stated=stated, tell=False)
    summary = bg.describe_run(run)
    if plot is not None:
        bg.save_plot(bg.plot_run(run), plot)
    if json_:
        print_json(summary.to_dict(), summary.sentence)
    else:
        bg.render_run(summary, console())
