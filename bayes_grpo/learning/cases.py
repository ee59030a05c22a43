"""Fits of many logs under weak priors, as `bayes_grpo.learning.learn.learn` takes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.draws import spread
from bayes_grpo.common.errors import FitError
from bayes_grpo.common.executor import outcomes
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.importance import fast_posterior
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.learning.coordinates import features_of, unit_of
from bayes_grpo.learning.folder import SourcedRun
from bayes_grpo.learning.learn import LogCase
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.prepared import prepare_rows
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable

CUTS = (0.3, 0.5, 0.7, 1.0)
"""Shares of a log at which it could have been cut off: a user's log is unfinished."""
_DRAWS = 150
_SAMPLER = SamplerSettings(chains=4, warmup=200, draws=250)
"""Settings of NUTS where a fast posterior cannot be trusted."""


class FittedLogs(NamedTuple):
    """Logs as they were fitted.

    Attributes:
        cases: What each law learned from each log.
        refused: A sentence for every fit that could not be used.
    """

    cases: list[LogCase]
    refused: list[str]


def case_of(
    run: Run,
    regime: str | Regime,
    repository: str,
    *,
    signal: str = "auto",
    cuts: Sequence[float] = CUTS,
    seed: int = 0,
    sampler: SamplerSettings = _SAMPLER,
) -> LogCase:
    """Fits a law to a whole log and expresses what it learned as seen from each cut.

    The rows after a cut say how the curve went on; so the population learns how much curves still rise after the
    part that a user has, which the part itself cannot tell.

    Args:
        run: The log.
        regime: The law.
        repository: Where the log comes from.
        signal: "auto", "reward" or "eval".
        cuts: Shares of the log's length.
        seed: Seed.
        sampler: Settings of NUTS, which is run where the fast posterior cannot be trusted.

    Returns:
        The case.

    Raises:
        FitError: The log cannot be fitted, or neither posterior can be trusted.
    """
    regime = get_regime(regime)
    table = rows_of(run, signal)
    seen = [features_of(t) for t in (_until(run, signal, table, share) for share in cuts) if t is not None]
    if not seen:
        raise FitError(f"{run.source}: too few rows at any cut")
    target = target_of(regime, prepare_rows(table, many=True))
    found = fast_posterior(target, seed=seed, settings=ImportanceSettings(draws=_DRAWS), sampler=sampler)
    if not found.usable:
        raise FitError(f"{run.source}, law {regime.name}: {found.note}")
    order = [p.name for p in regime.parameters]
    coordinates = target.numbers.location + target.numbers.scale * found.points
    u = dict(zip([p.name for p in regime.sampled], coordinates.T, strict=True))
    found = found.with_levels(seed_of(seed, "levels"))
    u |= {p.name: found.flat(p.name) for p in regime.linear}
    values = np.stack([u[name] for name in order], axis=-1)[spread(found.size, _DRAWS)]
    centre = np.array([p.transform.inverse(found.priors[p.name].median) for p in regime.parameters])
    width = np.array([found.priors[p.name].spread for p in regime.parameters])
    units = [np.array([unit_of(p, f) for p in regime.parameters]) for f in seen]
    return LogCase(
        regime=regime.name,
        log=run.name,
        repository=repository,
        parameters=tuple(order),
        draws=np.stack([(values - x[:, 0]) / x[:, 1] for x in units]),
        weak=-0.5 * (((values - centre) / width) ** 2).sum(axis=1),
        covariates=np.stack([f.covariates for f in seen]),
        hash=run.log_hash,
    )


def cases_of(
    runs: Sequence[SourcedRun],
    regimes: Sequence[str],
    *,
    have: Sequence[LogCase] = (),
    seed: int = 0,
    jobs: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> FittedLogs:
    """Fits every law to every log.

    Args:
        runs: Logs with their repositories.
        regimes: Names of laws.
        have: Logs that were fitted before; they are not fitted again.
        seed: Seed.
        jobs: Worker processes; the cases are the same for every number of them.
        tell: Called with a short phrase before every fit; with worker processes after every fit.

    Returns:
        All cases, those of before first, and what could not be used.

    Raises:
        WorkerError: A worker process ended before its fit did, twice.
    """
    refused: list[str] = []
    seen: set[str] = set()
    done = {(c.regime, c.hash) for c in have}
    todo: list[_Fit] = []
    for i, (run, repository) in enumerate(runs):
        if run.log_hash in seen:
            refused.append(f"{run.source}: the same log as one before")
            continue
        seen.add(run.log_hash)
        words = f"log {i + 1} of {len(runs)}: {run.name}"
        todo += [_Fit(run, name, repository, seed, words) for name in regimes if (name, run.log_hash) not in done]
    found: dict[int, LogCase | str] = {}
    with outcomes(_fitted, todo, jobs=jobs) as fits:
        while len(found) < len(todo):
            tell(todo[len(found)].words if jobs == 1 else f"{len(found)} of {len(todo)} fits")
            fit = next(fits)
            if isinstance(fit.error, FitError):
                found[fit.place] = str(fit.error)
            elif fit.error is not None:
                raise fit.error
            else:
                found[fit.place] = fit.value
    in_order = [found[i] for i in range(len(todo))]
    refused += [x for x in in_order if isinstance(x, str)]
    return FittedLogs([*have, *(x for x in in_order if isinstance(x, LogCase))], refused)


class _Fit(NamedTuple):
    """A law to be fitted to a log, and how to call it."""

    run: Run
    regime: str
    repository: str
    seed: int
    words: str


def _fitted(fit: _Fit) -> LogCase:
    return case_of(fit.run, fit.regime, fit.repository, seed=fit.seed)


def provenance(cuts: Sequence[float] = CUTS, seed: int = 0) -> dict[str, Any]:
    """What a table says of its making, beside the counts of logs."""
    return {
        "date": date.today().isoformat(),
        "version": version("bayes-grpo"),
        "seed": seed,
        "how": (
            "every law fitted by NUTS under weak priors to every whole log, seen from cuts at "
            f"{', '.join(f'{c:.0%}' for c in cuts)} of its length; population of the logs' draws by NUTS, with "
            "repositories as groups"
        ),
    }


def _until(run: Run, signal: str, table: RowTable, share: float) -> RowTable | None:
    """The rows as they stood at a share of the log's length; None where they were too few or all the same."""
    try:
        cut = rows_of(run.until(table.start + share * table.length), signal)
    except FitError:
        return None
    usable = cut.signal == table.signal and len(cut.y) >= 8 and math.isfinite(cut.scale) and cut.scale > 0
    return cut if usable else None
