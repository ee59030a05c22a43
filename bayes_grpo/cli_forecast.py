"""Commands `forecast` and `backtest`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_grpo.cli_corpus import PriorTableFile, PriorWord, corpus_note, forecast_prior
from bayes_grpo.cli_decision import (
    CostPerStep,
    Gain,
    GpuHoursPerStep,
    PricePerGpuHour,
    Probability,
    ValuePerReward,
    check_flags,
    check_plot,
    decision_of,
)
from bayes_grpo.cli_options import (
    At,
    EvalColumn,
    Format,
    Json,
    Log,
    Plot,
    RewardColumn,
    RunName,
    Seed,
    Sets,
    Sidecar,
    Signal,
    StepColumn,
    check_pictures,
    names_in,
    read,
)
from bayes_grpo.terminal import console, print_json, progress

if TYPE_CHECKING:
    from bayes_grpo.analysis.backtest import Backtest

Regimes = Annotated[str, typer.Option(help="Laws to average over, separated by commas.", metavar="NAME,NAME,...")]
_LAWS = "flat,exponential,oscillator,bernoulli,logistic,sigmoid"
_RIVALS = "last,mean10,exponential_ls,sigmoid_ls,gp"


def forecast(
    log: Log,
    until: Annotated[float, typer.Option(help="Horizon: an optimizer step after the last logged one.")],
    schedule: Annotated[
        str | None,
        typer.Option(help="Learning rate from now on: constant, linear or cosine; else continued as logged."),
    ] = None,
    total_steps: Annotated[float | None, typer.Option(help="Step at which a decaying learning rate reaches 0.")] = None,
    at: At = None,
    signal: Signal = "auto",
    regimes: Regimes = _LAWS,
    weights: Annotated[
        str, typer.Option(help="sequential (each row before it was there), stacking (refits; minutes) or equal.")
    ] = "sequential",
    prior: PriorWord = "weak",
    prior_table: PriorTableFile = None,
    threshold: Annotated[float | None, typer.Option(help="Gain of reward that counts.")] = None,
    draws: Annotated[int, typer.Option(help="Number of paths.")] = 2000,
    plot: Annotated[Path | None, typer.Option(help="Save the fan chart (.png, .pdf, .svg).")] = None,
    plot_decision: Annotated[Path | None, typer.Option(help="Save a picture of net value by stopping step.")] = None,
    json_: Json = False,
    seed: Seed = 0,
    cost_per_step: CostPerStep = None,
    value_per_reward: ValuePerReward = None,
    gpu_hours_per_step: GpuHoursPerStep = None,
    price_per_gpu_hour: PricePerGpuHour = None,
    gain: Gain = None,
    probability: Probability = None,
    format_: Format = None,
    step_column: StepColumn = None,
    reward_column: RewardColumn = None,
    eval_column: EvalColumn = None,
    run_name: RunName = None,
    sidecar: Sidecar = None,
    set_: Sets = None,
) -> None:
    """Forecast a run's reward under the learning rate that is left, averaged over laws; and when to stop."""
    check_pictures(plot, plot_decision)
    question = (cost_per_step, value_per_reward, gpu_hours_per_step, price_per_gpu_hour, gain, probability)
    check_flags(*question)
    check_plot(plot_decision, cost_per_step, gpu_hours_per_step, value_per_reward)
    priors = forecast_prior(prior, prior_table)
    run = read(log, format_, step_column, reward_column, eval_column, run_name, sidecar, set_, at)
    from bayes_grpo.analysis.forecast import forecast as forecast_run
    from bayes_grpo.analysis.forecast_summary import summarize_forecast

    with progress() as tell:
        source, shares = _source(run, weights, names_in(regimes), signal, priors, seed, tell)
        result = forecast_run(
            source,
            until,
            schedule=schedule,
            total_steps=total_steps,
            signal=signal,
            regimes=names_in(regimes),
            draws=draws,
            seed=seed,
            weights=shares,
            priors=priors,
            progress=tell,
        )
        note = corpus_note(prior, prior_table, names_in(regimes))
        result = replace(result, notes=(*result.notes, note)) if note else result
        summary = summarize_forecast(result, threshold)
        decision = decision_of(result, *question)
        if plot is not None:
            from bayes_grpo.report.picture import save_plot
            from bayes_grpo.report.plot_forecast import plot_forecast

            stopping = None if decision is None else decision.stopping
            save_plot(plot_forecast(result, summary.sentence, stopping), plot)
        if plot_decision is not None and decision is not None and decision.stopping is not None:
            from bayes_grpo.report.picture import save_plot
            from bayes_grpo.report.plot_decision import plot_decision as draw_decision

            save_plot(draw_decision(decision.stopping, result.name), plot_decision)
    if json_:
        print_json(summary.to_dict() | ({} if decision is None else {"decision": decision.to_dict()}))
        return
    from bayes_grpo.report.render_forecast import render_forecast

    render_forecast(summary, console())
    if decision is not None:
        from bayes_grpo.report.render_decision import render_decision

        render_decision(decision, console())


