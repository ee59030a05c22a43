"""Commands for before a run: simulated runs with known truth, and the stability of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_grpo.cli_options import Json
from bayes_grpo.errors import SettingError
from bayes_grpo.terminal import console, print_json, progress


def simulate(
    scenario: Annotated[str, typer.Argument(help="healthy, slow_start, oscillatory, unstable, reward_hacking, …")],
    out: Annotated[Path, typer.Option(help="New directory to write the runs to.")],
    n: Annotated[int, typer.Option("--n", help="Number of runs.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of settings and sampling.")] = 0,
    logging_steps: Annotated[int, typer.Option(help="Optimizer steps averaged into a logged row.")] = 1,
    json_: Annotated[bool, typer.Option("--json", help="The truth of every run as JSON.")] = False,
) -> None:
    """Run real GRPO updates on a small policy whose dynamics are known; logs in TRL's format."""
    from bayes_grpo.simulate import simulate_scenario, write_runs

    name = scenario.replace("-", "_")
    if out.exists():
        from bayes_grpo.errors import OutputError

        raise OutputError(f"{out}: expected a new directory, found one that exists; choose another name")
    with progress() as tell:
        tell(f"simulating {n} runs")
        runs = simulate_scenario(name, n, seed)
        paths = write_runs(runs, out, logging_steps=logging_steps)
    if json_:
        print_json(
            [{"path": str(p), "settings": r.settings, **r.truth.to_dict()} for p, r in zip(paths, runs, strict=True)]
        )
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (
        "run",
        "G",
        "prompts",
        "momentum",
        "refresh",
        "final reward",
        "fixed point",
        "gain",
        "growth/step",
        "failure",
    ):
        table.add_column(column, justify="left" if column in ("run", "failure") else "right")
    for path, run in zip(paths, runs, strict=True):
        t, s = run.truth, run.settings
        table.add_row(
            str(path),
            *(f"{s[name]:g}" for name in ("group_size", "prompts_per_step", "momentum", "refresh_interval")),
            *(_short(x) for x in (t.final_reward, t.fixed_point, t.gain, t.growth_per_step)),
            t.failure_mode or "none",
        )
    screen = console()
    screen.print(f"{n} runs of scenario {name} in {out}; each is read by `bayes-grpo fit {out}/run-000`")
    screen.print(table)


def stability(
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate of the planned run.")],
    momentum: Annotated[float, typer.Option(help="Heavy-ball momentum or Adam's first beta.")] = 0.9,
    convention: Annotated[str, typer.Option(help="ema (Adam) or heavy_ball (SGD momentum).")] = "ema",
    refresh: Annotated[float, typer.Option(help="Optimizer steps between refreshes of the sampling policy.")] = 1.0,
    from_fit: Annotated[Path | None, typer.Option(help="Fit whose posterior gives the curvature.")] = None,
    fit_learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of the fitted run, if not logged.")
    ] = None,
    curvature: Annotated[float | None, typer.Option(help="Curvature K per unit learning rate and step.")] = None,
    learning_time: Annotated[
        float | None, typer.Option(help="E-fold learning time of a low-lag run, in steps.")
    ] = None,
    lag_exposure: Annotated[float, typer.Option(help="Share of the gradient that is late, 0 to 1.")] = 1.0,
    source: Annotated[
        str, typer.Option(help="Where a given curvature comes from: independent, low_lag_run, prior or same_run.")
    ] = "independent",
    group_size: Annotated[bool, typer.Option("--group-size", help="Plan the group size too.")] = False,
    success_rate: Annotated[
        list[float] | None, typer.Option(help="Success rate of the prompts; several for several difficulties.")
    ] = None,
    prompts_per_step: Annotated[int, typer.Option(help="Prompts an optimizer step, for --group-size.")] = 32,
    json_: Json = False,
) -> None:
    """Say before a run whether its settings are stable, by the published rule and exactly."""
    from bayes_grpo.analysis.stability import plan_group_sizes
    from bayes_grpo.analysis.stability import stability as judge

    given = [x is not None for x in (from_fit, curvature, learning_time)]
    if sum(given) != 1:
        raise SettingError("stability: expected exactly one of --from-fit, --curvature and --learning-time")
    note = ""
    known: dict[str, Any] = {"curvature": curvature, "learning_time": learning_time, "source": source}
    if from_fit is not None:
        from bayes_grpo.analysis.curvature import curvature_of
        from bayes_grpo.inference.io import load_fit

        found = curvature_of(load_fit(from_fit), fit_learning_rate)
        known, note = {"curvature": found.draws, "source": found.source}, found.note
    kind: Any = convention
    report = judge(learning_rate, momentum, kind, refresh, lag_exposure=lag_exposure, **known)
    plans = plan_group_sizes(success_rate or [0.5], prompts_per_step) if group_size else ()
    if json_:
        print_json(report.to_dict() | {"note": note, "group_sizes": [p.to_dict() for p in plans]})
        return
    screen = console()
    screen.print(report.sentence, style="bold", markup=False)
    screen.print(_thresholds(report))
    screen.print(f"Without lag, oscillation sets in at g = {report.onset:.4g}.", markup=False)
    if note:
        screen.print(f"curvature: {note}", style="dim", markup=False)
    if plans:
        rates = ", ".join(f"{p:g}" for p in success_rate or [0.5])
        screen.print(f"Group sizes at success rates {rates}, {prompts_per_step} prompts a step:", markup=False)
        screen.print(_groups(plans))


def _thresholds(report: Any) -> Any:
    from rich.table import Table

    from bayes_grpo.intervals import probability_text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("lag model", "largest stable g", f"margin ({report.level:.0%} interval)", "P(stable)"):
        table.add_column(column, justify="left" if column == "lag model" else "right")
    names = {"rule": "published rule", "delay": "constant delay, exact", "hold": "hold, exact"}
    for verdict in (report.rule, report.delay, report.hold):
        m = verdict.margin
        shown = f"{m.median:.3g}" if report.n_draws == 1 else rf"{m.median:.3g} \[{m.low:.3g}, {m.high:.3g}]"
        table.add_row(
            names[verdict.lag_model], f"{verdict.threshold:.4g}", shown, probability_text(verdict.probability_stable)
        )
    g = report.gain
    table.caption = f"g = η K with the convention's factor: {g.median:.4g}" + (
        "" if report.n_draws == 1 else rf" \[{g.low:.3g}, {g.high:.3g}]"
    )
    return table


def _groups(plans: Any) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("G", "fluctuation (to G = 8)", "sd of a logged row", "usable groups", "speed of drift"):
        table.add_column(column, justify="right")
    for p in plans:
        table.add_row(
            str(p.group_size),
            f"{p.fluctuation:.2f}",
            f"{p.row_sd:.3f}",
            f"{p.usable_share:.0%}",
            f"{p.drift_factor:.2f}",
        )
    return table


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
