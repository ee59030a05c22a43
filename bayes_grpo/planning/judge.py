"""The answer to a plan: every candidate judged at the same draws, the best first."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.common.progress import Progress
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.fallen import rows_collapsed
from bayes_grpo.diagnosis.probabilities import failure_in
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.candidates import UNMOVED, Grid, setting_of
from bayes_grpo.planning.difficulty import difficulty_of
from bayes_grpo.planning.lessons import learned_lessons
from bayes_grpo.planning.outlook import base_of_run, prior_exponents, run_effects
from bayes_grpo.planning.planned import Candidate, Course, Plan
from bayes_grpo.planning.prospect import Prospect
from bayes_grpo.planning.tried import TriedSettings, tried_settings
from bayes_grpo.risk.failing import shared_rate
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.table import RowTable, is_share
from bayes_grpo.siblings.gather import Like
from bayes_grpo.siblings.nearby import NearbyRuns

_SHOWN = 3
"""Number of candidates, in addition to the present settings, whose curves are kept."""


def judge(
    run: Run,
    table: RowTable,
    grid: Grid,
    like: Like | None,
    *,
    budget: float | None,
    risk: float,
    seed: int,
    tell: Progress,
) -> Plan:
    """Judges all candidates and puts the best first.

    Args:
        run: The present run.
        table: Its rows.
        grid: The candidates.
        like: Reference runs, or the runs near the log where there are any; None for none.
        budget: Largest cost of the next run, in steps of the present one; its length if None.
        risk: Largest P(fails) of what is recommended.
        seed: Seed.
        tell: Called with a short phrase at every stage.

    Raises:
        FitError: No regime can be put on the rows.
    """
    lessons = learned_lessons()
    reward = reward_range(table, dict(run.settings.items()))
    tell("the present run")
    base = base_of_run(table, reward, seed_of(seed, "base"))
    known = {"refresh_interval": table.optimizer.refresh} | grid.present
    known |= {name: x for name in UNMOVED if (x := setting_of(run, table, name)) is not None}
    tried = None
    if like is not None and (not isinstance(like, NearbyRuns) or like.like(run)):
        tell("reference runs")
        tried = tried_settings(run, table, known, grid.rate is not None, like)
    own = diagnose(run).probability
    hacked = own.get("reward_hacking", 0.0) if table.signal == "reward" else 0.0
    size = grid.present.get("group_size")
    share = is_share(run.reward[np.isfinite(run.reward)])
    prospect = Prospect(
        base=base,
        exponents=prior_exponents(
            lessons, list(grid.present), len(base), table.optimizer.convention == "ema", seed_of(seed, "exponents")
        ),
        table=table,
        reward=reward,
        most=math.inf if math.isfinite(reward.high) else float(np.max(table.y)),
        difficulty=difficulty_of(run, share, None if size is None else round(size)),
        run_effect=run_effects(lessons, len(base), seed_of(seed, "exponents")),
        present=grid.present,
        known=known,
        failed=rows_collapsed(table.y) or failure_in(own) is not None,
        rate=shared_rate(grid.rate, table.optimizer.convention),
        tried=tried or TriedSettings(),
        budget=table.length if budget is None else budget,
        lessons=lessons,
        seed=seed,
    )
    tell(f"{len(grid.candidates)} candidates")
    kept = prospect.end(grid.present)
    candidates = [_judged(prospect, settings, kept) for settings in grid.candidates]
    kept_on = next(c for c in candidates if c.settings == grid.present)
    most = max(risk, kept_on.p_fails)
    candidates.sort(
        key=lambda c: (c.p_fails <= most and (c.tried or c is kept_on), c.expected_gain, c is kept_on), reverse=True
    )
    shown = [c.settings for c in candidates[:_SHOWN] if c.settings != grid.present]
    return Plan(
        run=plain(run.name),
        signal=table.signal,
        present=grid.present,
        candidates=tuple(candidates),
        budget=prospect.budget,
        risk=risk,
        present_failed=prospect.failed,
        rate_known="learning_rate" not in grid.present or grid.rate is not None,
        present_hacked=hacked if hacked > THRESHOLDS.probable else 0.0,
        courses=tuple(_course(prospect, settings) for settings in (*shown, grid.present)),
        # Without a group size no share of groups is known, nor where it comes from.
        difficulty="" if prospect.difficulty is None or size is None else prospect.difficulty.sentence,
        cautions=(*grid.cautions, *_cautions(prospect, candidates[0])),
        siblings=tried,
    )


def _judged(prospect: Prospect, settings: dict[str, float], kept: np.ndarray) -> Candidate:
    failing, found = prospect.failing(settings), prospect.outcome(settings)
    cost = prospect.step_cost(settings)
    steps = prospect.budget / cost
    end = prospect.ends(found, prospect.fails(settings), steps)
    gain = end - kept
    size = settings.get("group_size")
    useless = math.nan if prospect.difficulty is None or size is None else prospect.difficulty.useless(round(size))
    return Candidate(
        settings=settings,
        cost_per_step=cost,
        steps=steps,
        expected=float(end.mean()),
        if_it_holds=float(prospect.ends(found, False, steps).mean()),
        reward=interval(end),
        next_run=interval(prospect.one_run(found, end)),
        gain=interval(gain),
        expected_gain=float(gain.mean()),
        p_better=float(np.mean(gain > 0) + 0.5 * np.mean(gain == 0)),
        p_fails=failing.p,
        fails=failing.interval,
        tried=failing.tried,
        rests=failing.rests,
        useless=useless,
    )


def _course(prospect: Prospect, settings: Mapping[str, float]) -> Course:
    spent = np.linspace(0.0, 1.5, 61) * prospect.budget
    steps = spent / prospect.step_cost(settings)
    reward = prospect.ends(prospect.outcome(settings), prospect.fails(settings)[:, None], steps)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(reward, [tail, 1.0 - tail], axis=0)
    return Course(dict(settings), steps, spent, reward.mean(axis=0), low, high)


def _cautions(prospect: Prospect, best: Candidate) -> tuple[str, ...]:
    """What a reader should not believe."""
    out = ["one run shows nothing of what settings do: all exponents are priors learned from pairs of public runs"]
    if math.isfinite(prospect.most):
        out.append(
            f"no reward above {prospect.most:.3g}, the highest row of this run, is expected (--set reward_high=…)"
        )
    if prospect.failed:
        out.append(
            "this run seems to have failed itself: P(fails) is that of settings near a run that failed, and its "
            "curve says little of what stable settings bring"
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
