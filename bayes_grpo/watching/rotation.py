"""Logs that were rotated: the files beside a log that hold its earlier rows, and the run of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs.hygiene import row_windows
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Provenance, Run, Setting, Settings

_PARTS = 20
"""Files into which a log was rotated, at most; the last ones count."""


def rotated_away(path: Path, begins: float, read: Mapping[str, Any]) -> list[Run]:
    """What files beside a log hold of the rows before it begins, in order of their steps.

    A file counts whose name is the log's with an ending (``log.jsonl.1``, ``log.jsonl-20261122``), and whose rows all
    lie before the log's first: those of another run begin where this one does.

    Args:
        path: The log.
        begins: Its first step.
        read: Keyword arguments of `read_log`.
    """
    try:
        beside = [x for x in path.parent.iterdir() if x.name.startswith((f"{path.name}.", f"{path.name}-"))]
        beside = sorted((x for x in beside if x.is_file()), key=lambda x: x.stat().st_mtime_ns)[-_PARTS:]
    except OSError:
        return []
    parts = []
    for file in beside:
        try:
            parts.append(read_log(file, **read))
        except BayesGrpoError:  # compressed, or not a log
            continue
    return sorted((x for x in parts if last_step(x) < begins), key=first_step)


def first_step(run: Run) -> float:
    """The first step of a run."""
    return min(float(x[0]) for x in (run.step, run.eval_step) if len(x))


def last_step(run: Run) -> float:
    """The last step of a run."""
    return max(float(x[-1]) for x in (run.step, run.eval_step) if len(x))


def joined(before: Run, after: Run) -> Run:
    """A run whose log was rotated: rows of the old log up to where the new one begins, then those of the new one.

    Settings are the new log's, those that it does not state the old one's.

    Args:
        before: Rows of the old log.
        after: Rows of the new one.
    """
    cut = first_step(after)
    n, m = int(np.sum(before.step < cut)), int(np.sum(before.eval_step < cut))
    step = np.concatenate([before.step[:n], after.step])

    def columns(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        nothing, empty = np.full(n, np.nan), np.full(len(after.step), np.nan)
        return {k: np.concatenate([one[k][:n] if k in one else nothing, other.get(k, empty)]) for k in {**one, **other}}

    old, new = dict(before.settings.items()), dict(after.settings.items())
    settings = Settings(**{k: old[k] if _unstated(new[k]) and not _unstated(old[k]) else new[k] for k in new})
    window = row_windows(step, float(settings.logging_window.value or 1.0))
    return replace(
        after,
        step=step,
        reward=np.concatenate([before.reward[:n], after.reward]),
        window=np.concatenate([before.window[:n], window[n:]]),
        signals=columns(before.signals, after.signals),
        components=columns(before.components, after.components),
        eval_step=np.concatenate([before.eval_step[:m], after.eval_step]),
        eval_reward=np.concatenate([before.eval_reward[:m], after.eval_reward]),
        settings=settings,
        keys={**before.keys, **after.keys},
    )


def _unstated(setting: Setting) -> bool:
    return setting.value is None or setting.provenance is Provenance.ASSUMED
