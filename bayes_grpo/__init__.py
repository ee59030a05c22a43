"""Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.

The public names are imported on first use, so that ``import bayes_grpo`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_grpo.analysis.backtest import Backtest, backtest
    from bayes_grpo.analysis.check import Check, check
    from bayes_grpo.analysis.compare import compare
    from bayes_grpo.analysis.comparison import Comparison
    from bayes_grpo.analysis.forecast import Forecast, forecast
    from bayes_grpo.analysis.forecast_summary import ForecastSummary, summarize_forecast
    from bayes_grpo.diagnosis.run import Diagnosis, diagnose
    from bayes_grpo.inference.fit import Fit
    from bayes_grpo.inference.io import load_fit, save_fit
    from bayes_grpo.inference.run import fit
    from bayes_grpo.inference.sampler import SamplerSettings
    from bayes_grpo.inference.summary import Summary, summarize
    from bayes_grpo.logs import Run, read_log
    from bayes_grpo.regimes import REGIMES, Prior
    from bayes_grpo.report.plot_check import plot_check
    from bayes_grpo.report.plot_compare import plot_comparison
    from bayes_grpo.report.plot_fit import plot_fit
    from bayes_grpo.report.plot_forecast import plot_forecast

_HOMES = {
    "Backtest": "analysis.backtest",
    "Forecast": "analysis.forecast",
    "ForecastSummary": "analysis.forecast_summary",
    "backtest": "analysis.backtest",
    "forecast": "analysis.forecast",
    "plot_forecast": "report.plot_forecast",
    "summarize_forecast": "analysis.forecast_summary",
    "Diagnosis": "diagnosis.run",
    "Check": "analysis.check",
    "Comparison": "analysis.comparison",
    "Fit": "inference.fit",
    "Prior": "regimes",
    "REGIMES": "regimes",
    "Run": "logs",
    "SamplerSettings": "inference.sampler",
    "Summary": "inference.summary",
    "check": "analysis.check",
    "compare": "analysis.compare",
    "diagnose": "diagnosis.run",
    "fit": "inference.run",
    "load_fit": "inference.io",
    "plot_check": "report.plot_check",
    "plot_comparison": "report.plot_compare",
    "plot_fit": "report.plot_fit",
    "read_log": "logs",
    "save_fit": "inference.io",
    "summarize": "inference.summary",
}

__all__ = [
    "REGIMES",
    "Backtest",
    "Check",
    "Comparison",
    "Diagnosis",
    "Fit",
    "Forecast",
    "ForecastSummary",
    "Prior",
    "Run",
    "SamplerSettings",
    "Summary",
    "backtest",
    "check",
    "compare",
    "diagnose",
    "fit",
    "forecast",
    "load_fit",
    "plot_check",
    "plot_comparison",
    "plot_fit",
    "plot_forecast",
    "read_log",
    "save_fit",
    "summarize",
    "summarize_forecast",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"bayes_grpo.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'bayes_grpo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
