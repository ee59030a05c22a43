"""Plots of a fit: the regime on the data, and posteriors against priors; all panels, or one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.text import drawable, title_lines
from bayes_grpo.fitting.result import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CURVE, _LATENT, _DATA, _PRIOR = "#c2410c", "#1d4ed8", "#111827", "#9ca3af"


def plot_fit(fit: Fit, title: str = "", level: float = LEVEL, figure: Figure | None = None) -> Figure:
    """Draws a fit.

    Left: logged rows; the noise-free curve (orange) with its credible band; the latent reward (blue), curve plus
    gradient noise; and the predictive band of logged rows (gray). Right: posterior against prior of the main
    quantities.

    Args:
        fit: The fit.
        title: Line above the figure; the verdict where empty.
        level: Probability inside the bands.
        figure: Figure to draw in; a new one, not registered with pyplot, if None.

    Returns:
        The figure.
    """
    if figure is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(12, 5.2), layout="constrained")
    names = fit.regime.shown or tuple(p.name for p in fit.regime.parameters[:3])
    grid = figure.add_gridspec(len(names), 2, width_ratios=(2.4, 1))
    plot_curve(fit, level, figure.add_subplot(grid[:, 0]))
    for i, name in enumerate(names):
        plot_quantity(fit, name, level, figure.add_subplot(grid[i, 1]))
    if not title:
        from bayes_grpo.fitting.summary import summarize

        title = summarize(fit, level).verdict
    figure.suptitle(title_lines(title, 150), fontsize=10, x=0.01, ha="left")
    return figure


def plot_curve(fit: Fit, level: float = LEVEL, ax: Axes | None = None) -> Axes:
    """Draws logged rows, noise-free curve and latent reward, the left panel of `plot_fit`.

    Args:
        fit: The fit.
        level: Probability inside the bands.
        ax: Axes to draw on; those of a new figure if None.

    Returns:
        The axes.
    """
    axes = _axes((8.5, 5.2)) if ax is None else ax
    step, y = fit.step(), fit.observed()
    tails = [(1 - level) / 2, (1 + level) / 2]

    def band(draws: np.ndarray) -> Any:
        return np.quantile(draws.reshape(-1, len(step)), tails, axis=0)

    predicted = fit.trajectories("rows")
    means = fit.data["posterior_mean"].dataset
    axes.fill_between(step, *band(predicted), color=_PRIOR, alpha=0.25, lw=0, label=f"logged rows, {level:.0%}")
    axes.fill_between(step, *band(fit.trajectories("latent")), color=_LATENT, alpha=0.2, lw=0)
    axes.plot(step, means["latent"], color=_LATENT, lw=1.2, label=f"latent reward, {level:.0%}")
    axes.fill_between(step, *band(fit.trajectories("curve")), color=_CURVE, alpha=0.2, lw=0)
    axes.plot(step, means["curve"], color=_CURVE, lw=1.8, label=f"noise-free curve, {level:.0%}")
    axes.plot(step, y, ".", color=_DATA, ms=3.5, alpha=0.7, label="logged")
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("reward" if fit.signal == "reward" else "held-out reward")
    # Bands of an unresolved regime can be wide; the data set the view.
    spread = max(float(np.ptp(y)), 1e-12)
    axes.set_ylim(y.min() - 0.25 * spread, y.max() + 0.25 * spread)
    axes.legend(loc="best", fontsize=8, frameon=False)
    axes.set_title(f"{drawable(fit.data.attrs['run_name'])}: {fit.regime.title}", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def plot_quantity(fit: Fit, name: str, level: float = LEVEL, ax: Axes | None = None) -> Axes:
    """Draws posterior against prior of one quantity, a right panel of `plot_fit`.

    Args:
        fit: The fit.
        name: Parameter or derived quantity.
        level: Probability inside the interval, whose ends are dotted.
        ax: Axes to draw on; those of a new figure if None.

    Returns:
        The axes.

    Raises:
        SettingError: The fit has no such quantity.
    """
    if name not in fit.data["posterior"].dataset:
        known = ", ".join(str(x) for x in fit.data["posterior"].dataset.data_vars)
        raise SettingError(f"quantity {name!r}: a fit of {fit.regime.name} has {known}")
    axes = _axes((4.0, 2.6)) if ax is None else ax
    posterior = fit.draws(name).ravel()
    prior = fit.data["prior"].dataset[name].to_numpy().ravel()
    posterior, prior = posterior[np.isfinite(posterior)], prior[np.isfinite(prior)]
    parameter = next((p for p in fit.regime.parameters if p.name == name), None)
    share = parameter is not None and parameter.transform.name == "logit-normal"
    logarithmic = bool(np.mean(posterior > 0) > 0.95) and name != "fixed_point" and not share
    low, high = np.quantile(posterior, [0.002, 0.998])
    if logarithmic:
        # A few unstable draws have no place on a logarithmic axis; they still count in the densities' height.
        low, high = np.quantile(posterior[posterior > 0], [0.002, 0.998])
        low, high = low / 1.5, high * 1.5
        bins = np.geomspace(low, high, 60)
        axes.set_xscale("log")
        _plain_ticks(axes, low, high)
    else:
        pad = 0.3 * (high - low) or 1e-9
        bins = np.linspace(0.0, 1.0, 60) if share else np.linspace(low - pad, high + pad, 60)
        axes.locator_params(axis="x", nbins=4)

    def density(draws: np.ndarray) -> np.ndarray:
        # Per unit of the axis as drawn, normalized over all draws, so that a wide prior looks as low as it is.
        width = np.diff(np.log(bins)) if logarithmic else np.diff(bins)
        return np.histogram(draws, bins)[0] / max(len(draws), 1) / width

    axes.stairs(density(prior), bins, color=_PRIOR, fill=True, alpha=0.5, label="prior")
    axes.stairs(density(posterior), bins, color=_CURVE, lw=1.5, label="posterior")
    for edge in np.quantile(posterior, [(1 - level) / 2, (1 + level) / 2]):
        axes.axvline(edge, color=_CURVE, lw=0.8, ls=":")
    unit = fit.regime.described(name).unit
    axes.set_title(name.replace("_", " ") + (f" ({unit})" if unit else ""), fontsize=9, loc="left")
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)
    return axes


def _axes(size: tuple[float, float]) -> Axes:
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()


def _plain_ticks(axes: Axes, low: float, high: float) -> None:
    """Few ticks in plain numbers on a logarithmic axis; the default ones overlap within a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    ratio = high / low
    axes.xaxis.set_major_locator(
        MaxNLocator(4) if ratio < 6 else LogLocator(subs=(1, 2, 5) if ratio < 30 else (1,), numticks=6)
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
