"""`sweep`: what settings do, from runs that differ in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import norm

from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.common.runtime import Progress, or_silent
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.families.members import (
    FEWEST_RUNS,
    SweepMember,
    members_of,
    named_settings,
    read_runs,
    repetitions,
    settings_that_differ,
    varied_in,
)
from bayes_grpo.families.model import TRAITS, SweepData, SweepDraws, sample_sweep, sweep_data
from bayes_grpo.families.result import ROPE, Exponent, Sweep, SweepRun
from bayes_grpo.references.curve import smooth_curve
from bayes_grpo.references.gather import RunSources
from bayes_grpo.signals.loss import rows_collapsed

LINKED = 0.9
"""Correlation of the logarithms of two settings from which their effects cannot be separated."""
_POSITIVE_SHARE = 0.1
"""A level's change is over its own size where that is surely above this share of the range of the rewards."""
_QUANTITIES = {
    "rate": ("relaxation_time", -1.0, "response rate"),
    "fluctuation_variance": ("fluctuation_sd", 2.0, "fluctuation variance"),
    "observation_variance": ("observation_sd", 2.0, "measurement variance"),
    "plateau": ("fixed_point", 1.0, "plateau"),
    "initial_reward": ("initial_reward", 1.0, "initial reward"),
}
"""Quantity whose dependence on the settings is reported → its trait, its exponent over the trait's slope, words."""
_LEVELS = ("plateau", "initial_reward")


def sweep(
    logs: RunSources,
    vary: Sequence[str] = (),
    *,
    signal: str = "auto",
    part: str | None = None,
    read: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sweep:
    """Effects of settings, from runs that differ in them: a hierarchical model with partial pooling over runs.

    Every run has its own parameters of the exponential regime, spread about a regression on the logarithms of the
    varied settings. Runs whose reward collapsed are named, and no exponent rests on them; where fewer than
    `FEWEST_RUNS` others are left, no exponent is estimated.

    Args:
        logs: Files, folders, patterns (``runs/*.json``) and runs, at least three.
        vary: Settings that differ between the runs: "group_size", "learning_rate" (a run's highest),
            "prompts_per_step", "refresh_interval", "model_size" and other positive numbers. By default every setting
            that all runs or some of their names state and that differs. `Run.with_settings` states what a log does not.
        signal: "auto", "reward" (train) or "eval" (evaluations), the same for all.
        part: Reward function or environment to take in place of the total.
        read: Keyword arguments of `bayes_grpo.read_log`, the same for all logs; a setting here is that of the runs
            whose names state no other value.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The exponents of every quantity over every setting, the runs, and what not to believe.

    Raises:
        LogReadError: A log cannot be read.
        SettingError: A setting that is not known of a run or has one value alone.
        FitError: Fewer than three runs with enough rows, or different signals, rewards or units.
    """
    progress = or_silent(progress)
    progress("reading")
    runs = read_runs(logs, read, part)
    vary = list(vary) or varied_in(runs)
    members, left_out = members_of(runs, vary, signal)
    differ = settings_that_differ([m.run for m in members])
    unvaried = tuple(name for name in differ if name not in vary)
    uncollapsed = [m for m in members if not rows_collapsed(m.table.y)]  # the regime cannot show a collapse
    measured = [name for name in vary if len({m.settings[name] for m in uncollapsed}) > 1]
    made = Sweep(
        vary=tuple(vary),
        signal=members[0].table.signal,
        exponents=(),
        runs=tuple(map(_run, members)),
        convergence=None,
        cautions=(),
        left_out=left_out,
        repetitions=repetitions([m.run for m in members]),
        named=tuple(named_settings(runs, vary).values()),
    )
    if len(uncollapsed) < FEWEST_RUNS or not measured:
        return made
    data = sweep_data(uncollapsed, measured)
    progress(f"{len(uncollapsed)} runs in one model")
    draws, convergence = sample_sweep(data, seed_of(seed, "family"))
    return replace(
        made,
        exponents=tuple(
            _exponent(data, draws, q, (k, name), uncollapsed)
            for k, name in enumerate(measured)
            for q, (trait, *_) in _QUANTITIES.items()
            if data.slope[k, TRAITS.index(trait)] > 0
        ),
        convergence=convergence,
        cautions=(
            *_cautions(data, uncollapsed, measured, unvaried),
            *(() if convergence.passed else (convergence.sentence,)),
        ),
    )


def _exponent(
    data: SweepData, draws: SweepDraws, quantity: str, setting: tuple[int, str], members: Sequence[SweepMember]
) -> Exponent:
    k, name = setting
    trait, factor, words = _QUANTITIES[quantity]
    q, relative = TRAITS.index(trait), True
    slope = draws.slopes[..., k, q]
    sd = float(data.slope[k, q])
    if quantity in _LEVELS:  # over its own size at the middle of the settings, or over the range of the rewards
        low, high = np.nanquantile(data.rows.y, [0.05, 0.95])
        level = data.origin + data.unit * draws.mean[..., q]
        relative = bool(np.nanmin(data.rows.y) >= 0.0 and np.quantile(level, 0.01) > _POSITIVE_SHARE * (high - low))
        factor = float(data.unit) / (level if relative else high - low)
    x = factor * slope
    reach = float(norm.ppf(0.5 + LEVEL / 2.0)) * sd * abs(float(np.median(factor)))
    return Exponent(
        setting=name,
        quantity=quantity,
        words=words,
        posterior=interval(x),
        prior=Interval(0.0, -reach, reach, LEVEL),
        p_zero=float(np.mean(np.abs(x) < ROPE)),
        p_positive=float(np.mean(x > 0)),
        contraction=1.0 - min(float(slope.var() / sd**2), 1.0),
        relative=relative,
        runs=len(members),
        values=len({m.settings[name] for m in members}),
    )


def _run(member: SweepMember) -> SweepRun:
    table = member.table
    course = smooth_curve(member.table)
    curve = table.y if course is None else course.smooth
    return SweepRun(member.run.name, dict(member.settings), table.step, table.y, curve)


def _cautions(
    data: SweepData, members: Sequence[SweepMember], vary: Sequence[str], unvaried: Sequence[str]
) -> tuple[str, ...]:
    """Cautions for the reader."""
    out = []
    if unvaried:
        out.append(f"{', '.join(unvaried)} differ too and are not varied: their effects are mixed into the others")
    linked = np.atleast_2d(np.corrcoef(data.x.T))
    for i, j in combinations(range(len(vary)), 2):
        if abs(linked[i, j]) >= LINKED:
            out.append(
                f"{vary[i]} and {vary[j]} vary together (correlation {linked[i, j]:.2f}): only their priors separate "
                "their effects"
            )
    if len(members) < 2 * len(vary) + 2:
        out.append(f"{len(members)} runs for {len(vary)} settings: too few to separate their effects; name fewer")
    formats = {m.run.format for m in members}
    if len(formats) > 1:
        out.append(f"the logs are of several formats ({', '.join(sorted(map(plain, formats)))}): is it one reward?")
    return tuple(out)
