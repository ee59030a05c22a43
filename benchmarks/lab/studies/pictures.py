"""Pictures of what `lab_dynamics` found, drawn from its stored result alone by ``--plot`` and the notebook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from scipy.stats import norm

COLOURS = ("#1d4ed8", "#b45309", "#15803d", "#7e22ce", "#0f766e", "#9f1239")
POLICIES = {"early": "o", "late": "s"}
"""Stored policies and their markers."""
CEILING = 20.0
"""Onsets were looked for up to so many times the one foretold; what was not found by then is no less than that."""


def thresholds(stored: Mapping[str, Any]) -> Figure:
    """a: critical gains in the refresh interval, measured, exact and by the published rule."""
    figure, axes = _frame(2, 10, sharey=True)
    for ax, name in zip(axes, POLICIES, strict=True):
        _gains(ax, stored["a"][name]["exposed"]["rows"], "μ")
        ax.set_title(f"{name} policy: points measured, dotted the published rule", fontsize=9)
    axes[0].set_ylabel("critical gain ηK, K of the stiffest mode")
    axes[0].legend(fontsize=8, frameon=False)
    return figure


def adam(stored: Mapping[str, Any]) -> Figure:
    """a under Adam: thresholds where ε is the scale; the gain that runs with noise come to have."""
    figure, axes = _frame(2, 10)
    found = stored["adam"]
    quiet = found["late"]["without_noise"]
    _gains(axes[0], [r for r in quiet if r["warm"]], "β₁")
    cold = [r for r in quiet if not r["warm"]]
    axes[0].plot([r["interval"] for r in cold], [r["measured"] for r in cold], "kx", ms=5, label="no warm-up")
    axes[0].set_title("without noise, late policy: points measured, dotted the rule", fontsize=9)
    axes[0].set_ylabel("critical gain (1 − β₁)ηK/ε")
    axes[0].legend(fontsize=8, frameon=False)
    for name, marker in POLICIES.items():
        rows = found[name]["with_noise"]["rows"]
        settings = list(dict.fromkeys((r["momentum"], r["interval"]) for r in rows))
        for colour, (m, s) in zip(COLOURS, settings, strict=False):
            own = [r for r in rows if (r["momentum"], r["interval"]) == (m, s)]
            x, y = ([r[key] for r in own] for key in ("share", "gain_over_critical"))
            axes[1].loglog(x, y, f"{marker}-", color=colour, ms=4, lw=0.8, label=f"{name}, β₁ {m:g}, K_ref {s:g}")
    ticks = sorted({r["share"] for r in found["late"]["with_noise"]["rows"]})
    axes[1].loglog(ticks, ticks, ":", color="0.5", label="were v̂ what it was at rest")
    axes[1].axhline(1.0, color="0.3", lw=0.8)
    for axis in (axes[1].xaxis, axes[1].yaxis):
        axis.set_ticks(ticks, [f"{x:g}" for x in ticks])
        axis.set_minor_locator(NullLocator())
    axes[1].set_xlabel("learning rate over the one foretold to be critical")
    axes[1].set_ylabel("gain by the run's own v̂, over critical")
    axes[1].set_title("with noise", fontsize=9)
    axes[1].legend(fontsize=6, frameon=False)
    return figure


def onset(stored: Mapping[str, Any]) -> Figure:
    """b: onset of oscillation over (1 − √μ)², of the stiffest mode and of the reward by its own curvature."""
    figure, (ax,) = _frame(1, 6)
    names = ("momentum 0", "momentum 0.5", "momentum 0.9")
    for colour, (policy, marker) in zip(COLOURS, POLICIES.items(), strict=False):
        found, spectrum = stored["b"][policy], stored["a"][policy]["spectrum"]
        bound = 0.99 * CEILING * spectrum["reward_curvature"] / spectrum["rates"][0]
        place = np.arange(len(names)) + (-0.15 if policy == "early" else 0.05)
        beside = place + 0.1
        stiff, reward = (np.array([found[name][key] for name in names]) for key in ("stiffest", "reward"))
        ax.plot(place, stiff, marker, color=colour, ms=6, label=f"{policy}: stiffest mode")
        seen = reward < bound
        ax.plot(beside[seen], reward[seen], marker, color=colour, ms=6, mfc="none", label=f"{policy}: the reward")
        if not seen.all():
            ax.plot(beside[~seen], reward[~seen], "^", color=colour, ms=7, mfc="none", label=f"{policy}: above")
    ax.axhline(1.0, color="0.3", lw=0.8)
    ax.set_yscale("log")
    ax.set_xticks(range(len(names)), [name.replace("momentum", "μ =") for name in names])
    ax.set_xlim(-0.4, len(names) - 0.6)
    ax.set_ylabel("measured onset over (1 − √μ)²")
    ax.set_title("gain at which the way to the fixed point first passes it", fontsize=9)
    ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def groups(stored: Mapping[str, Any]) -> Figure:
    """c: stationary variance, mean trajectory and drift in the group size."""
    figure, axes = _frame(3, 13)
    found = stored["c"]
    variance = {int(g): v for g, v in found["variance"].items()}
    size = np.array(sorted(variance))
    linear = {int(g): v for g, v in found["linear_variance"].items()}
    axes[0].loglog(size, [variance[g] for g in size], "o-", color=COLOURS[0], label="measured")
    at = sorted(linear)
    axes[0].loglog(at, [linear[g] for g in at], "x", color=COLOURS[1], label="by the linearised drift")
    axes[0].loglog(size, variance[8] * 8 / size, ":", color="0.5", label="1 / G")
    axes[0].set_title("stationary variance of the mean reward", fontsize=9)
    rows = found["mean_trajectory"]
    g = np.array([r["group_size"] for r in rows])

    def column(name: str) -> np.ndarray:
        return np.array([r[name] for r in rows])

    error = 2.0 * column("standard_error")
    axes[1].errorbar(g, column("largest_gap_to_infinite"), error, fmt="o", ms=4, color=COLOURS[0], label="measured")
    axes[1].plot(g, column("exact_gap_to_infinite"), "-", lw=1, color=COLOURS[1], label="exact mean update")
    axes[1].set_title("mean-only: largest gap to G → ∞, of the way", fontsize=9)
    error = 2.0 * column("spread_standard_error")
    axes[2].errorbar(g, column("spread_measured"), error, fmt="o", ms=4, color=COLOURS[0], label="measured")
    axes[2].plot(g, column("spread_predicted"), "-", lw=1, color=COLOURS[1], label="each prompt's E[σ_G]")
    axes[2].plot(g, column("spread_by_mean_success"), ":", color="0.5", label="of the mean success rate")
    axes[2].set_title("std-normalised: first drift over that of G → ∞", fontsize=9)
    for ax in axes:
        ax.set_xscale("log")
        ax.set_xticks(size, [str(x) for x in size])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("group size G")
        ax.legend(fontsize=8, frameon=False)
    return figure


def slow_starts(stored: Mapping[str, Any]) -> Figure:
    """d: courses of slow starts, and what comparisons of laws say of them."""
    figure, axes = _frame(2, 11)
    found = {name: x for name, x in stored["d"].items() if name != "total"}
    for colour, (name, x) in zip(COLOURS, found.items(), strict=False):
        style = "--" if x["prompts"] > 16 else "-"
        axes[0].plot(x["course"]["step"], x["course"]["reward"], style, color=colour, lw=1.2, label=name)
    axes[0].set(xlabel="optimizer step", ylabel="mean reward, mean over runs")
    axes[0].legend(fontsize=7, frameon=False, loc="lower right")
    _bars(axes[1], {name: x["mean_weight"] for name, x in found.items()})
    for i, x in enumerate(found.values()):
        best = ", ".join(f"{word} {count}" for word, count in x["explained"].items())
        axes[1].text(0.0, i + 0.29, f"of {len(x['runs'])} runs: {best}", fontsize=7, va="top")
    axes[1].set(xlabel="mean weight of a law", xlim=(0.0, 1.0))
    return figure


def recovery(stored: Mapping[str, Any]) -> Figure:
    """e: errors of posterior medians in posterior standard deviations, against the normal ones of a right fit."""
    names = {"curvature": "curvature K", "damping": "damping c", "damping_ratio": "damping ratio ζ"}
    names["fixed_point"] = "fixed point R*"
    figure, axes = _frame(len(names), 13, sharey=True)
    labels = {"mode": "pushed along one mode", "gradient": "pushed along the gradient"}
    for ax, (name, title) in zip(axes, names.items(), strict=True):
        for colour, (kind, label) in zip(COLOURS, labels.items(), strict=False):
            own = [x[name] for x in stored["e"][kind]["fits"] if name in x]
            z = np.sort([x["error_in_sd"] for x in own])
            held = np.mean([x["covered"] for x in own])
            ax.plot(norm.ppf((np.arange(len(z)) + 0.5) / len(z)), z, "o", ms=3, color=colour,
                    label=f"{label if ax is axes[0] else kind}: {held:.0%} of {len(z)}")  # fmt: skip
        ax.plot([-3, 3], [-3, 3], "-", color="0.5", lw=0.8)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("normal quantile")
        ax.legend(fontsize=7, frameon=False, title="held by 90% intervals", title_fontsize=7)
    axes[0].set_ylabel("error of the median, posterior sd")
    return figure


PICTURES = {"a": thresholds, "adam": adam, "b": onset, "c": groups, "d": slow_starts, "e": recovery}
"""A picture of each section."""


def write_pictures(stored: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draws every section into a folder.

    Args:
        stored: The stored result.
        folder: Made if it is not there.

    Returns:
        The PNG files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for name, draw in PICTURES.items():
        out.append(folder / f"lab_{name}.png")
        draw(stored).savefig(out[-1], dpi=90)
    return out


def _frame(columns: int, width: float, **options: Any) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, 3.8), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False, **options)[0]


def _gains(ax: Any, rows: list[dict[str, float]], symbol: str) -> None:
    """Critical gains in the refresh interval, a colour for each momentum."""
    for colour, m in zip(COLOURS, sorted({r["momentum"] for r in rows}), strict=False):
        own = [r for r in rows if r["momentum"] == m]
        interval = [r["interval"] for r in own]
        ax.loglog(interval, [r["hold"] for r in own], "-", color=colour, lw=1, label=f"exact, {symbol} = {m:g}")
        ax.loglog(interval, [r["measured"] for r in own], "o", color=colour, ms=5)
        ax.loglog(interval, [r["rule"] for r in own], ":", color=colour, lw=1)
    ticks = sorted({int(r["interval"]) for r in rows})
    ax.set_xticks(ticks, [str(x) for x in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("refresh interval, steps")


def _bars(ax: Any, shares: Mapping[str, Mapping[str, float]]) -> None:
    """Stacked bars, one line each."""
    words = list(next(iter(shares.values())))
    left = np.zeros(len(shares))
    for colour, word in zip(COLOURS, words, strict=False):
        width = np.array([own[word] for own in shares.values()])
        ax.barh(range(len(shares)), width, 0.55, left=left, color=colour, label=word)
        left += width
    ax.set_yticks(range(len(shares)), list(shares))
    ax.set_ylim(len(shares) - 0.4, -0.6)
    ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
