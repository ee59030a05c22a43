"""`forecast_look`: the forecast of one look at a growing run, within a second.

Each regime's fast posterior starts from the draws of the look before, so that three batches of points are enough where
a first fit climbs from the prior over ten. NUTS is not called in: a regime whose points cannot be trusted is left out,
as growing regimes are after a collapse, and tried again when the log has grown by a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from bayes_grpo.analysis.result import ForecastState, Part
from bayes_grpo.analysis.settings import AnalysisSettings
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.programs import forget_programs
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.basis import basis_of_run
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_regimes, without
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.forecasting.horizon import horizon_of
from bayes_grpo.forecasting.result import Forecast
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.padding import doubled
from bayes_grpo.rows.schedule import rows_ahead
from bayes_grpo.rows.table import RowTable
from bayes_grpo.siblings.together import ReadTogether

POINTS = ImportanceSettings(effective=1000.0, rounds=12, draws=500)
"""Points of a look: enough for paths and weights, fewer than a forecast that is made once."""
AGAIN = 1.25
"""Growth of a log after which a regime that was left out is tried again, and reference runs are read again."""


def forecast_look(
    run: Run,
    settings: AnalysisSettings,
    state: ForecastState,
    reference: Callable[[RowTable], ReadTogether] | None = None,
) -> tuple[Forecast, ForecastState]:
    """Forecasts a growing run, starting from the state of the previous look.

    Args:
        run: The run as it is logged so far.
        settings: Horizon, signal, paths and seed.
        state: State after the previous look.
        reference: Reads the run with its reference runs, given its rows; None without any.

    Returns:
        The forecast, and the state for the next look.

    Raises:
        BayesGrpoError: The run has passed the horizon.
        FitError: Too few rows, no such signal, or no regime could be fitted.
    """
    basis = basis_of_run(run, settings.signal)
    last = float(basis.table.step[-1])
    until, origin = horizon_of(basis.settings, last, settings.until)
    if last == round(last):
        until = math.ceil(until)  # whole steps stay whole
    if until <= last:
        raise BayesGrpoError(f"the run has come to step {last:g}, and the forecast was to end at {until:g}")
    ahead, rows = rows_ahead(basis.table, until, basis.ahead), len(basis.table.y)
    length = doubled(rows)
    if state.length not in (0, length):
        forget_programs()  # the log has outgrown them; this frees 150 MB
    rough = {name: n for name, n in state.rough.items() if n <= rows < AGAIN * n}
    fitted = fit_regimes(
        basis.rows,
        [name for name in settings.regimes or FORECAST_REGIMES if name not in rough],
        reward=basis.reward,
        seed=settings.seed,
        settings=POINTS,
        strict=False,
        start=state.points,
    )
    found_rough = {name: rows for name, x in fitted.draws.items() if not x.diagnostics.passed}
    if len(found_rough) < len(fitted.draws):
        fitted, rough = without(fitted, found_rough), rough | found_rough
    notes: list[str] = [f"{', '.join(rough)} left out: too few points fit these rows"] if rough else []
    together: Part[ReadTogether] = Part(reason="")
    if reference is not None:
        together = Part.of(partial(reference, basis.table))
        notes += [f"no reference runs: {together.reason}"] if together.reason else []
    fitted = replace(fitted, notes=(*fitted.notes, *notes))
    made = forecast_of_regimes(basis, fitted, ahead, draws=settings.paths, seed=settings.seed, siblings=together.value)
    points = {name: x.points for name, x in fitted.draws.items()}
    return replace(made, until_from=origin), ForecastState(points, rough, length)
