"""`plan`: from a run, or a family of runs, to the settings of the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.logs.reading import PathLike
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.question import RISK, Terms, asked
from bayes_grpo.siblings.gather import Like

if TYPE_CHECKING:
    from bayes_grpo.families.result import Family
    from bayes_grpo.planning.planned import Plan
    from bayes_grpo.rollouts.records import Rollouts


def plan(
    present: PathLike | Run,
    *,
    family: Family | None = None,
    index: PathLike | Mapping[str, Mapping[str, Any]] | None = None,
    group_size: Sequence[float] | None = None,
    prompts_per_step: Sequence[float] | None = None,
    learning_rate: Sequence[float] | None = None,
    refresh_interval: Sequence[float] | None = None,
    budget: float | None = None,
    cost_per_step: float | None = None,
    value_per_reward: float | None = None,
    reach: float | None = None,
    probability: float | None = None,
    risk: float = RISK,
    signal: str = "auto",
    read: Mapping[str, Any] | None = None,
    rollouts: Rollouts | None = None,
    like: Like | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Settings of the next run, from the same start as the present one.

    Args:
        present: The present run, or its log.
        family: A family whose exponents say what settings do, under the law exponential; the run as the family sees it
            where it is one of its runs. Exponents that it does not hold come from priors about what theory expects.
        index: Settings of the run that its log lacks: CSV file with a column that names the log, or a mapping of names
            to settings.
        group_size: Group sizes to try; half, same and double if None, likewise below.
        prompts_per_step: Prompts an optimizer step.
        learning_rate: Highest learning rates; rungs between the present one and the highest of them are tried too.
        refresh_interval: Optimizer steps between refreshes; half, same and double where the present one is above 1.
        budget: Largest cost of the next run; that of the present one if None.
        cost_per_step: Cost of a step of the present run; a step's cost follows its completions. Costs are in steps of
            the present run if None.
        value_per_reward: Value of one unit of reward, in the unit of the cost.
        reach: Reward for which steps and cost are wanted.
        probability: With which it shall be reached by one run; 0.9 if None.
        risk: Largest P(fails) of what is recommended, unless the present settings have more.
        signal: "auto", "reward" (train) or "eval" (held-out).
        read: Keyword arguments of `bayes_grpo.read_log`.
        rollouts: Completions of the run: how many groups are of use at other sizes rests on them, in place of the log.
        like: Siblings, other runs of the same task: which failed at which settings tells P(fails) of candidates.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The plan: the candidate with the largest expected net value, or without a value the largest expected reward
        within the budget, what a failed run leaves counted in, among those that are unlikely enough to fail.

    Raises:
        LogReadError: The log cannot be read.
        SettingError: An impossible option, or a setting that is not known of the run.
        FitError: No law can be put on the rows, or completions without groups.
    """
    terms = Terms(
        budget=budget,
        cost_per_step=cost_per_step,
        value_per_reward=value_per_reward,
        reach=reach,
        probability=probability,
        risk=risk,
    )
    tell = teller(progress)
    tell("reading")
    values = {
        "group_size": group_size,
        "prompts_per_step": prompts_per_step,
        "learning_rate": learning_rate,
        "refresh_interval": refresh_interval,
    }
    question = asked(
        present, values, terms, family=family, index=index, signal=signal, read=read, rollouts=rollouts, like=like
    )
    # This takes seconds to import, which a refusal need not wait for.
    from bayes_grpo.planning.judge import judge

    return judge(question, family, seed, tell)
