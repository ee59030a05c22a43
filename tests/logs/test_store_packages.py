"""Stores written by the trackers' own packages, read without them.

A package that is not installed is passed by: `uv sync --group stores` installs all of them.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.helpers import store_packages
from tests.helpers.selection import few
from tests.helpers.store_packages import PACKAGE, STEPS, WRITERS, row
from tests.logs.log_samples import assert_read

LATE = 240
RUNNING = [name for name in WRITERS if name != "wandb_killed"]


def written(name: str, folder: Path) -> Path:
    """A folder with what a package wrote."""
    pytest.importorskip(PACKAGE[name], reason=f"{PACKAGE[name]} is not installed (group stores)")
    program = store_packages.__file__
    done = subprocess.run(
        [sys.executable, str(program), name, str(folder)],
        cwd=folder,
        env=os.environ | {"HOME": str(folder), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=LATE,
        check=False,
    )
    if name != "wandb_killed":
        assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.parametrize("name", few(RUNNING, "tensorboardX"))
def test_what_a_package_wrote_is_read(name, tmp_path):
    run = read_log(written(name, tmp_path), run="my run")
    steps = np.array(STEPS)
    close = 1e-7 if PACKAGE[name].startswith("tensorboard") else 0.0  # these keep four bytes a number
    np.testing.assert_allclose(run.reward, 1 / (steps + 2), rtol=close)
    signals = {"kl": np.where(steps == steps[-1], 0.5, 0.0), "loss": (-0.001 * steps).astype("f" if close else float)}
    expected = {"group_size": 16, "prompts_per_step": 4, "momentum": 0.95, "schedule": "constant", "total_steps": 300}
    settings = {name: (value, "config") for name, value in expected.items()}
    evals, lost = dict.fromkeys((10, 20, 30), 0.75), ("cut", "checksum", "left out")
    assert_read(run, step=steps, evals=evals, signals=signals, settings=settings, without=lost, name="my run")
    np.testing.assert_array_equal(np.isnan(run.signals["entropy"]), steps == 2)


@pytest.mark.thorough
def test_a_run_whose_process_died(tmp_path):
    """Rows up to the last that reached the file, or an error that says that none has."""
    written("wandb_killed", tmp_path)
    try:
        run = read_log(tmp_path)
    except LogReadError as error:
        assert "found none" in str(error) or "finite" in str(error)  # noqa: PT017
        return
    np.testing.assert_array_equal(run.step, np.arange(1, len(run.step) + 1))
    np.testing.assert_array_equal(run.reward, [row(int(s))["train/reward"] for s in run.step])
