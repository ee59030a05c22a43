"""`plan`: from a run, or a family of runs, to the settings of the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.decision.budget import check_amount, check_probability
from bayes_grpo.families.members import LONGEST
from bayes_grpo.families.result import Family
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.candidates import grid_of
from bayes_grpo.planning.difficulty import difficulty_of
from bayes_grpo.planning.outlook import (
    QUANTITIES,
    Learned,
    base_of_family,
    base_of_run,
    family_exponents,
    prior_exponents,
)
from bayes_grpo.planning.planned import Assumed, Candidate, Course, Plan
from bayes_grpo.planning.worth import Prospect
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable, is_share

STABLE = 0.9
"""Least probability of being stable of what is recommended, or that of the present settings where it is less."""
SHOWN = 3
"""Candidates whose courses are kept beside the present settings'."""


def plan(
    present: PathLike | Run,
    *,
    family: Family | None = None,
    group_size: Sequence[float] | None = None,
    prompts_per_step: Sequence[float] | None = None,
    learning_rate: Sequence[float] | None = None,
    refresh_interval: Sequence[float] | None = None,
    budget: float | None = None,
    cost_per_step: float | None = None,
    value_per_reward: float | None = None,
    reach: float | None = None,
    probability: float | None = None,
    signal: str = "auto",
    read: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Settings of the next run, from the same start as the present one.

    Args:
        present: The present run, or its log.
        family: A family whose exponents say what settings do, under the law exponential; the run as the family sees it
            where it is one of its runs. Exponents that it does not hold come from priors about what theory expects.
        group_size: Group sizes to try; half, same and double if None, likewise below.
        prompts_per_step: Prompts an optimizer step.
        learning_rate: Highest learning rates.
        refresh_interval: Optimizer steps between refreshes; half, same and double where the present one is above 1.
        budget: Largest cost of the next run; that of the present one if None.
        cost_per_step: Cost of a step of the present run; a step's cost follows its completions. Costs are in steps of
            the present run if None.
        value_per_reward: Value of one unit of reward, in the unit of the cost.
        reach: Reward for which steps and cost are wanted.
        probability: With which it shall be reached by one run; 0.9 if None.
        signal: "auto", "reward" (train) or "eval" (held-out).
        read: Keyword arguments of `bayes_grpo.read_log`.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The plan: the candidate with the largest expected net value, or without a value the largest expected reward
        within the budget, among those that are probably stable.

    Raises:
        LogReadError: The log cannot be read.
        SettingError: An impossible option, or a setting that is not known of the run.
        FitError: No law can be put on the rows.
    """
    for name, value in (
        ("cost_per_step", cost_per_step),
        ("value_per_reward", value_per_reward),
        ("budget", budget),
    ):
        check_amount(name, value, above=True)
    check_probability("probability", probability)
    if value_per_reward is not None and cost_per_step is None:
        raise SettingError("plan: found a value without a cost; give cost_per_step, in the same unit")
    if reach is not None and not math.isfinite(reach):
        raise SettingError(f"reach: expected a reward, found {reach!r}")
    if probability is not None and reach is None:
        raise SettingError("plan: found a probability without a reward; give reach, what it is the probability of")
    tell = progress or (lambda _: None)
    tell("reading")
    run = present if isinstance(present, Run) else read_log(present, **dict(read or {}))
    table = rows_of(run, signal, LONGEST)
    settings = dict(run.settings.items())
    reward = reward_range(table, settings)
    place = None if family is None else _place(family, table)
    known = {} if family is None or place is None else family.runs[place].settings
    asked = {
        "group_size": group_size,
        "prompts_per_step": prompts_per_step,
        "learning_rate": learning_rate,
        "refresh_interval": refresh_interval,
    }
    grid = grid_of(run, table, known, asked)
    if family is not None and family.signal != table.signal:
        raise SettingError(f"plan: the family is of {family.signal}, the run of {table.signal}; name the same signal")
    tell("the present run")
    if family is not None and place is not None:
        base = base_of_family(family, place, table, reward, seed_of(seed, "base"))
    else:
        base = base_of_run(table, reward, seed_of(seed, "base"))
    learned: dict[str, Learned] = {}
    if family is not None:
        learned = {k: v for k, v in family_exponents(family, len(base)).items() if k in grid.present}
    adam = table.optimizer.convention == "ema"
    priors = prior_exponents(list(grid.present), len(base), adam, seed_of(seed, "exponents"))
    share = is_share(run.reward[np.isfinite(run.reward)])
    size = grid.present.get("group_size")
    prospect = Prospect(
        base=base,
        exponents=priors | learned,
        table=table,
        reward=reward,
        difficulty=difficulty_of(run, share, None if size is None else round(size)),
        present=grid.present,
        unit_cost=1.0 if cost_per_step is None else cost_per_step,
        budget=table.length * (cost_per_step or 1.0) if budget is None else budget,
        value=value_per_reward,
        target=reach,
        probability=0.9 if probability is None else probability,
    )
    tell(f"{len(grid.candidates)} candidates")
    return _planned(prospect, priors, run, grid.candidates, grid.cautions, cost_per_step is None, seed)


def _place(family: Family, table: RowTable) -> int | None:
    """Which run of a family has these rows; None where none has."""
    same = (np.array_equal(r.step, table.step) and np.array_equal(r.reward, table.y) for r in family.runs)
    return next((i for i, found in enumerate(same) if found), None)


def _planned(
    prospect: Prospect,
    priors: Mapping[str, Learned],
    run: Run,
    grid: Sequence[dict[str, float]],
    cautions: tuple[str, ...],
    free: bool,
    seed: int,
) -> Plan:
    """Judges all candidates and puts the best first."""
    present = dict(prospect.present)
    found = prospect.outcome(present)
    kept = prospect.worth(present, found, prospect.stable(present, found.rate)[0]).worth
    candidates = [_candidate(prospect, settings, kept) for settings in grid]
    least = min(STABLE, next(c.p_stable for c in candidates if c.settings == present))
    candidates.sort(key=lambda c: (c.p_stable >= least, c.expected_gain, c.settings == present), reverse=True)
    best = candidates[0]
    prior_share, prior_gain = _rests(prospect, priors, best, seed)
    difficulty = "" if prospect.difficulty is None else prospect.difficulty.sentence
    shown = [c.settings for c in candidates[:SHOWN] if c.settings != present]
    return Plan(
        run=plain(run.name),
        signal=prospect.table.signal,
        present=present,
        candidates=tuple(candidates),
        budget=prospect.budget,
        unit="present steps" if free else "money",
        value_per_reward=prospect.value,
        target=prospect.target,
        probability=prospect.probability,
        prior_share=prior_share,
        prior_gain=prior_gain,
        exponents=_assumed(prospect.exponents),
        courses=tuple(_course(prospect, settings) for settings in (*shown, present)),
        difficulty=difficulty,
        circular=prospect.source == "same_run",
        cautions=(*cautions, *_cautions(prospect, best)),
    )


def _candidate(prospect: Prospect, settings: dict[str, float], kept: np.ndarray) -> Candidate:
    found = prospect.outcome(settings)
    stable, rule = prospect.stable(settings, found.rate)
    worth, cost = prospect.worth(settings, found, stable), prospect.step_cost(settings)
    gain, reached = worth.worth - kept, prospect.reached(found, stable)
    size = settings.get("group_size")
    useless = math.nan if prospect.difficulty is None or size is None else prospect.difficulty.useless(round(size))
    return Candidate(
        settings=settings,
        cost_per_step=cost,
        steps=worth.steps,
        cost=worth.steps * cost,
        expected=float(worth.reward.mean()),
        reward=interval(worth.reward),
        next_run=interval(prospect.one_run(found, worth.reward)),
        net_value=math.nan if prospect.value is None else float(worth.worth.mean()),
        gain=interval(gain),
        expected_gain=float(gain.mean()),
        p_better=float(np.mean(gain > 0) + 0.5 * np.mean(gain == 0)),
        p_stable=float(stable.mean()),
        p_stable_rule=rule,
        useless=useless,
        reach_steps=reached,
        reach_cost=None if reached is None else reached * cost,
    )


def _gain(prospect: Prospect, settings: Mapping[str, float]) -> np.ndarray:
    """Gain of settings over the present ones at each draw."""
    worths = []
    for some in (settings, prospect.present):
        found = prospect.outcome(some)
        worths.append(prospect.worth(some, found, prospect.stable(some, found.rate)[0]).worth)
    return worths[0] - worths[1]


def _rests(prospect: Prospect, priors: Mapping[str, Learned], best: Candidate, seed: int) -> tuple[float, Any]:
    """Share of the gain's variance that exponents under their priors bring, and the gain under all priors."""
    gain = _gain(prospect, best.settings)
    rng = np.random.default_rng(seed_of(seed, "order"))
    other = dict(prospect.exponents)
    for name, e in other.items():
        if not e.family:
            order = rng.permutation(len(gain))
            other[name] = Learned(*(x[order] for x in e[:3]), family=False)
    # Total share of a part of the numbers: one less the correlation of two gains that differ in that part alone.
    again = _gain(replace(prospect, exponents=other), best.settings)
    share = 1.0 - float(np.corrcoef(gain, again)[0, 1]) if gain.std() > 0 and again.std() > 0 else 0.0
    alone = _gain(replace(prospect, exponents=dict(priors)), best.settings)
    return min(max(share, 0.0), 1.0), interval(alone)


def _course(prospect: Prospect, settings: Mapping[str, float]) -> Course:
    found, cost = prospect.outcome(settings), prospect.step_cost(settings)
    stable, _ = prospect.stable(settings, found.rate)
    spent = np.linspace(0.0, 1.5, 61) * prospect.budget
    reward = np.where(stable[:, None], found.at(prospect.mean_rate * spent / cost), found.start[:, None])
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(reward, [tail, 1.0 - tail], axis=0)
    return Course(dict(settings), spent / cost, spent, reward.mean(axis=0), low, high)


def _assumed(exponents: Mapping[str, Learned]) -> tuple[Assumed, ...]:
    return tuple(
        Assumed(name, quantity, interval(getattr(e, quantity)), "family" if e.family else "prior")
        for name, e in exponents.items()
        for quantity in QUANTITIES
    )


def _cautions(prospect: Prospect, best: Candidate) -> tuple[str, ...]:
    """What a reader should not believe."""
    out = []
    if not any(e.family for e in prospect.exponents.values()):
        out.append("one run says nothing of what settings do: all exponents are priors about what theory expects")
    if prospect.source == "same_run":
        out.append(
            "stability is circular: a curvature from the curve of a lagged run meets the rule whatever it is; "
            "use a run whose policy was refreshed every step"
        )
    out.append(
        "stability by the rate of the reward: directions that the reward does not feel may be steeper, and a larger "
        "learning rate may fail in ways that no law knows"
    )
    flat = float(np.mean(prospect.base.rate == 0))
    if flat > 0.2:
        out.append(f"with probability {flat:.2f} this log has no trend, and then no setting moves its reward's rate")
    if any(max(v / prospect.present[n], prospect.present[n] / v) > 4.0 for n, v in best.settings.items()):
        out.append("the best candidate lies far from the present settings, where exponents need not hold")
    return tuple(out)
