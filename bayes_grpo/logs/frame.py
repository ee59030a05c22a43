"""A `Run` as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.logs.run import Run

if TYPE_CHECKING:
    import pandas as pd


def to_frame(run: Run) -> pd.DataFrame:
    """One row a step: step, reward, the logged signals, eval_reward; NaN where not logged.

    Steps of train rows and of evaluations are joined; a column that the run lacks altogether is absent,
    reward and eval_reward excepted.
    """
    import pandas as pd

    step = np.union1d(run.step, run.eval_step)
    columns: dict[str, np.ndarray] = {"step": step}
    for name, values in {"reward": run.reward, **run.signals}.items():
        columns[name] = np.full(len(step), np.nan)
        columns[name][np.searchsorted(step, run.step)] = values
    columns["eval_reward"] = np.full(len(step), np.nan)
    columns["eval_reward"][np.searchsorted(step, run.eval_step)] = run.eval_reward
    return pd.DataFrame(columns)
