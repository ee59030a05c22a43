"""Which law the log supports, and where it cannot tell: every regime fitted and scored on rows it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from bayes_grpo.common.errors import BayesGrpoWarning, FitError, SettingError
from bayes_grpo.comparison.lfo import LeaveFutureOut, forecast_origins, leave_future_out
from bayes_grpo.comparison.loo import REFITS, LeaveOneOut, leave_one_out
from bayes_grpo.comparison.result import CLEAR, FEW_ROWS, SURE, Comparison, Line, verdict_sentence
from bayes_grpo.comparison.stacking import shrunk, stacking_weights
from bayes_grpo.fitting.data import build_fit
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.sampling.nuts import SamplerSettings, compile_programs
from bayes_grpo.fitting.sampling.posterior import prior_numbers
from bayes_grpo.fitting.sampling.sample import check_settings, sample_posterior
from bayes_grpo.fitting.summary import r_squared, summarize
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
    fits: dict[str, Fit] = {}
    loo: dict[str, LeaveOneOut] = {}
    future: dict[str, LeaveFutureOut] = {}
    cautions = _cautions(table, lfo)
    if lfo and not _has_origins(table):
        lfo = False
    compiling = _compile_side_by_side(regimes, table, priors or {}, settings)
    for i, regime in enumerate(regimes):
        where = f"{regime.name} ({i + 1} of {len(regimes)})"

        def stage(phrase: str, where: str = where, share: float = i / len(regimes)) -> None:
            tell(f"{where}: {phrase}", share)

        stage("compiling")
        compiling[i].result()
        try:
            given = (priors or {}).get(regime.name)
            found = sample_posterior(regime, table, priors=given, seed=seed, sampler=settings, progress=stage)
        except FitError as error:
            left_out[regime.name] = str(error)
            continue
        if not found.convergence.passed:
            left_out[regime.name] = "; ".join(["did not converge", *found.convergence.reasons])
            continue
        stage("leave-one-out")
        fits[regime.name] = build_fit(run, regime, table, found, settings, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BayesGrpoWarning)  # said in the table
            loo[regime.name] = leave_one_out(fits[regime.name], refits=refits, seed=seed)
        if not lfo:
            continue
        if not regime.forecasts:
            cautions.append(f"{regime.name} cannot forecast from the steps alone: it has no forecast score.")
            continue
        try:
            scores = leave_future_out(regime, table, found, priors=given, seed=seed, sampler=settings, progress=stage)
        except FitError as error:
            cautions.append(f"{regime.name} has no forecast score: {error}.")
            continue
        if scores.doubtful:
            cautions.append(f"{regime.name} has no forecast score: {scores.doubtful}")
        else:
            future[regime.name] = scores
    if not fits:
        reasons = "; ".join(f"{k}: {v}" for k, v in left_out.items())
        raise FitError(f"{run.source}: none of the laws could be fitted to {table.signal}; {reasons}")
    return _assemble(run, table, fits, loo, future, left_out, cautions, seed)


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


def _has_origins(table: RowTable) -> bool:
    try:
        forecast_origins(table)
    except FitError:
        return False
    return True


def _cautions(table: RowTable, lfo: bool) -> list[str]:
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
    return out


def _assemble(
    run: Run,
    table: RowTable,
    fits: dict[str, Fit],
    loo: dict[str, LeaveOneOut],
    future: dict[str, LeaveFutureOut],
    left_out: dict[str, str],
    cautions: list[str],
    seed: int,
) -> Comparison:
    ranked = _ranked(loo)
    by_forecast = _forecast_weights(future) if future else {}
    ahead = max(future.values(), key=lambda x: x.elpd, default=None)
    lines = tuple(
        _line(name, row, fits[name], loo[name], future.get(name), ahead, by_forecast.get(name))
        for name, row in ranked.items()
    )
    for line in lines:
        if line.high_k:
            cautions.append(
                f"{line.regime}: leave-one-out is unreliable at {line.high_k} rows (Pareto k above "
                f"{loo[line.regime].data.good_k:.2f}) beyond those that were refitted."
            )
    close = [x.regime for x in lines[1:] if abs(x.difference) < CLEAR]
    if close:
        cautions.append(f"|elpd difference| below {CLEAR:g} is no difference: {', '.join(close)}.")
    cautions += [f"{name} is not in the table: {reason}" for name, reason in left_out.items()]
    weights = {x.regime: x.weight for x in lines}
    scores = next(iter(future.values()), None)
    if not by_forecast:
        able = [name for name in weights if fits[name].regime.forecasts]
        by_forecast = dict.fromkeys(able, 1.0 / len(able)) if able else {}
    damping = {}
    for name, fit in fits.items():
        if "damping_ratio" in fit.data["posterior"].dataset:
            found = summarize(fit).probabilities
            damping[name] = {k: found[k] for k in ("overdamped", "oscillatory", "unstable", "half_period_seen")}
    return Comparison(
        lines=lines,
        sentence=verdict_sentence(lines, table.signal),
        cautions=tuple(cautions),
        left_out=left_out,
        damping=damping,
        weights_loo=weights,
        weights_lfo=by_forecast,
        fits=fits,
        loo=loo,
        lfo=future,
        meta={
            "run": run.name,
            "source": run.source,
            "signal": table.signal,
            "rows": len(table.y),
            "forecast_origins": [] if scores is None else [float(table.step[i]) for i in scores.origins],
            "horizon_rows": None if scores is None else scores.horizon,
            "seed": seed,
        },
    )


def _ranked(loo: dict[str, LeaveOneOut]) -> dict[str, dict[str, float]]:
    """ArviZ's comparison, best law first."""
    from arviz_stats.loo.compare import compare as az_compare

    if len(loo) == 1:
        name, only = next(iter(loo.items()))
        alone = {"elpd_diff": 0.0, "dse": 0.0, "p_worse": float("nan"), "weight": 1.0}
        return {name: alone | {"elpd": only.data.elpd, "se": only.data.se, "p": only.data.p}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ArviZ's, on high k and on many models: said in our words
        found = az_compare({k: v.data for k, v in loo.items()}, method="stacking", round_to="none")
    out = {str(name): {k: float(row[k]) for k in _COLUMNS} for name, row in found.iterrows()}
    total = sum(max(row["weight"], 0.0) for row in out.values())
    for row in out.values():
        row["weight"] = max(row["weight"], 0.0) / total
    return out


_COLUMNS = ("elpd", "se", "p", "elpd_diff", "dse", "p_worse", "weight")


def _forecast_weights(future: dict[str, LeaveFutureOut]) -> dict[str, float]:
    """Weights by the forecast score; the blocks after the origins count as the independent points."""
    density = np.stack([x.forecast for x in future.values()], axis=1)
    points = len(next(iter(future.values())).origins)
    return dict(zip(future, shrunk(stacking_weights(density), points).tolist(), strict=True))


def _line(
    name: str,
    row: Mapping[str, float],
    fit: Fit,
    loo: LeaveOneOut,
    future: LeaveFutureOut | None,
    ahead: LeaveFutureOut | None,
    weight_lfo: float | None,
) -> Line:
    constant, y = fit.data["constant_data"].dataset, fit.observed()
    difference, error, p_worse = row["elpd_diff"], row["dse"], row["p_worse"]
    against = abs(difference) >= CLEAR and p_worse >= SURE
    nothing = float("nan")
    behind, behind_se, verdict_ahead = _behind(future, ahead)
    return Line(
        regime=name,
        title=fit.regime.title,
        elpd=row["elpd"],
        elpd_se=row["se"],
        difference=difference,
        difference_se=error,
        p_worse=p_worse,
        weight=row["weight"],
        effective_parameters=row["p"],
        verdict="best" if difference == 0 else "worse" if against else "cannot tell",
        r2=r_squared(y, constant["curve_mean"].to_numpy()),
        r2_latent=r_squared(y, constant["latent_mean"].to_numpy()),
        lfo=future.elpd if future else nothing,
        lfo_difference=behind,
        lfo_difference_se=behind_se,
        verdict_ahead=verdict_ahead,
        forecast_score=future.forecast_score if future else nothing,
        weight_lfo=nothing if weight_lfo is None else weight_lfo,
        growth=_growth(fit),
        high_k=len(loo.unreliable),
        refitted=len(loo.refitted),
    )


def _behind(future: LeaveFutureOut | None, best: LeaveFutureOut | None) -> tuple[float, float, str]:
    """LFO score less the best one, its error, and the verdict; few blocks call for Student's distribution."""
    from scipy.stats import t

    if future is None or best is None:
        return float("nan"), float("nan"), ""
    if future is best:
        return 0.0, 0.0, "best"
    differences = future.blocks - best.blocks
    b = len(differences)
    total, error = float(differences.sum()), float(np.sqrt(b) * differences.std(ddof=1))
    sure = t.cdf(-total / max(error, 1e-12), b - 1) >= SURE
    return total, error, "worse" if -total >= CLEAR and sure else "cannot tell"


def _growth(fit: Fit) -> float:
    if not fit.regime.has_trend:
        return float("nan")
    return float(np.mean(fit.draws("fixed_point") > fit.draws("initial_reward")))
