"""`bayes-grpo stability`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    Output,
)
from bayes_grpo.common.errors import SettingError


@command(
    "stability --learning-rate 1e-5 --learning-time 200 --fit-learning-rate 5e-6",
    "stability --learning-rate 1e-5 --from-fit a.nc",
    "stability --learning-rate 1e-5 --refresh 8 --measured probe.json",
)
def stability(
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate of the planned run.")],
    momentum: Annotated[float, typer.Option(help="Heavy-ball momentum or Adam's first beta.")] = 0.9,
    convention: Annotated[
        str | None, typer.Option(help="ema (Adam) or heavy_ball (SGD momentum); by default ema, or as was measured.")
    ] = None,
    refresh: Annotated[float, typer.Option(help="Optimizer steps between refreshes of the sampling policy.")] = 1.0,
    measured: Annotated[
        Path | None, typer.Option(help="probe.json of a training: the stiffness that was measured there.")
    ] = None,
    from_fit: Annotated[Path | None, typer.Option(help="Fit whose posterior gives the curvature.")] = None,
    fit_learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of the run that the fit or the learning time is of.")
    ] = None,
    curvature: Annotated[float | None, typer.Option(help="Curvature K per unit learning rate and step.")] = None,
    learning_time: Annotated[
        float | None, typer.Option(help="E-fold learning time of a low-lag run, in steps.")
    ] = None,
    lag_exposure: Annotated[
        float | None, typer.Option(help="Share of the gradient that is late, 0 to 1; by default 1, or as was measured.")
    ] = None,
    source: Annotated[
        str, typer.Option(help="Where a given curvature comes from: independent, low_lag_run, prior or same_run.")
    ] = "independent",
    *,
    output: Output,
) -> None:
    """Say before a run whether its settings are stable, by the published rule and exactly."""
    if sum(x is not None for x in (measured, from_fit, curvature, learning_time)) != 1:
        raise SettingError("stability: expected exactly one of --measured, --from-fit, --curvature and --learning-time")
    if (curvature is not None or measured is not None) and fit_learning_rate is not None:
        raise SettingError(
            f"--fit-learning-rate: expected beside --from-fit or --learning-time, found "
            f"{'--curvature' if measured is None else '--measured'}, which is per unit learning rate; leave it out"
        )
    kind: Any = convention or "ema"
    note, limits, whole, found = "", None, None, ()
    known: dict[str, Any] = {"curvature": curvature, "source": source}
    if learning_time is not None:
        known |= {"learning_time": learning_time, "learning_time_at": fit_learning_rate}
    if measured is not None:
        found, kind = bg.load_probes(measured), convention
        whole = bg.pooled_probes(found)
        limits = bg.limits_of(whole, learning_rate, momentum, refresh, convention=kind, lag_exposure=lag_exposure)
        kind, lag_exposure = limits.convention, limits.lag_exposure
        known = {"curvature": whole.stiffest.draws(), "source": "measured"}
    if from_fit is not None:
        fitted = bg.curvature_of(bg.load_fit(from_fit), fit_learning_rate)
        changed = fitted.change_to(learning_rate, refresh)
        known, note = {"curvature": fitted.draws, "source": fitted.source, "changed": changed}, fitted.note
    exposure = 1.0 if lag_exposure is None else lag_exposure
    report = bg.stability(learning_rate, momentum, kind, refresh, lag_exposure=exposure, **known)
    course = course_if_told(found)
    more: dict[str, Any] = {"note": note}
    if limits is not None and whole is not None:
        more |= {"measured": whole.to_dict(), "limits": limits.to_dict()}
        more["course"] = None if course is None else course.to_dict()
    then = [x for x in (whole, limits, course) if x is not None]
    output.show(report, more=more, then=then, note=note and f"Curvature: {note}.")


def course_if_told(probes: tuple[bg.Probe, ...]) -> bg.StiffnessCourse | None:
    """The course that probes show; None where they are too few, or of no step."""
    try:
        return bg.stiffness_course(probes)
    except SettingError:
        return None
