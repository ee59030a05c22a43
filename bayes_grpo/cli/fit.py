"""`bayes-grpo fit`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import progress_bar
from bayes_grpo.common.errors import PriorError, SettingError
from bayes_grpo.common.files import check_writable


@command("fit outputs/run", "fit wandb.csv --regime sigmoid --set group_size=8 --plot fit.png", "fit saved.nc")
def fit(
    log: options.LogFile,
    regime: Annotated[
        str | None,
        typer.Option(
            help="Regime to fit, a model of the reward curve: flat, exponential, oscillator (default), sigmoid or "
            "reduction. By name too: stiffness_damping, bernoulli, logistic, or one of an installed package.",
            **options.REGIME,
        ),
    ] = None,
    signal: options.Signal = "auto",
    up_to_step: options.UpToStep = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MEDIAN,SPREAD",
            help="Prior of one parameter, e.g. damping_ratio=3,0.5; one number fixes it; repeatable.",
        ),
    ] = None,
    all_rows: options.AllRows = False,
    out: Annotated[Path | None, options.in_output(help="Save the fit to this NetCDF file.")] = None,
    *,
    output: options.OutputWithPlot,
    seed: options.Seed = 0,
    num_chains: Annotated[int, options.in_computing(help="Chains.")] = 4,
    num_warmup: Annotated[int, options.in_computing(help="Warm-up iterations a chain.")] = 150,
    num_samples: Annotated[
        int, options.in_computing(help="Kept draws a chain; a retry keeps three times as many.")
    ] = 500,
    reading: options.Reading,
) -> None:
    """Fit a regime to a run's reward, and check it: where the reward goes, how fast, what the regime misses."""
    if out is not None:
        check_writable(out)
    priors = _priors(prior or [])
    saved = log[0] if len(log) == 1 and log[0].suffix == ".nc" else None
    if saved is not None and (regime is not None or signal != "auto"):
        raise SettingError(f"fit: {saved} is a fit, whose regime and signal are settled; leave the flags out")
    with progress_bar() as progress:
        progress("reading")  # before the imports that take seconds
        run = None if saved is not None else reading.read(log, up_to_step)
        settings = bg.AnalysisSettings(
            regime=regime or "oscillator",
            signal=signal,
            priors=priors,
            seed=seed,
            sampler=bg.SamplerSettings(num_chains=num_chains, num_warmup=num_warmup, num_samples=num_samples),
        )
        found = bg.analyze(
            run,
            ("fit", "check") if output.json_ or run is None else ("fit", "check", "diagnosis"),
            settings=settings,
            rows="all" if all_rows else "since_break",
            fit=None if saved is None else bg.load_fit(saved),
            progress=progress,
        )
        result, summary = found.fit.required
        if out is not None:
            bg.save_fit(result, out)
        output.save(lambda: bg.plot_fit(result, bg.view(summary).answer))
    diagnosis = found.diagnosis.value
    status = None if diagnosis is None else diagnosis.status
    output.show(summary, options.OtherParts(run=run, diagnosis=diagnosis, status=status, parts={"Check": found.check}))
    options.end_unless_converged(summary.convergence.passed)


def _priors(texts: list[str]) -> dict[str, Any]:
    """Overrides of single parameters."""
    out: dict[str, Any] = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        values: list[float] = []
        with suppress(ValueError):
            values = [float(x) for x in numbers.split(",")]
        if len(values) not in (1, 2):
            raise PriorError(
                "--prior: expected NAME=MEDIAN,SPREAD such as damping_ratio=3,0.5, or NAME=NUMBER to fix it, found "
                f"{text!r}"
            )
        out[name.strip()] = values if len(values) == 2 else values[0]
    return out