def backtest(
    logs: Annotated[list[Path], typer.Argument(help="Log files; each is forecast from its own earlier steps.")],
    origins: Annotated[str, typer.Option(help="Shares of the rows to forecast from.")] = "0.3,0.5,0.7",
    signal: Signal = "auto",
    regimes: Regimes = _LAWS,
    rivals: Annotated[
        str, typer.Option(help="Rivals: last, mean10, exponential_ls, sigmoid_ls, gp; ets needs statsmodels.")
    ] = _RIVALS,
    prior: PriorWord = "weak",
    prior_table: PriorTableFile = None,
    plot: Plot = None,
    json_: Json = False,
    seed: Seed = 0,
    format_: Format = None,
    step_column: StepColumn = None,
    reward_column: RewardColumn = None,
    eval_column: EvalColumn = None,
    sidecar: Sidecar = None,
    set_: Sets = None,
) -> None:
    """Score the forecast at earlier steps of logs against the rows that came, and against simple rivals."""
    from bayes_grpo.errors import BayesGrpoError, SettingError

    check_pictures(plot)
    try:
        shares = [float(x) for x in origins.split(",")]
    except ValueError as error:
        raise SettingError(f"--origins: expected shares like 0.3,0.5,0.7, found {origins!r}") from error
    from bayes_grpo.analysis.backtest import Backtest, merged
    from bayes_grpo.analysis.backtest import backtest as backtest_run

    priors = forecast_prior(prior, prior_table)
    parts: list[Backtest] = []
    with progress() as tell:
        for log in logs:
            try:
                run = read([log], format_, step_column, reward_column, eval_column, None, sidecar, set_)
                parts.append(
                    backtest_run(
                        run,
                        origins=shares,
                        signal=signal,
                        regimes=names_in(regimes),
                        priors=priors,
                        rivals=names_in(rivals),
                        seed=seed,
                        progress=tell,
                    )
                )
            except BayesGrpoError as error:
                if len(logs) == 1 or isinstance(error, SettingError | ImportError):
                    raise
                parts.append(Backtest((), (str(error),)))
    result = merged(parts)
    if plot is not None and result.lines:
        from bayes_grpo.report.picture import save_plot
        from bayes_grpo.report.plot_backtest import plot_backtest

        save_plot(plot_backtest(result), plot)
    if json_:
        print_json(result.to_dict())
        return
    from bayes_grpo.report.render_forecast import render_backtest

    render_backtest(result, console())


def _source(
    run: Any, weights: str, regimes: list[str], signal: str, priors: Any, seed: int, tell: Any
) -> tuple[Any, Any]:
    """What to forecast from, and the weights where they are given."""
    from bayes_grpo.errors import SettingError

    if weights == "sequential":
        return run, None
    if weights == "equal":
        return run, dict.fromkeys(regimes, 1.0)
    if weights != "stacking":
        raise SettingError(f"--weights: expected sequential, stacking or equal, found {weights!r}")
    from bayes_grpo.analysis.compare import compare
    from bayes_grpo.regimes import get_regime, rows_of

    table = rows_of(run, signal)
    given = {name: priors(get_regime(name), table) for name in regimes}
    return compare(run, regimes, signal=signal, priors=given, seed=seed, progress=tell), None
