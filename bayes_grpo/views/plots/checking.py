"""The picture of a check: its leave-one-out residuals. ArviZ draws Pareto k and the PIT (`Fit.to_datatree`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.checking import Check
from bayes_grpo.common.picture import one_panel
from bayes_grpo.fitting.result import Fit

if TYPE_CHECKING:
    from bayes_grpo.common.picture import Canvas

_SEEN, _BAND = "#c2410c", "#9ca3af"


def plot_residuals(fit: Fit, check: Check, figure: Canvas | None = None) -> Canvas:
    """Draws the leave-one-out residuals, with a band that holds all of 95% of replicated logs; outliers are circled.

    Args:
        fit: The fit.
        check: Its check.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    figure, axes = one_panel(figure, (6.0, 2.7))
    step = fit.step()
    loo = np.median(check.residuals.loo, axis=0)
    limit = next(f.limit for f in check.findings if f.name == "outliers")
    axes.axhspan(-limit, limit, color=_BAND, alpha=0.25, lw=0)
    axes.axhline(0, color=_BAND, lw=0.8)
    axes.plot(step, loo, ".", color="#111827", ms=4)
    out = np.abs(loo) > limit
    axes.plot(step[out], loo[out], "o", mfc="none", color=_SEEN, ms=8)
    axes.set_title("leave-one-out residuals (band: 95% of replicates inside)", fontsize=9, loc="left")
    axes.set_xlabel("optimizer step", fontsize=8)
    axes.set_ylabel("sd", fontsize=8)
    axes.tick_params(labelsize=8)
    return figure
