"""Runs with labelled episodes: public logs read by a person, laboratory runs of which the truth is known.

A label of a public run is a line of a CSV file: run_id, mode, from_step, to_step, recovered, source, arguable, signals,
words. Rows of an arguable episode, and of one that no logged signal shows, are left open for that mode, and so is what
readers do not label.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.cache import compilation_cache
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.diagnosis.gather import RunEvidence, gather_all
from bayes_grpo.diagnosis.mode import followed_modes
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from benchmarks.lab.learners.lab_logs import parted_since, thinned

LAB_TRUST = 0.2
"""What a laboratory run counts for beside a public one. With 1, chains that were learned without an author scored worse
on that author's logs; with 0 nothing would be learned of signals that public failures lack."""
OPEN, OFF, ON = -1, 0, 1
"""Labels of a row."""
NAMES = {
    "instability": "dynamical_instability",
    "degeneracy": "advantage_degeneracy",
    "concentration": "policy_concentration",
    "hacking": "reward_hacking",
    "seeming": "apparent_gain",
    "truncation": "truncated_completions",
    "grew": "growing",
    "plateau": "plateaued",
}
"""Word of a reader: mode."""
LAB_EPISODES = {
    "dynamical_instability": ("collapse", "oscillation", "entropy_explosion"),
    "advantage_degeneracy": ("too_hard", "broken_reward", "wasted"),
    "policy_concentration": ("policy_concentration",),
    "reward_hacking": ("reward_hacking",),
}
"""Mode: conditions of the laboratory that are it."""
SHARED = {
    "dynamical_instability": ("broken_reward",),
    "advantage_degeneracy": ("solved", "saturated"),
    "policy_concentration": ("collapse", "broken_reward"),
    "reward_hacking": ("broken_reward",),
}
"""Mode: conditions under which a reader of the log could say either, so that its rows are left open."""


class LabelledEpisode(NamedTuple):
    """One labelled episode.

    Attributes:
        mode: Its mode.
        first: First step.
        last: Last step.
        arguable: Whether two readers could differ, or no logged signal shows it.
    """

    mode: str
    first: float
    last: float
    arguable: bool


class EpisodeCase(NamedTuple):
    """A run with what speaks for each mode at each row of its reward's trend, and what was there.

    Attributes:
        name: Name of the run.
        author: Whose it is; runs of one author depend on each other.
        rows: Logged rewards.
        step: Steps of the rows of the trend, shape (n,).
        course: Mode → what speaks for it, shape (n, predictors).
        labels: Mode → `ON`, `OFF` or `OPEN`, shape (n,); modes that nobody labelled are absent.
        episodes: The labelled episodes.
        run: The run.
        trust: What its rows count for in learning, beside a public run's.
    """

    name: str
    author: str
    rows: int
    step: np.ndarray
    course: Mapping[str, np.ndarray]
    labels: Mapping[str, np.ndarray]
    episodes: tuple[LabelledEpisode, ...]
    run: Run
    trust: float = 1.0


def public_episodes(labels: Path, folders: Sequence[Path]) -> list[EpisodeCase]:
    """Public runs with labels.

    Args:
        labels: The CSV file of episodes.
        folders: Folders with index.csv, csv and raw.
    """
    told: dict[str, list[LabelledEpisode]] = defaultdict(list)
    with labels.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found = told[row["run_id"]]
            if row["mode"] in NAMES:
                unsure = row["arguable"] == "yes" or (row["mode"] == "degeneracy" and row["words"].startswith("solved"))
                found.append(
                    LabelledEpisode(NAMES[row["mode"]], float(row["from_step"]), float(row["to_step"]), unsure)
                )
    rows = [(row, run) for row, run in _public_runs(folders) if row["run_id"] in told]
    out = []
    for (row, run), found in zip(rows, _gathered([run for _, run in rows]), strict=True):
        if found is not None:
            episodes = tuple(told[row["run_id"]])
            out.append(_case(row["run_id"], row["repo"], run, found, episodes, NAMES.values()))
    return out


