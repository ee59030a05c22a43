"""`backtest_logs`: the backtests of many logs in one, side by side."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayes_grpo.backtesting.backtest import backtest
from bayes_grpo.backtesting.result import Backtest, merge_backtests
from bayes_grpo.common.errors import BayesGrpoError, SettingError, WorkerError
from bayes_grpo.common.executor import outcomes
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run


def backtest_logs(
    runs: Sequence[RunLike], *, jobs: int = 1, progress: Progress | None = None, **options: Any
) -> Backtest:
    """Scores the forecast of many runs at earlier steps against the rows that came.

    Args:
        runs: The runs.
        jobs: Worker processes; the scores are the same for every number of them.
        progress: Called with a short phrase at every stage; with worker processes after every run.
        **options: Keyword arguments of `bayes_grpo.backtest`, the same for all runs.

    Returns:
        The scores of all runs, in their order; a run that cannot be used is named in it.

    Raises:
        MissingExtraError: A rival's package is not installed.
        SettingError: An impossible option, or one that cannot be sent to another process.
        WorkerError: A worker process ended before its task did, twice.
    """
    tell = teller(progress)
    if jobs != 1:
        try:
            pickle.dumps(options)
        except Exception as error:
            raise SettingError(
                f"jobs: expected options that can be sent to another process, found one that cannot ({error}); "
                "give functions of a module, or jobs=1"
            ) from None
    tasks = [_Task(run, options, progress if jobs == 1 else None) for run in map(as_run, runs)]
    parts: dict[int, Backtest] = {}
    with outcomes(_one, tasks, jobs=jobs) as found:
        for outcome in found:
            error = outcome.error
            if error is None:
                parts[outcome.place] = outcome.value
            elif isinstance(error, BayesGrpoError) and not isinstance(error, SettingError | ImportError | WorkerError):
                parts[outcome.place] = Backtest((), (str(error),))
            else:
                raise error
            if jobs != 1:
                tell(f"{len(parts)} of {len(tasks)} logs")
    return merge_backtests(parts[i] for i in range(len(tasks)))


@dataclass(frozen=True, eq=False)
class _Task:
    """One run and what is asked of it."""

    run: Run
    options: Mapping[str, Any]
    progress: Progress | None


def _one(task: _Task) -> Backtest:
    return backtest(task.run, progress=task.progress, **task.options)
