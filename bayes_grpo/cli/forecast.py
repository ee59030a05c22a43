"""`bayes-grpo forecast`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import checks, options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import progress_bar
from bayes_grpo.common.errors import BayesGrpoError, SettingError

if TYPE_CHECKING:
    from bayes_grpo import Backtest

_PATHS = 2000


@command(
    "forecast outputs/run",
    "forecast metrics.jsonl --horizon 2000 --cost-per-step 2 --value-per-reward 5000",
    "forecast metrics.jsonl --part code",
    "forecast runs/*.jsonl --backtest",
)
def forecast(
    log: options.LogFile,
    horizon: options.HorizonStep = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="Learning rate from now on: constant, linear or cosine; default: continued as logged."),
    ] = None,
    total_steps: Annotated[float | None, typer.Option(help="Step at which a decaying learning rate reaches 0.")] = None,
    up_to_step: options.UpToStep = None,
    signal: options.Signal = "auto",
    regimes: options.Regimes = None,
    part: options.RewardPart = None,
    threshold: Annotated[float | None, typer.Option(help="Smallest gain of reward that matters.")] = None,
    reach: Annotated[
        list[float] | None, typer.Option(help="Forecast the step that reaches this reward. Repeatable.")
    ] = None,
    reference_runs: options.ReferenceRunsFlag = None,
    backtest: Annotated[
        bool,
        typer.Option("--backtest", help="Forecast from earlier steps of each log, and score the later rows."),
    ] = False,
    draws: Annotated[int, options.in_computing(help="Number of paths.")] = _PATHS,
    *,
    output: options.OutputWithPlot,
    seed: options.Seed = 0,
    stopping: options.StoppingFlags,
    reading: options.Reading,
) -> None:
    """Forecast a run's reward under the remaining learning rate, averaged over regimes; and when to stop."""
    if backtest:
        other = {"horizon": horizon, "schedule": schedule, "total_steps": total_steps, "part": part,
                 "plot": output.plot, "threshold": threshold, "reach": reach, "reference_runs": reference_runs,
                 "draws": None if draws == _PATHS else draws} | asdict(stopping)  # fmt: skip
        if unused := [name for name, value in other.items() if value]:
            raise SettingError("a backtest does not take it; leave it or --backtest out", parameter=unused[0])
        given = {"signal": signal, "seed": seed, "regimes": options.names_in(regimes) or None}
        output.show(_backtest(log, reading, up_to_step, given))
        return
    if part is not None and reference_runs not in (None, ["none"]):
        raise SettingError(
            "reference runs are compared by the total; leave it or --reference-runs out", parameter="part"
        )
    costs = stopping.costs()
    # As a setting too: where a trainer's default decays, past and future follow it.
    run = reading.read(log, up_to_step, {} if total_steps is None else {"total_steps": total_steps})
    run = run if part is None else run.of_part(part)
    checks.horizon(horizon, run)
    settings = bg.AnalysisSettings(
        horizon=horizon,
        schedule=schedule,
        total_steps=total_steps,
        costs=costs,
        signal=signal,
        regimes=options.names_in(regimes) or None,
        threshold=threshold,
        reach=reach or (),
        paths=draws,
        seed=seed,
        reference_runs=options.references_or_nearby(reference_runs, log, reading) if part is None else None,
    )
    from bayes_grpo.analysis.result import Part, decision_action

    with progress_bar() as progress:
        found = bg.analyze(run, ("diagnosis", "forecast"), settings=settings, progress=progress)
        status = found.diagnosis.required.status
        ahead = found.forecast.required
        if ahead.undecided:
            raise SettingError(ahead.undecided)
        summary = bg.conditional_forecast(status, ahead.summary)
        decision = ahead.decision
        stop = None if decision is None else decision.recommended
        events = {} if stop is None else {"recommended stop": stop}
        output.save(lambda: bg.plot_forecast(ahead.forecast, bg.view(summary).answer, reach=reach or (), events=events))
    parts: dict[str, Part[Any]] = {}
    if output.details and not output.json_:  # how the forecast from the middle of the log fared
        half_way = {"origins": (0.5,), "signal": signal, "seed": seed, "regimes": settings.regimes}
        parts["Backtest"] = Part.of(lambda: bg.backtest(run, **half_way))
    around = options.OtherParts(
        run=run,
        diagnosis=found.diagnosis.value,
        status=found.status or status,
        parts=parts,
        action=None if decision is None else decision_action(decision),
    )
    output.show(summary, around, then={"decision": decision})
    options.end_unless_converged(not ahead.forecast.not_converged)


def _backtest(
    logs: list[Path], reading: options.Reading, up_to_step: float | None, settings: dict[str, Any]
) -> Backtest:
    """Scores of forecasts from earlier steps; of several logs, those that cannot be used are named in the result."""
    parts: list[Backtest] = []
    with progress_bar() as progress:
        for log in logs:
            try:
                parts.append(bg.backtest(reading.read([log], up_to_step), progress=progress, **settings))
            except BayesGrpoError as error:
                if len(logs) == 1 or isinstance(error, SettingError | ImportError):
                    raise
                parts.append(bg.Backtest((), (str(error),)))
    scores = tuple(x for part in parts for x in part.scores)
    return bg.Backtest(scores, tuple(x for part in parts for x in part.refused))
