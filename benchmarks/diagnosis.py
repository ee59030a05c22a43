"""How good the diagnosis is: labelled real logs, the deep laboratory, early warning, small policies, missing signals.

    python -m benchmarks.diagnosis [--index FOLDER/index.csv ...] [--lab-learned FOLDER ... --lab FOLDER ...]
        [--rivals ENV/bin/python] [--runs 2000] [--removed 300] [--seed 900] [--jobs 2] [--plot reliability.png]
        [--json OUT]

The simulated runs come from other seeds than those used for learning. Beside the diagnosis: alarms at fixed thresholds,
fed the same signals. Their alarms are turned into probabilities by their own frequencies on further simulated runs,
which is more than a user of them has. With an index that has the columns run_id, repo, outcome_label and
label_evidence, and a folder csv beside it, labelled real logs are judged too, those of each repository by a layer that
was learned without them; with --rivals also by rldoctor, rlprobe and rlwatch, which that interpreter has
(`uv venv ENV && uv pip install -p ENV/bin/python rldoctor rlprobe rlwatch`). Laboratory logs come from
`laboratory.learners.lab_logs`: those that the shipped layer was learned from, others of another seed to judge it by.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo import diagnose
from bayes_grpo.common.files import written_whole
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, CLASSES, MODES, PRIOR
from bayes_grpo.diagnosis.classify import effective, posterior
from bayes_grpo.diagnosis.features import gather_all
from bayes_grpo.laboratory.learners.diagnosis import (
    LABORATORY,
    SIMULATED,
    LabelledCase,
    LayerRow,
    frequencies,
    lab_rows,
    layer_rows,
    learn_layer,
)
from bayes_grpo.laboratory.learners.lab_logs import lab_logs
from bayes_grpo.laboratory.learners.public_logs import labelled_logs
from bayes_grpo.laboratory.learners.simulated_runs import LabelledRun, labelled_runs
from bayes_grpo.logs.run import Run
from benchmarks.common import keep
from benchmarks.diagnosis_early import certain, certain_after, half_lost, hazard, warned, watched
from benchmarks.diagnosis_rivals import RIVALS, AlarmOdds, external

ALARM = 0.5
REMOVED = {
    "held-out reward": ("eval_reward", "gold_reward"),
    "share of groups without spread": ("frac_reward_zero_std",),
    "reward std": ("reward_std",),
    "entropy": ("entropy",),
    "KL": ("kl",),
    "gradient norm": ("grad_norm",),
    "all but the train reward": ("eval_reward", "frac_reward_zero_std", "reward_std", "entropy", "kl", "grad_norm"),
}


def calibration_error(probability: np.ndarray, happened: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: mean over equal-width bins of |mean probability - frequency|, weighted by size."""
    place = np.minimum((probability * bins).astype(int), bins - 1)
    total = 0.0
    for b in range(bins):
        inside = place == b
        if inside.any():
            total += inside.mean() * abs(probability[inside].mean() - happened[inside].mean())
    return float(total)


def scores(probability: np.ndarray, labels: Sequence[str]) -> dict[str, float]:
    """Log score, Brier score, calibration errors and balanced accuracy of class probabilities, shape (n, 6)."""
    truth = np.array([CLASSES.index(label) for label in labels])
    hot = np.eye(len(CLASSES))[truth]
    chosen = probability.argmax(axis=1)
    recalls = [float(np.mean(chosen[truth == k] == k)) for k in range(len(CLASSES)) if (truth == k).any()]
    return {
        "log score": float(np.log(np.maximum(probability[np.arange(len(truth)), truth], 1e-12)).mean()),
        "Brier score": float(((probability - hot) ** 2).sum(axis=1).mean()),
        "ECE of the top answer": calibration_error(probability.max(axis=1), (chosen == truth).astype(float)),
        "ECE of all classes": calibration_error(probability.ravel(), hot.ravel()),
        "balanced accuracy": float(np.mean(recalls)),
    }


class Answers(NamedTuple):
    """What is said of n runs.

    Attributes:
        p: Scored probabilities of `CLASSES`, shape (n, 6).
        own: Probability that each of `MODES` is under way, shape (n, 4).
        doubt: Of "cannot tell", shape (n,).
        alarms: Whether each of `MODES` sounds an alarm, shape (n, 4).
    """

    p: np.ndarray
    own: np.ndarray
    doubt: np.ndarray
    alarms: np.ndarray


