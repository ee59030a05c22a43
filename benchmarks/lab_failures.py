"""Which failures do the laboratory's families end in, when do they begin, and do their logs look like public ones?

    python -m benchmarks.lab_failures [--runs 2000] [--seed 0] [--minutes 60] [--logs FOLDER] [--pictures FOLDER]
        [--table FILE.csv] [--keep] [--speed]

Small transformers are trained by GRPO (`benchmarks.lab`), as many of each family. A run is judged by true
quantities: what was set is its family, what came of it its event, with an onset. ``--table`` takes one row a run with
scale-free features of its log: numbers that no change of units or of the reward's scale would alter. ``--logs`` is a
folder of public logs as CSV files with canonical columns, which are compared by the same features. ``--speed`` times
training alone and nothing else. ``--keep`` writes `results/lab_failures.json`, or `results/lab_failures_speed.json`
with ``--speed``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bayes_grpo.simulate.settings import Numbers, Structure
from benchmarks.common import keep, say
from benchmarks.lab.families import deep_families, draw_run
from benchmarks.lab.learners.lab_logs import interleaved
from benchmarks.lab.runs import LABORATORY_BATCH, DeepRun, train_draws
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import make_task
from benchmarks.lab.training import train
from benchmarks.lab.warm_start import warm_start

SHOWN = 4
"""Runs of a family in the first picture."""
FEATURES = {
    "gain": "reward: last − first tenth, of its range",
    "loss": "reward: best − last tenth, of its range",
    "roughness": "reward: row to row, of its range",
    "entropy": "entropy: log10 last / first tenth",
    "grad_norm": "gradient norm: log10 largest / median",
    "flat": "groups without spread: mean share",
    "flat_late": "groups without spread: last tenth",
    "length": "length: log10 last / first tenth",
}
COLUMNS = {
    # canonical column of a public log: key in a laboratory log
    "reward": "reward",
    "entropy": "entropy",
    "grad_norm": "grad_norm",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "completion_length": "completions/mean_length",
}
LEAST_ROWS = 15
BUSY = 1.5
"""Load of a machine that does other work."""


def features(columns: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Scale-free features of a log; NaN where it does not log what they need.

    Args:
        columns: Canonical name → values of the rows, NaN where not logged.

    Returns:
        A value for each of `FEATURES`.
    """
    found = dict.fromkeys(FEATURES, float("nan"))
    seen = {k: v[np.isfinite(v)] for k, v in columns.items()}
    seen = {k: v for k, v in seen.items() if len(v) >= LEAST_ROWS}

    def ends(x: np.ndarray) -> tuple[float, float]:
        tenth = max(3, len(x) // 10)
        return float(x[:tenth].mean()), float(x[-tenth:].mean())

    if "reward" in seen:
        x = seen["reward"]
        size = max(3, len(x) // 10)
        smooth = np.convolve(x, np.ones(size) / size, "valid")
        reach = np.ptp(smooth)
        if reach > 0:
            first, last = ends(x)
            found["gain"], found["loss"] = (last - first) / reach, (smooth.max() - last) / reach
            found["roughness"] = float(np.diff(x).std() / np.sqrt(2.0) / reach)
    for name, key in (("entropy", "entropy"), ("length", "completion_length")):
        if key in seen:
            first, last = ends(seen[key])
            if first > 0:
                found[name] = float(np.log10(max(last / first, 1e-6)))
    if "grad_norm" in seen:
        # Steps without any gradient (no group had spread) are none of its usual ones.
        usual = seen["grad_norm"][seen["grad_norm"] > 0]
        if len(usual):
            found["grad_norm"] = float(np.log10(usual.max() / np.median(usual)))
    if "frac_reward_zero_std" in seen:
        x = seen["frac_reward_zero_std"]
        found["flat"], found["flat_late"] = float(x.mean()), ends(x)[1]
    return found


def columns_of(run: DeepRun) -> dict[str, np.ndarray]:
    """Columns of a laboratory log, as it would be written."""
    rows = [row for row in run.log()[0]["log_history"] if "reward" in row]
    return {name: np.array([row[key] for row in rows], float) for name, key in COLUMNS.items()}


def line_of(run: DeepRun) -> dict[str, Any]:
    """One row of the table."""
    draw, truth, base = run.draw, run.truth, run.draw.numbers.base
    structure = draw.setup.lab.structure
    return {
        "family": draw.family,
        "index": draw.index,
        "causes": "+".join(truth.causes),
        "event": truth.event,
        "onset": truth.onset,
        "onset_share": None if truth.onset is None else truth.onset / structure.n_steps,
        "events": "+".join(sorted(truth.events, key=truth.events.__getitem__)),
        "task": draw.setup.task,
        "steps": structure.n_steps,
        "group_size": structure.group_size,
        "optimizer": structure.optimizer,
        "relative_rate": float(base.learning_rate) / draw.setup.rate,
        "refresh_interval": int(base.refresh_interval),
        "logging_steps": draw.logging_steps,
        "first_gold": truth.first_gold,
        "best_gold": truth.best_gold,
        "final_gold": truth.final_gold,
        **features(columns_of(run)),
    }


def public_features(folder: Path) -> pd.DataFrame:
    """Features of every CSV file of a folder."""
    found = {}
    for path in sorted(folder.glob("*.csv")):
        table = pd.read_csv(path)
        found[path.stem] = features({k: table[k].to_numpy(float) for k in COLUMNS if k in table})
    return pd.DataFrame.from_dict(found, orient="index")


def coverage(lab: pd.DataFrame, public: pd.DataFrame) -> dict[str, dict[str, float]]:
    """How many public logs lie outside the middle 98% of the laboratory's, by feature."""
    found = {}
    for name in FEATURES:
        ours, theirs = lab[name].dropna(), public[name].dropna()
        low, high = np.quantile(ours, [0.01, 0.99])
        found[name] = {
            "logs": len(theirs),
            "below": float((theirs < low).mean()),
            "above": float((theirs > high).mean()),
            "low": float(low),
            "high": float(high),
        }
    return found


def plot_families(shown: Mapping[str, Sequence[DeepRun]]) -> Any:
    """A row a family: gold and held-out reward, entropy, KL and gradient norm of a few runs."""
    titles = ("reward trained on", "gold: prompts trained on", "gold: held-out", "entropy", "KL", "gradient norm")
    figure = Figure(figsize=(18, 2.1 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), len(titles), squeeze=False)
    for row, (family, runs) in zip(axes, shown.items(), strict=True):
        for i, run in enumerate(runs):
            t = run.trajectory
            step, half = np.arange(1, len(t.reward) + 1), np.ones(15) / 15

            def smooth(x: Any, half: np.ndarray = half) -> np.ndarray:
                return np.convolve(np.asarray(x, float), half, "same") / np.convolve(np.ones(len(x)), half, "same")

            curves = [
                (step, smooth(t.reward) / run.truth.attainable),
                (step, smooth(t.components[:, 0])),
                (t.eval_step, smooth(t.eval_reward, half[:3] * 5.0)),
                (step, smooth(t.entropy)),
                (step, smooth(t.kl) + 1e-6),
                (step, np.asarray(t.grad_norm) + 1e-4),
            ]
            for ax, (x, y) in zip(row, curves, strict=True):
                ax.plot(x, y, color=f"C{i}", lw=0.9)
            if run.truth.onset is not None:
                for ax in row:
                    ax.axvline(run.truth.onset, color=f"C{i}", lw=0.7, ls=":")
            row[0].text(1.0, 0.02 + 0.13 * i, run.truth.event, color=f"C{i}", fontsize=6, ha="right",
                        transform=row[0].transAxes)  # fmt: skip
        for ax in row[:3]:
            ax.set_ylim(-0.03, 1.03)
        for ax in row[4:]:
            ax.set_yscale("log")
        row[0].set_ylabel(family, fontsize=8)
        for ax in row:
            ax.tick_params(labelsize=6)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=9)
    return figure


def plot_features(lab: pd.DataFrame, public: pd.DataFrame) -> Any:
    """Distribution functions of every feature, the laboratory's and the public logs'."""
    figure = Figure(figsize=(14, 6.5), layout="constrained")
    for ax, (name, title) in zip(figure.subplots(2, 4).ravel(), FEATURES.items(), strict=True):
        for table, label, color in ((lab, "laboratory", "C0"), (public, "public logs", "C3")):
            x = np.sort(table[name].dropna().to_numpy())
            ax.step(x, (np.arange(len(x)) + 0.5) / len(x), color=color, label=f"{label} ({len(x)})", where="mid")
        low, high = np.nanquantile(pd.concat([lab[name], public[name]]), [0.005, 0.995])
        ax.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        ax.set_title(title, fontsize=8)
        ax.legend(fontsize=7)
        ax.tick_params(labelsize=7)
    return figure


def summary(table: pd.DataFrame, seconds: float) -> dict[str, Any]:
    """Counts of events by family; median and spread of onset by event, as shares of the run."""
    onset = {}
    for event, group in table.dropna(subset=["onset"]).groupby("event"):
        share = group["onset_share"].astype(float)
        low, middle, high = np.quantile(share, [0.05, 0.5, 0.95])
        onset[str(event)] = {"runs": len(group), "median": middle, "low 5%": low, "high 95%": high}
    counts = {f: dict(Counter(table.loc[table["family"] == f, "event"])) for f in deep_families()}
    return {
        "runs": len(table),
        "seconds": seconds,
        "runs a minute": 60.0 * len(table) / seconds,
        "events by family": counts,
        "onset as a share of the run, by event": onset,
    }


def speed() -> dict[str, Any]:
    """Seconds of 300 steps of 16 prompts × 8 completions × up to 16 tokens, one run and 16 side by side, compiled.

    Beside the seconds stands how much of the processor was had: on a machine that does other work they are no measure
    of the program alone.
    """
    load = os.getloadavg()[0]
    # With a run of ours in it every machine is busy, so this is asked before the first.
    out: dict[str, Any] = {"load before": load, "machine": "beside other work" if load > BUSY else "quiet"}
    task = make_task("sorting")
    lab = Lab(Structure(n_steps=300, group_size=8, prompts_per_step=16, optimizer="adam", eval_every=10))
    start = warm_start(lab, task, 0).at(0.2)
    numbers = LabNumbers(base=Numbers(learning_rate=2e-4, momentum=0.9))
    for runs in (1, 16):
        asked = time.perf_counter()
        train(lab, numbers, task, start, np.arange(runs))
        begin, worked = time.perf_counter(), time.process_time()
        found = train(lab, numbers, task, start, np.arange(runs) + 100)
        seconds, processor = time.perf_counter() - begin, time.process_time() - worked
        out[f"{runs} side by side"] = {
            "seconds": seconds,
            "seconds of processor": processor,
            "seconds with compilation": begin - asked,
            "mean tokens of a completion": float(found.mean_length.mean()),
        }
        print(f"{runs} x 300 steps: {seconds:.1f} s, {processor:.1f} s of processor; {out['machine']}", flush=True)
    return out


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=np.inf, help="start no batch after so long")
    parser.add_argument("--logs", type=Path, help="folder of public logs as CSV files")
    parser.add_argument("--pictures", type=Path, help="folder for two pictures")
    parser.add_argument("--table", type=Path, help="CSV file of the table, one row a run")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--speed", action="store_true", help="time training alone")
    asked = parser.parse_args(words)
    if asked.speed:
        found = speed()
        if asked.keep:
            say(f"kept in {keep('lab_failures_speed', found)}")
        return
    families = deep_families()
    draws = [draw_run(f, asked.seed, i) for i in range(-(-asked.runs // len(families))) for f in families]
    groups = interleaved(draws[: asked.runs], LABORATORY_BATCH)
    lines: list[dict[str, Any]] = []
    shown: dict[str, list[DeepRun]] = {f: [] for f in families}
    begin = time.perf_counter()
    for group in groups:
        if time.perf_counter() - begin > 60.0 * asked.minutes:
            say(f"{asked.minutes:g} minutes are over: {len(lines)} of {asked.runs} runs")
            break
        for run in train_draws(group):
            lines.append(line_of(run))
            if len(shown[run.draw.family]) < SHOWN:
                shown[run.draw.family].append(run)
        say(f"{len(lines)} runs, {60.0 * len(lines) / (time.perf_counter() - begin):.0f} a minute")
        if asked.table:
            pd.DataFrame(lines).to_csv(asked.table, index=False)
    table = pd.DataFrame(lines)
    result = summary(table, time.perf_counter() - begin)
    print(pd.crosstab(table["family"], table["event"]).to_string())
    print(pd.DataFrame(result["onset as a share of the run, by event"]).T.round(2).to_string())
    if asked.logs:
        public = public_features(asked.logs)
        result["public logs outside the middle 98%"] = coverage(table, public)
        print(pd.DataFrame(result["public logs outside the middle 98%"]).T.round(2).to_string())
    if asked.pictures:
        asked.pictures.mkdir(parents=True, exist_ok=True)
        plot_families({k: v for k, v in shown.items() if v}).savefig(asked.pictures / "lab_families.png", dpi=80)
        if asked.logs:
            plot_features(table, public_features(asked.logs)).savefig(asked.pictures / "lab_features.png", dpi=90)
    if asked.keep:
        say(f"kept in {keep('lab_failures', result)}")


if __name__ == "__main__":
    main()
