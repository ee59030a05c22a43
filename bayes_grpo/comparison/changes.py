"""`find_changes`: jumps and changes of slope, by interventions in a trend's state space.

    signal of a row = line + settling starts + integrated random walk + random walk + intervention + noise

Each candidate, a ramp over one to three rows or a change of slope at a row, is one more regressor, so that its marginal
likelihood is a rank-one update of that without it (de Jong and Penzer 1998,
https://doi.org/10.1080/01621459.1998.10473713). Noise variance and size of the change are integrated out, the walks'
strengths on a grid. A candidate counts by its Bayes factor against the better of no change and one wild row, and what
is found is part of the model when the next one is sought. `benchmarks/calibration/changes.py` measures how often
changes are found, and how often falsely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.rows.series import row_blocks

CHANGE_ROWS = 160
"""Longer signals are averaged in blocks of rows down to this number."""
LEAST_CHANGE_ROWS = 12
"""Fewer rows show no change."""
CLEAR_FACTOR = 3.8
"""Log Bayes factor from which a change counts, chosen on simulated smooth runs."""
_INTEGRATED, _INTEGRATED_WEIGHT = (
    (0.3, 3.0, 12.0),
    (0.3, 0.3, 0.4),
)  # sd of the integrated walk over the log, in noise sd
_WALK, _WALK_WEIGHT = (0.0, 1.5), (0.5, 0.5)  # the same of the random walk
_STARTS = (0.03, 0.1)  # time constants of a start that settles, in lengths of the log
_START_SD, _LINE_SD = 50.0, 1e3  # in noise sd, as the sizes of changes
_SD = {"jump": 5.0, "slope": 100.0, "wild": 8.0}
_ODDS = {"jump": 0.0, "slope": -1.0, "wild": 0.0}  # log prior odds: a slope changes in smooth curves too
_WIDTHS = (1, 2, 3)  # rows over which a jump goes
_NEAR = 5
_MOST = 3  # changes of a signal


class SignalChange(NamedTuple):
    """A "jump" or a change of "slope" of a signal.

    Attributes:
        after: Last step before it, 5% quantile of where it may be.
        until: First step after it, 95% quantile.
        up: Whether the signal jumps, or bends, upward.
        log_factor: Log Bayes factor for it.
    """

    kind: str
    after: float
    until: float
    up: bool
    log_factor: float

    @property
    def clear(self) -> bool:
        """True where its Bayes factor counts."""
        return self.log_factor >= CLEAR_FACTOR


def find_changes(step: np.ndarray, value: np.ndarray) -> tuple[SignalChange, ...]:
    """Jumps and changes of slope of a signal, in the order in which they are found, three at most.

    The first is among them even where it does not count (`CLEAR_FACTOR`). Steps, increasing, and finite values have the
    shape (n,).
    """
    if len(value) < LEAST_CHANGE_ROWS or np.ptp(value) == 0.0:
        return ()
    blocks = row_blocks(len(value), CHANGE_ROWS)
    x, y = blocks.mean(np.asarray(step, float)), blocks.mean(np.asarray(value, float))
    y = (y - np.median(y)) / np.std(y)
    t = (x - x[0]) / (x[-1] - x[0])
    total = _trend(t) + np.diag(1.0 / blocks.size)
    kinds, columns, first, last = _candidates(t)
    odds = np.array([_ODDS[kind] for kind in kinds])
    out: list[SignalChange] = []
    while len(out) < _MOST:
        factor, size = _scan(total, y, columns)
        factor = factor + odds - max(0.0, float(factor[kinds == "wild"].max()))
        found = [_likeliest(kind, x, factor, size, first, last, kinds == kind) for kind in ("jump", "slope")]
        best, change = max(found, key=lambda f: f[1].log_factor)
        if change.clear or not out:
            out.append(change)
        if not change.clear:
            break
        # Its size is free from now on: a prior on it would leave a part of a large change to be found again.
        free = columns[:, best] * (_LINE_SD / _SD[change.kind])
        total = total + np.outer(free, free)
    return tuple(out)


def change_words(change: SignalChange, step: np.ndarray, y: np.ndarray) -> str:
    """A change in words, with the means of up to `_NEAR` rows before and after a jump."""
    where = f"between steps {change.after:g} and {change.until:g}"
    if change.kind == "slope":
        return f"The reward bends {'upward' if change.up else 'downward'} {where}"
    before = y[step <= change.after][-_NEAR:]
    after = y[step >= change.until][:_NEAR]
    return f"The reward jumps from {before.mean():.2g} to {after.mean():.2g} {where}"


def _trend(t: np.ndarray) -> np.ndarray:
    """Covariances of the trend over rows at times from 0 to 1, at every point of the grid, shape (g, n, n)."""
    low, high = np.minimum(t[:, None], t), np.maximum(t[:, None], t)
    starts = np.stack([np.exp(-t / time) for time in _STARTS])
    vague = _LINE_SD**2 * (1.0 + (t[:, None] - 0.5) * (t - 0.5)) + _START_SD**2 * starts.T @ starts
    smooth = 0.5 * low**2 * (3.0 * high - low)
    return np.stack([vague + b**2 * smooth + w**2 * low for b in _INTEGRATED for w in _WALK])


def _candidates(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Kinds, scaled regressors, shape (n, m), and last row before and first row after each candidate, shape (m,)."""
    n, row = len(t), np.arange(len(t))
    found = [("jump", np.clip((row - i) / w, 0.0, 1.0), i, i + w) for w in _WIDTHS for i in range(1, n - 1 - w)]
    found += [("slope", np.maximum(t - t[i], 0.0), i - 1, i + 1) for i in range(3, n - 3)]
    found += [("wild", (row == i).astype(float), i - 1, i + 1) for i in range(n)]
    kinds, columns, first, last = zip(*found, strict=True)
    sd = np.array([_SD[kind] for kind in kinds])
    return np.array(kinds), np.stack(columns, axis=1) * sd, np.array(first), np.array(last)


