"""`compare`: predictive comparison of the regimes by leave-one-out and leave-future-out, and its table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bayes_grpo.common import imports
from bayes_grpo.common.errors import FitError, NotConvergedError, SettingError
from bayes_grpo.common.results import About
from bayes_grpo.common.runtime import StageProgress, cores, or_silent
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.comparison.changes import change_words, find_changes
from bayes_grpo.comparison.result import CLEAR, FEW_ROWS, SURE, Comparison, ComparisonLine
from bayes_grpo.comparison.scores import REFITS, LeaveOneOut, forecast_origins, leave_future_out, leave_one_out
from bayes_grpo.fitting.draws import SmoothedDraws, check_settings, fast_posterior, smoothed_at
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.fitting.summary import r_squared
from bayes_grpo.fitting.window import FitRows, rows_to_fit
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.regimes import REGIMES, get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series


def compare(
    run: RunLike,
    regimes: Sequence[str | Regime] | None = None,
    *,
    signal: str = "auto",
    rows: FitRows = "since_break",
    seed: int = 0,
    sampler: SamplerSettings | None = None,
    lfo: bool = True,
    progress: StageProgress | None = None,
) -> Comparison:
    """Fits regimes to a run and compares their out-of-sample predictions.

    The scores are PSIS leave-one-out on exact conditionals, with refits for a high Pareto k, and leave-future-out from
    the middle of the log on (`bayes_grpo.comparison.scores`). `arviz_stats.compare` gives the stacking weights. A
    regime uses its fast posterior (`bayes_grpo.fitting.draws`); `fit` runs NUTS for a single regime.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        regimes: Names or regimes; None for all that apply to this log, except those with `Regime.on_request`.
        signal: "auto", "reward" (train) or "eval" (evaluations).
        rows: "since_break" for the rows since the last collapse of the reward, if any, or "all".
        seed: Seed of all randomness.
        sampler: Settings of NUTS, the fallback where a fast posterior is unreliable.
        lfo: Whether to compute leave-future-out scores.
        progress: Called at the start of every stage with a short phrase and the share of finished regimes.

    Returns:
        Table, weights and sentence. A regime that does not apply to the log, or that no sampler converges for, is left
        out of the table, with the reason.

    Raises:
        FitError: The log has no such signal or too few rows, or no regime could be fitted.
        SettingError: Unknown regime or signal, or an impossible sampler setting.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> compare(run, ["flat", "exponential"], lfo=False).table[0].regime
        'exponential'
    """
    settings = sampler or SamplerSettings()
    progress = or_silent(progress)
    check_settings(settings, seed)
    run, window = rows_to_fit(as_run(run), rows, signal)
    table = rows_of(run, signal)
    regimes, left_out = _chosen(regimes, table)
    cautions, lfo = _cautions(table, lfo)

    posteriors: dict[str, SmoothedDraws] = {}
    loo: dict[str, LeaveOneOut] = {}
    future: dict[str, np.ndarray] = {}
    not_converged: list[str] = []
    imports.lapack()
    pool = ThreadPoolExecutor(max_workers=cores())  # compiled code releases the GIL
    try:
        drawn = {x.name: pool.submit(_posterior, x, table, seed=seed, sampler=settings) for x in regimes}
        ahead = {x.name: pool.submit(leave_future_out, x, table, seed=seed) for x in regimes if lfo}
        imports.scores()  # while they run
        for i, name in enumerate(drawn):
            share = i / len(drawn)
            where = f"{name} ({i + 1} of {len(drawn)})"
            progress(f"{where}: posterior", share)
            try:
                found = drawn[name].result()
            except FitError as error:
                left_out[name] = str(error)
                if isinstance(error, NotConvergedError):
                    not_converged.append(name)
                continue
            posteriors[name] = found
            note = found.draws.note
            cautions += [f"{name}: {note}"] if note else []
            progress(f"{where}: leave-one-out", share)
            # Where points failed once they fail at every refit, and NUTS takes up to half a minute each.
            loo[name] = leave_one_out(found, refits=0 if note else REFITS, seed=seed)
        for i, name in enumerate(posteriors if lfo else ()):
            progress(f"{name}: rows ahead", i / len(posteriors))
            try:
                future[name] = ahead[name].result()
            except FitError as error:
                cautions.append(f"{name} has no forecast score: {error}.")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if not posteriors:
        reasons = "; ".join(f"{k}: {v}" for k, v in left_out.items())
        raise FitError(f"{run.source}: none of the regimes could be fitted to {table.signal}; {reasons}")
    about = About(run.name, table.signal, len(table.y), float(table.step[0]), float(table.step[-1]), run.source)
    best = max(future.values(), key=np.sum, default=None)
    lines = tuple(_line(row, posteriors[k], loo[k], future.get(k), best) for k, row in _ranked(loo).items())
    changes = find_changes(table.step, table.y)
    start = window.start_step
    cut = [] if start is None else [f"{window.reason} Only the rows since step {start:.0f} are compared."]
    return Comparison(
        table=lines,
        breaks=tuple(change_words(x, table.step, table.y) for x in changes if x.clear),
        cautions=(*cut, *cautions, *_table_cautions(lines, loo)),
        left_out=left_out,
        window=window,
        posteriors=posteriors,
        loo=loo,
        lfo=future,
        about=about,
        seed=seed,
        not_converged=tuple(not_converged),
    )


def _chosen(regimes: Sequence[str | Regime] | None, table: Series) -> tuple[list[Regime], dict[str, str]]:
    """Regimes to fit, and reasons for those left out."""
    left_out: dict[str, str] = {}
    if regimes is not None:
        regimes = [get_regime(x) for x in regimes]
        if not regimes or len({x.name for x in regimes}) < len(regimes):
            raise SettingError(
                f"expected one or more different regimes, found {[x.name for x in regimes]}", parameter="regimes"
            )
    else:
        regimes = [x for x in REGIMES.values() if not x.on_request]
        if not table.optimizer.given:
            why = (
                "needs momentum and refresh interval, which are not in the log (set them with flags or bayes_grpo.toml)"
            )
            left_out = {x.name: why for x in regimes if x.requires_settings}
            regimes = [x for x in regimes if not x.requires_settings]
    for regime in tuple(regimes):
        try:
            regime.check(table)
        except FitError as error:
            left_out[regime.name] = str(error)
            regimes.remove(regime)
    return regimes, left_out


def _cautions(table: Series, lfo: bool) -> tuple[list[str], bool]:
    """A remark on the rows, and True where the rows ahead can be scored."""
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


CANDIDATE_POINTS = ImportanceSettings(effective=1000.0, draws=1024)
"""Points and draws of a regime that is weighed."""


def _posterior(regime: Regime, table: Series, seed: int, sampler: SamplerSettings) -> SmoothedDraws:
    """Smoothed draws of a regime's fast posterior, by which it is weighed; what is reported of it is a `Fit`.

    NUTS is run, with the sampler's settings, where the fast posterior cannot be trusted.

    Raises:
        FitError: The regime cannot be put on these rows.
        NotConvergedError: No sampler reached its posterior.
    """
    target = target_of(regime, table, arrays=shared(table))
    found = fast_posterior(target, seed=seed_of(seed, "law"), settings=CANDIDATE_POINTS, sampler=sampler)
    if not found.usable:
        raise NotConvergedError(f"did not converge; {found.note}")
    return smoothed_at(found, seed_of(seed, "levels"))


def _table_cautions(lines: Sequence[ComparisonLine], loo: Mapping[str, LeaveOneOut]) -> list[str]:
    """Cautions about the table."""
    out = [
        f"{line.regime}: leave-one-out is unreliable at {line.high_k} rows (Pareto k above "
        f"{loo[line.regime].data.good_k:.2f}) beyond those that were refitted."
        for line in lines
        if line.high_k
    ]
    close = [x.regime for x in lines[1:] if abs(x.difference) < CLEAR]
    if close:
        out.append(f"|elpd difference| below {CLEAR:g} is no difference: {', '.join(close)}.")
    return out


def _ranked(loo: Mapping[str, LeaveOneOut]) -> dict[str, dict[str, Any]]:
    """ArviZ's comparison, best regime first."""
    *_, az_compare = imports.scores()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ArviZ's, on high k and many models: the table has its own
        found = az_compare({k: v.data for k, v in loo.items()}, method="stacking", round_to="none")
    weight = found["weight"].clip(lower=0.0)
    return found.assign(weight=weight / weight.sum()).to_dict("index")


