"""`bayes-grpo stability`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo import internal
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import EXIT_NOT_CONVERGED, Output, Reading, Seed
from bayes_grpo.cli.terminal import progress
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain


@command(
    "stability outputs/run --learning-rate 1e-5",
    "stability --learning-rate 1e-5 --learning-time 200 --fit-learning-rate 5e-6",
    "stability --learning-rate 1e-5 --refresh 8 --measured probe.json",
)
def stability(
    log: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Log of an earlier run, or its fit (.nc): gives the learning time and the learning rate at which it "
            "was measured. Settings without a flag are those of that run."
        ),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate of the planned run.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Heavy-ball momentum or Adam's first beta; else 0.9.")] = None,
    convention: Annotated[
        str | None, typer.Option(help="ema (Adam) or heavy_ball (SGD momentum); by default ema, or as was measured.")
    ] = None,
    refresh: Annotated[
        float | None, typer.Option(help="Optimizer steps between refreshes of the sampling policy; else 1.")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="probe.json of a training: the stiffness that was measured there.")
    ] = None,
    fit_learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate at which the learning time was measured; else the log's.")
    ] = None,
    curvature: Annotated[float | None, typer.Option(help="Curvature K per unit learning rate and step.")] = None,
    learning_time: Annotated[
        float | None, typer.Option(help="E-fold learning time of a low-lag run, in steps.")
    ] = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
) -> None:
    """Say before a run whether its settings are stable, by the published rule and exactly."""
    if sum(x is not None for x in (log, measured, curvature, learning_time)) != 1:
        raise SettingError("stability: expected exactly one of a log, --measured, --curvature and --learning-time")
    if learning_rate is None and log is None:
        raise SettingError("stability: found no learning rate of the planned run; give --learning-rate")
    if (curvature is not None or measured is not None) and fit_learning_rate is not None:
        raise SettingError(
            f"--fit-learning-rate: expected with a log or --learning-time, found "
            f"{'--curvature' if measured is None else '--measured'}, which is per unit learning rate; leave it out"
        )
    note, limits, whole, found, converged = "", None, None, (), True
    known: dict[str, Any] = {"curvature": curvature}
    planned: dict[str, Any] = {"momentum": 0.9, "convention": "ema", "refresh_interval": 1.0}
    given: dict[str, Any] = {
        "learning_rate": learning_rate,
        "momentum": momentum,
        "convention": convention,
        "refresh_interval": refresh,
    }
    if learning_time is not None:
        known |= {"learning_time": learning_time, "learning_time_at": fit_learning_rate}
    fitted = None
    if log is not None:
        fit = _fit_of(log, reading, seed, fit_learning_rate)
        fitted, converged = internal.curvature_of(fit, fit_learning_rate), fit.convergence.passed
        planned |= fitted.settings
    planned |= {name: x for name, x in given.items() if x is not None}
    if fitted is not None:
        changed = fitted.change_to(planned["learning_rate"], planned["refresh_interval"])
        known, note = {"curvature": fitted.draws, "source": fitted.source, "changed": changed}, fitted.note
    if measured is not None:
        found = internal.load_probes(measured)
        whole = internal.pooled_probes(found)
        limits = internal.limits_of(
            whole,
            planned["learning_rate"],
            planned["momentum"],
            planned["refresh_interval"],
            convention=given["convention"],
        )
        planned |= {"convention": limits.convention, "lag_exposure": limits.lag_exposure}
        known = {"curvature": whole.stiffest.draws(), "source": "measured"}
    report = bg.stability(**planned, **known)
    course = optional_course(found)
    more: dict[str, Any] = {"note": note}
    if limits is not None and whole is not None:
        more |= {"measured": whole.to_dict(), "limits": limits.to_dict()}
        more["course"] = None if course is None else course.to_dict()
    then = [x for x in (whole, limits, course) if x is not None]
    output.show(report, more=more, then=then, note=note and f"Curvature: {note}.")
    if not converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)


def _fit_of(log: list[Path], reading: Reading, seed: int, learning_rate: float | None) -> bg.Fit:
    """The fit of a log, by the regime that `bayes-grpo fit` takes, or a saved one."""
    if len(log) == 1 and log[0].suffix == ".nc":
        return bg.load_fit(log[0])
    run = reading.read(log)
    if learning_rate is None and run.settings.learning_rate.value is None and "learning_rate" not in run.signals:
        raise SettingError(
            f"stability: expected the learning rate of {plain(run.name, 80)}, found none in its log; give "
            "--fit-learning-rate or --set learning_rate=…"
        )
    with progress() as tell:
        return bg.fit(run, seed=seed, progress=tell)


def optional_course(probes: tuple[internal.Probe, ...]) -> internal.StiffnessCourse | None:
    """The course that probes show; None where they are too few, or of no step."""
    try:
        return internal.stiffness_course(probes)
    except SettingError:
        return None
