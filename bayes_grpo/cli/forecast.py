"""`bayes-grpo forecast`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    Asked,
    At,
    LikeRuns,
    LogFile,
    LogTo,
    Output,
    Reading,
    Seed,
    Signal,
    StatedSettings,
    check_pictures,
    grouped,
    log_to,
    names_in,
    siblings_asked,
)
from bayes_grpo.cli.refusals import refuse_past
from bayes_grpo.cli.terminal import progress
from bayes_grpo.common.errors import SettingError

Regimes = Annotated[
    str | None, typer.Option(help="Regimes to average over, separated by commas.", metavar="NAME,NAME,...")
]


@grouped
def forecast(
    log: LogFile,
    until: Annotated[
        float | None,
        typer.Option(help="Horizon, a step after the last logged one; else the planned length, or half as far again."),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="Learning rate from now on: constant, linear or cosine; else continued as logged."),
    ] = None,
    total_steps: Annotated[float | None, typer.Option(help="Step at which a decaying learning rate reaches 0.")] = None,
    at: At = None,
    signal: Signal = "auto",
    regimes: Regimes = None,
    threshold: Annotated[float | None, typer.Option(help="Gain of reward that counts.")] = None,
    reach: Annotated[
        list[float] | None, typer.Option(help="When is this reward reached? May be given several times.")
    ] = None,
    like: LikeRuns = None,
    draws: Annotated[int, typer.Option(help="Number of paths.")] = 2000,
    plot: Annotated[Path | None, typer.Option(help="Save the fan chart (.png, .pdf, .svg).")] = None,
    plot_decision: Annotated[Path | None, typer.Option(help="Save a picture of net value by stopping step.")] = None,
    log_to_: LogTo = None,
    seed: Seed = 0,
    *,
    output: Output,
    asked: Asked,
    reading: Reading,
) -> None:
    """Forecast a run's reward under the learning rate that is left, averaged over regimes; and when to stop."""
    check_pictures(plot, plot_decision)
    question = asked.question()
    # As a setting too: where a trainer's default decays, past and future follow it.
    run = reading.read(log, at, stated=StatedSettings(total_steps=total_steps))
    refuse_past(until, run)
    names = names_in(regimes) or list(bg.FORECAST_REGIMES)
    question = bg.priced(question, run)
    if plot_decision is not None and not question.has_net_value:
        raise SettingError(
            "--plot-decision: draws net values; give --value-per-reward and --cost-per-step or --gpu-hours-per-step"
        )
    settings = bg.AnalysisSettings(
        until=until,
        schedule=schedule,
        total_steps=total_steps,
        question=question,
        signal=signal,
        regimes=names,
        threshold=threshold,
        reach=reach or (),
        paths=draws,
        seed=seed,
        like=siblings_asked(like, log, reading.sidecar),
    )
    with progress() as tell:
        found = bg.analyze(run, ("diagnosis", "forecast"), settings=settings, progress=tell)
        top, ahead = found.diagnosis.required.top, found.forecast.required
        if ahead.undecided:
            raise SettingError(ahead.undecided)
        summary, decision = bg.forecast_given(top, ahead.summary), ahead.decision
        stopping = None if decision is None else decision.stopping
        if plot is not None:
            figure = bg.plot_forecast(ahead.forecast, summary.sentence, reach=reach or ())
            bg.save_plot(figure if stopping is None else bg.mark_stop(figure, stopping), plot)
        if plot_decision is not None and stopping is not None:
            bg.save_plot(bg.plot_decision(stopping, ahead.forecast.name), plot_decision)
    log_to(log_to_, run, "forecast", summary.to_dict(), summary.sentence)
    more = {} if decision is None else {"decision": decision.to_dict()}
    output.show(summary, more=more, then=() if decision is None else (decision,), run=run, top=top)
    if ahead.forecast.not_converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
