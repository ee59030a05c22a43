"""Priors from experience: what runs have been like, for a run that has just begun.

Learned are means, spreads within and between repositories, and how times depend on the learning rate, all in the
scale-free coordinates of `bayes_grpo.learning.coordinates`. A log of a new run gets priors with the same two numbers as
any other prior, a median and a spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import PriorError
from bayes_grpo.learning.coordinates import features_of, kind_of, unit_of
from bayes_grpo.learning.population import Member, learn_population
from bayes_grpo.learning.table import COVARIATES, SHIPPED, PriorTable, load_prior_table
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.common import measurement_prior
from bayes_grpo.regimes.parameters import Parameter, Prior
from bayes_grpo.rows.table import RowTable

_LEAST_LOGS = 5


@dataclass(frozen=True, eq=False)
class LogCase:
    """What one law learned from one log, as seen from several lengths at which the log could have been cut off.

    Attributes:
        regime: Name of the law.
        log: Name of the log.
        repository: Where it comes from.
        parameters: Names of the law's parameters.
        draws: Posterior draws of the whole log in scale-free coordinates, shape (cuts, draws, p).
        weak: Log density of the weak prior at each draw, up to a constant, shape (draws,).
        covariates: Shape (cuts, len(COVARIATES)).
        hash: Of the log's bytes, so that no copy counts twice.
    """

    regime: str
    log: str
    repository: str
    parameters: tuple[str, ...]
    draws: np.ndarray
    weak: np.ndarray
    covariates: np.ndarray
    hash: str


def learn(
    cases: Iterable[LogCase],
    exclude: Iterable[str] = (),
    *,
    seed: int = 0,
    provenance: Mapping[str, Any] | None = None,
    uses: Mapping[str, Sequence[str]] | None = None,
) -> PriorTable:
    """Learns populations of all laws from logs that were fitted before; seconds a law.

    Args:
        cases: Fitted logs, of any laws.
        exclude: Repositories to leave out, so that no run judges the prior that it helped to build.
        seed: Seed.
        provenance: What to keep beside the counts.
        uses: Kind of parameter ("time", "noise", "level", "number") → covariates it may depend on; `USES` where
            not given.

    Returns:
        The table; laws with fewer than 5 logs are absent. Its provenance says under "convergence" of each law whether
        the draws of its population can be trusted.

    Raises:
        PriorError: No law has enough logs.
    """
    from bayes_grpo.regimes import get_regime

    left_out = set(exclude)
    kept = [c for c in cases if c.repository not in left_out]
    regimes, parameters = {}, {}
    for regime in sorted({c.regime for c in kept}):
        mine = [c for c in kept if c.regime == regime]
        if len(mine) < _LEAST_LOGS:
            continue
        parameters[regime] = mine[0].parameters
        regimes[regime] = learn_population([member(c) for c in mine], uses_of(get_regime(regime), uses), seed)
    if not regimes:
        raise PriorError(
            f"learning a prior: expected at least {_LEAST_LOGS} logs that can be fitted, found "
            f"{len({c.log for c in kept})}; add logs"
        )
    logs = {(c.repository, c.log) for c in kept}
    counts = {name: sum(r == name for r, _ in logs) for name in sorted({r for r, _ in logs})}
    checks = {name: found.convergence for name, found in regimes.items()}
    verdicts = {name: {"passed": c.passed, "sentence": c.sentence} for name, c in checks.items() if c is not None}
    about = {"logs": len(logs), "repositories": counts, "convergence": verdicts} | dict(provenance or {})
    return PriorTable(regimes, parameters, about)


USES: dict[str, tuple[str, ...]] = {"time": ("rate",), "noise": (), "level": (), "number": ()}
"""Which kind of parameter depends on which covariate, chosen by the score of repositories left out."""


def uses_of(regime: Regime, uses: Mapping[str, Sequence[str]] | None = None) -> np.ndarray:
    """Whether each parameter depends on each covariate, shape (covariates, p)."""
    chosen = USES if uses is None else uses
    return np.array([[c in chosen[kind_of(p)] for p in regime.parameters] for c in COVARIATES])


def member(case: LogCase) -> Member:
    """A fitted log as the population takes it."""
    return Member(case.repository, case.draws, case.weak, case.covariates)


def corpus_priors(
    regime: str | Regime, table: RowTable, prior_table: PriorTable | str | Path | None = None
) -> dict[str, Prior]:
    """Priors of a law for a log, from experience.

    Args:
        regime: The law, or its name.
        table: Rows of the log so far.
        prior_table: A table, or its file; the shipped one where not given.

    Returns:
        Parameter → prior, for all parameters of the law, that of the measurement noise as the log itself states it if
        it does; empty where the table does not know the law, which leaves the weak priors.

    Raises:
        PriorError: The file cannot be read, or belongs to other parameters.
    """
    from bayes_grpo.regimes import get_regime

    regime = get_regime(regime)
    known = prior_table if isinstance(prior_table, PriorTable) else load_prior_table(prior_table or SHIPPED)
    if regime.name not in known.regimes:
        return {}
    names = tuple(p.name for p in regime.parameters)
    if known.parameters[regime.name] != names:
        raise PriorError(
            f"prior table: law {regime.name!r} has parameters {', '.join(names)}, the table knows "
            f"{', '.join(known.parameters[regime.name])}; learn it anew: bayes-grpo learn-prior"
        )
    features = features_of(table)
    mean, sd = known.regimes[regime.name].predictive(features.covariates)
    out = {}
    for p, centre, spread in zip(regime.parameters, mean, sd, strict=True):
        origin, unit = unit_of(p, features)
        out[p.name] = Prior(_value(p, origin + unit * float(centre)), unit * float(spread))
    if table.level is not None and "observation_sd" in out:
        out["observation_sd"] = measurement_prior(table)  # what the log itself states is nearer than other runs
    return out


def _value(parameter: Parameter, u: float) -> float:
    """A parameter's value at a point of the coordinate in which its prior is normal."""
    import jax

    with jax.enable_x64(True):
        return float(parameter.transform.forward(u))
