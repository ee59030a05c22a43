"""In what two recipes differ: parts of their rewards, settings, length; and whether their totals are a comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.families.members import named_settings, setting_text, settings_that_differ
from bayes_grpo.families.recipes import Measure, Side
from bayes_grpo.logs.run import Run

if TYPE_CHECKING:
    from bayes_grpo.families.compare_runs import RecipeAnswer

TASK = ("eval_reward", "gold_reward", "accuracy")
"""What measures the task itself, whatever a total is made of."""
_WORDS = {"eval_reward": "evaluation reward", "gold_reward": "gold reward"}
_PARTS = 8
"""Parts that are compared at most."""
_LAST, _LEAST = 0.2, 3
"""Share of the common rows that are averaged, and how many at least."""
_EXACT, _WEIGHT = 1e-6, 0.02
"""Share of the variance of a total that its parts may leave over; difference of two weights that counts."""


def shared_parts(a: Sequence[Run], b: Sequence[Run], signal: str) -> list[Measure]:
    """Measures besides the compared signal that every run of both sides logs.

    Args:
        a: Runs of A.
        b: Runs of B.
        signal: The compared signal.
    """
    runs = [*a, *b]
    components = [f"rewards/{name}" for name in dict.fromkeys(chain.from_iterable(r.components for r in runs))]
    out = []
    for name in [x for x in (*TASK, *components) if x != signal][:_PARTS]:
        rows = [_rows(run, name) for run in runs]
        last = min((step[-1] for step, _ in rows if len(step)), default=math.nan)
        ends = [_end(y[step <= last]) for step, y in rows]
        known = [e for e in ends if e is not None]
        if len(known) < len(runs):
            continue
        unit = float(np.std(np.concatenate([y for _, y in rows])))
        if unit > 0.0:
            mean, error = (np.array(x) for x in zip(*known, strict=True))
            n = len(a)
            sides = Side(mean[:n], error[:n]), Side(mean[n:], error[n:])
            out.append(Measure(name, _WORDS.get(name, plain(name, 60)), *sides, unit))
    return out


def _rows(run: Run, name: str) -> tuple[np.ndarray, np.ndarray]:
    step, y = (run.eval_step, run.eval_reward) if name == "eval_reward" else (run.step, run.values(name))
    known = np.isfinite(y)
    return step[known], y[known]


def _end(y: np.ndarray) -> tuple[float, float] | None:
    """Mean of the last rows and its standard error, by how much neighboring rows differ; None with too few."""
    n = max(_LEAST, round(_LAST * len(y)))
    if len(y) < n:
        return None
    rows = y[-n:]
    return float(rows.mean()), math.sqrt(float(np.mean(np.diff(rows) ** 2)) / (2.0 * n))


def why_not_comparable(a: Sequence[Run], b: Sequence[Run], total: RecipeAnswer, parts: Sequence[RecipeAnswer]) -> str:
    """Why the totals of two recipes are no comparison; "" where nothing speaks against it.

    Args:
        a: Runs of A.
        b: Runs of B.
        total: The answer by the total.
        parts: The answers by the parts that both log.
    """
    one, two = ({name for run in side for name in run.components} for side in (a, b))
    if one and two and one != two:
        return f"A's reward is made of {_listed(one)}, B's of {_listed(two)}"
    weights = [[w for run in side if (w := _weights(run, sorted(one))) is not None] for side in (a, b)]
    if one == two and all(weights):
        mine, its = (np.mean(w, axis=0) for w in weights)
        differ = [f"{name} counts {x:.3g} in A, {y:.3g} in B" for name, x, y in zip(sorted(one), mine, its, strict=True)
                 if abs(x - y) > _WEIGHT * max(abs(x), abs(y))]  # fmt: skip
        if differ:
            return "; ".join(differ)
    other = {"A is better": "B is better", "B is better": "A is better"}.get(total.verdict, "")
    against = [x.words for x in parts if x.at in TASK and x.verdict == other]
    # What the log does not split shows where a measure of the task goes the other way.
    return f"by the total {total.verdict}, by the {against[0]} {other}" if against else ""


def _weights(run: Run, names: Sequence[str]) -> np.ndarray | None:
    """Weights of the parts of a total; None where the parts do not make it up."""
    if not names or any(name not in run.components for name in names):
        return None
    columns = np.stack([run.components[name] for name in names], axis=1)
    known = np.isfinite(columns).all(axis=1) & np.isfinite(run.reward)
    if known.sum() < 2 * len(names) + 2:
        return None
    x, y = columns[known], run.reward[known]
    weight, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    return weight if rank == len(names) and np.var(y - x @ weight) <= _EXACT * np.var(y) else None


def _listed(names: set[str]) -> str:
    return ", ".join(plain(name, 40) for name in sorted(names))


def differences(a: Sequence[Run], b: Sequence[Run]) -> tuple[str, ...]:
    """What differs between two recipes besides the reward: settings and length.

    Args:
        a: Runs of A.
        b: Runs of B.
    """
    out, named = [], named_settings([*a, *b])
    for name, values in settings_that_differ([*a, *b]).items():
        mine, its = ({setting_text(v) for v in x} for x in (values[: len(a)], values[len(a) :]))
        if mine != its:
            source = " (file names)" if name in named else ""
            both = f"{', '.join(sorted(mine))} in A, {', '.join(sorted(its))} in B"
            out.append(f"{name.replace('_', ' ')} {both}{source}")
    ends = [sorted({_last(r) for r in side}) for side in (a, b)]
    if ends[0] != ends[1]:
        out.append(f"last step {', '.join(ends[0])} in A, {', '.join(ends[1])} in B")
    return tuple(out)


def _last(run: Run) -> str:
    return f"{max((float(x[-1]) for x in (run.step, run.eval_step) if len(x)), default=math.nan):g}"
