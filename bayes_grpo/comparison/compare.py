"""`compare`: predictive comparison of the regimes by leave-one-out and leave-future-out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from bayes_grpo.common import imports
from bayes_grpo.common.errors import BayesGrpoWarning, FitError, NotConvergedError, SettingError
from bayes_grpo.common.machine import cores
from bayes_grpo.common.progress import teller
from bayes_grpo.common.results import About
from bayes_grpo.common.seeds import seed_of
from bayes_grpo.comparison.lfo import LeaveFutureOut, forecast_origins, leave_future_out
from bayes_grpo.comparison.loo import REFITS, leave_one_out
from bayes_grpo.comparison.result import FEW_ROWS, Comparison
from bayes_grpo.comparison.table import Scored, comparison_of
from bayes_grpo.fitting.draws import SmoothedDraws, smoothed_at
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.sample import check_settings, fast_posterior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.fitting.window import FitRows, rows_to_fit
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.regimes import REGIMES, get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.changes import change_words, find_changes
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series

StageProgress = Callable[[str, float], None]


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
    the middle of the log on (`bayes_grpo.comparison.lfo`). `arviz_stats.compare` gives the stacking weights. A regime
    uses its fast posterior (`bayes_grpo.fitting.sampling.sample`); `fit` runs NUTS for a single regime.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        regimes: Names or regimes; None for all that apply to this log, except those with `Regime.on_request`.
        signal: "auto", "reward" (train) or "eval" (held-out).
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
    """
    settings, tell = sampler or SamplerSettings(), teller(progress)
    check_settings(settings, seed)
    whole = as_run(run)
    run, window = rows_to_fit(whole, rows, signal)
    table = rows_of(run, signal)
    regimes, left_out = _chosen(regimes, table)
    cautions, lfo = _cautions(table, lfo)

    scored: dict[str, Scored] = {}
    not_converged: list[str] = []
    pool = ThreadPoolExecutor(max_workers=cores())  # compiled code releases the GIL
    try:
        drawn = {x.name: pool.submit(candidate_on, x, table, seed=seed, sampler=settings) for x in regimes}
        ahead = {x.name: pool.submit(_rows_ahead, x, table, seed) for x in regimes if lfo}
        imports.scores()  # while they run
        for i, regime in enumerate(regimes):
            name, share = regime.name, i / len(regimes)
            where = f"{name} ({i + 1} of {len(regimes)})"
            tell(f"{where}: posterior", share)
            try:
                found = drawn[name].result()
            except FitError as error:
                left_out[name] = str(error)
                if isinstance(error, NotConvergedError):
                    not_converged.append(name)
                continue
            if found.draws.note:
                cautions.append(f"{name}: {found.draws.note}")
            tell(f"{where}: leave-one-out", share)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BayesGrpoWarning)  # reported in the table
                # Where points failed once they fail at every refit, and NUTS takes up to half a minute each.
                again = 0 if found.draws.note else REFITS
                scored[name] = Scored(found, leave_one_out(found, refits=again, seed=seed), None)
        for i, name in enumerate(scored if lfo else ()):
            tell(f"{name}: rows ahead", i / len(scored))
            scores = ahead[name].result()
            if isinstance(scores, str):
                cautions.append(f"{name} has no forecast score: {scores}")
            else:
                scored[name] = scored[name]._replace(lfo=scores)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if not scored:
        reasons = "; ".join(f"{k}: {v}" for k, v in left_out.items())
        raise FitError(f"{run.source}: none of the regimes could be fitted to {table.signal}; {reasons}")
    about = About(run.name, table.signal, len(table.y), float(table.step[0]), float(table.step[-1]), run.source)
    breaks = [change_words(x, table.step, table.y) for x in find_changes(table.step, table.y) if x.clear]
    made = comparison_of(window, about, scored, left_out=left_out, cautions=cautions, seed=seed)
    added = "".join(f" {text}: no regime describes that." for text in breaks)
    return replace(made, sentence=made.sentence + added, not_converged=tuple(not_converged))


def _chosen(regimes: Sequence[str | Regime] | None, table: Series) -> tuple[list[Regime], dict[str, str]]:
    """Regimes to fit, and reasons for those left out."""
    left_out: dict[str, str] = {}
    if regimes is not None:
        regimes = [get_regime(x) for x in regimes]
        if not regimes or len({x.name for x in regimes}) < len(regimes):
            raise SettingError(f"regimes: expected one or more different regimes, found {[x.name for x in regimes]}")
    else:
        regimes = [x for x in REGIMES.values() if not x.on_request]
        if not table.optimizer.given:
            why = (
                "needs momentum and refresh interval, which are not in the log (set them with flags or bayes_grpo.toml)"
            )
            left_out = {x.name: why for x in regimes if x.rests_on_settings}
            regimes = [x for x in regimes if not x.rests_on_settings]
    for regime in tuple(regimes):
        try:
            regime.check(table)
        except FitError as error:
            left_out[regime.name] = str(error)
            regimes.remove(regime)
    return regimes, left_out


def _rows_ahead(regime: Regime, table: Series, seed: int) -> LeaveFutureOut | str:
    """Scores of the rows ahead; a text says why there are none."""
    try:
        scores = leave_future_out(regime, table, seed=seed)
    except FitError as error:
        return f"{error}."
    return scores.doubtful or scores


def _cautions(table: Series, lfo: bool) -> tuple[list[str], bool]:
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


CANDIDATE_POINTS = ImportanceSettings(effective=2000.0, draws=1500)
"""Points and draws of a regime that is weighed."""


def candidate_on(
    regime: Regime,
    table: Series,
    *,
    seed: int = 0,
    sampler: SamplerSettings | None = None,
) -> SmoothedDraws:
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
