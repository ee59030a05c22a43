"""`bayes-grpo demo`."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import Output, Seed, grouped
from bayes_grpo.cli.terminal import console, progress
from bayes_grpo.common.errors import OutputError

_OUT = Path("bayes-grpo-demo")
_SEEN = 0.5
"""Share of the simulated run that the page sees, so that something is left to forecast."""


@grouped
def demo(
    out: Annotated[
        Path, typer.Option(help="New directory for the simulated run and its page; a second one gets a number.")
    ] = _OUT,
    scenario: Annotated[str, typer.Option(help="healthy, reward_hacking, unstable, …, as in simulate.")] = "healthy",
    seed: Seed = 0,
    *,
    output: Output,
) -> None:
    """Simulate a run, fit, forecast and diagnose its first half, and write the page: everything in one command."""
    if out.exists() and out != _OUT:
        raise OutputError(f"{out}: expected a new directory, found one that exists; choose another with --out")
    out = next(x for x in chain([out], (Path(f"{out}-{i}") for i in count(2))) if not x.exists())
    with progress(left=True) as tell:
        tell("simulating a run")
        path = bg.write_runs(bg.simulate_scenario(scenario.replace("-", "_"), 1, seed), out / "runs")[0]
        whole = bg.read_log(path)
        cut = float(whole.step[int(_SEEN * len(whole.step)) - 1])
        question = bg.Question(cost_per_step=1.0, value_per_reward=2000.0)
        settings = bg.ReportSettings(until=float(whole.step[-1]), question=question, seed=seed)
        made = bg.report_run(whole.until(cut), settings=settings, progress=tell)
        page = bg.save_report(made, out / "report.html")
    output.show(made, more={"page": str(page)})
    if output.json_:
        return
    rest = whole.reward[whole.step > cut]
    last = rest[-max(len(rest) // 10, 1) :].mean()
    screen = console()
    screen.print(
        f"What came: the last rows, to step {whole.step[-1]:g}, have a mean reward of {last:.3f}", markup=False
    )
    screen.print(f"Page: {page}", markup=False)
