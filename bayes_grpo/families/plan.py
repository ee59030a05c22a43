"""`plan`: which settings to take next, for the same completions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import interval
from bayes_grpo.common.progress import Progress
from bayes_grpo.dynamics.reduction import MomentumConvention, usable_group_share
from bayes_grpo.families.basis import Basis, basis_of_family, basis_of_run
from bayes_grpo.families.planned import Candidate, Plan
from bayes_grpo.families.result import Family
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.stability import stability

SETTINGS = ("group_size", "prompts_per_step", "learning_rate", "refresh_interval")
STABLE = 0.9
"""Probability of being stable from which settings are recommended."""
FARTHEST = 50.0
"""Horizons after which a goal is given up."""


def plan(
    basis: Family | Run | PathLike,
    until: float,
    *,
    candidates: Mapping[str, Sequence[float]] | None = None,
    present: Mapping[str, float] | None = None,
    goal: float | None = None,
    probability: float = 0.9,
    cost_per_completion: float | None = None,
    momentum: float = 0.9,
    convention: MomentumConvention = "ema",
    signal: str = "auto",
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Expected reward of candidate settings after as many completions as the present ones would use.

    The law is the exponential one at a constant learning rate. It knows no collapse, which a high rate makes likelier.

    Args:
        basis: A family, or one run (or its log), whose exponents are then what theory expects.
        until: Steps of the next run at the present settings.
        candidates: Setting → values to look at, in all combinations; half, same and twice of group size and learning
            rate if None.
        present: Present settings by name, where the log or family does not state them.
        goal: A reward to be reached.
        probability: With which probability.
        cost_per_completion: Money.
        momentum: μ or Adam's β₁.
        convention: "heavy_ball" or "ema" (Adam).
        signal: "auto", "reward" or "eval", for a run.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The candidates, the recommendation, and how much of it rests on priors.

    Raises:
        SettingError: An impossible number, or a setting that is not known.
        FitError: A run that cannot be fitted.
    """
    numbers = {"until": until, "goal": goal, "cost_per_completion": cost_per_completion}
    for name, value in numbers.items():
        if value is not None and not (math.isfinite(value) and (value > 0 or name == "goal")):
            raise SettingError(f"{name}: expected a number above 0, found {value!r}")
    if not 0.0 < probability < 1.0:
        raise SettingError(f"probability: expected a number between 0 and 1, found {probability!r}")
    tell = progress or (lambda _: None)
    tell("reading")
    if isinstance(basis, Family):
        found = basis_of_family(basis, present or {}, seed)
    else:
        run = basis if isinstance(basis, Run) else read_log(basis)
        tell("the present settings")
        found = basis_of_run(run, present or {}, signal, seed)
    wanted = dict(candidates) if candidates is not None else _around(found.present)
    _check(wanted, found)
    tell("candidates")
    looked = [dict(zip(wanted, values, strict=True)) for values in product(*wanted.values())]
    kept = {name: found.present[name] for name in wanted}
    if kept not in looked:
        looked.insert(0, kept)
    base = _reward(found, kept, until)
    out = []
    for settings in looked:
        size = _completions(found, settings) / _completions(found, kept)
        reward = _reward(found, settings, until / size)
        report = stability(
            settings.get("learning_rate", found.present.get("learning_rate", 1.0)),
            momentum,
            convention,
            settings.get("refresh_interval", found.present.get("refresh_interval", 1.0)),
            learning_time=1.0 / _rate(found, settings),
        )
        steps = None if goal is None else _reach(found, settings, goal, probability, until)
        spent = None
        if steps is not None and cost_per_completion is not None:
            spent = cost_per_completion * steps * _completions(found, settings)
        usable = math.nan
        group = settings.get("group_size", found.present.get("group_size"))
        if group is not None and 0.0 <= found.success <= 1.0:
            usable = usable_group_share(found.success, max(2, round(group)))
        out.append(
            Candidate(
                settings=settings,
                steps=until / size,
                reward=interval(reward),
                mean_reward=float(reward.mean()),
                gain=interval(reward - base),
                p_better=float(np.mean(reward > base)) if settings != kept else math.nan,
                p_stable=report.rule.probability_stable,
                useless=1.0 - usable,
                reach_steps=steps,
                reach_cost=spent,
                prior_share=_prior_share(found, settings, kept),
                present=settings == kept,
            )
        )
    total = until * _completions(found, kept)
    cost = None if cost_per_completion is None else total * cost_per_completion
    return Plan(tuple(out), found.words, until, total, cost, goal, probability, STABLE)


def _around(present: Mapping[str, float]) -> dict[str, list[float]]:
    """Half, same and twice of what is known of group size and learning rate."""
    out = {name: [0.5 * present[name], present[name], 2.0 * present[name]] for name in SETTINGS[::2] if name in present}
    if "group_size" in out:
        out["group_size"] = sorted({float(max(2, round(x))) for x in out["group_size"]})
    return out


def _check(wanted: Mapping[str, Sequence[float]], basis: Basis) -> None:
    if not wanted:
        raise SettingError("plan: neither group_size nor learning_rate is known; state them as present settings")
    for name, values in wanted.items():
        if name not in SETTINGS:
            raise SettingError(f"plan: expected candidates for {', '.join(SETTINGS)}, found {name!r}")
        if name not in basis.present:
            raise SettingError(f"{name}: its present value is not known; state it as a present setting")
        if not values or not all(math.isfinite(v) and v > 0 for v in values):
            raise SettingError(f"{name}: expected numbers above 0 as candidates, found {list(values)!r}")


def _completions(basis: Basis, settings: Mapping[str, float]) -> float:
    """Completions of a step, up to what is not known of them."""
    whole = basis.present | dict(settings)
    return whole.get("group_size", 1.0) * whole.get("prompts_per_step", 1.0)


def _moved(basis: Basis, settings: Mapping[str, float], exponents: Mapping[str, np.ndarray]) -> np.ndarray:
    parts = [exponents[name] * math.log(value / basis.present[name]) for name, value in settings.items()]
    return np.sum(parts, axis=0)


def _rate(basis: Basis, settings: Mapping[str, float]) -> np.ndarray:
    return basis.rate * np.exp(_moved(basis, settings, basis.rate_exponent))


def _reward(basis: Basis, settings: Mapping[str, float], steps: float) -> np.ndarray:
    """Latent reward of the next run after some steps, shape (draws,)."""
    plateau = basis.plateau * (1.0 + _moved(basis, settings, basis.plateau_exponent)) + basis.plateau_apart
    left = np.exp(-_rate(basis, settings) * np.exp(basis.rate_apart) * steps)
    reward = plateau - (plateau - basis.start) * left
    return reward if math.isnan(basis.success) else np.clip(reward, 0.0, 1.0)


def _reach(basis: Basis, settings: Mapping[str, float], goal: float, probability: float, until: float) -> float | None:
    """Steps after which the goal is reached with the probability; None where it is not within many horizons."""
    steps = until * np.geomspace(0.01, FARTHEST, 200)
    p = np.array([np.mean(_reward(basis, settings, t) >= goal) for t in steps])
    there = np.flatnonzero(p >= probability)
    return float(steps[there[0]]) if there.size else None


def _prior_share(basis: Basis, settings: Mapping[str, float], kept: Mapping[str, float]) -> float:
    """Share of what the settings do to the rate that is prior and not data; 0 for the present ones."""
    moved = {name: abs(math.log(v / kept[name])) for name, v in settings.items() if v != kept[name]}
    if not moved:
        return 0.0
    return sum(x * (1.0 - basis.learned.get(name, 0.0)) for name, x in moved.items()) / sum(moved.values())
