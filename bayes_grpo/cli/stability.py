"""`bayes-grpo stability`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import Output, Reading, Seed, progress_bar
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    from bayes_grpo.probing.course import StiffnessCourse
    from bayes_grpo.probing.estimate import Probe


@command(
    "stability outputs/run --learning-rate 1e-5",
    "stability --learning-rate 1e-5 --refresh 8 --measured probe.json",
)
def stability(
    log: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Log of an earlier run, or its fit (.nc): gives the learning time. Settings without a flag are those "
            "of that run."
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
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
) -> None:
    """Say before a run whether its settings are stable, by the published rule and exactly."""
    if (log is None) == (measured is None):
        raise SettingError("stability: expected either a log or --measured")
    if learning_rate is None and log is None:
        raise SettingError("stability: found no learning rate of the planned run; give --learning-rate")
    flags = {
        "learning_rate": learning_rate,
        "momentum": momentum,
        "convention": convention,
        "refresh_interval": refresh,
    }
    given = {name: x for name, x in flags.items() if x is not None}
    note, converged = "", True
    then: dict[str, Any] = {}
    if measured is None:
        assert log is not None
        from bayes_grpo.planning.stability import curvature_of

        fit, failed = _fit_of(log, reading, seed)
        fitted, converged = curvature_of(fit), fit.convergence.passed
        planned: dict[str, Any] = {**fitted.settings, **given}
        changed = fitted.change_to(planned["learning_rate"], planned["refresh_interval"])
        planned |= {"curvature": fitted.draws, "source": fitted.source, "changed": changed, "failed": failed}
        note = fitted.note
    else:
        planned = {"momentum": 0.9, "refresh_interval": 1.0, **given}
        from bayes_grpo.probing.course import pooled_probes
        from bayes_grpo.probing.file import load_probes
        from bayes_grpo.probing.predict import limits_of

        found = load_probes(measured)
        whole, course = pooled_probes(found), optional_course(found)
        limits = limits_of(whole, **planned)
        planned |= {"convention": limits.convention, "lag_exposure": limits.lag_exposure}
        planned["curvature"] = whole.stiffest.draws()
        then = {"measured": whole, "limits": limits, "course": course}
    report = bg.stability(**planned)
    line = note and f"Curvature: {note}."
    output.show(report, more={"note": note}, then=then, note=line, converged=converged)


def _fit_of(log: list[Path], reading: Reading, seed: int) -> tuple[bg.Fit, bool]:
    """The fit of a log, by the regime that `bayes-grpo fit` takes, or a saved one; and whether the run failed."""
    if len(log) == 1 and log[0].suffix == ".nc":
        return bg.load_fit(log[0]), False
    run = reading.read(log)
    if run.settings.learning_rate.value is None and "learning_rate" not in run.signals:
        raise SettingError(
            f"stability: expected the learning rate of {plain(run.name, 80)}, found none in its log; give "
            "--set learning_rate=…"
        )
    from bayes_grpo.planning.outcomes import run_failed

    with progress_bar() as progress:
        return bg.fit(run, seed=seed, progress=progress), run_failed(run, bg.rows_of(run))


def optional_course(probes: tuple[Probe, ...]) -> StiffnessCourse | None:
    """The course that probes show; None where they are too few, or of no step."""
    from bayes_grpo.probing.course import stiffness_course

    try:
        return stiffness_course(probes)
    except SettingError:
        return None
