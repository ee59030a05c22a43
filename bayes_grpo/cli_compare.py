"""Commands after a fit: compare laws on a log, and check a fit against its data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_grpo.cli_options import (
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
    names_in,
    read,
)
from bayes_grpo.errors import SettingError
from bayes_grpo.files import check_writable
from bayes_grpo.terminal import console, print_json, progress


def compare(
    log: Log,
    regimes: Annotated[
        str | None, typer.Option(help="Laws to compare, separated by commas; all that can be put on the log if absent.")
    ] = None,
    signal: Signal = "auto",
    at: At = None,
    no_lfo: Annotated[bool, typer.Option("--no-lfo", help="No forecast scores; faster.")] = False,
    out: Annotated[Path | None, typer.Option(help="Save the fits to this directory, a NetCDF file a law.")] = None,
    plot: Plot = None,
    json_: Json = False,
    seed: Seed = 0,
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
    """Compare laws on a run: which the data favour, and between which they cannot tell."""
    check_pictures(plot)
    if out is not None:
        _make_directory(out)
    run = read(log, format_, step_column, reward_column, eval_column, run_name, sidecar, set_, at, **given(
        group_size=group_size, prompts_per_step=prompts_per_step, momentum=momentum, refresh_interval=refresh,
        schedule=schedule, total_steps=total_steps,
    ))  # fmt: skip
    from bayes_grpo.analysis.compare import compare as compare_laws

    names = None if regimes is None else names_in(regimes)
    with progress() as tell:
        found = compare_laws(run, names, signal=signal, seed=seed, lfo=not no_lfo, progress=tell)
        tell("writing", 1.0)
        if out is not None:
            from bayes_grpo.inference.io import save_fit

            for name, fit in found.fits.items():
                save_fit(fit, out / f"{name}.nc")
        if plot is not None:
            from bayes_grpo.report.picture import save_plot
            from bayes_grpo.report.plot_compare import plot_comparison

            save_plot(plot_comparison(found), plot)
    if json_:
        print_json(found.to_dict())
        return
    from bayes_grpo.report.render_compare import render_comparison

    render_comparison(found, console())


def check(
    log: Annotated[list[Path], typer.Argument(help="Log file or directory, or a fit saved as NetCDF (.nc).")],
    regime: Annotated[str | None, typer.Option(help="Law to fit to a log; oscillator if absent.")] = None,
    signal: Signal = "auto",
    at: At = None,
    plot: Plot = None,
    json_: Json = False,
    seed: Seed = 0,
    format_: Format = None,
    step_column: StepColumn = None,
    reward_column: RewardColumn = None,
    eval_column: EvalColumn = None,
    run_name: RunName = None,
    sidecar: Sidecar = None,
    momentum: Momentum = None,
    refresh: Refresh = None,
    schedule: Schedule = None,
    total_steps: TotalSteps = None,
    set_: Sets = None,
) -> None:
    """Check a fit against its data: autocorrelated residuals, changing noise, outliers, a break."""
    check_pictures(plot)
    fit: Any
    with progress() as tell:
        if len(log) == 1 and log[0].suffix == ".nc":
            if regime is not None or signal != "auto":
                raise SettingError(
                    f"check: {log[0]} is a fit, whose regime and signal are settled; leave the flags out"
                )
            from bayes_grpo.inference.io import load_fit

            fit = load_fit(log[0])
        else:
            run = read(log, format_, step_column, reward_column, eval_column, run_name, sidecar, set_, at, **given(
                momentum=momentum, refresh_interval=refresh, schedule=schedule, total_steps=total_steps,
            ))  # fmt: skip
            from bayes_grpo.inference.run import fit as fit_run

            fit = fit_run(run, regime or "oscillator", signal=signal, seed=seed, progress=tell)
        tell("looking at the residuals")
        from bayes_grpo.analysis.check import check as check_fit

        found = check_fit(fit)
        if plot is not None:
            from bayes_grpo.report.picture import save_plot
            from bayes_grpo.report.plot_check import plot_check

            save_plot(plot_check(fit, found), plot)
    if json_:
        print_json(found.to_dict())
    else:
        from bayes_grpo.report.render_compare import render_check

        render_check(found, console())
    if not found.meta["converged"]:
        raise typer.Exit(EXIT_NOT_CONVERGED)


def _make_directory(out: Path) -> None:
    """The directory of the fits, made now, so that an impossible place fails before minutes of work."""
    from bayes_grpo.errors import OutputError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: cannot be a directory of fits ({error.strerror}); choose another place") from error
    check_writable(out / "fit.nc")