def judged(runs: Sequence[Run], prior: dict[str, float]) -> Answers:
    """Evidence of runs, then `answers`."""
    found = [g for first in range(0, len(runs), 128) for g in gather_all(runs[first : first + 128])]
    return answers([{} if g is None else g.features for g in found], prior)


def answers(features: Sequence[Mapping[str, float]], prior: dict[str, float]) -> Answers:
    """What the shipped layer says."""
    results = [posterior(f, prior) for f in features]
    return Answers(
        np.array([effective(r.probability, prior) for r in results]),
        np.array([[r.own[mode] for mode in MODES] for r in results]),
        np.array([r.probability[CANNOT_TELL] for r in results]),
        np.array([[mode in r.alarming(ALARM) for mode in MODES] for r in results]),
    )


def simulated(test: list[LayerRow], practice: list[LayerRow], plot: Path | None) -> dict[str, Any]:
    """Part 1: calibration and confusion on simulated runs, beside the rivals."""
    labels = [r.label for r in test]
    prior = frequencies([r.label for r in practice])
    p, own, doubt, alarms = answers([r.features for r in test], prior)
    present = np.array([[mode in r.modes for mode in MODES] for r in test], float)
    healthy = np.array([label in ("healthy", "plateaued") for label in labels])
    out: dict[str, Any] = {"runs": len(test), "diagnosis": scores(p, labels)}
    out["diagnosis"] |= {
        "ECE of each failure": calibration_error(own.ravel(), present.ravel()),
        "mean cannot tell": float(doubt.mean()),
        "alarms on unfailed runs": float(alarms[healthy].any(axis=1).mean()),
        "failed runs with the right alarm": float(np.mean([
            alarms[i, MODES.index(label)] for i, label in enumerate(labels) if label in MODES
        ])),
    }  # fmt: skip
    print(f"\n{len(test)} simulated runs that were not learned from; prior: frequencies of {len(practice)} others")
    _table("diagnosis", out["diagnosis"])
    for name in RIVALS:
        odds = AlarmOdds([r.alarms[name] for r in practice], [r.label for r in practice])
        theirs = [r.alarms[name] for r in test]
        out[name] = scores(np.array([odds(a) for a in theirs]), labels) | {
            "alarms on unfailed runs": float(np.mean([bool(a) for a, h in zip(theirs, healthy, strict=True) if h])),
            "failed runs with the right alarm": float(np.mean([
                label in a for a, label in zip(theirs, labels, strict=True) if label in MODES
            ])),
        }  # fmt: skip
        _table(name, out[name])
    out["confusion"] = _confusion(p, labels)
    if plot is not None:
        reliability(p, labels, own, present, plot)
    return out


def _confusion(p: np.ndarray, labels: Sequence[str]) -> dict[str, dict[str, int]]:
    """Counts of the most probable class by truth, printed."""
    chosen, truth = p.argmax(axis=1), np.array(labels)
    counts = {a: {b: int(np.sum((truth == a) & (chosen == k))) for k, b in enumerate(CLASSES)} for a in CLASSES}
    print("\nconfusion: rows truth, columns most probable class")
    print(" " * 24 + " ".join(f"{name[:10]:>10s}" for name in CLASSES))
    for name, row in counts.items():
        print(f"{name:24s}" + " ".join(f"{c:10d}" for c in row.values()))
    return counts


def _table(name: str, values: dict[str, float]) -> None:
    print(f"  {name}")
    for key, value in values.items():
        print(f"    {key:34s} {value:7.3f}")


