"""The picture of a fit: the regime on the data. ArviZ draws the posterior (`Fit.to_datatree`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import headline, one_panel
from bayes_grpo.common.text import drawable
from bayes_grpo.fitting.result import Fit

if TYPE_CHECKING:
    from bayes_grpo.common.picture import Canvas

_CURVE, _LATENT, _DATA, _ROWS = "#c2410c", "#1d4ed8", "#111827", "#9ca3af"
_TAILS = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]


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
    figure, axes = one_panel(figure, (9.2, 4.6))
    step, y = fit.step(), fit.observed()

    def band(name: str) -> Any:
        return np.quantile(fit.trajectories(name).reshape(-1, len(step)), _TAILS, axis=0)

    means = fit.data["posterior_mean"].dataset
    axes.fill_between(step, *band("rows"), color=_ROWS, alpha=0.25, lw=0, label=f"logged rows, {LEVEL:.0%}")
    axes.fill_between(step, *band("latent"), color=_LATENT, alpha=0.2, lw=0)
    axes.plot(step, means["latent"], color=_LATENT, lw=1.2, label=f"underlying reward, {LEVEL:.0%}")
    axes.fill_between(step, *band("curve"), color=_CURVE, alpha=0.2, lw=0)
    axes.plot(step, means["curve"], color=_CURVE, lw=1.8, label=f"noise-free curve, {LEVEL:.0%}")
    axes.plot(step, y, ".", color=_DATA, ms=3.5, alpha=0.7, label="logged")
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("reward" if fit.signal == "reward" else "evaluation reward")
    # Bands of an unresolved regime can be wide; the data set the view.
    spread = max(float(np.ptp(y)), 1e-12)
    axes.set_ylim(y.min() - 0.25 * spread, y.max() + 0.25 * spread)
    axes.legend(loc="best", fontsize=8, frameon=False)
    axes.set_title(f"{drawable(fit.data.attrs['run_name'])}: {fit.regime.title}", fontsize=9, loc="left")
    if title:
        headline(figure, title)
    return figure
