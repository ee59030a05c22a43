"""`bayes-grpo learn-prior`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import Jobs, Json, Seed, names_in
from bayes_grpo.cli.terminal import console, print_json, progress
from bayes_grpo.common.files import check_writable


def learn_prior(
    folder: Annotated[Path, typer.Argument(help="Folder of logs; folders in it are runs or hold more logs.")],
    out: Annotated[Path, typer.Option(help="Write the table of numbers to this JSON file.")],
    index: Annotated[
        Path | None,
        typer.Option(help="CSV file with columns run_id and repo, which repository a log is from; else its folder."),
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Repository to leave out; may be repeated.")] = None,
    regimes: Annotated[
        str | None, typer.Option(help="Regimes, separated by commas; all with a trend that can forecast if absent.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="Keep the fitted logs in this file (.npz); those in it are not fitted again.")
    ] = None,
    jobs: Jobs = 1,
    seed: Seed = 0,
    json_: Json = False,
) -> None:
    """Learn a prior from a folder of logs: how fast, how noisy and how high runs like these are."""
    check_writable(out)
    if cases is not None:
        check_writable(cases)
    names = [bg.get_regime(x).name for x in names_in(regimes)] or None
    with progress() as tell:
        table, refused = bg.learn_prior(
            folder, index=index, exclude=exclude or (), regimes=names, cases=cases, jobs=jobs, seed=seed, progress=tell
        )
        bg.save_prior_table(table, out)
    if json_:
        said = f"priors of {len(table.regimes)} regimes in {out}; {len(refused)} logs left out"
        print_json(table.to_dict() | {"refused": refused}, said)
    else:
        bg.render_prior_table(table, refused, out, console())
