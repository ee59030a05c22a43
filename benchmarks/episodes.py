"""How good the timeline is: episodes of public logs, whole authors left out, and of the deep laboratory, seeds apart.

    python -m benchmarks.episodes benchmarks/episodes.csv --runs FOLDER ... --lab-learned FOLDER ... --lab FOLDER ...
        [--json OUT] [--keep]

Every mode is judged by itself. An episode is named if a stretch in which the mode is more probable than not covers at
least half of it. A stretch is false if it meets no labelled episode, not even an arguable one. Scores are means over
the rows of a run, then over runs, with rows that a second reader would read otherwise left out; base rates are those
of the runs that were learned from. `episodes.csv` holds what two readers saw in public logs; its column "second" says
whether the second, who did not know what the authors said, saw it too.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.diagnosis.chain import Chances
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.mode import followed_modes
from bayes_grpo.events.trend import stretches
from benchmarks.common import keep
from benchmarks.lab.learners.episode_cases import (
    NAMES,
    OFF,
    ON,
    OPEN,
    EpisodeCase,
    lab_episodes,
    public_episodes,
)
from benchmarks.lab.learners.episodes import learn_chain

BINS = 10
OVERLAP = 0.5


class Judged(NamedTuple):
    """One mode of one run, as said by numbers that were learned without its author.

    Attributes:
        case: The run.
        chances: What is said.
        base: Share of rows under way in the runs that were learned from, by whether the mode could be seen.
    """

    case: EpisodeCase
    chances: Chances
    base: float


def left_out(cases: Sequence[EpisodeCase], beside: Sequence[EpisodeCase], mode: Any) -> list[Judged]:
    """Every case, by numbers learned from the other authors' cases and those beside."""
    out = []
    known = [c for c in cases if mode.name in c.labels]
    others = [c for c in beside if mode.name in c.labels]
    for author in sorted({c.author for c in known}):
        chain = learn_chain([*known, *others], mode, without=author)
        rest = [c for c in known if c.author != author]
        out += [judged(c, chain, mode.name, rest) for c in known if c.author == author]
    return out


def judged(case: EpisodeCase, chain: Any, mode: str, learned: Sequence[EpisodeCase]) -> Judged:
    """One case, with the base rate of those that were learned from."""
    found = chain.chances(case.course[mode])
    alike = [c.labels[mode] for c in learned if bool(np.isfinite(c.course[mode][:, 0]).any()) == found.seen]
    shares = [np.mean(x[x != OPEN] == ON) for x in alike if np.any(x != OPEN)]
    return Judged(case, found, float(np.clip((np.sum(shares) + 0.5) / (len(shares) + 1.0), 1e-3, 1.0 - 1e-3)))


def scores(found: Sequence[Judged], mode: str) -> dict[str, Any]:
    """Episodes named and false, scores against base rates, calibration, onsets; for one mode."""
    told: list[tuple[bool, float]] = []
    false = rows = false_runs = clean = 0
    late: list[float] = []
    log, base_log, brier, base_brier = [], [], [], []
    by_author: dict[str, list[float]] = defaultdict(list)
    parts: dict[bool, list[tuple[np.ndarray, np.ndarray]]] = {True: [], False: []}
    for case, chances, base in found:
        p, label = chances.probability, case.labels[mode]
        spans = stretches(p >= 0.5) if chances.seen else []
        on = [np.arange(a, b + 1) for a, b in spans]
        if chances.seen:
            for a, b in stretches(label == ON):
                truth = np.arange(a, b + 1)
                best = max(on, key=lambda x: len(np.intersect1d(x, truth)), default=np.empty(0, int))
                told.append((len(np.intersect1d(best, truth)) >= OVERLAP * len(truth), 1.0))
                if told[-1][0]:
                    late.append(abs(float(case.step[best[0]] - case.step[a])) / float(np.ptp(case.step)))
            unmet = [x for x in on if not np.any(label[x] != OFF)]
            false += len(unmet)
            if not np.any(label == ON):
                clean, rows, false_runs = clean + 1, rows + case.rows, false_runs + bool(unmet)
        known = label != OPEN
        if not known.any():
            continue
        q, y = np.clip(p[known], 1e-4, 1.0 - 1e-4), (label[known] == ON).astype(float)
        log.append(float(np.mean(y * np.log(q) + (1 - y) * np.log1p(-q))))
        base_log.append(float(np.mean(y * np.log(base) + (1 - y) * np.log1p(-base))))
        brier.append(float(np.mean((q - y) ** 2)))
        base_brier.append(float(np.mean((base - y) ** 2)))
        by_author[case.author].append(log[-1] - base_log[-1])
        parts[chances.seen].append((q, y))
    return {
        "episodes": len(told),
        "recall": float(np.mean([x for x, _ in told])) if told else None,
        "clean runs": clean,
        "runs with a false episode": false_runs / max(clean, 1),
        "false episodes per 1,000 rows": 1000.0 * false / max(rows, 1),
        "onset error": float(np.median(late)) if late else None,
        "log score": float(np.mean(log)),
        "log score of base rates": float(np.mean(base_log)),
        "Brier": float(np.mean(brier)),
        "Brier of base rates": float(np.mean(base_brier)),
        "ECE seen": calibration_error(parts[True]),
        "ECE unseen": calibration_error(parts[False]),
        "by author": {name: float(np.mean(x)) for name, x in sorted(by_author.items())},
    }


