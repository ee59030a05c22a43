"""The command line: parse, call one function, print.

Exit codes: 0 success; 2 wrong usage; 3 bad input, setting or place to write; 4 the sampler did not converge (the
result is printed and written all the same, and says so); 5 a failure is as probable as ``diagnose --fail-on`` asks
(the result is printed all the same); 130 interrupted. ``--json`` writes to standard output and nothing else does;
progress and errors go to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from bayes_grpo.cli_compare import check, compare
from bayes_grpo.cli_corpus import PriorTableFile, base_priors, learn_prior, split_priors
from bayes_grpo.cli_diagnose import diagnose
from bayes_grpo.cli_forecast import backtest, forecast
from bayes_grpo.cli_options import (
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NOT_CONVERGED,
    At,
    EvalColumn,
    Format,
    GroupSize,
    Json,
    Log,
    Momentum,
    Plot,
    PromptsPerStep,
    Refresh,
    RewardColumn,
    RunName,
    Schedule,
    Seed,
    Sets,
    Sidecar,
    Signal,
    StepColumn,
    TotalSteps,
    check_pictures,
    given,
    read,
)
from bayes_grpo.cli_planning import simulate, stability
from bayes_grpo.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.files import check_writable
from bayes_grpo.terminal import console, print_json, progress

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.",
    epilog="Exit codes: 0 success, 2 wrong usage, 3 bad input, 4 the sampler did not converge, "
    "5 a limit of diagnose --fail-on is reached, 130 interrupted.",
)


@app.command()
def fit(
    log: Log,
    regime: Annotated[
        str,
        typer.Option(
            help="Law to fit: oscillator, exponential, reduction, hold, flat, bernoulli, logistic, sigmoid or entropy."
        ),
    ] = "oscillator",
    signal: Signal = "auto",
    at: At = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            "--prior",
            metavar="weak|corpus|NAME=MEDIAN,SPREAD",
            help="weak (default) or corpus, priors learned from other runs; and overrides, e.g. damping_ratio=3,0.5.",
        ),
    ] = None,
    prior_table: PriorTableFile = None,
    prior_file: Annotated[Path | None, typer.Option(help="TOML file with a table named priors.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the fit to this NetCDF file.")] = None,
    plot: Plot = None,
    json_: Json = False,
    seed: Seed = 0,
    chains: Annotated[int, typer.Option(help="Chains.")] = 4,
    warmup: Annotated[int, typer.Option(help="Warm-up iterations a chain.")] = 400,
    draws: Annotated[int, typer.Option(help="Kept draws a chain.")] = 1000,
    format_: Format = None,
    step_column: StepColumn = None,
    reward_column: RewardColumn = None,
    eval_column: EvalColumn = None,
    run_name: RunName = None,
    sidecar: Sidecar = None,
    group_size: GroupSize = None,
    prompts_per_step: PromptsPerStep = None,
    momentum: Momentum = None,
    refresh: Refresh = None,
    schedule: Schedule = None,
    total_steps: TotalSteps = None,
    set_: Sets = None,
) -> None:
    """Fit a law to a run's reward: posterior of stiffness, damping and fixed point, verdict first."""
    if out is not None:
        check_writable(out)
    check_pictures(plot)
    word, overrides = split_priors(prior)
    priors = _priors(overrides, prior_file)
    run = read(log, format_, step_column, reward_column, eval_column, run_name, sidecar, set_, at, **given(
        group_size=group_size, prompts_per_step=prompts_per_step, momentum=momentum, refresh_interval=refresh,
        schedule=schedule, total_steps=total_steps,
    ))  # fmt: skip
    from bayes_grpo.inference.run import fit as fit_run
    from bayes_grpo.inference.sampler import SamplerSettings

    priors = base_priors(word, prior_table, regime, run, signal) | priors
    with progress() as tell:
        result = fit_run(
            run,
            regime,
            signal=signal,
            priors=priors,
            seed=seed,
            sampler=SamplerSettings(chains=chains, warmup=warmup, draws=draws),
            progress=tell,
        )
        from bayes_grpo.inference.summary import summarize

        summary = summarize(result)
        if out is not None:
            from bayes_grpo.inference.io import save_fit

            save_fit(result, out)
        if plot is not None:
            from bayes_grpo.report.picture import save_plot
            from bayes_grpo.report.plot_fit import plot_fit

            save_plot(plot_fit(result, summary.verdict), plot)
    if json_:
        print_json(summary.to_dict())
    else:
        from bayes_grpo.report.render_fit import render_summary

        render_summary(summary, console())
    if not summary.convergence.passed:
        raise typer.Exit(EXIT_NOT_CONVERGED)


@app.command()
def inspect(
    log: Log,
    plot: Plot = None,
    json_: Json = False,
    format_: Format = None,
    step_column: StepColumn = None,
    reward_column: RewardColumn = None,
    eval_column: EvalColumn = None,
    run_name: RunName = None,
    sidecar: Sidecar = None,
    set_: Sets = None,
) -> None:
    """Show what a log holds and what had to be assumed."""
    check_pictures(plot)
    run = read(log, format_, step_column, reward_column, eval_column, run_name, sidecar, set_)
    from bayes_grpo.report.inspect import describe_run, plot_run, render_run

    summary = describe_run(run)
    if plot is not None:
        plot_run(run, plot)
    if json_:
        print_json(summary.to_dict())
    else:
        render_run(summary, console())


app.command()(compare)
app.command()(check)
app.command()(simulate)
app.command()(stability)
app.command()(diagnose)
app.command()(forecast)
app.command()(backtest)
app.command()(learn_prior)


def _priors(texts: list[str] | None, file: Path | None) -> dict[str, Any]:
    from bayes_grpo.errors import PriorError

    out: dict[str, Any] = {}
    if file is not None:
        import tomllib

        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PriorError(f"{file}: expected a TOML file with a [priors] table, cannot read it ({error})") from error
        if not isinstance(table.get("priors"), dict):
            raise PriorError(f"{file}: expected a [priors] table like damping_ratio = [3.0, 0.5], found none")
        for name, value in table["priors"].items():
            numbers = list(value.values()) if isinstance(value, dict) else value
            if not (isinstance(numbers, list) and len(numbers) == 2 and all(_is_number(x) for x in numbers)):
                raise PriorError(f"{file}: expected {name} = [median, spread], two numbers, found {value!r}")
        out |= table["priors"]
    for text in texts or []:
        name, equals, numbers = text.partition("=")
        parts = numbers.split(",")
        if not equals or len(parts) != 2:
            raise PriorError(f"--prior: expected NAME=MEDIAN,SPREAD such as damping_ratio=3,0.5, found {text!r}")
        out[name.strip()] = tuple(parts)
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"bayes-grpo: {message}\n")
    raise SystemExit(code)


class _Interrupted(BaseException):
    """Ctrl-C, in a form that the command-line library does not turn into something else."""


def _interrupt(*_: object) -> NoReturn:
    raise _Interrupted


def main() -> None:
    """Entry point; every error that a user can mend is one line on standard error."""
    from bayes_grpo.report.text import plain

    warnings.filterwarnings("ignore", category=BayesGrpoWarning)  # the summary says the same, in its place
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        app()
    except BayesGrpoError as error:
        _fail(plain(error, 2000), EXIT_INPUT)
    except _Interrupted:
        # Threads may still be inside XLA; tearing the interpreter down under them crashes.
        sys.stderr.write("bayes-grpo: interrupted\n")
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
    finally:
        signal.signal(signal.SIGINT, before)
