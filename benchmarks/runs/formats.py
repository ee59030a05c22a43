"""Which trainer is read from which file, store and console: the page `docs/formats.md`, out of a sample of each.

    python -m benchmarks.runs.formats

A cell is made by writing the sample (`tests/helpers/trainer_samples.py`) to that place and reading it; the tests
compare every number of it with what was written.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bayes_grpo import read_log
from bayes_grpo.common.files import written_whole
from bayes_grpo.logs.settings import Provenance
from benchmarks.common import keep
from tests.helpers.trainer_samples import SAMPLES, Sample

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"
PLACES = {
    "file": "own file",
    "wandb": "W&B",
    "tensorboard": "TensorBoard",
    "trackio": "Trackio",
    "mlflow": "MLflow",
    "mlruns": "MLflow text",
    "console": "console",
}
_STATED = (Provenance.CONFIG, Provenance.LOGGED)
_HEAD = """# What is read

One line a trainer, one column a place that its metrics can lie in. Each cell comes from a small log with the trainer's
own keys, written to that place and read back: **R** train reward, **H** evaluation reward, **S** with the number of
signals (entropy, KL, lengths, …), **C** with the number of settings that the log itself states (group size, prompts,
momentum, …). "–": the trainer does not write there, or not in a form that can be read. The stores are read as they lie
on disk, without their packages, a server or an account, while a run goes on or after it.

"""
_FOOT = """
A `bayes_grpo.toml` of your own next to the log adds settings.
Chart exports of W&B, tables as CSV or Parquet, and JSON of scripts are read by the names of their columns.

| store | path | what is read of it |
|---|---|---|
| W&B | `wandb/`, `wandb/*run-*/`, `run-ID.wandb` | history and configuration; an unsynced or running one too |
| TensorBoard | a folder with `events.out.tfevents.*`, `runs/` | scalars, arguments as text, hyperparameters |
| Trackio | `PROJECT.db`, the folder with it | rows and configuration |
| MLflow | `mlflow.db`; `mlruns/`, an experiment or a run in it | metrics and parameters |

A store with several runs lists them; `--run NAME` takes one by its name, its id, or the beginning of either. Of a file
that is cut or damaged the whole records are read, and a note says what is missing. Nothing is unpickled or executed.

This page is written by `python -m benchmarks.runs.formats`.
"""


class Cell(NamedTuple):
    """What a run that was read holds.

    Attributes:
        reward: Whether it has the train reward.
        held_out: Whether it has the evaluation reward.
        signals: Its signals.
        settings: Its settings that the log states.
    """

    reward: bool
    held_out: bool
    signals: int
    settings: int

    @property
    def text(self) -> str:
        """The cell as the page shows it."""
        parts = [name for name, has in (("R", self.reward), ("H", self.held_out)) if has]
        return " ".join([*parts, f"S{self.signals}", *([f"C{self.settings}"] if self.settings else [])])


def cell(sample: Sample, place: str) -> Cell:
    """A sample written to a place and read."""
    with TemporaryDirectory() as folder:
        run = read_log(sample.write(place, Path(folder)))
    stated = [s for _, s in run.settings.items() if s.provenance in _STATED]
    return Cell(run.has_reward, run.has_eval, len(run.signals), len(stated))


def table() -> str:
    """The table of trainers and places."""
    lines = ["| trainer | " + " | ".join(PLACES.values()) + " |", "|---" * (len(PLACES) + 1) + "|"]
    for sample in SAMPLES:
        places = sample.places()
        cells = [cell(sample, place).text if place in places else "–" for place in PLACES]
        lines.append(f"| {sample.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page."""
    return _HEAD + table() + _FOOT


def main() -> None:
    """Writes the page and keeps its counts."""
    with written_whole(PAGE) as temporary:
        temporary.write_text(page(), encoding="utf-8")
    cells = sum(len(sample.places()) for sample in SAMPLES)
    keep("formats", {"trainers": len(SAMPLES), "places": len(PLACES), "cells": cells})


if __name__ == "__main__":
    main()
