"""Modules of a package that are found by being there, so that an addition is one new file."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules_in(package: ModuleType, constant: str) -> list[ModuleType]:
    """Modules of a package that state a constant, by name.

    Args:
        package: The package; other folders may be added to its ``__path__``.
        constant: What a module must hold to count, e.g. "TRAINER".
    """
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__))
    found = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return [module for module in found if hasattr(module, constant)]
