"""`decide_fleet`: several runs that go on, and which of them deserve the steps that are left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.progress import teller
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.decision.split import Split, split_budget
from bayes_grpo.fleets.survey import Logs, survey
from bayes_grpo.forecasting.forecast import forecast
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run


def decide_fleet(
    logs: Logs,
    steps: float,
    *,
    until: float | None = None,
    signal: str = "auto",
    read: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Callable[..., None] | None = None,
) -> Split:
    """Forecasts the runs and splits steps over them.

    Args:
        logs: Files, folders, patterns and runs, whose rewards are in the same unit.
        steps: Optimizer steps to give to all of them together.
        until: Horizon of every run; None for its planned length, else half as far again as its log.
        signal: "auto", "reward" (train) or "eval" (held-out).
        read: Keyword arguments of `bayes_grpo.read_log`.
        seed: Seed.
        progress: Called with a short phrase and the share of the work that is done.

    Returns:
        The split. A run that cannot be forecast gets nothing and is left out.

    Raises:
        SettingError: No run can be forecast, or an impossible number of steps.
    """
    tell, found, problems = teller(progress), {}, []
    known = list(survey(logs, dict(read or {})))
    for i, log in enumerate(known):
        tell(f"forecast {i + 1} of {len(known)}", i / len(known))
        if log.place is None:
            problems.append(log.error)
            continue
        try:
            run = log.place if isinstance(log.place, Run) else read_log(log.place, **dict(read or {}))
            name = log.name if log.name not in found else f"{log.name} ({log.source})"
            found[name] = forecast(run, until, signal=signal, seed=seed_of(seed, "log", run.log_hash))
        except BayesGrpoError as error:
            problems.append(plain(error, 500))
    if not found:
        raise SettingError(f"decide: expected runs that can be forecast, found none; {'; '.join(problems[:3])}")
    return split_budget(found, steps, seed)
