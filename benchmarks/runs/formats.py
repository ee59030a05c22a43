"""What is read from which trainer, file, store and console: the page `docs/formats.md`, out of a sample of each.

    python -m benchmarks.runs.formats

A cell is made by writing the sample (`tests/helpers/trainers.toml`) to that place and reading it; the tests
compare every number of it with what was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bayes_grpo import read_log
from bayes_grpo.common.files import atomic_write
from bayes_grpo.logs.settings import Provenance
from bayes_grpo.logs.signals import SIGNALS, HealthyRange, healthy_text
from bayes_grpo.logs.trainer import Trainer
from bayes_grpo.logs.trainers import GENERIC, TRAINERS
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
_SIGNALS = """
## Signals

What each canonical signal means. A healthy range is what runs without trouble show, by the source that is named.

"""
_DEFINED = """Trainers measure some signals in several ways. `Run.definitions` says which one a log holds: a word from
this table, "unknown" where the key does not say which, "standard" for the other signals. Here p is the probability that
the trainer gives a token and q that of the engine which sampled it.

"""
_READ = """
## Signals of each trainer

An x where the trainer logs the signal under a key that is read as that signal; the keys follow below.

"""
_KEYS = """
## Keys of each trainer

A `*` stands for any text without "/", `**` for any text. A trainer's own keys come first, then those of "unknown
trainer"; `--column SIGNAL=KEY` names another. Each key is tested on lines that hold it.
"""
_FOOT = """
## Files of scripts

A `bayes_grpo.toml` of your own next to the log adds settings.
Chart exports of W&B, tables as CSV or Parquet, and JSON of scripts are read by the names of their columns, also where
these are German, French, Spanish, Portuguese, Italian, Russian, Chinese, Japanese or Korean. The rows may have any of
these shapes; a note says which:

- objects by step, `{"step_10": {…}}`; a series a metric, as pairs, points or values by step; curves of a chart; what
  pandas writes with any `orient`; lists below a line of names; completions' rewards as a list a step;
- one metric a row, with its name and its value (TensorBoard's readers, MLflow, `melt`): a column for each name;
- metrics in rows and steps in columns, names of columns in a comment, one cell a line, lists by name in YAML or Python;
- records within records (epochs of steps), metrics within `payload`, `fields` or JSON in a text;
- printed lines as the messages of a logger's records (Docker, Kubernetes, Kaggle, loguru, exports of clouds).

What has two readings is refused: numbers without names, curves that may be runs, completions without a step.

## Stores

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


def signals() -> str:
    """The table of signals, and that of the definitions that some have."""
    lines = ["| signal | what it measures | unit | better | below 0 | healthy |", "|---" * 6 + "|"]
    defined = ["| signal | definition | how it is computed | healthy |", "|---" * 4 + "|"]
    for row in SIGNALS.values():
        negative = "yes" if row.negative or any(d.negative for d in row.definitions.values()) else ""
        cells = (f"`{row.name}`", row.meaning, row.unit, row.better, negative, _healthy(row.healthy))
        lines.append(_line(cells))
        defined += [_line((f"`{row.name}`", d.word, d.formula, _healthy(d.healthy))) for d in row.definitions.values()]
    return "\n".join(lines) + "\n\n" + _DEFINED + "\n".join(defined) + "\n"


def read_of() -> str:
    """The table of signals by trainer: an x where the trainer logs it under a key that is read."""
    lines = [_line(("signal", *(trainer.name for trainer in TRAINERS))), "|---" * (len(TRAINERS) + 1) + "|"]
    for name in SIGNALS:
        marks = ("x" if name in _signals_of(trainer) else "" for trainer in TRAINERS)
        lines.append(_line((f"`{name}`", *marks)))
    return "\n".join(lines) + "\n"


def _signals_of(trainer: Trainer) -> set[str]:
    """Of its own keys, of quotients of them, and of keys that many trainers have, as its sample is read."""
    sampled = (name for sample in SAMPLES if sample.trainer == trainer.name for name in sample.signals)
    return {*trainer.keys, *(derived.signal for derived in trainer.derived), *sampled}


def keys() -> str:
    """For each trainer a table of signals and the keys that they are read from."""
    return "".join(f"\n### {trainer.name}\n\n{_keys_of(trainer)}" for trainer in (*TRAINERS, GENERIC))


def _keys_of(trainer: Trainer) -> str:
    lines = ["| signal | keys, the first that the log has |", "|---|---|"]
    for name, signal in SIGNALS.items():
        named = [
            f"`{key}`" + (f" ({signal.word(short)})" if (short := trainer.definitions.get(key, "")) else "")
            for key in trainer.keys.get(name, ())
        ]
        for derived in (d for d in trainer.derived if d.signal == name):
            pooled = "" if derived.pool == "first" else f"{derived.pool} of "
            word = f" ({signal.word(derived.definition)})" if derived.definition else ""
            named.append(f"{pooled}`{derived.text(list(derived.terms), derived.over)}`{word}")
        lines += [_line((f"`{name}`", ", ".join(named)))] if named else []
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _healthy(healthy: HealthyRange | None) -> str:
    return "" if healthy is None else f"{healthy_text(healthy)}: {healthy.source}"


def page() -> str:
    """The page."""
    return _HEAD + table() + _SIGNALS + signals() + _READ + read_of() + _KEYS + keys() + _FOOT


def main() -> None:
    """Writes the page and keeps its counts."""
    with atomic_write(PAGE) as temporary:
        temporary.write_text(page(), encoding="utf-8")
    cells = sum(len(sample.places()) for sample in SAMPLES)
    keep("formats", {"trainers": len(SAMPLES), "places": len(PLACES), "cells": cells})


if __name__ == "__main__":
    main()
