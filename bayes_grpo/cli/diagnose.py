"""`bayes-grpo diagnose`."""

from __future__ import annotations

from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import EXIT_FAILING, console, progress_bar
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import percent

ANY = "any"
"""Any failure, in `--fail-on`."""


@command("diagnose outputs/run", "diagnose metrics.jsonl --fail-on any:0.8 --json")
def diagnose(
    log: options.LogFile,
    up_to_step: options.UpToStep = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE:P",
            help="Exit with code 5 if a failure's probability is at least P; with any, that of failing at all. "
            "Repeatable.",
        ),
    ] = None,
    rollouts: options.Completions = None,
    *,
    output: options.OutputWithPlot,
    reading: options.Reading,
) -> None:
    """Say what is wrong with a run: probabilities of failures, the evidence, the onset, what to do."""
    limits = _limits(fail_on)
    run = reading.read(log)
    with progress_bar() as progress:
        saved = None if rollouts is None else bg.read_rollouts(rollouts, progress=progress)
        progress("gathering evidence")
        result = bg.diagnose(run, up_to_step=up_to_step, rollouts=saved)
        output.save(lambda: bg.plot_diagnosis(result))
    found = {mode: result.failing if mode == ANY else result.probability[mode] for mode in limits}
    reached = {mode: p for mode, p in found.items() if p >= limits[mode]}
    output.show(result, more={"fail_on": {"limits": limits, "reached": reached}})
    if not output.json_:
        for mode, p in reached.items():
            text = f"--fail-on {mode}:{limits[mode]:g} reached: {percent(p)}"
            console().print(text, style="bold red", markup=False)
    if reached:
        raise typer.Exit(EXIT_FAILING)


def _limits(texts: list[str] | None) -> dict[str, float]:
    from bayes_grpo.diagnosis.status import MODES

    out: dict[str, float] = {}
    for text in texts or []:
        name, colon, number = text.partition(":")
        name = name.strip().replace("-", "_")
        try:
            limit = float(number)
        except ValueError:
            limit = -1.0
        if not colon or name not in (*MODES, ANY) or not 0.0 < limit <= 1.0:
            raise SettingError(
                f"expected MODE:P with MODE one of {', '.join(MODES)} or any and P in (0, 1], found {text!r}",
                parameter="fail_on",
            )
        out[name] = min(limit, out.get(name, 1.0))
    return out
