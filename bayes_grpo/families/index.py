"""An index of runs: a table with settings that the logs lack. Imports nothing slow."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.reading import PathLike
from bayes_grpo.logs.run import Provenance, Run, Setting

LOG_COLUMNS = ("run_id", "run", "log", "name")
"""Columns that name the log, by their possible names."""
LONGEST = 512
"""Longer logs are averaged in blocks down to this number of rows."""
ALIASES: Mapping[str, tuple[str, ...]] = {
    "learning_rate": ("lr",),
    "group_size": ("num_generations", "G"),
    "model_size": ("model_params_b", "size", "parameters"),
    "refresh_interval": ("k_ref", "K_ref"),
    "prompts_per_step": ("prompts",),
    "kl_weight": ("kl_beta", "beta", "kl_coef"),
    "clip_range": ("epsilon", "clip_range_upper"),
    "epochs": ("num_iterations", "ppo_epochs"),
}
"""Other names of settings in an index."""


@dataclass(frozen=True)
class Index:
    """A table of runs and their settings.

    Attributes:
        rows: Name of a log → its columns, as text.
        source: File; "" where the caller gave a mapping.
    """

    rows: Mapping[str, Mapping[str, Any]]
    source: str = ""

    def of(self, run: Run) -> Mapping[str, Any]:
        """Columns of a run; empty where it is not named."""
        stem = Path(run.source.split("; ")[0]).name
        return next((self.rows[key] for key in (run.name, stem, Path(stem).stem) if key in self.rows), {})

    def with_settings(self, run: Run) -> Run:
        """The run with the settings of its index row; settings from the user win, and impossible values are ignored."""
        columns, found = self.of(run), {}
        for name, setting in run.settings.items() if columns else ():
            given = cell(columns, name)
            if given is None or setting.provenance is Provenance.USER:
                continue
            try:
                value = checked({name: given}, self.source)[name]
            except SettingError:
                continue
            found[name] = Setting(value, Provenance.CONFIG, f"from {self.source or 'the index'}")
        return run.with_settings(found) if found else run

    def number(self, run: Run, name: str) -> float | None:
        """A setting of a run as a number; None where its cell is empty or holds none.

        Args:
            run: The run.
            name: The setting, by its own name or one of `ALIASES`.
        """
        given = cell(self.of(run), name)
        try:
            value = math.nan if given is None else float(given)
        except (TypeError, ValueError):
            return None
        return value if math.isfinite(value) else None


def cell(columns: Mapping[str, Any], name: str) -> Any:
    """What a row of an index holds for a setting, by its own name or one of `ALIASES`; None where it is empty."""
    return next((columns[c] for c in (name, *ALIASES.get(name, ())) if str(columns.get(c, "")).strip()), None)


def index_of(given: PathLike | Mapping[str, Mapping[str, Any]] | None) -> Index:
    """An index of runs, from a CSV file or a mapping.

    Args:
        given: CSV file with a column that names the log (``run_id``, ``run``, ``log`` or ``name``) and columns of
            settings; or a mapping of names to settings; None for none.

    Raises:
        SettingError: It cannot be read, or lacks a column that names the log.
    """
    if given is None or isinstance(given, Mapping):
        return Index(dict(given or {}))
    source = plain(os.fspath(given))
    try:
        with Path(given).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SettingError(f"{source}: cannot read this index ({error}); give a CSV file") from error
    columns = [c for c in (rows[0] if rows else {}) if c]
    name = next((c for c in LOG_COLUMNS if c in columns), None)
    if name is None:
        found = ", ".join(columns) or "no row"
        raise SettingError(f"{source}: expected an index with a column {LOG_COLUMNS[0]}, found {plain(found)}")
    return Index({row[name]: row for row in rows if row[name]}, source)
