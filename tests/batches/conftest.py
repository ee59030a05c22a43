"""A folder of short logs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def write_logs(tmp_path: Path, write_trl_log) -> Callable[..., Path]:
    """Writes logs whose rewards rise by different amounts; their folder."""

    def write(n: int, rows: int = 30, folder: str = "runs") -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        for i in range(n):
            rng = np.random.default_rng(i)
            step = np.arange(1, rows + 1)
            reward = 0.2 + 0.05 * i * (1 - np.exp(-step / 10)) + 0.02 * rng.standard_normal(rows)
            write_trl_log(tmp_path / folder / f"run{i:02d}.json", np.round(reward, 4))
        return tmp_path / folder

    return write
