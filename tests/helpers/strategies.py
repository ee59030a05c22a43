"""Runs of every form that a trainer may log: what the property tests of rows draw from."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import MIN_ROWS
from tests.helpers.runs import make_run

LEAST = 0.05
"""Smallest spread of the rewards that are drawn, so that no run is constant."""


@st.composite
def steps(draw: st.DrawFn, n: int) -> np.ndarray:
    """Increasing steps: one by one, evenly apart, or irregular with gaps; the log may begin late."""
    kind = draw(st.sampled_from(["each", "even", "irregular"]))
    first = draw(st.sampled_from([1, 2, 25, 400]))
    if kind == "irregular":
        between = draw(st.lists(st.integers(1, 40), min_size=n - 1, max_size=n - 1))
    else:
        between = [1 if kind == "each" else draw(st.integers(2, 20))] * (n - 1)
    return first + np.concatenate([[0.0], np.cumsum(between, dtype=float)])


@st.composite
def windows(draw: st.DrawFn, step: np.ndarray) -> np.ndarray:
    """Windows: single steps, all that a row could hold, more than that (they would overlap), or a mixture."""
    kind = draw(st.sampled_from(["one", "whole", "too long", "mixed"]))
    whole = np.diff(step, prepend=0.0)
    if kind == "one":
        return np.minimum(np.ones(len(step)), whole)
    if kind == "whole":
        return whole
    if kind == "too long":
        return np.full(len(step), float(whole.max()))
    share = draw(st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=len(step), max_size=len(step)))
    return whole * np.array(share)


@st.composite
def rewards(draw: st.DrawFn, n: int, missing: bool = True) -> np.ndarray:
    """Rewards that are not constant, with values missing where asked; at least `MIN_ROWS` are there."""
    values = np.array(draw(st.lists(st.integers(-20, 20), min_size=n, max_size=n))) * LEAST
    gone = draw(st.sets(st.integers(0, n - 1), max_size=n - MIN_ROWS)) if missing else set()
    values[sorted(gone)] = np.nan
    there = np.flatnonzero(np.isfinite(values))
    if np.ptp(values[there]) < LEAST:
        values[there[0]] += 1.0
    return values


@st.composite
def rates(draw: st.DrawFn, n: int) -> dict[str, Any]:
    """Signals and settings of a learning rate: none, constant, or falling linearly or like a cosine, to 0 or not."""
    kind = draw(st.sampled_from(["none", "constant", "linear", "cosine"]))
    if kind == "none":
        return {}
    peak, end = draw(st.sampled_from([1e-6, 3e-4])), draw(st.sampled_from([0.0, 0.1]))
    share = np.linspace(0.0, 1.0, n)
    course = {"constant": np.ones(n), "linear": 1.0 - share, "cosine": 0.5 + 0.5 * np.cos(np.pi * share)}[kind]
    falling = course if kind == "constant" else end + (1.0 - end) * course
    return {"signals": {"learning_rate": peak * falling}, "schedule": "logged"}


@st.composite
def runs(draw: st.DrawFn, sizes: tuple[int, ...] = tuple(range(MIN_ROWS, 41)), missing: bool = True) -> Run:
    """Runs with irregular steps, windows, gaps, missing values, and constant or falling rates.

    Args:
        draw: Hypothesis.
        sizes: Numbers of rows to draw from.
        missing: Whether rewards may be missing.
    """
    n = draw(st.sampled_from(sizes))
    step = draw(steps(n))
    return make_run(step, draw(rewards(n, missing)), window=draw(windows(step)), **draw(rates(n)))
