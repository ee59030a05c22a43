"""Pictures of what public runs say about the paper, out of the stored results alone.

The documentation draws them when it is built, `notebooks/09_paper.ipynb` shows them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bayes_grpo.common.picture import canvas, save_plot
from bayes_grpo.common.text import counted
from benchmarks.common import RESULTS
from benchmarks.paper import LEAST, PAPER_R2

WORDS = {
    "group_size": "group size",
    "learning_rate": "learning rate",
    "model_size": "model size",
    "prompts_per_step": "prompts a step",
    "refresh": "steps per rollout",
}
_FAILED = {
    "dynamical_instability": "C3",
    "reward_hacking": "C1",
    "advantage_degeneracy": "C4",
    "policy_concentration": "C2",
}


def result(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """A stored result."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["result"]


def plot_fit(claims: Mapping[str, Any]) -> Figure:
    """R² of each run's best law against the most that any law could have."""
    figure = canvas(None, (7.0, 5.0))
    axes = figure.add_subplot()
    for _, ceiling, r2, _, label, low, high in claims["fit"]["points"]:
        colour = _FAILED.get(label, "C0")
        axes.plot([low, high], [r2, r2], color=colour, alpha=0.15, lw=1.5)
        axes.plot(ceiling, r2, ".", color=colour, ms=7)
    axes.plot([0, 1], [0, 1], color="0.5", lw=1)
    axes.axhline(PAPER_R2, color="0.3", ls=":", lw=1)
    axes.annotate("R² of 0.91", (0.01, PAPER_R2 + 0.01), fontsize=8, color="0.3")
    for label, colour in {"worked": "C0", **{k.replace("_", " "): v for k, v in _FAILED.items()}}.items():
        axes.plot([], [], ".", color=colour, label=label)
    axes.set(xlim=(-0.05, 1.02), ylim=(-0.12, 1.02), xlabel="share of the rows' variance that is no measurement (90%)")
    axes.set_ylabel("R² of the best law")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0.02, 0.88), frameon=False)
    return figure


def plot_exponents(claims: Mapping[str, Any]) -> Figure:
    """Every pooled exponent with its 90% interval, and what the paper expects."""
    names = sorted(
        (n for n in claims["exponents"] if "held-out" not in n),
        key=lambda n: next(i for i, setting in enumerate(WORDS) if setting in n),
    )
    found = {n: claims["exponents"][n] for n in names}
    figure = canvas(None, (8.0, 0.32 * len(found) + 1.2))
    axes = figure.add_subplot()
    axes.axvspan(-LEAST, LEAST, color="0.9", lw=0)
    shown = 2.3
    for place, (name, x) in enumerate(reversed(found.items())):
        colour = {"cannot tell": "0.55", "none": "C2"}.get(x["verdict"], "C3")
        axes.plot([max(x["low"], -shown), min(x["high"], shown)], [place, place], color=colour, lw=2)
        axes.plot(np.clip(x["median"], -shown, shown), place, "o", color=colour, ms=5)
        if x["predicted"] is not None:
            axes.plot(x["predicted"], place, "|", color="k", ms=13, mew=1.5)
        words = name
        for key, text in WORDS.items():
            words = words.replace(key, text)
        axes.text(
            -2.45,
            place,
            f"{words}  ({counted(x['runs'], 'run')}, {counted(x['authors'], 'author')})",
            ha="right",
            va="center",
            fontsize=8,
        )
    axes.set(
        yticks=[],
        xlim=(-shown - 0.1, shown + 0.1),
        xlabel="exponent, 90% interval; | what the paper expects",
    )
    return figure


def plot_slow(claims: Mapping[str, Any]) -> Figure:
    """Which share of the runs that move is of which kind, among three kinds and among four."""
    figure = canvas(None, (6.5, 2.6))
    axes = figure.add_subplot()
    words = {
        "at once": "no slow start: exponential",
        "inertia": "inertia: oscillator",
        "success": "p(1 − p)",
        "another shape": "another shape: power-law sigmoid",
    }
    for part, colour, up in (("three", "C0", 0.12), ("four", "0.6", -0.12)):
        shares = claims["slow"][part]["shares"]
        for place, name in enumerate(reversed(words)):
            if name in shares:
                x = shares[name]
                axes.plot([x["low"], x["high"]], [place + up, place + up], color=colour, lw=3)
                axes.plot(
                    x["median"], place + up, "o", color=colour, label=f"of {part} kinds" if name == "inertia" else ""
                )
    axes.set(yticks=range(len(words)), yticklabels=list(reversed(words.values())), xlim=(0, 1))
    axes.legend(fontsize=8, frameon=False)
    axes.set_xlabel("share of the runs that move, 90% interval")
    return figure


def plot_frozen(table: Mapping[str, Any]) -> Figure:
    """The entrants by their mean score."""
    figure = canvas(None, (6.5, 0.3 * len(table["forecasts"]) + 0.9))
    axes = figure.add_subplot()
    rows = sorted(table["forecasts"].items(), key=lambda x: -x[1]["crps"])
    for place, (name, x) in enumerate(rows):
        colour = "C0" if name == "bayes_grpo" else "0.5"
        crps = min(x["crps"], 1.2)
        axes.barh(place, crps, color=colour, height=0.6)
        axes.text(crps + 0.01, place, f"{x['crps']:.2f}", va="center", fontsize=8)
    axes.set(yticks=range(len(rows)), yticklabels=[n for n, _ in rows], xlim=(0, 1.35))
    axes.set_xlabel("mean CRPS over the curve's sd; less is better")
    return figure


PICTURES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Figure]]] = {
    "fit": ("paper_claims", plot_fit),
    "exponents": ("paper_claims", plot_exponents),
    "slow": ("paper_claims", plot_slow),
    "frozen": ("frozen_table", plot_frozen),
}
"""Name → stored result, and how it is drawn."""


def draw_all(folder: Path) -> list[Path]:
    """Draws every picture into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return [save_plot(draw(result(name)), folder / f"{key}.png") for key, (name, draw) in PICTURES.items()]