def reliability(p: np.ndarray, labels: Sequence[str], own: np.ndarray, present: np.ndarray, path: Path) -> None:
    """Reliability plot: frequency against stated probability, classes and failures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    hot = np.eye(len(CLASSES))[[CLASSES.index(label) for label in labels]]
    for axes, title, names, stated, happened in (
        (left, "what the run is", CLASSES, p, hot),
        (right, "whether a failure is under way", MODES, own, present),
    ):
        axes.plot([0, 1], [0, 1], color="0.6", lw=0.8)
        for k, name in enumerate(names):
            edges = np.linspace(0, 1, 9)
            place = np.clip(np.digitize(stated[:, k], edges) - 1, 0, 7)
            points = [
                (stated[place == b, k].mean(), happened[place == b, k].mean(), np.sum(place == b))
                for b in range(8) if np.sum(place == b) >= 8
            ]  # fmt: skip
            x, y, n = map(np.array, zip(*points, strict=True))
            axes.errorbar(x, y, np.sqrt(np.maximum(y * (1 - y), 0.25 / n) / n), fmt="o-", ms=3, lw=1,
                          label=name.replace("_", " "))  # fmt: skip
        axes.set(xlabel="stated probability", ylabel="frequency", title=title, xlim=(-0.02, 1.02), ylim=(-0.04, 1.04))
        axes.legend(fontsize=7, frameon=False)
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=130)


def laboratory(learned: Sequence[Path], folders: Sequence[Path]) -> dict[str, Any]:
    """Part 2: failures of a deep network, with all signals and with some missing, and when they are seen."""
    logs, before = lab_logs(folders), lab_logs(learned)
    out: dict[str, Any] = {}
    for name, complete in (("all signals", True), ("signals missing", False)):
        rows = lab_rows(folders, complete, seed=6)
        labels = [r.label for r in rows]
        p, own, doubt, alarms = answers([r.features for r in rows], PRIOR)
        failed = np.array([label in MODES for label in labels])
        present = np.array([[mode in r.modes for mode in MODES] for r in rows])
        right = [alarms[i, MODES.index(labels[i])] for i in np.flatnonzero(failed)]
        out[name] = {"runs": len(rows), "failed": int(failed.sum())} | scores(p, labels) | {
            "failed runs with the right alarm": float(np.mean(right)),
            "alarms on unfailed runs": float(alarms[~failed].any(axis=1).mean()),
            "wrong alarms a run": float((alarms & ~present).sum(axis=1).mean()),
            "ECE of each failure": calibration_error(own.ravel(), present.ravel().astype(float)),
            "mean cannot tell": float(doubt.mean()),
        }  # fmt: skip
        print(f"\ndeep laboratory, {len(rows)} runs that were not learned from, {name}")
        _table("diagnosis", out[name])
        _confusion(p, labels)
    out["early"] = warned(watched(logs, None))
    print(
        "\nearly warning, at thresholds at which 5% of the unfailed runs ever raise an alarm: ours | plain statistics"
    )
    for mode, found in out["early"].items():
        shown = [
            f"named {x['named']:.0%}, before damage {x['before damage']:.0%}" for x in (found["ours"], found["theirs"])
        ]
        print(f"  {mode:24s} {found['runs']:4d}  {' | '.join(shown)}")
    out["certain"] = certain(logs, None)
    print(f"collapses with P of at least .9 ten rows after: {out['certain']}")
    out["hazard"] = hazard(before, logs)
    print(f"is a collapse announced: {out['hazard']}")
    return out


def removed(test: list[LabelledRun], prior: dict[str, float]) -> dict[str, Any]:
    """Part 4: each signal removed in turn."""
    print("\nsignals removed in turn")
    print(f"{'removed':34s} log score  balanced acc.  ECE classes  ECE failures  mean P(cannot tell)")
    labels = [r.label for r in test]
    present = np.array([[mode in r.modes for mode in MODES] for r in test], float)
    out = {}
    for name, signals in {"nothing": (), **REMOVED}.items():
        p, own, doubt, _ = judged([_without(r.run, signals) for r in test], prior)
        s = scores(p, labels)
        out[name] = s | {
            "ECE of each failure": calibration_error(own.ravel(), present.ravel()),
            "mean cannot tell": float(doubt.mean()),
        }
        print(
            f"{name:34s} {s['log score']:9.3f}  {s['balanced accuracy']:13.3f}  {s['ECE of all classes']:11.3f}  "
            f"{out[name]['ECE of each failure']:12.3f}  {doubt.mean():19.3f}"
        )
    return out


def _without(run: Run, names: Sequence[str]) -> Run:
    signals = {k: v for k, v in run.signals.items() if k not in names}
    if "eval_reward" in names and run.has_reward:
        return replace(run, signals=signals, eval_step=np.empty(0), eval_reward=np.empty(0))
    return replace(run, signals=signals)


def labelled(
    indices: Sequence[Path],
    simulated: Sequence[LayerRow],
    lab: Sequence[LayerRow],
    out_of_domain: tuple[str, ...],
    python: Path | None = None,
) -> dict[str, Any]:
    """Part 3: real logs with labels, each repository by a layer that was learned without it, at the package's prior.

    The definitions of the events were written with these logs in view; the layer's numbers were not learned from them.
    Beside it the rivals: `RIVALS`, and with an interpreter that has them, those of `external`.
    """
    logs = labelled_logs(indices)
    found = {name: [rival(x.run) for x in logs] for name, rival in RIVALS.items()}
    if python is not None:
        found |= external([x.run for x in logs], python, [x.group_size for x in logs])
    kept = [x for x in logs if not x.name.startswith(out_of_domain)]
    cases = [LabelledCase(x.label, x.repository, x.features) for x in kept]
    others = [LabelledCase(r.label, SIMULATED, r.features, r.modes) for r in simulated]
    others += [LabelledCase(r.label, LABORATORY, r.features, r.modes) for r in lab]
    judged_logs: list[dict[str, Any]] = []
    print("\nlabelled logs (c: label from the curve only), nested by repository; probabilities; alarms of P >= 0.5")
    layers = {
        r: learn_layer([c for c in cases if c.repository != r] + others, {}) for r in {x.repository for x in logs}
    }
    for i, x in enumerate(logs):
        result = posterior(x.features, None, layers[x.repository])
        rest = [c.label for c in cases if c.repository != x.repository]
        base = np.array([rest.count(name) + 1.0 for name in CLASSES])
        order = sorted(ANSWERS, key=lambda name, p=result.probability: -p[name])
        p = effective(result.probability, PRIOR)
        judged_logs.append(
            {
                "run": x.name,
                "label": x.label,
                "in words": x.in_words,
                "in domain": not x.name.startswith(out_of_domain),
                "probability": dict(result.probability),
                "effective": p.tolist(),
                "log score": float(np.log(p[CLASSES.index(x.label)])),
                "log score of the base rates": float(np.log(base[CLASSES.index(x.label)] / base.sum())),
                "first two": [CLASSES[k] for k in np.argsort(-p)[:2]],
                "alarms": list(result.alarming(ALARM)),
                "rivals": {name: sorted(alarms[i]) for name, alarms in found.items()},
            }
        )
        shown = " ".join(f"{name[:6]} {result.probability[name]:.2f}" for name in order[:3])
        alarms = ", ".join(judged_logs[-1]["alarms"])
        print(f"{x.name[:34]:34s} {' ' if x.in_words else 'c'} {x.label[:13]:13s} {shown}   {alarms}")
    collapses = [(x, row) for x in kept if x.label == MODES[-1] and (row := half_lost(x.run)) is not None]
    late = {x.name: round(certain_after(x.run, row, layers[x.repository]), 2) for x, row in collapses}
    print(f"collapses: highest P within ten rows of having lost half: {late}")
    inside = [r for r in judged_logs if r["in domain"]]
    parts = {"all": inside, "in words": [r for r in inside if r["in words"]]}
    summary = {name: summarised(rows) for name, rows in parts.items()}
    outside = [r for r in judged_logs if not r["in domain"]]
    if outside:
        summary["out of domain"] = summarised(outside)
    for name, values in summary.items():
        print(f"  {name}")
        for key, value in values.items():
            print(f"    {key}: {value:.3f}" if isinstance(value, float) else f"    {key}: {value}")
    return {"summary": summary, "logs": judged_logs, "collapses": late}


def summarised(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts and scores of judged logs."""
    failed, unfailed = ([r for r in rows if (r["label"] in MODES) == bad] for bad in (True, False))
    p = np.array([r["effective"] for r in rows])
    truth = np.array([CLASSES.index(r["label"]) for r in rows])
    right = (p.argmax(axis=1) == truth).astype(float)
    out: dict[str, Any] = {
        "logs": len(rows),
        "failed": len(failed),
        "first or second": sum(r["label"] in r["first two"] for r in failed),
        "right alarm": sum(r["label"] in r["alarms"] for r in failed),
        "unfailed": len(unfailed),
        "alarms on unfailed": sum(bool(r["alarms"]) for r in unfailed),
        "log score": float(np.mean([r["log score"] for r in rows])),
        "log score of the base rates": float(np.mean([r["log score of the base rates"] for r in rows])),
        "gain": float(np.mean([r["log score"] - r["log score of the base rates"] for r in rows])),
        "ECE of the top answer": calibration_error(p.max(axis=1), right),
        "ECE of all classes": calibration_error(p.ravel(), np.eye(len(CLASSES))[truth].ravel()),
    }
    for name in rows[0]["rivals"]:
        out[f"{name}: right alarm"] = sum(r["label"] in r["rivals"][name] for r in failed)
        out[f"{name}: alarms on unfailed"] = sum(bool(r["rivals"][name]) for r in unfailed)
        if name not in RIVALS:
            naming = sum(not set(MODES).isdisjoint(r["rivals"][name]) for r in unfailed)
            out[f"{name}: alarms on unfailed that name a failure"] = naming
    return out | {
        "misses": [r["run"] for r in failed if r["label"] not in r["first two"]],
        "false": [r["run"] for r in unfailed if r["alarms"]],
    }


