"""Imports that take seconds, done where they are needed and never by two threads at once; modules found by being there.

Two threads that begin to import packages which import each other (NumPyro and ArviZ both bring SciPy) can each find
the other's half-made modules: Python breaks the deadlock between its import locks by handing one of them out.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from types import ModuleType
from typing import Any

from bayes_grpo.common.errors import MissingExtraError

_ONE = threading.RLock()


def arrow() -> tuple[Any, Any]:
    """Pyarrow and its module for Parquet; `MissingExtraError` where it is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        text = "reading Parquet needs pyarrow, which is not installed; install bayes-grpo[parquet]"
        raise MissingExtraError(text) from None
    return pa, pq


def lapack() -> None:
    """SciPy's linear algebra, imported where threads that compile begin to run beside one that imports ArviZ.

    JAX takes LAPACK from it in whichever thread first compiles a program that needs it.
    """
    with _ONE:
        import scipy.linalg  # noqa: F401


def nuts_kernels() -> Any:
    """NumPyro's `hmc` and what tells it a starting point, imported where a sampler is compiled; 1 s the first time."""
    with _ONE:
        from numpyro.infer.hmc import hmc
        from numpyro.infer.util import ParamInfo
    return hmc, ParamInfo


def scores() -> Any:
    """What ArviZ keeps a leave-one-out in, and its comparison of models; 2 s the first time."""
    with _ONE:
        from arviz_stats.loo.compare import compare
        from arviz_stats.utils import ELPDDataLOO
        from xarray import DataArray
    return ELPDDataLOO, DataArray, compare


def module_names(package: ModuleType) -> list[str]:
    """Names of the modules of a package, other folders of its ``__path__`` included; none is imported for it."""
    return sorted(info.name for info in pkgutil.iter_modules(package.__path__))


def modules_in(package: ModuleType, *names: str) -> list[ModuleType]:
    """Modules of a package by name, all of them by default."""
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names or module_names(package)]
