"""Labelled logs of the deep laboratory: small transformers that fail, with the date of their failure.

    python -m benchmarks.lab.learners.lab_logs FOLDER [--runs 480] [--seed 30]

Trains runs of every family in turn (`benchmarks.lab`) and writes each as its trainer would have, with what
only the laboratory knows beside it. Runs that lie in the folder are not trained again. Learners
take such folders; give them different seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.simulate.trainer_log import write_runs
from benchmarks.common import keep, say
from benchmarks.lab.families import Draw, deep_families, draw_run
from benchmarks.lab.runs import LABORATORY_BATCH, train_draws
from benchmarks.lab.setups import Setup
from benchmarks.lab.true_events import TRUTH
from benchmarks.lab.truth import smoothed

DEGENERATE = "advantage_degeneracy"
_LABELS = {
    # event of the laboratory: class of the diagnosis
    "healthy": "healthy",
    "plateau": "plateaued",
    "solved": "plateaued",
    "reward_hacking": "reward_hacking",
    "too_hard": DEGENERATE,
    "broken_reward": DEGENERATE,
    "policy_concentration": "policy_concentration",
    "collapse": "dynamical_instability",
    "oscillation": "dynamical_instability",
    "entropy_explosion": "dynamical_instability",
}
"""A task that is solved from the start has nothing left to gain and is no failure."""
_LOST = ("collapse", "entropy_explosion")
"""Events that take the reward away for good."""


class LabLog(NamedTuple):
    """A laboratory run as a log with its truth.

    Attributes:
        name: Family, seed and number.
        label: One of the classes of the diagnosis.
        modes: Classes of all its failures.
        onset: Step at which the leading failure began; NaN without one.
        lost: Step at which the reward was lost for good, by a collapse or an explosion of the entropy; NaN if never.
        run: The log.
    """

    name: str
    label: str
    modes: tuple[str, ...]
    onset: float
    lost: float
    run: Run


def lab_logs(folders: Sequence[Path]) -> list[LabLog]:
    """The logs of folders, in the order of their names."""
    return [lab_log(path.parent) for folder in folders for path in sorted(folder.glob("*/truth.json"))]


def lab_log(place: Path) -> LabLog:
    """The log in one folder."""
    truth = json.loads((place / "truth.json").read_text(encoding="utf-8"))
    modes = tuple(dict.fromkeys(_LABELS[name] for name in truth["events"] if name != "solved"))
    onset, label, run = float(truth["onset"] or "nan"), _LABELS[truth["event"]], read_log(place)
    if truth["event"] in ("healthy", "plateau") and (since := parted_since(truth)) is not None:
        label, modes, onset = "reward_hacking", ("reward_hacking",), since
    elif truth["event"] == "plateau" and (since := _wasted_since(run, truth["attainable"])) is not None:
        label, modes, onset = DEGENERATE, (DEGENERATE,), since
    elif truth["event"] == "plateau" and _rose(truth):
        label = "healthy"
    lost = [float(truth["events"][name]) for name in _LOST if name in truth["events"]]
    return LabLog(place.name, label, modes, onset, min(lost, default=float("nan")), run)


def parted_since(truth: Mapping[str, Any]) -> float | None:
    """Step from which on held-out and train reward part, though the reward is not gamed; None if they do not.

    A small set of prompts is learned by heart: the laboratory, which knows what completions deserve, calls that no
    hacking, but a log of both rewards shows the same, and its owner has the same loss.
    """
    gold, held = smoothed(np.array(truth["gold_reward"])), np.array(truth["eval_gold_reward"])
    rise = gold - gold[0]
    carried = held[-3:].mean() - held[:2].mean()
    if rise[-1] <= TRUTH.rise or carried >= TRUTH.loose_truth * rise[-1]:
        return None
    return float(np.argmax(rise > TRUTH.rise) + 1)


def _rose(truth: Mapping[str, Any]) -> bool:
    """Whether a plateau is one that the run had risen to.

    The laboratory names it for what is left to gain; authors of public logs call such a run healthy, 32 times in 37.
    """
    gold = smoothed(np.array(truth["gold_reward"]))
    return bool(gold[-1] - gold[0] > TRUTH.learned)


def _wasted_since(run: Run, attainable: float) -> float | None:
    """Step from which on a plateau had no spread in most of its groups, though much was left; None if it had.

    The laboratory names groups that are too hard and those that are solved; groups that all agree in between, some of
    them right and some wrong, are degenerate as well.
    """
    share, rows = run.signals["frac_reward_zero_std"], max(1, len(run.step) // 10)
    mean = np.convolve(share, np.ones(rows) / rows, "valid")
    if mean[-1] <= TRUTH.wasted_truth or run.reward[-rows:].mean() > TRUTH.solved_truth * attainable:
        return None
    lively = np.flatnonzero(mean <= TRUTH.wasted_truth)
    return float(run.step[lively[-1] + 1] if len(lively) else run.step[0])


def trained(folder: Path, runs: int, seed: int) -> Iterator[int]:
    """Trains and writes what is not there; yields the number of runs done."""
    families = deep_families()
    draws = [draw_run(f, seed, i) for i in range(-(-runs // len(families))) for f in families][:runs]
    names = {(d.family, d.index): f"{d.family}-{seed}-{d.index:03d}" for d in draws}
    waiting = [d for d in draws if not (folder / names[d.family, d.index]).exists()]
    done = len(draws) - len(waiting)
    for group in interleaved(waiting, LABORATORY_BATCH):
        for run in train_draws(group):
            write_runs([run], folder / ".new")
            (folder / ".new" / "run-000").rename(folder / names[run.draw.family, run.draw.index])
            (folder / ".new").rmdir()
            done += 1
        yield done


def interleaved(draws: Sequence[Draw], batch: int) -> list[list[Draw]]:
    """Full batches of one setup each, setups taking turns, so that an early end leaves all of them."""
    by_setup: dict[Setup, list[Draw]] = defaultdict(list)
    for draw in draws:
        by_setup[draw.setup].append(draw)
    cut = [[x[i : i + batch] for i in range(0, len(x), batch)] for x in by_setup.values()]
    return [group for turn in zip_longest(*cut) for group in turn if group]


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=480)
    parser.add_argument("--seed", type=int, default=30)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    for done in trained(asked.folder, asked.runs, asked.seed):
        say(f"{done} of {asked.runs} runs, {time.perf_counter() - begun:.0f} s")
    labels = dict(Counter(x.label for x in lab_logs([asked.folder])))
    print(labels)
    keep("learn_lab_logs", {"runs": asked.runs, "labels": labels})


if __name__ == "__main__":
    main()
