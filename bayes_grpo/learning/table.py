"""The table of a corpus prior: populations by regime as a small JSON file of numbers with their provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import PriorError
from bayes_grpo.common.frames import frame_of
from bayes_grpo.common.wording import clean
from bayes_grpo.learning.population import Population

if TYPE_CHECKING:
    import pandas as pd

_FORMAT = 3
"""Version of the table's layout that is written."""
_KEYS = {2: "laws", _FORMAT: "regimes"}
"""Versions that can be read, and the key under which each keeps its populations; another version is refused."""
SHIPPED = Path(__file__).with_name("corpus_prior.json")
COVARIATES = ("rate", "length")
"""What times may depend on: logarithms of the learning rate and of the length of the log. A time in units of 1/η, and
not of the log's length, would have slopes of -1 on both."""


@dataclass(frozen=True, eq=False)
class PriorTable:
    """Populations by regime, with their provenance.

    Attributes:
        regimes: Regime → its population.
        parameters: Regime → names of its parameters, in the population's order.
        provenance: Logs, repositories, date, version, how it was made and whether its draws converged.
    """

    regimes: Mapping[str, Population]
    parameters: Mapping[str, tuple[str, ...]]
    provenance: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary, numbers to four digits."""
        regimes = {}
        for regime, population in self.regimes.items():
            rows = {}
            for i, name in enumerate(self.parameters[regime]):
                row = {k: getattr(population, k)[i] for k in ("mean", "spread", "between", "error")}
                slopes = {c: population.slopes[j, i] for j, c in enumerate(COVARIATES) if population.slopes[j, i]}
                rows[name] = {k: _short(v) for k, v in row.items()} | {
                    "slopes": {k: _short(v) for k, v in slopes.items()}
                }
            centres = {c: _short(x) for c, x in zip(COVARIATES, population.centres, strict=True)}
            regimes[regime] = {
                "logs": population.logs,
                "repositories": population.groups,
                "centres": centres,
                "parameters": rows,
            }
        return {"format": _FORMAT, "provenance": dict(self.provenance), "regimes": regimes}

    def to_frame(self) -> pd.DataFrame:
        """One row a regime and parameter: mean, spread, spread between repositories, error of the mean, slopes."""
        return frame_of(
            (
                {"regime": regime, "parameter": name}
                | {k: float(getattr(population, k)[i]) for k in ("mean", "spread", "between", "error")}
                | {f"slope_{c}": float(population.slopes[j, i]) for j, c in enumerate(COVARIATES)}
                | {"logs": population.logs, "repositories": population.groups}
                for regime, population in self.regimes.items()
                for i, name in enumerate(self.parameters[regime])
            ),
            ["regime", "parameter"],
        )


def load_prior_table(path: str | Path) -> PriorTable:
    """Reads a table of populations.

    Raises:
        PriorError: It cannot be read, is of another version, or holds impossible numbers.
    """
    return _load(str(path), Path(path).stat().st_mtime_ns if Path(path).is_file() else 0)


@lru_cache(maxsize=8)
def _load(path: str, _: int) -> PriorTable:
    hint = "give a table written by bayes-grpo learn-prior"
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PriorError(f"{path}: cannot read this prior table ({clean(error, 160)}); {hint}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if not isinstance(found, int) or found not in _KEYS:
        known = " or ".join(str(x) for x in _KEYS)
        raise PriorError(f"{path}: expected a prior table of format {known}, found {clean(found)}; {hint}")
    try:
        regimes, parameters = {}, {}
        for regime, entry in content[_KEYS[found]].items():
            rows = entry["parameters"]
            columns = {
                k: np.array([float(r[k]) for r in rows.values()]) for k in ("mean", "spread", "between", "error")
            }
            slopes = np.array([[float(r["slopes"].get(c, 0.0)) for r in rows.values()] for c in COVARIATES])
            centres = np.array([float(entry["centres"][c]) for c in COVARIATES])
            whole = np.concatenate([*columns.values(), slopes.ravel(), centres])
            if not np.isfinite(whole).all() or (columns["spread"] <= 0).any():
                raise ValueError(f"regime {regime}: spreads must be above 0 and all numbers finite")
            regimes[regime] = Population(
                **columns,
                slopes=slopes,
                centres=centres,
                logs=int(entry["logs"]),
                groups=int(entry["repositories"]),
                convergence=None,
            )
            parameters[regime] = tuple(rows)
        return PriorTable(regimes, parameters, dict(content["provenance"]))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise PriorError(f"{path}: this prior table is damaged ({clean(error, 160)}); {hint}") from error


def save_prior_table(table: PriorTable, path: str | Path) -> None:
    """Writes a table whole or not at all.

    Raises:
        OutputError: The place cannot be written to.
    """
    from bayes_grpo.common.files import written_whole

    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(table.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _short(value: float) -> float:
    return float(f"{float(value):.4g}")
