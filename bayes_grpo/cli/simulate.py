"""`bayes-grpo simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import Output, grouped
from bayes_grpo.cli.terminal import print_json, progress
from bayes_grpo.common.errors import OutputError
from bayes_grpo.common.text import counted


@grouped
def simulate(
    scenario: Annotated[
        str,
        typer.Argument(help="healthy, slow_start, oscillatory, unstable, reward_hacking, …"),
    ],
    out: Annotated[Path, typer.Option(help="New directory to write the runs to.")],
    n: Annotated[int, typer.Option("--n", "-n", help="Number of runs.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of settings and sampling.")] = 0,
    logging_steps: Annotated[int | None, typer.Option(help="Steps averaged into a row; default 1.")] = None,
    *,
    output: Output,
) -> None:
    """Run real GRPO updates on a policy whose dynamics or failures are known; logs in TRL's format."""
    name = scenario.replace("-", "_")
    if out.exists():
        raise OutputError(f"{out}: expected a new directory, found one that exists; choose another name")
    with progress() as tell:
        tell(f"simulating {n} runs")
        runs = bg.simulate_scenario(name, n, seed)
        paths = bg.write_runs(runs, out, logging_steps=logging_steps)
    if output.json_:
        made = [{"path": str(p), "settings": r.settings, **r.truth.to_dict()} for p, r in zip(paths, runs, strict=True)]
        print_json({"runs": made}, f"{counted(len(made), 'run')} of {name} in {out}")
    else:
        output.show(bg.WrittenRuns(runs, paths))
