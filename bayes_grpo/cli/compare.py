"""`bayes-grpo compare`."""

from __future__ import annotations

from typing import Annotated

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import progress_bar


@command("compare metrics.jsonl", "compare metrics.jsonl --regimes flat,sigmoid --no-lfo")
def compare(
    log: options.LogFile,
    regimes: options.Regimes = None,
    signal: options.Signal = "auto",
    up_to_step: options.UpToStep = None,
    all_rows: options.AllRows = False,
    no_lfo: Annotated[bool, options.in_computing("--no-lfo", help="No forecast scores; faster.")] = False,
    *,
    output: options.OutputWithPlot,
    seed: options.Seed = 0,
    reading: options.Reading,
) -> None:
    """Compare regimes on a run: which the data favor, and which fit equally well."""
    run = reading.read(log, up_to_step)
    with progress_bar() as progress:
        found = bg.compare(
            run,
            options.names_in(regimes) or None,
            signal=signal,
            rows="all" if all_rows else "since_break",
            seed=seed,
            lfo=not no_lfo,
            progress=progress,
        )
        progress("writing", 1.0)
        output.save(lambda: bg.plot_comparison(found))
    output.show(found, options.OtherParts(run=run))
    options.end_unless_converged(not found.not_converged)