def speed(run: Run) -> dict[str, float]:
    """Part 5: seconds of one diagnosis of 400 rows with all signals."""
    rows = 400
    step = np.arange(1.0, rows + 1)
    place = np.linspace(run.step[0], run.step[-1], rows)

    def stretched(values: np.ndarray) -> np.ndarray:
        return np.interp(place, run.step, values) * (1 + 0.01 * np.random.default_rng(0).standard_normal(rows))

    long = replace(
        run, step=step, window=np.ones(rows), reward=stretched(run.reward),
        signals={k: stretched(v) for k, v in run.signals.items()},
    )  # fmt: skip
    begun = time.perf_counter()
    diagnose(long)
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    diagnose(long)
    out = {"first": first, "second": time.perf_counter() - begun}
    print(f"\n400 rows, {len(long.signals)} signals: {first:.1f} s at first, {out['second']:.2f} s after")
    return out


def totals(out: Mapping[str, Any], runs: int, complete: list[LabelledRun], prior: dict[str, float]) -> dict[str, Any]:
    """The numbers that README reports, of all parts."""
    ours, theirs = out["simulated"]["diagnosis"], out["simulated"]["fixed thresholds"]
    whole = scores(judged([r.run for r in complete], prior).p, [r.label for r in complete])
    return {
        "simulated": {
            "runs": runs,
            "calibration_error": ours["ECE of the top answer"],
            "balanced_accuracy": ours["balanced accuracy"],
            "balanced_accuracy_all_signals": whole["balanced accuracy"],
            "log_score_gain": ours["log score"] - theirs["log score"],
            "false_alarms": ours["alarms on unfailed runs"],
            "false_alarms_thresholds": theirs["alarms on unfailed runs"],
        },
        "labelled": {
            part.replace(" ", "_"): {k.replace(" ", "_"): v for k, v in values.items() if isinstance(v, int | float)}
            for part, values in out["labelled"]["summary"].items()
        },
        "collapses": out["labelled"]["collapses"],
        "laboratory": {k.replace(" ", "_"): v for k, v in out["laboratory"].items()},
        "speed": out["speed"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--lab", type=Path, nargs="*", default=[], help="laboratory logs to judge by")
    parser.add_argument(
        "--lab-learned", type=Path, nargs="*", default=[], help="laboratory logs that were learned from"
    )
    parser.add_argument("--removed", type=int, default=300)
    parser.add_argument("--seed", type=int, default=900)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--index", type=Path, nargs="*", default=[])
    parser.add_argument("--out-of-domain", nargs="*", default=["rec_"], help="Logs whose names begin so.")
    parser.add_argument("--rivals", type=Path, help="interpreter that has rldoctor, rlprobe and rlwatch")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    out: dict[str, Any] = {}
    practice = layer_rows(max(options.runs // 3, 50), options.seed + 1, False, options.jobs, RIVALS)
    prior = frequencies([r.label for r in practice])
    test = layer_rows(options.runs, options.seed, False, options.jobs, RIVALS)
    out["simulated"] = simulated(test, practice, options.plot)
    if options.index:
        lab = [r for complete in (True, False) for r in lab_rows(options.lab_learned, complete)]
        small = layer_rows(900, 100, False, options.jobs)
        out["labelled"] = labelled(options.index, small, lab, tuple(options.out_of_domain), options.rivals)
    if options.lab:
        out["laboratory"] = laboratory(options.lab_learned, options.lab)
    complete = labelled_runs(options.removed, 1000 * (options.seed + 2), complete=True)
    out["removed"] = removed(complete[: options.removed], prior)
    out["speed"] = speed(complete[0].run)
    if options.index and options.lab:
        keep("diagnosis", totals(out, len(test), complete, prior))
    if options.json:
        options.json.write_text(json.dumps(out, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
