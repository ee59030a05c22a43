"""`bayes-grpo plan`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import progress_bar
from bayes_grpo.common.errors import SettingError


@command(
    "plan outputs/run --learning-rate 2e-5",
    "plan --probe probe.json --learning-rate 1e-5 --refresh 8",
    "plan --stiffness 3.2 --learning-rate 0.01 --momentum 0.9 --refresh 4",
)
def plan(
    log: Annotated[
        list[Path] | None,
        typer.Argument(help=f"{options.LOGS} Or a saved fit (.nc). Settings without a flag are its own."),
    ] = None,
    stiffness: Annotated[
        float | None,
        typer.Option(help="Stiffness of the update per unit learning rate; under Adam in preconditioned units."),
    ] = None,
    probe: Annotated[
        Path | None, typer.Option(help="probe.json of a training: the stiffness that was measured there.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Highest learning rate of the planned run.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Heavy-ball momentum or Adam's first beta; else 0.9.")] = None,
    convention: Annotated[
        str | None, typer.Option(help="ema (Adam) or heavy_ball (SGD momentum); by default ema, or as was measured.")
    ] = None,
    refresh: Annotated[
        float | None, typer.Option(help="Optimizer steps between refreshes of the sampling policy; else 1.")
    ] = None,
    group_size: Annotated[float | None, typer.Option(help="Planned completions per prompt.")] = None,
    prompts_per_step: Annotated[float | None, typer.Option(help="Planned prompts per step.")] = None,
    signal: options.Signal = "auto",
    *,
    output: options.Output,
    seed: options.Seed = 0,
    reading: options.Reading,
) -> None:
    """Settings of the next run: stability thresholds, what happened to others, and noise at equal cost."""
    if stiffness is not None and probe is not None:
        raise SettingError("expected one of --stiffness and --probe, found both", parameter="probe")
    given: dict[str, Any] = {"learning_rate": learning_rate, "momentum": momentum, "convention": convention}
    given |= {"refresh_interval": refresh, "group_size": group_size, "prompts_per_step": prompts_per_step}
    then: dict[str, Any] = {}
    if probe is not None:
        from bayes_grpo.probing.course import pooled_probes, stiffness_course
        from bayes_grpo.probing.file import load_probes

        found = load_probes(probe)
        measured = pooled_probes(found)
        given["probe"] = measured
        then = {"measured": measured, "course": None}
        with suppress(SettingError):  # too few probes for a course, or of no step
            then["course"] = stiffness_course(found)
    with progress_bar() as progress:
        present = _current_run(log, reading)
        planned = bg.plan(present, stiffness=stiffness, signal=signal, seed=seed, progress=progress, **given)
    headline = {"headline": bg.view(planned).answer}
    output.show(planned, more=headline, then=then)
    options.end_unless_converged(planned.converged)


def _current_run(log: list[Path] | None, reading: options.Reading) -> bg.Run | bg.Fit | None:
    """The present run, or a saved fit of it; None without a log."""
    if not log:
        return None
    if len(log) == 1 and log[0].suffix == ".nc":
        return bg.load_fit(log[0])
    return reading.read(log)
