"""Paths of signals that are known to be there: `None`, the answer for too few values, fails the test at once."""

from typing import Any

from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.path import fit_path as path_or_none
from bayes_grpo.signals.run_paths import RunPaths


def not_none[T](found: T | None) -> T:
    """What was found, which has to be something."""
    assert found is not None
    return found


def paths_of(run: Run) -> RunPaths:
    """Paths of a run that has a reward."""
    return not_none(RunPaths.of(run))


def view_of(run: Run) -> RunView:
    """View of a run that has a reward."""
    return not_none(RunView.of(run))


def fit_path(*args: Any, **kwargs: Any) -> SignalPath:
    """Path of a signal that has enough values."""
    return not_none(path_or_none(*args, **kwargs))