def _line(
    row: Mapping[str, Any], found: SmoothedDraws, loo: LeaveOneOut, future: np.ndarray | None, best: np.ndarray | None
) -> ComparisonLine:
    """A regime's line: its row of ArviZ's table and its leave-future-out difference from the best regime."""
    difference, p_worse = row["elpd_diff"], row["p_worse"]
    behind, behind_se, p_worse_ahead = _score_differences(future, best)
    if future is None or best is None:
        verdict_ahead = ""
    else:
        verdict_ahead = "best" if future is best else _verdict(behind, p_worse_ahead)
    values = found.draws.values
    trend = found.draws.regime.has_trend
    return ComparisonLine(
        regime=found.draws.regime.name,
        elpd=row["elpd"],
        difference=difference,
        difference_se=row["dse"],
        p_worse=p_worse,
        weight=row["weight"],
        verdict="best" if difference == 0 else _verdict(difference, p_worse),
        r2=r_squared(found.draws.rows.y, found.curve_mean),
        lfo=float("nan") if future is None else float(future.sum()),
        lfo_difference=behind,
        lfo_difference_se=behind_se,
        p_worse_ahead=p_worse_ahead,
        verdict_ahead=verdict_ahead,
        growth=float(np.mean(values["fixed_point"] > values["initial_reward"])) if trend else float("nan"),
        high_k=len(loo.unreliable),
        refitted=len(loo.refitted),
    )


def _verdict(difference: float, p_worse: float) -> str:
    return "worse" if abs(difference) >= CLEAR and p_worse >= SURE else "cannot tell"


def _score_differences(future: np.ndarray | None, best: np.ndarray | None) -> tuple[float, float, float]:
    """LFO score less the best one, its error, and the probability of being worse.

    The few blocks call for Student's t distribution.
    """
    from scipy.stats import t

    if future is None or best is None:
        return math.nan, math.nan, math.nan
    if future is best:
        return 0.0, 0.0, math.nan
    differences = future - best
    b = len(differences)
    total = float(differences.sum())
    error = float(np.sqrt(b) * differences.std(ddof=1))
    return total, error, float(t.cdf(-total / max(error, 1e-12), b - 1))