def _scan(total: np.ndarray, y: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log Bayes factor of every candidate against none, and its expected size in its prior sd, shape (m,) each."""
    precision = np.linalg.inv(total)
    squares = 1e-6 + np.maximum(np.einsum("i,gij,j->g", y, precision, y), 0.0)
    prior = np.log(np.multiply.outer(_INTEGRATED_WEIGHT, _WALK_WEIGHT).ravel())
    log = prior - 0.5 * np.linalg.slogdet(total)[1] - 0.5 * (len(y) - 1.0) * np.log(squares)
    across = precision @ columns
    weight = 1.0 + np.einsum("nm,gnm->gm", columns, across)
    seen = np.einsum("n,gnm->gm", y, across)
    rest = np.maximum(squares[:, None] - seen**2 / weight, 1e-6)
    each = log[:, None] - 0.5 * np.log(weight) - 0.5 * (len(y) - 1.0) * np.log(rest / squares[:, None])
    share = np.exp(each - each.max(axis=0))
    size = np.sum(share / share.sum(axis=0) * seen / weight, axis=0)
    return np.logaddexp.reduce(each, axis=0) - np.logaddexp.reduce(log), size


def _likeliest(
    kind: str,
    x: np.ndarray,
    factor: np.ndarray,
    size: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    own: np.ndarray,
) -> tuple[int, SignalChange]:
    """The likeliest candidate of a kind, and where such a change may be."""
    best = int(np.argmax(np.where(own, factor, -np.inf)))
    share = np.where(own, np.exp(factor - factor[best]), 0.0)

    def quantile(rows: np.ndarray, q: float) -> float:
        order = np.argsort(rows, kind="stable")
        edges = np.cumsum(share[order])
        return float(x[rows[order[np.searchsorted(edges, q * edges[-1])]]])

    return best, SignalChange(
        kind, quantile(first, 0.05), quantile(last, 0.95), bool(size[best] > 0.0), float(factor[best])
    )
