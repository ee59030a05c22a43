"""Stores written by the trackers' own packages: ``python tests/helpers/store_packages.py PACKAGE FOLDER``.

Run as a program, by the interpreter that runs the tests: the packages start threads and processes of their own.
"""

import math
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

STEPS = range(1, 31)
CONFIG: dict[str, Any] = {
    "num_generations": 16, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4,
    "generation_batch_size": 64, "steps_per_generation": 4, "adam_beta1": 0.95, "lr_scheduler_type": "constant",
    "max_steps": 300, "logging_steps": 1, "optim": "adamw_torch", "nested": {"a": {"b": 1, "betas": [0.9, 0.95]}},
}  # fmt: skip
"""Settings under TRL's names."""


def row(step: int) -> dict[str, float]:
    """Metrics of a step as TRL's callbacks write them."""
    found = {
        "train/global_step": step,
        "train/reward": 1 / (step + 2),
        "train/reward_std": 0.25,
        "train/entropy": math.nan if step == 2 else 0.5,
        "train/loss": -0.001 * step,
        "train/kl": 0.5 if step == STEPS[-1] else 0.0,  # zeros are numbers, which some formats leave out
    }
    return found | ({"eval/reward": 0.75} if step % 10 == 0 else {})


def _wandb(folder: Path) -> Any:
    """An offline run with all its rows."""
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true")
    package = import_module("wandb")
    options = package.Settings(console="off")
    run = package.init(project="p", name="my run", dir=str(folder), config=CONFIG, settings=options)
    for step in STEPS:
        run.log(row(step))
    return run


def wandb(folder: Path) -> None:
    """An offline run that ends properly."""
    run = _wandb(folder)
    run.log({"text": "prose", "table": {"deep": {"er": 1.5}}})
    run.finish()


def wandb_killed(folder: Path) -> None:
    """An offline run whose process dies."""
    _wandb(folder)
    os._exit(9)


def tensorboardX(folder: Path) -> None:  # noqa: N802
    """Events of the writer that torch's is made after, with text and hyperparameters."""
    writer = import_module("tensorboardX").SummaryWriter(str(folder / "runs" / "my run"))
    import json

    writer.add_text("args", json.dumps(CONFIG))
    for step in STEPS:
        for key, value in row(step).items():
            writer.add_scalar(key, value, step)
    writer.add_hparams({"lr": 1e-6, "num_prompts": 8}, {"hparam/reward": 0.5})
    writer.close()


def tensorboard(folder: Path) -> None:
    """Events of TensorBoard's own writer, numbers as tensors, beside a histogram."""
    writers = import_module("tensorboard.summary.writer.event_file_writer")
    event_pb2 = import_module("tensorboard.compat.proto.event_pb2")
    scalars = import_module("tensorboard.plugins.scalar.summary_v2")
    histograms = import_module("tensorboard.plugins.histogram.summary_v2")
    texts = import_module("tensorboard.plugins.text.summary_v2")
    import json

    writer = writers.EventFileWriter(str(folder / "runs" / "my run"))
    summaries = [(0, texts.text_pb("args/text_summary", json.dumps(CONFIG)))]
    summaries += [(s, scalars.scalar_pb(key, value)) for s in STEPS for key, value in row(s).items()]
    summaries += [(s, histograms.histogram_pb("weights", [0.1, 0.2, 0.3])) for s in STEPS]
    for step, summary in summaries:
        writer.add_event(event_pb2.Event(wall_time=1.8e9 + step, step=step, summary=summary))
    writer.close()


def trackio(folder: Path) -> None:
    """A project with two runs."""
    os.environ.update(TRACKIO_DIR=str(folder / "trackio"), HF_HUB_OFFLINE="1", HF_HOME=str(folder / "hf"))
    package = import_module("trackio")
    for name in ("my run", "other"):
        package.init(project="proj", name=name, config=CONFIG)
        for step in STEPS:
            package.log(row(step))
        package.finish()


def mlflow(folder: Path) -> None:
    """A database with two runs."""
    _mlflow(f"sqlite:///{folder / 'mlflow.db'}")


def mlruns(folder: Path) -> None:
    """Folders of text files with two runs."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    _mlflow((folder / "mlruns").as_uri())


def _mlflow(uri: str) -> None:
    package = import_module("mlflow")
    package.set_tracking_uri(uri)
    package.set_experiment("exp")
    for name in ("my run", "other"):
        with package.start_run(run_name=name):
            package.log_params(CONFIG)
            for step in STEPS:
                package.log_metrics(row(step), step=step)


WRITERS: Mapping[str, Callable[[Path], None]] = {
    f.__name__: f for f in (wandb, wandb_killed, tensorboardX, tensorboard, trackio, mlflow, mlruns)
}
"""Name → what writes a store into a folder."""
PACKAGE = {name: {"wandb_killed": "wandb", "mlruns": "mlflow"}.get(name, name) for name in WRITERS}
"""Name → the package that it needs."""

if __name__ == "__main__":
    WRITERS[sys.argv[1]](Path(sys.argv[2]))
