"""The answer to a plan's question: every candidate judged at the same draws, the best first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.fallen import rows_collapsed
from bayes_grpo.diagnosis.probabilities import failure_in
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.families.result import Family
from bayes_grpo.planning.difficulty import difficulty_of
from bayes_grpo.planning.lessons import learned_lessons
from bayes_grpo.planning.outlook import (
    QUANTITIES,
    LearnedExponents,
    apart_of,
    base_of_family,
    base_of_run,
    family_exponents,
    prior_exponents,
)
from bayes_grpo.planning.planned import Assumed, Candidate, Course, Plan
from bayes_grpo.planning.question import PlanQuestion
from bayes_grpo.planning.risks import risks_of
from bayes_grpo.planning.tried import tried_settings
from bayes_grpo.planning.worth import Prospect
from bayes_grpo.risk.failing import shared_rate
from bayes_grpo.rollouts.groups import groups_of
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.table import is_share

SHOWN = 3
"""Candidates whose courses are kept beside the present settings'."""


def judge(asked: PlanQuestion, family: Family | None, seed: int, tell: Progress) -> Plan:
    """Judges all candidates and puts the best first.

    Args:
        asked: The question.
        family: The family that says what settings do; None without.
        seed: Seed.
        tell: Called with a short phrase at every stage.

    Raises:
        FitError: No law can be put on the rows.
        SettingError: A family under another law than exponential.
    """
    run, table, grid, terms = asked.run, asked.table, asked.grid, asked.terms
    lessons = learned_lessons()
    reward = reward_range(table, dict(run.settings.items()))
    tell("the present run")
    if family is not None and asked.place is not None:
        base = base_of_family(family, asked.place, table, reward, seed_of(seed, "base"))
    else:
        base = base_of_run(table, reward, seed_of(seed, "base"))
    learned: dict[str, LearnedExponents] = {}
    if family is not None:
        learned = {k: v for k, v in family_exponents(family, len(base)).items() if k in grid.present}
    adam = table.optimizer.convention == "ema"
    priors = prior_exponents(lessons, list(grid.present), len(base), adam, seed_of(seed, "exponents"))
    size = grid.present.get("group_size")
    known = {"refresh_interval": table.optimizer.refresh} | dict(asked.stated) | grid.present
    tried = None
    if asked.like is not None:
        tell("siblings")
        tried = tried_settings(run, table, known, asked.grid.rate is not None, asked.index, asked.like)
    own = diagnose(run).probability
    hacked = own.get("reward_hacking", 0.0) if table.signal == "reward" else 0.0
    prospect = Prospect(
        base=base,
        exponents=priors | learned,
        table=table,
        reward=reward,
        most=math.inf if math.isfinite(reward.high) else float(np.max(table.y)),
        difficulty=difficulty_of(
            run,
            is_share(run.reward[np.isfinite(run.reward)]),
            None if size is None else round(size),
            None if asked.rollouts is None else groups_of(asked.rollouts, seed=seed),
        ),
        apart=apart_of(lessons, len(base), seed_of(seed, "exponents")),
        present=grid.present,
        unit_cost=1.0 if terms.cost_per_step is None else terms.cost_per_step,
        budget=table.length * (terms.cost_per_step or 1.0) if terms.budget is None else terms.budget,
        terms=terms,
        risks=risks_of(
            known,
            len(base),
            rows_collapsed(table.y) or failure_in(own) is not None,
            shared_rate(grid.rate, table.optimizer.convention),
            seed,
            lessons.failures,
            tried,
        ),
        nearing=lessons.nearing,
    )
    tell(f"{len(grid.candidates)} candidates")
    found = prospect.outcome(prospect.present)
    fails = prospect.fails(prospect.present)
    kept = prospect.worth(prospect.present, found, fails).worth
    candidates = [_judged(prospect, settings, kept) for settings in grid.candidates]
    kept_on = next(c for c in candidates if c.settings == prospect.present)
    most = max(terms.risk, kept_on.p_fails)
    candidates.sort(
        key=lambda c: (c.p_fails <= most and (c.tried or c is kept_on), c.expected_gain, c is kept_on), reverse=True
    )
    best = candidates[0]
    prior_share, prior_gain = _rests(prospect, priors, best, seed)
    shown = [c.settings for c in candidates[:SHOWN] if c.settings != prospect.present]
    return Plan(
        run=plain(run.name),
        signal=table.signal,
        present=prospect.present,
        candidates=tuple(candidates),
        budget=prospect.budget,
        unit="present steps" if terms.cost_per_step is None else "money",
        value_per_reward=terms.value_per_reward,
        target=terms.reach,
        probability=0.9 if terms.probability is None else terms.probability,
        risk=terms.risk,
        present_failed=prospect.risks.failed,
        rate_known="learning_rate" not in grid.present or grid.rate is not None,
        present_hacked=hacked if hacked > THRESHOLDS.probable else 0.0,
        prior_share=prior_share,
        prior_gain=prior_gain,
        exponents=_assumed(prospect.exponents),
        courses=tuple(_course(prospect, settings) for settings in (*shown, prospect.present)),
        # Without a group size no share is told, and nothing of where it comes from.
        difficulty="" if prospect.difficulty is None or size is None else prospect.difficulty.sentence,
        cautions=(*grid.cautions, *_cautions(prospect, best)),
        siblings=tried,
    )