def lab_episodes(folders: Sequence[Path], seed: int = 5) -> list[EpisodeCase]:
    """Laboratory runs with their truth, each with all signals and with signals missing at random.

    Args:
        folders: Folders of `lab_logs`.
        seed: Of what is missing.
    """
    places = [p.parent for folder in folders for p in sorted(folder.glob("*/truth.json"))]
    truths = [json.loads((p / "truth.json").read_text(encoding="utf-8")) for p in places]
    rng = np.random.default_rng(seed)
    whole = [read_log(p) for p in places]
    runs = [*whole, *(thinned(run, rng) for run in whole)]
    out = []
    for i, (run, found) in enumerate(zip(runs, _gathered(runs), strict=True)):
        truth, thin = truths[i % len(truths)], i >= len(truths)
        if found is not None:
            name = f"{places[i % len(places)].name}{' thinned' if thin else ''}"
            out.append(
                _case(name, f"lab {truth['family']}", run, found, _true(truth), LAB_EPISODES)._replace(trust=LAB_TRUST)
            )
    return out


def _true(truth: Mapping[str, Any]) -> tuple[LabelledEpisode, ...]:
    """Episodes of a laboratory run; a held-out reward that stays behind is one, gamed or learned by heart."""
    held = dict(truth["episodes"])
    if "reward_hacking" not in held and (since := parted_since(truth)) is not None:
        held["reward_hacking"] = [(since, float(len(truth["gold_reward"])))]

    def spans(names: Sequence[str]) -> Iterator[tuple[float, float]]:
        return ((first, last) for name in names for first, last in held.get(name, ()))

    surely = [LabelledEpisode(m, *span, arguable=False) for m, names in LAB_EPISODES.items() for span in spans(names)]
    return (
        *surely,
        *(LabelledEpisode(m, *span, arguable=True) for m, names in SHARED.items() for span in spans(names)),
    )


def _public_runs(folders: Sequence[Path]) -> Iterator[tuple[dict[str, str], Run]]:
    """Rows of the indices with their runs: the log as written where it has reward functions, else its table."""
    for folder in folders:
        with (folder / "index.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                run = read_log(folder / "csv" / f"{row['run_id']}.csv")
                if row.get("raw_file"):
                    try:
                        raw = read_log(folder / "raw" / row["raw_file"])
                    except BayesGrpoError:
                        raw = run
                    if raw.components and len(raw.step) == len(run.step):
                        run = raw
                yield row, run


def _gathered(runs: Sequence[Run]) -> Iterator[RunEvidence | None]:
    with compilation_cache():
        for part in batched(runs, 64):
            yield from gather_all(part)


def _case(
    name: str, author: str, run: Run, found: RunEvidence, episodes: tuple[LabelledEpisode, ...], modes: Collection[str]
) -> EpisodeCase:
    trends = found.trends
    step, course = trends.reward.step, {}
    for mode in followed_modes():
        speaks = mode.course(trends)
        if speaks is not None:
            course[mode.name] = speaks
    labelled = [m for m in course if m in modes]
    labels = {m: _labels(step, [e for e in episodes if e.mode == m]) for m in labelled}
    return EpisodeCase(name, author, trends.reward.rows, step, course, labels, episodes, run)


def _labels(step: np.ndarray, episodes: Sequence[LabelledEpisode]) -> np.ndarray:
    found = np.full(len(step), OFF)
    for episode in sorted(episodes, key=lambda e: e.arguable):
        inside = (step >= episode.first) & (step <= episode.last)
        if not inside.any():  # shorter than a row of the trend
            inside[int(np.argmin(np.abs(step - 0.5 * (episode.first + episode.last))))] = True
        found[inside & (found == OFF)] = OPEN if episode.arguable else ON
    return found
