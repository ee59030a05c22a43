"""Results in a tracker, with their run: W&B, Trackio, TensorBoard or MLflow, by their own clients.

A client is imported on use. Where a project, a server or an account lies is its own business: the
variables of its own documentation hold (WANDB_MODE, MLFLOW_TRACKING_URI, …). What tells the run is read off the log's
place, so that the numbers go to the run that was read; else they make a run of the log's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bayes_grpo.common.errors import MissingExtraError, OutputError, SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.run import Run

NAMESPACE = "bayes_grpo"
"""Before the names of all that is written."""
_DEEP = 3
"""Levels of a result that are written; what lies deeper, and lists, are for `--json`."""
_WANDB_RUN = re.compile(r"run-\d{8}_\d{6}-([\w-]+)")
_WANDB_ADDRESS = re.compile(r"wandb:/+(?:([^/]+)/)?([^/]+)/(?:runs/)?([^/;]+)")
_MLFLOW_RUN = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


class Written(NamedTuple):
    """What is written.

    Attributes:
        name: Name of the run.
        source: Where its log was read.
        step: Its last step.
        headline: The result in a sentence.
        numbers: Name → number.
    """

    name: str
    source: str
    step: int
    headline: str
    numbers: Mapping[str, float]


def log_result(tracker: str, run: Run, about: str, result: Mapping[str, Any], headline: str) -> str:
    """Writes the numbers of a result to the run that it came from.

    Args:
        tracker: "wandb", "trackio", "tensorboard" or "mlflow".
        run: The run.
        about: What the result is, one word for names, such as "forecast".
        result: The result as a dictionary.
        headline: It in a sentence.

    Returns:
        Where it was written, in words.

    Raises:
        SettingError: Another tracker.
        MissingExtraError: Its client is not installed; the message names the extra.
        OutputError: The client refused.
    """
    check_tracker(tracker)
    ends = [float(x[-1]) for x in (run.step, run.eval_step) if len(x)]
    numbers = {f"{NAMESPACE}/{about}/{name}": value for name, value in _flat(result).items()}
    written = Written(plain(run.name, 100), run.source, int(max(ends, default=0.0)), plain(headline, 1000), numbers)
    try:
        return TRACKERS[tracker].write(written, about)
    except Exception as error:  # whatever client, network or account raise
        reason = plain(f"{type(error).__name__}: {error}", 300)
        raise OutputError(f"--log-to {tracker}: expected its client to take the result, found {reason}") from error


def check_tracker(tracker: str) -> None:
    """Raises `SettingError` or `MissingExtraError` where results cannot go to a tracker; imports nothing."""
    if tracker not in TRACKERS:
        raise SettingError(f"--log-to: expected {', '.join(TRACKERS)}, found {plain(tracker, 60)!r}")
    package = TRACKERS[tracker].package
    if find_spec(package) is None:
        raise MissingExtraError(
            f"--log-to {tracker}: it needs {package}, which is not installed; install bayes-grpo[{tracker}]"
        )


def _flat(values: Mapping[str, Any], before: str = "", level: int = 1) -> dict[str, float]:
    """Numbers of a nested dictionary under their path."""
    out: dict[str, float] = {}
    for key, value in values.items():
        name = f"{before}{plain(key, 60)}"
        if isinstance(value, Mapping) and level < _DEEP:
            out |= _flat(value, f"{name}/", level + 1)
        elif isinstance(value, bool | int | float) and math.isfinite(value):
            out[name] = float(value)
    return out


def _wandb(written: Written, about: str) -> str:
    import wandb

    address, folder = _WANDB_ADDRESS.match(written.source), _WANDB_RUN.search(written.source)
    entity, project, run_id = address.groups() if address else (None, None, folder and folder[1])
    run = wandb.init(
        entity=entity,
        project=project,
        id=run_id,
        resume="allow" if run_id else None,
        name=None if run_id else written.name,
        settings=wandb.Settings(silent=True, console="off"),
    )
    run.summary.update({**written.numbers, f"{NAMESPACE}/{about}/headline": written.headline})
    where = run.url or run.dir
    run.finish()
    return f"the summary of run {run.id}, {where}"


def _trackio(written: Written, about: str) -> str:
    import trackio  # pyright: ignore[reportMissingImports]  (an extra)

    place = Path(written.source)
    project = place.stem if place.suffix == ".db" else NAMESPACE
    trackio.init(project=project, name=written.name, resume="allow", embed=False)
    trackio.log({**written.numbers, f"{NAMESPACE}/{about}/headline": written.headline}, step=written.step)
    trackio.finish()
    return f"run {written.name} of project {project}"


def _tensorboard(written: Written, about: str) -> str:
    from tensorboardX import SummaryWriter

    place = Path(written.source.split("; ")[0])
    folder = (place if place.is_dir() else place.parent) / NAMESPACE
    with SummaryWriter(str(folder)) as writer:
        for name, value in written.numbers.items():
            writer.add_scalar(name, value, written.step)
        writer.add_text(f"{NAMESPACE}/{about}/headline", written.headline, written.step)
    return str(folder)


def _mlflow(written: Written, about: str) -> str:
    import mlflow  # pyright: ignore[reportMissingImports]  (an extra)

    place, known = Path(written.source), _MLFLOW_RUN.search(written.source)
    if place.suffix == ".db" and place.is_file():
        mlflow.set_tracking_uri(f"sqlite:///{place}")
    with mlflow.start_run(run_id=known[0] if known else None, run_name=None if known else written.name) as run:
        mlflow.log_metrics({re.sub(r"[^\w./ -]", "_", k): v for k, v in written.numbers.items()}, step=written.step)
        mlflow.set_tag(f"{NAMESPACE}.{about}.headline", written.headline)
    return f"run {run.info.run_id}"


class Tracker(NamedTuple):
    """A tracker: the package of its client, and what writes a result and says where."""

    package: str
    write: Callable[[Written, str], str]


TRACKERS: Mapping[str, Tracker] = {
    "wandb": Tracker("wandb", _wandb),
    "trackio": Tracker("trackio", _trackio),
    "tensorboard": Tracker("tensorboardX", _tensorboard),
    "mlflow": Tracker("mlflow", _mlflow),
}
"""Tracker by its name, which is that of the extra too."""
