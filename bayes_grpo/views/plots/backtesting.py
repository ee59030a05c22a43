"""Pictures of a backtest: CRPS by origin, coverage by origin, and the histogram of the PIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.backtesting.scores import AVERAGED, Backtest
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.picture import canvas

if TYPE_CHECKING:
    from bayes_grpo.common.picture import Canvas

_COLORS = {"forecast": "#c2410c", "regime": "#1d4ed8", "rival": "#6b7280"}


def plot_backtest(backtest: Backtest, bins: int = 10, figure: Canvas | None = None) -> Canvas:
    """Draws a backtest.

    Args:
        backtest: The scores.
        bins: Bins of the PIT histogram.
        figure: Empty figure, or part of one, to draw on; a new one if None.

    Returns:
        The figure; a new one is not registered with pyplot.
    """
    lines = backtest.lines
    figure = canvas(figure, (13, 4.8))
    crps, coverage, pit = figure.subplots(1, 3, width_ratios=(1.5, 1, 1))
    ordered = sorted(lines, key=lambda x: -x.crps)
    crps.barh([x.name for x in ordered], [x.crps for x in ordered], color=[_COLORS[x.kind] for x in ordered], alpha=0.8)
    # A rival that runs away must not flatten the rest.
    limit = 2.0 * min((x.crps for x in lines), default=1.0)
    for i, line in enumerate(ordered):
        crps.text(min(line.crps, 0.98 * limit), i, f" {line.crps:.3f}", va="center", ha="left", fontsize=8)
    crps.set_xlim(0, 1.12 * limit)
    crps.set_title("mean CRPS over the curve's sd (smaller is better)", fontsize=9, loc="left")
    for line in lines:
        origins = list(line.by_origin)
        ours = line.name == AVERAGED
        coverage.plot(
            origins,
            [line.by_origin[o][1] for o in origins],
            "o-",
            color=_COLORS[line.kind],
            lw=2.5 if ours else 0.8,
            ms=5 if ours else 2,
            alpha=1.0 if ours else 0.6,
            zorder=3 if ours else 2,
        )
    coverage.axhline(LEVEL, color="#111827", lw=0.8, ls=":")
    for kind, name in (("forecast", "forecast"), ("regime", "single regimes"), ("rival", "rivals")):
        coverage.plot([], [], color=_COLORS[kind], label=name)
    coverage.legend(fontsize=8, frameon=False)
    coverage.set_ylim(0, 1.02)
    coverage.set_xlabel("origin, share of the rows")
    coverage.set_title(f"rows inside the {LEVEL:.0%} interval", fontsize=9, loc="left")
    values = backtest.pit()
    pit.hist(values, bins=np.linspace(0, 1, bins + 1).tolist(), density=True, color=_COLORS["forecast"], alpha=0.6)
    pit.axhline(1.0, color="#111827", lw=0.8, ls=":")
    pit.set_title(f"PIT of the forecast, {len(values)} rows (level: calibrated)", fontsize=9, loc="left")
    for axes in (crps, coverage, pit):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    return figure
