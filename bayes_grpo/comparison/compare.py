"""Which law the log supports, and where it cannot tell: every regime fitted and scored on rows it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax

from bayes_grpo.common.about import About
from bayes_grpo.common.errors import BayesGrpoWarning, FitError, SettingError
from bayes_grpo.comparison.lfo import LeaveFutureOut, forecast_origins, leave_future_out
from bayes_grpo.comparison.loo import REFITS, leave_one_out
from bayes_grpo.comparison.result import FEW_ROWS, Comparison
from bayes_grpo.comparison.table import Scored, comparison_of
from bayes_grpo.fitting.data import build_fit
from bayes_grpo.fitting.sampling.nuts import SamplerSettings, compile_programs
from bayes_grpo.fitting.sampling.posterior import prior_numbers
from bayes_grpo.fitting.sampling.sample import check_settings, sample_posterior
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import REGIMES, get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable

Progress = Callable[[str, float], None]


def compare(
    run: Run,
    regimes: Sequence[str | Regime] | None = None,
    *,
    signal: str = "auto",
    priors: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
    lfo: bool = True,
    refits: int = REFITS,
    progress: Progress | None = None,
) -> Comparison:
    """Fits laws to a run and compares how well they predict rows that they have not seen.

    Leave-one-out by PSIS on exact conditionals, with refits where that fails; `arviz_stats.compare` with stacking
    weights; leave-future-out from the middle of the log on (`bayes_grpo.comparison.lfo` says what its scores mean).

    Args:
        run: The run.
        regimes: Names or laws; None for all that can be put on this log, less those with `Regime.on_request`.
        signal: "auto", "reward" (train) or "eval" (held-out).
        priors: Regime → overrides, parameter → (median, spread).
        seed: Seed of all randomness.
        sampler: Length and care of the sampling.
        lfo: Whether to compute leave-future-out scores.
        refits: Exact leave-one-out refits of a law, at most.
        progress: Called at the start of every stage with a short phrase and the share of the laws that are done.

    Returns:
        Table, weights, sentence and the fits. A law that cannot be fitted or does not converge is left out of
        the table, with the reason.

    Raises:
        FitError: The log has no such signal or too few rows, or no law could be fitted.
        SettingError: Unknown regime or signal, or an impossible sampler setting.
    """
    settings, tell = sampler or SamplerSettings(), progress or (lambda *_: None)
    check_settings(settings, seed)
    table = rows_of(run, signal)
    regimes, left_out = _chosen(regimes, table)
    scored: dict[str, Scored] = {}
    cautions, lfo = _cautions(table, lfo)
    given = priors or {}
    compiling = _compile_side_by_side(regimes, table, given, settings)
    ahead = _rows_ahead_side_by_side(regimes if lfo else [], table, given, seed, settings)
    for i, regime in enumerate(regimes):
        where = f"{regime.name} ({i + 1} of {len(regimes)})"

        def stage(phrase: str, where: str = where, share: float = i / len(regimes)) -> None:
            tell(f"{where}: {phrase}", share)

        stage("compiling")
        compiling[i].result()
        try:
            found = sample_posterior(
                regime, table, priors=given.get(regime.name), seed=seed, sampler=settings, progress=stage
            )
        except FitError as error:
            left_out[regime.name] = str(error)
            continue
        if not found.convergence.passed:
            left_out[regime.name] = "; ".join(["did not converge", *found.convergence.reasons])
            continue
        stage("leave-one-out")
        fit = build_fit(run, regime, table, found, settings, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BayesGrpoWarning)  # said in the table
            scored[regime.name] = Scored(fit, leave_one_out(fit, refits=refits, seed=seed), None)
        if not lfo:
            continue
        stage("rows ahead")
        scores = ahead[regime.name].result()
        if isinstance(scores, str):
            cautions.append(f"{regime.name} has no forecast score: {scores}")
        else:
            scored[regime.name] = scored[regime.name]._replace(lfo=scores)
    if not scored:
        reasons = "; ".join(f"{k}: {v}" for k, v in left_out.items())
        raise FitError(f"{run.source}: none of the laws could be fitted to {table.signal}; {reasons}")
    about = About(run.name, table.signal, len(table.y), float(table.step[0]), float(table.step[-1]), run.source)
    return comparison_of(about, scored, left_out, cautions, seed)


def _chosen(regimes: Sequence[str | Regime] | None, table: RowTable) -> tuple[list[Regime], dict[str, str]]:
    """Laws to fit, and why the others are not."""
    left_out: dict[str, str] = {}
    if regimes is not None:
        regimes = [get_regime(x) for x in regimes]
        if not regimes or len({x.name for x in regimes}) < len(regimes):
            raise SettingError(f"regimes: expected one or more different laws, found {[x.name for x in regimes]}")
    else:
        regimes = [x for x in REGIMES.values() if not x.on_request]
        if not table.optimizer.stated:
            why = "rests on momentum and refresh interval, which nobody stated (flags or a sidecar do)"
            left_out = {x.name: why for x in regimes if x.rests_on_settings}
            regimes = [x for x in regimes if not x.rests_on_settings]
    for regime in tuple(regimes):
        try:
            regime.check(table)
        except FitError as error:
            left_out[regime.name] = str(error)
            regimes.remove(regime)
    return regimes, left_out


def _compile_side_by_side(
    regimes: Sequence[Regime], table: RowTable, priors: Mapping[str, Mapping[str, Any]], settings: SamplerSettings
) -> list[Future[None]]:
    """Starts to compile every law's programs, two at a time: the next laws compile while one is sampled."""
    pool = ThreadPoolExecutor(max_workers=2)

    def work(regime: Regime) -> None:
        with jax.enable_x64(True):  # a thread does not inherit the caller's setting
            prior = prior_numbers(regime, resolve_priors(regime, table, priors.get(regime.name)))
            compile_programs(regime, prior, padded(table), settings)

    futures = [pool.submit(work, regime) for regime in regimes]
    pool.shutdown(wait=False)
    return futures


def _rows_ahead_side_by_side(
    regimes: Sequence[Regime],
    table: RowTable,
    priors: Mapping[str, Mapping[str, Any]],
    seed: int,
    settings: SamplerSettings,
) -> dict[str, Future[LeaveFutureOut | str]]:
    """Starts the scores of the rows ahead of every law, one law at a time beside the fits; a text says why not."""
    pool = ThreadPoolExecutor(max_workers=1)

    def work(regime: Regime) -> LeaveFutureOut | str:
        if not regime.forecasts:
            return "it cannot forecast from the steps alone."
        try:
            scores = leave_future_out(regime, table, priors=priors.get(regime.name), seed=seed, sampler=settings)
        except FitError as error:
            return f"{error}."
        return scores.doubtful or scores

    futures = {regime.name: pool.submit(work, regime) for regime in regimes}
    pool.shutdown(wait=False)
    return futures


def _cautions(table: RowTable, lfo: bool) -> tuple[list[str], bool]:
    """What to say of the rows, and whether the rows ahead can be scored."""
    out = []
    if len(table.y) < FEW_ROWS:
        out.append(
            f"Only {len(table.y)} rows: with fewer than {FEW_ROWS} the errors of the differences are rough guides."
        )
    if lfo:
        try:
            forecast_origins(table)
        except FitError as error:
            out.append(f"No forecast scores: {error}.")
            lfo = False
    return out, lfo
