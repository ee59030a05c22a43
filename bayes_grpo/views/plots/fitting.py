"""Figures of a fit, of its check and of compared regimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import LEVEL, band
from bayes_grpo.common.picture import headline, legend_below, one_panel
from bayes_grpo.common.text import drawable

if TYPE_CHECKING:
    from bayes_grpo.checking import Check
    from bayes_grpo.common.picture import Canvas
    from bayes_grpo.comparison.result import Comparison
    from bayes_grpo.fitting.result import Fit

_CURVE = "#c2410c"
_LATENT = "#1d4ed8"
_DATA = "#111827"
_ROWS = "#9ca3af"


def plot_fit(fit: Fit, title: str = "", figure: Canvas | None = None) -> Canvas:
    """Draws a fit.

    Logged rows; the noise-free curve (orange) with its credible band; the latent reward (blue), curve plus gradient
    noise; and the predictive band of logged rows (gray).

    Args:
        fit: The fit.
        title: Line above the figure.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    name = f"{drawable(fit.attrs['run_name'])}: {fit.regime.title}"
    figure, axes = one_panel(figure, (9.2, 4.6), name, fit.about.reward)
    step, y = fit.step(), fit.observed()

    def ends(name: str) -> np.ndarray:
        return band(fit.trajectories(name).reshape(-1, len(step)))[::2]

    means = fit.groups["posterior_mean"]
    usual = ordinary(fit.rows.weight)
    rows = ends("rows")[:, usual]
    axes.fill_between(step[usual], *rows, color=_ROWS, alpha=0.25, lw=0, label=f"logged rows, {LEVEL:.0%}")
    axes.fill_between(step, *ends("latent"), color=_LATENT, alpha=0.2, lw=0)
    axes.plot(step, means["latent"], color=_LATENT, lw=1.2, label=f"underlying reward, {LEVEL:.0%}")
    axes.fill_between(step, *ends("curve"), color=_CURVE, alpha=0.2, lw=0)
    axes.plot(step, means["curve"], color=_CURVE, lw=1.8, label=f"noise-free curve, {LEVEL:.0%}")
    axes.plot(step, y, ".", color=_DATA, ms=3.5, alpha=0.7, label="logged")
    # Bands of an unresolved regime can be wide; the data set the view.
    spread = max(float(np.ptp(y)), 1e-12)
    axes.set_ylim(y.min() - 0.25 * spread, y.max() + 0.25 * spread)
    axes.legend(loc="best", fontsize=8, frameon=False)
    if title:
        headline(figure, title)
    return figure


_LEAST_WEIGHT = 0.1
"""Share of the usual weight of a row below which it is an outlier."""


def ordinary(weight: np.ndarray) -> np.ndarray:
    """Rows that are no outliers, shape (n,): the noise that fits has given an outlier is not that of rows around it."""
    return weight >= _LEAST_WEIGHT * np.median(weight)


def plot_residuals(fit: Fit, check: Check, figure: Canvas | None = None) -> Canvas:
    """Draws the leave-one-out residuals, with a band that holds all of 95% of replicated logs; outliers are circled."""
    title = "leave-one-out residuals (band: 95% of replicates inside)"
    figure, axes = one_panel(figure, (6.0, 2.7), title, "sd")
    step = fit.step()
    loo = np.median(check.residuals.loo, axis=0)
    limit = next(f.limit for f in check.findings if f.name == "outliers")
    axes.axhspan(-limit, limit, color=_ROWS, alpha=0.25, lw=0)
    axes.axhline(0, color=_ROWS, lw=0.8)
    axes.plot(step, loo, ".", color=_DATA, ms=4)
    out = np.abs(loo) > limit
    axes.plot(step[out], loo[out], "o", mfc="none", color=_CURVE, ms=8)
    return figure


_COLORS = (
    "#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#0891b2", "#db2777", "#a16207", "#4d7c0f", "#475569", "#111827",
)  # fmt: skip


def plot_comparison(comparison: Comparison, figure: Canvas | None = None) -> Canvas:
    """Draws the logged rows and the mean curve of every regime; those that predict worse are dotted.

    Args:
        comparison: The comparison.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure, axes = one_panel(figure, (9.2, 4.6), vertical=comparison.about.reward)
    table = next(iter(comparison.posteriors.values())).draws.rows
    step, y = table.step, table.y
    axes.plot(step, y, ".", color=_DATA, ms=3, alpha=0.5, label="logged")
    for i, line in enumerate(comparison.table):
        label = f"{line.regime}, R² {line.r2:.2f}" + (" (worse)" if line.rejected else "")
        curve = comparison.posteriors[line.regime].curve_mean
        axes.plot(step, curve, ":" if line.rejected else "-", color=_COLORS[i % len(_COLORS)], lw=1.5, label=label)
    spread = max(float(np.ptp(y)), 1e-12)
    axes.set_ylim(y.min() - 0.2 * spread, y.max() + 0.2 * spread)
    legend_below(figure, axes)
    headline(figure, f"{comparison.about.run}: {comparison.sentence}")
    return figure
