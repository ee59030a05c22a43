"""`plan`: from a run to the settings of the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.decision.decide import check_amount
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.outcomes import grid_of
from bayes_grpo.references.gather import RunSources
from bayes_grpo.rows.rows_of import MAX_ROWS_OF_SEVERAL, rows_of

if TYPE_CHECKING:
    from bayes_grpo.planning.planned import Plan


def plan(
    present: PathLike | Run,
    *,
    group_size: Sequence[float] | None = None,
    prompts_per_step: Sequence[float] | None = None,
    learning_rate: Sequence[float] | None = None,
    refresh_interval: Sequence[float] | None = None,
    budget: float | None = None,
    risk: float = THRESHOLDS.safe,
    signal: str = "auto",
    read: Mapping[str, Any] | None = None,
    reference_runs: RunSources | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Settings of the next run, from the same start as the present one.

    Args:
        present: The present run, or its log.
        group_size: Group sizes to try; half, same and double if None, likewise below.
        prompts_per_step: Prompts an optimizer step.
        learning_rate: Highest learning rates; rungs between the present one and the highest of them are tried too.
        refresh_interval: Optimizer steps between refreshes; half, same and double where the present one is above 1.
        budget: Largest cost of the next run in steps of the present one; a step's cost follows its completions. The
            present run's length if None.
        risk: Largest P(fails) of what is recommended, unless the present settings have more; by default that of the
            advice to raise a learning rate (`THRESHOLDS.safe`).
        signal: "auto", "reward" (train) or "eval" (evaluations).
        read: Keyword arguments of `bayes_grpo.read_log`.
        reference_runs: Reference runs of the same task: which failed at which settings informs P(fails) of candidates.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The plan: the candidate with the largest expected reward within the budget, what a failed run leaves counted
        in, among those that are probably better and unlikely to fail; else the present settings.

    Raises:
        LogReadError: The log cannot be read.
        SettingError: An impossible option, or a setting that is not known of the run.
        FitError: No regime can be put on the rows.
    """
    check_amount("budget", budget, above=True)
    if not 0.0 < risk <= 1.0:
        raise SettingError(f"risk: expected a probability above 0, found {risk!r}")
    progress = or_silent(progress)
    progress("reading")
    run = present if isinstance(present, Run) else read_log(present, **dict(read or {}))
    table = rows_of(run, signal, MAX_ROWS_OF_SEVERAL)
    values = {
        "group_size": group_size,
        "prompts_per_step": prompts_per_step,
        "learning_rate": learning_rate,
        "refresh_interval": refresh_interval,
    }
    grid = grid_of(run, table, values)
    # This takes seconds to import, which a refusal need not wait for.
    from bayes_grpo.planning.judge import judge

    return judge(run, table, grid, reference_runs, budget=budget, risk=risk, seed=seed, progress=progress)
