"""`family`: several runs in, what their settings do out."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.common.progress import Progress, teller
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.common.text import plain
from bayes_grpo.families.data import data_of
from bayes_grpo.families.design import quantities_of, together_of
from bayes_grpo.families.effects import effects_of, exponent_of, spread_effect
from bayes_grpo.families.index import Index, index_of
from bayes_grpo.families.left_out import outcome_of
from bayes_grpo.families.members import FamilyLogs, FamilyMember, Members, members_of, read_runs
from bayes_grpo.families.pairs import ONE_SEED, could_pair, data_orders
from bayes_grpo.families.posterior import LEAST_NODES, FamilyPosterior, Together, family_posterior
from bayes_grpo.families.result import Family, ShrunkRun
from bayes_grpo.families.shrink import RunDraws, shrunk
from bayes_grpo.logs.reading import PathLike
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime

ROPE = 0.1
"""Half width of the region of practical equivalence of an exponent: twice the setting moves the quantity by 7%."""
LINKED = 0.9
"""Correlation of the logarithms of two settings from which their exponents cannot be told apart."""
MEANS_OF = "mean of "
"""How a run names several evaluation columns that it has averaged."""


class _Asked(NamedTuple):
    """What is the same for every column of rewards."""

    rope: float
    seed: int


def family(
    logs: FamilyLogs,
    vary: Sequence[str],
    *,
    index: PathLike | Mapping[str, Mapping[str, Any]] | None = None,
    where: Mapping[str, str] | None = None,
    signal: str = "auto",
    regime: str | Regime = "exponential",
    evaluations: Sequence[str] = (),
    rope: float = ROPE,
    read: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Family:
    """What settings do, from runs that differ in them: partial pooling over runs, seeds as replicates.

    Every run has its own parameters of the law, spread about a regression on the logarithms of the varied settings;
    runs from several studies (a column ``repo`` or ``study`` of the index) share a shift of their own. Reported are the
    exponents, beside what the reduced model expects and the probability that they are practically that.

    Args:
        logs: Files, folders, patterns (``runs/*.json``) and runs, at least three.
        vary: Settings that differ between the runs: "group_size", "learning_rate" (a run's highest),
            "prompts_per_step", "refresh_interval", "model_size", or any column of the index with positive numbers.
        index: CSV file, or mapping of names to settings, with what the logs do not state.
        where: Column of the index → value of the rows to take.
        signal: "auto", "reward" (train) or "eval" (held-out), the same for all.
        regime: The law.
        evaluations: Names of evaluation columns on which the settings' effects are wanted as well; ("all",) for every
            one that the logs hold.
        rope: Half width of the region of practical equivalence of an exponent.
        read: Keyword arguments of `bayes_grpo.read_log`, the same for all logs.
        seed: Seed.
        progress: Called with a short phrase at every stage.

    Returns:
        The family.

    Raises:
        LogReadError: A log cannot be read.
        SettingError: A setting that is not known of a run or has one value alone, or an impossible option.
        FitError: Fewer than three runs that the law can be put on, or different signals, rewards or units.
    """
    if not (math.isfinite(rope) and rope > 0):
        raise SettingError(f"rope: expected a number above 0, found {rope!r}")
    law, tell = get_regime(regime), teller(progress)
    if not 1 <= len(law.linear) <= 2:
        raise SettingError(
            f"family: expected a regime with one or two levels, found {len(law.linear)} in {law.name}; take exponential"
        )
    known, asked, vary = index_of(index, where), _Asked(rope, seed), list(vary)
    tell("reading")
    runs = read_runs(logs, known, read)
    members = members_of(runs, vary, known, law, signal)
    transfer = {
        name: _family(law, members_of(again, vary, known, law, "eval"), vary, asked, _named(tell, name))
        for name, again in _evaluated(logs, runs, known, evaluations, read).items()
    }
    return _family(law, members, vary, asked, tell, transfer)


def _named(tell: Progress, name: str) -> Progress:
    return lambda stage: tell(f"{plain(name, 60)}, {stage}")


def _evaluated(
    logs: FamilyLogs, runs: Sequence[Run], index: Index, names: Sequence[str], read: Mapping[str, Any] | None
) -> dict[str, list[Run]]:
    """The runs once more for every evaluation column that is wanted, with that column as their held-out reward."""
    if not names:
        return {}
    if any(not run.has_eval for run in runs):
        lacking = next(run for run in runs if not run.has_eval)
        raise FitError(f"family: no evaluation column in {plain(lacking.name, 80)}; leave out --evaluations")
    if list(names) == ["all"]:
        key = runs[0].keys.get("eval_reward", "eval_reward")
        names = key.removeprefix(MEANS_OF).split(", ") if key.startswith(MEANS_OF) else [key]
    given = [logs] if isinstance(logs, str | os.PathLike | Run) else list(logs)
    if any(isinstance(x, Run) for x in given):
        raise SettingError("evaluations: expected log files, found runs that were read; give their paths")
    options = dict(read or {})
    columns = options.get("columns") or {}
    return {x: read_runs(logs, index, options | {"columns": {**columns, "heldout": x}}) for x in names}


def _family(
    regime: Regime,
    given: Members,
    vary: Sequence[str],
    asked: _Asked,
    tell: Progress,
    transfer: dict[str, Family] | None = None,
) -> Family:
    members = given.members
    together = together_of(regime, members, vary)
    found = family_posterior(together, seed_of(asked.seed, "family"), tell)
    tell("every run given the family")
    drawn = shrunk(together, found, seed_of(asked.seed, "runs"))
    effects = effects_of(together, found, len(vary))
    tables = [m.table for m in members]
    orders = data_orders([plain(m.run.name, 80) for m in members], tables)
    unpaired = [] if orders is not None or not could_pair(tables) else [ONE_SEED]
    counts = Counter(tuple(m.settings.values()) for m in members)
    named = {f"{e.quantity.name} on {vary[e.setting]}": e.draws for e in effects}
    return Family(
        vary=tuple(vary),
        regime=regime.name,
        signal=members[0].table.signal,
        exponents=tuple(exponent_of(e, vary[e.setting], members, asked.rope) for e in effects),
        spreads=tuple(spread_effect(together, found, q) for q in quantities_of(regime)),
        runs=tuple(_run(together, found.alone[i], m, drawn[i]) for i, m in enumerate(members)),
        studies=together.studies,
        replicates=sum(n for n in counts.values() if n > 1),
        convergence=found.convergence,
        nodes=float(found.nodes.min()),
        thin=found.thin,
        cautions=(*(x.sentence for x in given.left_out), *_cautions(together, members, vary, found), *unpaired),
        data=data_of(together, members, vary, found, drawn, named),
        transfer=transfer or {},
        orders=orders,
        left_out=tuple(map(outcome_of, given.left_out)),
    )


def _run(together: Together, alone: np.ndarray, member: FamilyMember, draws: RunDraws) -> ShrunkRun:
    rate = next((q for q in quantities_of(together.regime) if q.name == "rate"), None)
    time = None if rate is None else together.regime.parameters[rate.trait].name
    tail = (1.0 - LEVEL) / 2.0
    low, curve, high = np.quantile(draws.curve, [tail, 0.5, 1.0 - tail], axis=0)
    by_itself = np.exp(-alone[:, rate.trait]) if rate is not None else np.full(1, np.nan)
    start = draws.values.get("initial_reward", draws.values["fixed_point"])
    return ShrunkRun(
        name=member.run.name,
        study=member.study,
        settings=dict(member.settings),
        rate=interval(np.nan if time is None else 1.0 / draws.values[time]),
        fluctuation_sd=interval(draws.values["fluctuation_sd"]),
        observation_sd=interval(draws.values["observation_sd"]),
        plateau=interval(draws.values["fixed_point"]),
        initial_reward=interval(start),
        alone=interval(by_itself),
        step=member.table.step,
        reward=member.table.y,
        curve=curve,
        low=low,
        high=high,
    )


def _cautions(
    together: Together, members: Sequence[FamilyMember], vary: Sequence[str], found: FamilyPosterior
) -> tuple[str, ...]:
    """What a reader should not believe."""
    out = []
    if not found.convergence.passed:
        out.append(found.convergence.sentence)
    if found.thin:
        out.append(
            f"the weight of {plain(members[int(np.argmin(found.nodes))].run.name, 60)} lies on "
            f"{found.nodes.min():.0f} nodes (limit {LEAST_NODES:.0f}): the family and this run disagree"
        )
    if len(vary) > 1:
        linked = np.corrcoef(together.x.T)
        for i, j in combinations(range(len(vary)), 2):
            if abs(linked[i, j]) >= LINKED:
                out.append(
                    f"{vary[i]} and {vary[j]} vary together (correlation {linked[i, j]:.2f}): what one does and what "
                    "the other does cannot be told apart, and only their priors share it out"
                )
    counts = Counter(tuple(m.settings.values()) for m in members)
    if max(counts.values()) == 1:
        out.append(
            "no two runs share all settings: how far seeds lie apart is known from what the settings leave over, and "
            "from the prior"
        )
    rates = {f"{m.table.reference_rate:.3g}" for m in members if math.isfinite(m.table.reference_rate)}
    if len(rates) > 1 and "learning_rate" not in vary:
        out.append(f"the learning rates differ too ({', '.join(sorted(rates, key=float))}): vary learning_rate as well")
    formats = {m.run.format for m in members}
    if len(formats) > 1:
        out.append(f"the logs are of several formats ({', '.join(sorted(map(plain, formats)))}): is it one reward?")
    return (*out, *found.warnings)