def agreement(labels: Path) -> dict[str, float]:
    """Cohen's κ of two readers on which runs have an episode of each mode."""
    with labels.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    runs = sorted({row["run_id"] for row in rows})
    out = {}
    for word, mode in NAMES.items():
        of_mode = [row for row in rows if row["mode"] == word]
        first, second = (
            np.isin(runs, [row["run_id"] for row in of_mode if row["second"] in which])
            for which in (("yes", "no"), ("yes", "only"))
        )
        by_chance = first.mean() * second.mean() + (1.0 - first.mean()) * (1.0 - second.mean())
        out[mode] = float((np.mean(first == second) - by_chance) / (1.0 - by_chance))
    return out


def calibration_error(runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
    """Expected calibration error over rows, every run with the same weight; None without any."""
    if not runs:
        return None
    p, y = (np.concatenate(x) for x in zip(*runs, strict=True))
    weight = np.concatenate([np.full(len(q), 1.0 / len(q)) for q, _ in runs]) / len(runs)
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [abs(float(weight[place == b] @ (p - y)[place == b])) for b in range(BINS)]
    return float(sum(gaps))


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--lab-learned", type=Path, nargs="+", required=True)
    parser.add_argument("--lab", type=Path, nargs="+", required=True)
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    asked = parser.parse_args()
    public, learned = public_episodes(asked.labels, asked.runs), lab_episodes(asked.lab_learned)
    fresh = lab_episodes(asked.lab)
    result: dict[str, Any] = {"public": {}, "laboratory": {}, "authors": len({c.author for c in public})}
    result["agreement"] = agreement(asked.labels)
    worst: dict[str, float] = defaultdict(float)
    for mode in followed_modes():
        if not any(mode.name in c.labels for c in public):
            continue
        of_public = left_out(public, learned, mode)
        result["public"][mode.name] = scores(of_public, mode.name)
        for author, gain in result["public"][mode.name]["by author"].items():
            worst[author] += gain if mode.name in MODES else 0.0
        _table(f"public: {mode.name}", result["public"][mode.name])
        if any(mode.name in c.labels for c in fresh):
            chain = learn_chain([c for c in (*public, *learned) if mode.name in c.labels], mode)
            for part, chosen in _parts(fresh).items():
                found = [judged(c, chain, mode.name, learned) for c in chosen]
                result["laboratory"].setdefault(mode.name, {})[part] = scores(found, mode.name)
                _table(f"laboratory, {part}: {mode.name}", result["laboratory"][mode.name][part])
    result["gain over base rates by author"] = dict(sorted(worst.items(), key=lambda x: x[1]))
    print(result["gain over base rates by author"])
    if asked.keep:
        keep("episodes", result)


def _parts(cases: Sequence[EpisodeCase]) -> Mapping[str, list[EpisodeCase]]:
    thin = [c.name.endswith(" thinned") for c in cases]
    return {
        "all signals": [c for c, t in zip(cases, thin, strict=True) if not t],
        "signals missing": [c for c, t in zip(cases, thin, strict=True) if t],
    }


def _table(title: str, found: Mapping[str, Any]) -> None:
    told = ", ".join(f"{k} {v:.3g}" for k, v in found.items() if isinstance(v, int | float))
    print(f"{title}: {told}")


if __name__ == "__main__":
    main()
