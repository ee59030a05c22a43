"""`analyze`: the one order in which the parts of an analysis are computed, for every command, the page and the watch.

Parts run in parallel threads, because compiled code releases the GIL. A part that needs another waits for it. A part
that fails reports its reason and does not affect the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bayes_grpo.analysis.result import Analysis, Fitted, Forecasted, Part
from bayes_grpo.common import imports
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning, SettingError
from bayes_grpo.common.runtime import StageProgress, or_silent
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run

if TYPE_CHECKING:
    from bayes_grpo.checking import Check
    from bayes_grpo.comparison.result import Comparison
    from bayes_grpo.decision.decide import StoppingCosts
    from bayes_grpo.diagnosis.result import Diagnosis
    from bayes_grpo.fitting.result import Fit
    from bayes_grpo.fitting.sampling.nuts import SamplerSettings
    from bayes_grpo.fitting.window import FitRows
    from bayes_grpo.planning.result import Plan
    from bayes_grpo.references.gather import RunSources
    from bayes_grpo.rollouts.records import Rollouts


@dataclass(frozen=True, kw_only=True)
class AnalysisSettings:
    """Settings of an analysis.

    Attributes:
        horizon: Horizon of the forecast, an optimizer step; None for the planned length, else half as far again.
        schedule: Learning rate from now on: "constant", "linear" or "cosine"; None to continue it as logged.
        total_steps: Step at which a decaying learning rate reaches 0; None for what the log says.
        costs: Costs and values of a decision about stopping; None for no decision.
        signal: "auto", "reward" (train) or "eval" (evaluations).
        regime: Regime of the fit.
        priors: Prior overrides of the fit, as in `fit`; None without.
        regimes: Regimes that the forecast averages over; None for its default.
        threshold: Gain of reward that counts; None for the forecast's own.
        reach: Rewards for which to report the first step.
        seed: Seed of all randomness.
        nuts: Whether a forecast uses NUTS where no regime's fast posterior can be trusted.
        sampler: Settings of NUTS; None for the default.
        paths: Paths of the forecast.
        rollouts: Completions of the run, to explain its gain; None without.
        reference_runs: Reference runs: files, folders, stores, patterns and runs; None without.
    """

    horizon: float | None = None
    schedule: str | None = None
    total_steps: float | None = None
    costs: StoppingCosts | None = None
    signal: str = "auto"
    regime: str = "oscillator"
    priors: Mapping[str, Any] | None = None
    regimes: Sequence[str] | None = None
    threshold: float | None = None
    reach: Sequence[float] = ()
    seed: int = 0
    nuts: bool = True
    sampler: SamplerSettings | None = None
    paths: int = 2000
    rollouts: Rollouts | None = None
    reference_runs: RunSources | None = None


_FEW = 2
"""Parts at most whose own stages are shown as progress; of more parts the names are."""


class _Work(NamedTuple):
    """Inputs of every part."""

    run: Run | None
    settings: AnalysisSettings
    rows: FitRows
    fit: Fit | None
    parts: dict[str, Future[Part[Any]]]
    progress: StageProgress


_CHECKED = {"fit", "check", "regimes"}
"""Parts for which a thread imports ArviZ, and with it the whole of SciPy."""


def analyze(
    run: RunLike | None,
    parts: Sequence[str] = ("diagnosis", "forecast"),
    *,
    settings: AnalysisSettings | None = None,
    rows: FitRows = "since_break",
    fit: Fit | None = None,
    progress: StageProgress | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> Analysis:
    """Computes the parts of an analysis of one run.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of; None where there is a fit alone.
        parts: Some of `PARTS`.
        settings: Settings; the defaults if None.
        rows: Rows of the fit: "since_break" or "all", as in `fit`. A forecast takes all.
        fit: A fit that was made before, in place of a new one.
        progress: Called with a short phrase, and with the share of the work that is done once it is known.
        meanwhile: Called once, while the parts are computed.

    Returns:
        The analysis. A part that failed holds its reason and its error; the others are as they would be without it.

    Raises:
        SettingError: An unknown part.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> found = analyze(run, ("diagnosis",))
        >>> found.diagnosis.required.status.status
        'fine'
        >>> found.forecast.reason
        'Left out on request.'
    """
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        raise SettingError(f"parts: expected some of {', '.join(PARTS)}, found {unknown[0]!r}")
    if _CHECKED & {*parts}:
        imports.lapack()
    names = sorted(parts, key=lambda name: name != "fit")  # what others wait for is there first
    # Imports come before any thread starts: two must not begin one package.
    makers = {name: prepare() for name, (_, prepare) in _PARTS.items() if name in names}
    progress = or_silent(progress)
    stages: StageProgress = progress if len(names) <= _FEW else lambda *_: None
    work = _Work(None if run is None else as_run(run), settings or AnalysisSettings(), rows, fit, {}, stages)
    pool = ThreadPoolExecutor(max_workers=max(1, len(names)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)  # each result says the same
        try:
            for name in names:
                work.parts[name] = pool.submit(copy_context().run, Part.of, partial(makers[name], work))
            if len(names) > _FEW:
                progress(_unfinished_words(work.parts), 0.0)
            if meanwhile is not None and names:
                meanwhile()
            for done, _ in enumerate(as_completed(work.parts.values()), 1):
                if len(names) > _FEW:
                    progress(_unfinished_words(work.parts), done / len(names))
            return Analysis(**{name: future.result() for name, future in work.parts.items()})
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _unfinished_words(parts: Mapping[str, Future[Any]]) -> str:
    return ", ".join(_PARTS[name][0] for name, f in parts.items() if not f.done()) or "writing"


def _run_of(work: _Work) -> Run:
    if work.run is None:
        raise BayesGrpoError("Needs the log itself, and only a fit was given.")
    return work.run


def _fit_of(work: _Work) -> Fit:
    found: Part[Fitted] = work.parts["fit"].result() if "fit" in work.parts else Part(reason="No fit was requested.")
    if found.value is None:
        raise BayesGrpoError(f"Rests on the fit, and there is none. {found.reason}")
    return found.value.fit


def _fit() -> Callable[[_Work], Fitted]:
    from bayes_grpo.fitting.fit import fit
    from bayes_grpo.fitting.summary import summarize

    def make(work: _Work) -> Fitted:
        s = work.settings
        made = work.fit
        if made is None:
            made = fit(
                _run_of(work),
                s.regime,
                signal=s.signal,
                rows=work.rows,
                priors=s.priors,
                seed=s.seed,
                sampler=s.sampler,
                progress=work.progress,
            )
        return Fitted(made, summarize(made))

    return make


def _regimes() -> Callable[[_Work], Comparison]:
    from bayes_grpo.comparison.compare import compare

    def make(work: _Work) -> Comparison:
        s = work.settings
        return compare(_run_of(work), signal=s.signal, rows=work.rows, seed=s.seed, sampler=s.sampler)

    return make


def _check() -> Callable[[_Work], Check]:
    from bayes_grpo.checking import check

    return lambda work: check(_fit_of(work))


def _forecast() -> Callable[[_Work], Forecasted]:
    from bayes_grpo.decision.decide import with_checkpoints
    from bayes_grpo.forecasting.forecast import forecast
    from bayes_grpo.forecasting.summary import summarize_forecast

    def make(work: _Work) -> Forecasted:
        run = _run_of(work)
        s = work.settings
        made = forecast(
            run,
            s.horizon,
            schedule=s.schedule,
            total_steps=s.total_steps,
            signal=s.signal,
            regimes=s.regimes,
            draws=s.paths,
            seed=s.seed,
            nuts=s.nuts,
            sampler=s.sampler,
            reference_runs=s.reference_runs,
            progress=work.progress,
        )
        summary = summarize_forecast(made, s.threshold, reach=s.reach)
        decision = Part.of(lambda: s.costs and with_checkpoints(s.costs, run).answer(made))
        return Forecasted(made, summary, decision.value, decision.reason)

    return make


def _diagnosis() -> Callable[[_Work], Diagnosis]:
    from bayes_grpo.diagnosis.diagnose import diagnose

    return lambda work: diagnose(_run_of(work), rollouts=work.settings.rollouts)


def _stability() -> Callable[[_Work], Plan]:
    from bayes_grpo.planning.plan import plan

    return lambda work: plan(_fit_of(work))


_PARTS: Mapping[str, tuple[str, Callable[[], Callable[[_Work], Any]]]] = {
    "fit": ("the curve's parameters", _fit),
    "regimes": ("the comparison of regimes", _regimes),
    "check": ("residuals", _check),
    "forecast": ("the forecast", _forecast),
    "diagnosis": ("the diagnosis", _diagnosis),
    "stability": ("stability", _stability),
}
"""Part → how it is called while it runs, and what imports all that it needs and gives its maker."""
PARTS = tuple(_PARTS)
"""Parts of an analysis."""
