"""The parts of a page computed side by side: each a thread, because what is compiled lets go of the interpreter.

A part that cannot be computed is an answer too: its reason. Parts that rest on others wait for them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from bayes_grpo.analysis.result import Answer, Fitted, Forecasted, Stable
from bayes_grpo.checking.check import check
from bayes_grpo.checking.result import Check
from bayes_grpo.common import imports
from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.comparison.compare import compare
from bayes_grpo.comparison.result import Comparison
from bayes_grpo.decision.price import priced
from bayes_grpo.decision.question import Question
from bayes_grpo.decision.recall import doubt_of
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.fitting.fit import fit
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.summary import summarize
from bayes_grpo.forecasting.forecast import forecast
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.curvature import curvature_of
from bayes_grpo.planning.stability import stability
from bayes_grpo.report.settings import PARTS, ReportSettings
from bayes_grpo.risk.change import Change

Tell = Callable[[str, float], None]
"""Called with a short phrase and the share of the work that is done."""

COST = {"laws": 10.0, "forecast": 6.0, "fit": 4.0, "diagnosis": 2.0, "check": 1.0, "stability": 0.2}
"""Seconds of each part on two cores, roughly: what the bar of progress goes by, and the order of starting."""
_WORDS = {
    "fit": "the curve's parameters",
    "laws": "laws compared",
    "check": "residuals",
    "forecast": "the forecast",
    "diagnosis": "the diagnosis",
    "stability": "stability",
}
"""Part → what it is called while it runs."""


class Left:
    """The work of one page, told as it gets done.

    Args:
        tell: Called with a short phrase and the share of the work that is done; None for nobody.
        total: All that there is to do, in the unit of `COST`.
    """

    def __init__(self, tell: Tell | None, total: float) -> None:
        self._tell, self._total, self._done = tell, max(total, 1e-9), 0.0

    def begin(self, phrase: str) -> None:
        """Names what is being done."""
        if self._tell is not None:
            self._tell(phrase, min(self._done / self._total, 1.0))

    def end(self, phrase: str, cost: float) -> None:
        """Counts what has been done."""
        self._done += cost
        self.begin(phrase)


def answers(
    run: Run | None,
    settings: ReportSettings,
    given: Fit | None = None,
    parts: tuple[str, ...] = PARTS,
    left: Left | None = None,
) -> Iterator[tuple[str, Answer[Any]]]:
    """Computes the parts of a page side by side.

    Args:
        run: The run; None where there is a fit alone.
        settings: What is asked for.
        given: A fit that was made before, in place of a new one.
        parts: Which parts; those of `ReportSettings.without` are answered with that reason.
        left: Told what is done.

    Yields:
        Name and answer of each part, in the order in which they are done.
    """
    imports.scores()  # before there are threads: packages that import each other are imported by one
    tell = left or Left(None, 1.0)
    names = sorted(parts, key=lambda name: (name != "fit", -COST[name]))  # what others wait for is there first
    pool = ThreadPoolExecutor(max_workers=len(names))
    futures: dict[str, Future[Answer[Any]]] = {}
    try:
        for name in names:
            futures[name] = pool.submit(_answered, _MAKERS[name], name, (run, settings, given, futures))
        places = {future: name for name, future in futures.items()}
        tell.begin(_busy(futures))
        for future in as_completed(places):
            tell.end(_busy(futures), COST[places[future]])
            yield places[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _busy(futures: Mapping[str, Future[Any]]) -> str:
    return ", ".join(_WORDS[name] for name, f in futures.items() if not f.done()) or "writing the page"


_Ask = tuple[Run | None, ReportSettings, Fit | None, Mapping[str, Future[Answer[Any]]]]


class _NothingError(Exception):
    """Why a part has no result, in words for the page."""


def _answered(make: Callable[[_Ask], Any], name: str, ask: _Ask) -> Answer[Any]:
    if name in ask[1].without:
        return Answer(None, "Left out on request.")
    return answered(partial(make, ask))


def answered[T](make: Callable[[], T]) -> Answer[T]:
    """What comes of a part, or the reason why nothing does.

    Args:
        make: Computes it.
    """
    begin = time.perf_counter()
    try:
        value = make()
    except (BayesGrpoError, _NothingError) as error:
        return Answer(None, plain(error, 600), time.perf_counter() - begin)
    except Exception as error:  # one part that nobody foresaw must not cost the others
        return Answer(None, plain(f"Failed unexpectedly: {type(error).__name__}: {error}", 600))
    return Answer(value, "", time.perf_counter() - begin)


def _run_of(ask: _Ask) -> Run:
    if ask[0] is None:
        raise _NothingError("Needs the log itself, and only a saved fit was given: bayes-grpo report LOG --fit FIT.")
    return ask[0]


def _fit_of(ask: _Ask) -> Fit:
    found: Answer[Fitted] = ask[3]["fit"].result() if "fit" in ask[3] else Answer(None, "None was asked for.")
    if found.value is None:
        raise _NothingError(f"Rests on the fit, and there is none. {found.reason}")
    return found.value.fit


def _fit(ask: _Ask) -> Fitted:
    _, settings, given, _ = ask
    made = given
    if made is None:
        run = _run_of(ask)
        made = fit(run, settings.regime, signal=settings.signal, seed=settings.seed, sampler=settings.sampler)
    return Fitted(made, summarize(made))


def _laws(ask: _Ask) -> Comparison:
    settings = ask[1]
    return compare(
        _run_of(ask),
        signal=settings.signal,
        seed=settings.seed,
        sampler=settings.sampler,
    )


def _check(ask: _Ask) -> Check:
    return check(_fit_of(ask))


def _forecast(ask: _Ask) -> Forecasted:
    run, settings, _, _ = ask
    source = _fit_of(ask) if run is None else run
    made = forecast(
        source,
        settings.until,
        signal=settings.signal,
        draws=settings.paths,
        seed=settings.seed,
        sampler=settings.sampler,
        like=None if run is None else settings.like,
    )
    found: Answer[Diagnosis] = ask[3]["diagnosis"].result() if "diagnosis" in ask[3] else Answer(None, "")
    decision = _priced(settings.question, run).answer(made, doubt_of(found.value))
    return Forecasted(made, summarize_forecast(made), decision, made.until_from)


def _priced(question: Question, run: Run | None) -> Question:
    """The question at what this run's log says of its cost; none where it says nothing, as for one run of several."""
    try:
        return question if run is None else priced(question, run)
    except SettingError:
        return Question()


def _diagnosis(ask: _Ask) -> Diagnosis:
    return diagnose(_run_of(ask), history=ask[1].history, rollouts=ask[1].rollouts, like=ask[1].like)


def _stability(ask: _Ask) -> Stable:
    made = _fit_of(ask)
    attrs = made.data.attrs
    logged = float(attrs["reference_learning_rate"])
    # It cancels, because the run's own gain is judged at the run's own settings: any will do where none was logged.
    rate = logged if math.isfinite(logged) and logged > 0 else 1.0
    curvature = curvature_of(made, rate)
    kind: Any = attrs["momentum_convention"]
    refresh = float(attrs["refresh_interval"])
    report = stability(
        rate,
        float(attrs["momentum"]),
        kind,
        refresh,
        curvature=curvature.draws,
        source=curvature.source,
        changed=Change(),
        shared=rate == logged,
    )
    return Stable(report, curvature.note if rate == logged else "")


_MAKERS: Mapping[str, Callable[[_Ask], Any]] = {
    "fit": _fit,
    "laws": _laws,
    "check": _check,
    "forecast": _forecast,
    "diagnosis": _diagnosis,
    "stability": _stability,
}
