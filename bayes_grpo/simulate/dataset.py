"""Writes simulated runs as a directory of logs that any reader of trainer logs takes.

out/
  run-000/
    trainer_state.json   what a trainer would have logged
    bayes_grpo.toml      the settings a trainer would have had
    truth.json           what only the simulator knows
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from bayes_grpo.common.errors import OutputError, SettingError
from bayes_grpo.common.files import undone_at_an_end
from bayes_grpo.common.results import json_safe
from bayes_grpo.simulate.trainer_log import write_json


class Writable(Protocol):
    """A run that knows what its trainer would have left behind: of small policies or of the deep laboratory."""

    @property
    def settings(self) -> dict[str, Any]:
        """The trainer's settings by their canonical names, as a sidecar states them."""
        ...

    def log(self, logging_steps: int | None = None) -> tuple[dict[str, Any], int]:
        """The content of its `trainer_state.json`, and the steps averaged into a row; its own if None."""
        ...

    def record(self) -> dict[str, Any]:
        """What only the simulator knows, JSON-ready."""
        ...


def write_runs(
    runs: Sequence[Writable], out_dir: str | os.PathLike[str], logging_steps: int | None = None
) -> list[Path]:
    """Writes runs into a new directory, all of them or none.

    Everything is built in a temporary directory beside the target and then renamed, so that an interruption
    leaves nothing half done, and an existing directory with content is never touched.

    Args:
        runs: What to write, at least one run.
        out_dir: A directory that does not exist or is empty.
        logging_steps: Optimizer steps averaged into one logged row; each run's own if None.

    Returns:
        The directory of each run, in order.

    Raises:
        SettingError: No runs.
        OutputError: The target holds something, is not a directory, or cannot be written.
    """
    if not runs:
        raise SettingError("write_runs: expected at least one run, found none")
    target = Path(out_dir)
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise OutputError(f"{target}: expected a new or empty directory, found a file or link; nothing written")
    try:
        if target.is_dir() and any(target.iterdir()):
            raise OutputError(
                f"{target}: expected a new or empty directory, found one with content; nothing written. "
                "Name another directory, or remove this one first"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"))
    except OSError as error:
        raise OutputError(f"{target}: cannot be written ({error.strerror}); nothing written") from error
    names = [f"run-{number:03d}" for number in range(len(runs))]
    try:
        with undone_at_an_end(lambda: shutil.rmtree(building, ignore_errors=True)):
            for name, run in zip(names, runs, strict=True):
                _write_run(building / name, run, logging_steps)
        # mkdtemp makes the directory private; the result is as readable as any other new directory.
        building.chmod(0o755)
        os.replace(building, target)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written ({error.strerror}); nothing written") from error
    finally:
        # After a successful rename there is nothing left under the temporary name.
        shutil.rmtree(building, ignore_errors=True)
    return [target / name for name in names]


def _write_run(directory: Path, run: Writable, logging_steps: int | None) -> None:
    directory.mkdir()
    log, window = run.log(logging_steps)
    # A run that exploded has numbers that JSON has not: null, which readers of logs take for not logged.
    write_json(directory / "trainer_state.json", json_safe(log))
    settings = run.settings | {"logging_window": window}
    (directory / "bayes_grpo.toml").write_text(_toml_table("settings", settings), encoding="utf-8")
    write_json(directory / "truth.json", json_safe(run.record()))


def _toml_table(name: str, values: dict[str, Any]) -> str:
    """A flat TOML table of numbers and plain strings."""
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in values.items()]
    return "\n".join([f"[{name}]", *lines, ""])
