"""`bayes-grpo simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    Output,
    grouped,
)
from bayes_grpo.cli.terminal import console, print_json, progress
from bayes_grpo.common.errors import OutputError
from bayes_grpo.common.wording import counted


@grouped
def simulate(
    scenario: Annotated[
        str,
        typer.Argument(
            help="healthy, slow_start, oscillatory, unstable, reward_hacking, …; with --deep healthy, plateau, "
            "hacking_loophole, hacking_length, concentration, explosion, collapse_rate, collapse_stale, too_hard, "
            "solved, broken_reward, mixture"
        ),
    ],
    out: Annotated[Path, typer.Option(help="New directory to write the runs to.")],
    n: Annotated[int, typer.Option("--n", "-n", help="Number of runs.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of settings and sampling.")] = 0,
    logging_steps: Annotated[
        int | None, typer.Option(help="Optimizer steps averaged into a logged row; 1, with --deep each run's own draw.")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Train a small transformer that writes tokens; needs the extra lab.")
    ] = False,
    *,
    output: Output,
) -> None:
    """Run real GRPO updates on a policy whose dynamics or failures are known; logs in TRL's format."""
    name = scenario.replace("-", "_")
    if out.exists():
        raise OutputError(f"{out}: expected a new directory, found one that exists; choose another name")
    with progress(left=deep) as tell:
        tell(f"simulating {n} runs")
        runs: Any = bg.simulate_deep(name, n, seed, tell) if deep else bg.simulate_scenario(name, n, seed)
        paths = bg.write_runs(runs, out, logging_steps=logging_steps)
    if output.json_:
        made = [{"path": str(p), "settings": r.settings, **r.truth.to_dict()} for p, r in zip(paths, runs, strict=True)]
        print_json({"runs": made}, f"{counted(len(made), 'run')} of {name} in {out}")
    elif deep:
        bg.render_deep(runs, paths, console())
    else:
        output.show(bg.WrittenRuns(runs, paths))
