"""Simulated runs as a document: where they are, their settings and their known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bayes_grpo.common.document import Document, shows, table
from bayes_grpo.simulate.scenarios import SimulatedRun


class WrittenRuns(NamedTuple):
    """Simulated runs of one scenario and the path of each."""

    runs: Sequence[SimulatedRun]
    paths: Sequence[Path]


@shows(WrittenRuns)
def simulated_document(found: WrittenRuns) -> Document:
    """One row a run."""
    names = ("group_size", "prompts_per_step", "momentum", "refresh_interval")
    rows = [
        (path.name, *(r.settings[x] for x in names), r.truth.final_reward,
         r.truth.best_gold_reward, r.truth.final_gold_reward, r.truth.failure_mode or "none")
        for path, r in zip(found.paths, found.runs, strict=True)
    ]  # fmt: skip
    heads = ("run", "G", "prompts", "momentum", "refresh", "final reward", "best true", "final true", "failure")
    first = found.paths[0]
    answer = f"{len(rows)} runs of scenario {found.runs[0].scenario} in {first.parent}."
    return Document("Simulated runs", answer, do=f"bayes-grpo report {first}", table=table("Runs", heads, rows))