def _judged(prospect: Prospect, settings: dict[str, float], kept: np.ndarray) -> Candidate:
    found, failing = prospect.outcome(settings), prospect.risks.of(settings)
    fails = prospect.risks.fails(failing)
    worth, cost = prospect.worth(settings, found, fails), prospect.step_cost(settings)
    whole = prospect.worth(settings, found, np.full_like(fails, False))
    gain, reached = worth.worth - kept, prospect.reached(found, fails)
    size = settings.get("group_size")
    useless = math.nan if prospect.difficulty is None or size is None else prospect.difficulty.useless(round(size))
    return Candidate(
        settings=settings,
        cost_per_step=cost,
        steps=worth.steps,
        cost=worth.steps * cost,
        expected=float(worth.reward.mean()),
        if_it_holds=float(whole.reward.mean()),
        reward=interval(worth.reward),
        next_run=interval(prospect.one_run(found, worth.reward)),
        net_value=math.nan if prospect.terms.value_per_reward is None else float(worth.worth.mean()),
        gain=interval(gain),
        expected_gain=float(gain.mean()),
        p_better=float(np.mean(gain > 0) + 0.5 * np.mean(gain == 0)),
        p_fails=failing.p,
        fails=failing.interval,
        tried=failing.tried,
        rests=failing.rests,
        useless=useless,
        reach_steps=reached,
        reach_cost=None if reached is None else reached * cost,
    )


def _gain(prospect: Prospect, settings: Mapping[str, float]) -> np.ndarray:
    """Gain of settings over the present ones at each draw."""
    worths = []
    for some in (settings, prospect.present):
        found = prospect.outcome(some)
        worths.append(prospect.worth(some, found, prospect.fails(some)).worth)
    return worths[0] - worths[1]


def _rests(prospect: Prospect, priors: Mapping[str, LearnedExponents], best: Candidate, seed: int) -> tuple[float, Any]:
    """Share of the gain's variance that exponents under their priors bring, and the gain under all priors."""
    gain = _gain(prospect, best.settings)
    rng = np.random.default_rng(seed_of(seed, "order"))
    other = dict(prospect.exponents)
    for name, e in other.items():
        if not e.family:
            order = rng.permutation(len(gain))
            other[name] = LearnedExponents(*(x[order] for x in e[:3]), family=False)
    # Total share of a part of the numbers: one less the correlation of two gains that differ in that part alone.
    again = _gain(replace(prospect, exponents=other), best.settings)
    share = 1.0 - float(np.corrcoef(gain, again)[0, 1]) if gain.std() > 0 and again.std() > 0 else 0.0
    alone = _gain(replace(prospect, exponents=dict(priors)), best.settings)
    return min(max(share, 0.0), 1.0), interval(alone)


def _course(prospect: Prospect, settings: Mapping[str, float]) -> Course:
    found, cost = prospect.outcome(settings), prospect.step_cost(settings)
    fails = prospect.fails(settings)
    spent = np.linspace(0.0, 1.5, 61) * prospect.budget
    reward = prospect.ends(found, fails, prospect.mean_rate * spent / cost)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(reward, [tail, 1.0 - tail], axis=0)
    return Course(dict(settings), spent / cost, spent, reward.mean(axis=0), low, high)


def _assumed(exponents: Mapping[str, LearnedExponents]) -> tuple[Assumed, ...]:
    return tuple(
        Assumed(name, quantity, interval(getattr(e, quantity)), "family" if e.family else "prior")
        for name, e in exponents.items()
        for quantity in QUANTITIES
    )


def _cautions(prospect: Prospect, best: Candidate) -> tuple[str, ...]:
    """What a reader should not believe."""
    out = []
    if not any(e.family for e in prospect.exponents.values()):
        out.append(
            "one run says nothing of what settings do: all exponents are priors learned from pairs of public runs"
        )
    if math.isfinite(prospect.most):
        out.append(
            f"no reward above {prospect.most:.3g}, the highest row of this run, is expected (--set reward_high=…)"
        )
    if prospect.risks.failed:
        out.append(
            "this run seems to have failed itself: P(fails) is that of settings beside a run that failed, and its "
            "curve says little of what settings bring that hold"
        )
    else:
        out.append("P(fails) takes this run for one that worked: it is what became of siblings of public runs that did")
    if not best.tried:
        out.append(best.rests)
    flat = float(np.mean(prospect.base.rate == 0))
    if flat > 0.2:
        out.append(f"with probability {flat:.2f} this log has no trend, and then no setting moves its reward's rate")
    if any(max(v / prospect.present[n], prospect.present[n] / v) > 4.0 for n, v in best.settings.items()):
        out.append("the best candidate lies far from the present settings, where exponents need not hold")
    return tuple(out)
