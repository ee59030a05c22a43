"""`bayes-grpo simulate`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import console, print_json, progress_bar
from bayes_grpo.common.errors import OutputError
from bayes_grpo.common.text import counted

_DEMO = Path("bayes-grpo-demo")
_CUT = 0.5
"""Share of the simulated run that the page of a demonstration is made from, so that something is left to forecast."""


@command("simulate healthy --out runs -n 4", "simulate --demo", "simulate reward_hacking --demo --out look")
def simulate(
    scenario: Annotated[
        str, typer.Argument(help="healthy, slow_start, oscillatory, unstable, reward_hacking, …")
    ] = "healthy",
    out: Annotated[
        Path | None, typer.Option(help="New directory to write to; a demonstration numbers its own by default.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Also fit, forecast and diagnose the first half of a run, and write a page.")
    ] = False,
    n: Annotated[int, typer.Option("--n", "-n", help="Number of runs.")] = 1,
    seed: options.Seed = 0,
    logging_steps: Annotated[int | None, typer.Option(help="Steps averaged into a row; default 1.")] = None,
    *,
    output: options.Output,
) -> None:
    """Run real GRPO updates on a policy whose dynamics or failures are known; logs in TRL's format."""
    if out is None and not demo:
        raise typer.BadParameter("expected --out DIRECTORY, or --demo")
    if out is not None and out.exists():
        raise OutputError(f"{out}: expected a new directory, found one that exists; choose another with --out")
    name = scenario.replace("-", "_")
    if demo:
        made = out or _free_folder()
        _demonstrate(name, made, seed, output)
    elif out is not None:
        with progress_bar() as progress:
            progress(f"simulating {n} runs")
            runs = bg.simulate_scenario(name, n, seed)
            paths = bg.write_runs(runs, out, logging_steps=logging_steps)
        if output.json_:
            rows = [{"path": str(p), "settings": r.settings, **r.truth.to_dict()}
                    for p, r in zip(paths, runs, strict=True)]  # fmt: skip
            print_json({"runs": rows}, f"{counted(len(rows), 'run')} of {name} in {out}")
        else:
            from bayes_grpo.views.simulate import WrittenRuns

            output.show(WrittenRuns(runs, paths))


def _free_folder() -> Path:
    """The first folder of a demonstration that does not exist: bayes-grpo-demo, bayes-grpo-demo-2 and so on."""
    numbered = (Path(f"{_DEMO}-{i}") for i in itertools.count(2))
    return next(x for x in itertools.chain([_DEMO], numbered) if not x.exists())


def _demonstrate(scenario: str, out: Path, seed: int, output: options.Output) -> None:
    """One run, the page of its first half, and what came after it."""
    with progress_bar() as progress:
        progress("simulating a run")
        path = bg.write_runs(bg.simulate_scenario(scenario, 1, seed), out / "runs")[0]
        run = bg.read_log(path)
        cut = float(run.step[int(_CUT * len(run.step)) - 1])
        costs = bg.StoppingCosts(cost_per_step=1.0, value_per_reward=2000.0)
        settings = bg.AnalysisSettings(horizon=float(run.step[-1]), costs=costs, seed=seed)
        made = bg.report_run(run.until(cut), settings=settings, progress=progress)
        page = bg.save_report(made, out / "report.html")
    output.show(made, more={"page": str(page)})
    if not output.json_:
        rest = run.reward[run.step > cut]
        last = rest[-max(len(rest) // 10, 1) :].mean()
        ahead = made.results["forecast"]["at_horizon"]
        level = f"{ahead['median']:.3f} [{ahead['low']:.3f}, {ahead['high']:.3f}]"
        came = f"Forecast for step {run.step[-1]:g}: {level}; outcome: the last rows have a mean reward of {last:.3f}"
        console().print(f"{came}\nPage: {page}", markup=False)
