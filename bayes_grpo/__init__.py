"""Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.

The public names are imported on first use, so that ``import bayes_grpo`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_grpo.inference.fit import Fit
    from bayes_grpo.inference.io import load_fit, save_fit
    from bayes_grpo.inference.run import fit
    from bayes_grpo.inference.sampler import SamplerSettings
    from bayes_grpo.inference.summary import Summary, summarize
    from bayes_grpo.logs import Run, read_log
    from bayes_grpo.regimes import REGIMES, Prior
    from bayes_grpo.report.plot_fit import plot_fit

_HOMES = {
    "Fit": "inference.fit",
    "Prior": "regimes",
    "REGIMES": "regimes",
    "Run": "logs",
    "SamplerSettings": "inference.sampler",
    "Summary": "inference.summary",
    "fit": "inference.run",
    "load_fit": "inference.io",
    "plot_fit": "report.plot_fit",
    "read_log": "logs",
    "save_fit": "inference.io",
    "summarize": "inference.summary",
}

__all__ = [
    "REGIMES",
    "Fit",
    "Prior",
    "Run",
    "SamplerSettings",
    "Summary",
    "fit",
    "load_fit",
    "plot_fit",
    "read_log",
    "save_fit",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"bayes_grpo.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'bayes_grpo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
