"""The status judged on labelled public logs: false alarms at beginnings, ends and over whole lives, failures named.

    python -m benchmarks.status FOLDER ... [--apart FOLDER ...] [--lab FOLDER ...] [--looks 10] [--keep]

A folder holds index.csv (columns run_id, repo, outcome_label) and csv/. The logs of `--apart` are judged apart: nothing
was learned or chosen on them. Those of `--lab` are of `benchmarks.lab.learners.lab_logs`, whose failures are known.
Where the package holds numbers that were learned, every log is judged by numbers learned without its repository. Beside
the package stand some lines of untuned rules (`rules`), and the path of the reward with one question alone, whether
half of its gain or level is lost (`anchor`): the package has to beat both.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.mode import Mode, all_modes
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Watching
from benchmarks.common import keep, say, side_by_side
from benchmarks.index import rows_in
from benchmarks.lab.learners.lab_logs import lab_log
from benchmarks.status.calibration import Case, calibration

BEGINNINGS = (4, 6, 8, 10, 15, 20, 30, 50)
MEASURED_AT = 10
WHO = ("package", "rules", "anchor")
LABELS = (*MODES, "healthy", "plateaued")
ANCHOR = 0.7
"""Probability above which a reward that has lost half of its gain or level is an alarm of the anchor."""


class Look(NamedTuple):
    """What is said of a log after so many rows.

    Whether it is an alarm, which failures are named, their probabilities, the shares of draws in which they hold, what
    a watch names, and what the rules and the anchor name.
    """

    alarm: bool
    named: frozenset[str]
    probability: Mapping[str, float]
    share: Mapping[str, float]
    watched: frozenset[str]
    rules: frozenset[str]
    anchor: frozenset[str]


class Judged(NamedTuple):
    """A log with its looks: number of rows → look."""

    name: str
    repository: str
    label: str
    rows: int
    measured: bool
    looks: Mapping[int, Look]
    lives: tuple[int, ...]

    @property
    def failed(self) -> bool:
        return self.label in MODES


def mean_of(v: np.ndarray, n: int) -> np.ndarray:
    """Running means of n values."""
    return np.convolve(v, np.ones(n) / n, "valid")


def rules(run: Run) -> frozenset[str]:
    """Failures by rules that nobody tuned: an anchor. Each needs a large effect beside the noise of the rows."""

    def logged(name: str) -> np.ndarray:
        v = run.signals.get(name, np.empty(0))
        return v[np.isfinite(v)]

    train, held = (v[np.isfinite(v)] for v in (run.reward, run.eval_reward))
    y, found = (train if len(train) >= 3 else held), set()
    n = len(y)
    if n < 3:
        return frozenset()
    part = max(3, n // 8)
    noise = (1.0 + 6.0 / n) * max(1.4826 * float(np.median(np.abs(np.diff(y)))), 1e-9) / np.sqrt(part)
    in_unit = y.min() >= 0.0 and y.max() <= 1.0
    low, span = (0.0, 1.0) if in_unit else (y.min(), max(float(np.ptp(y)), 1e-9))
    smooth = mean_of(y, part)
    first, best, now, at = smooth[0], smooth.max(), smooth[-1], int(smooth.argmax()) + part
    lost, top = best - now, (now - low) / span
    for name, times, least in (("grad_norm", 100.0, 0.0), ("kl", 20.0, 2.0)):
        w = np.abs(logged(name))
        if len(w) >= 20:
            quarter = len(w) // 4
            before = np.median(w[:quarter] if name == "grad_norm" else w[quarter:])
            peak = np.median(np.sort(w[quarter:])[-max(3, quarter // 4) :])
            if before > 0.0 and peak > max(times * before, least):
                found.add("dynamical_instability")
    if n >= 12 and n - at >= 3 and lost > max(5.0 * noise, 0.25 * span, 0.5 * (best - first)):
        found.add("dynamical_instability")
    share, spread, entropy = logged("frac_reward_zero_std"), logged("reward_std"), logged("entropy")
    late = max(3, n // 4)
    if len(share) >= 3:
        waste = np.median(share[-late:]) >= 0.8
    else:
        waste = len(spread) >= 3 and np.median(spread[-late:]) <= 1e-6
    rising = now - first > 4.0 * noise and n < 50
    if waste and (n >= 15 or np.ptp(y) == 0.0) and top <= 0.7 and not rising:
        found.add("advantage_degeneracy")
    if len(entropy) >= 12 and top < 0.7 and 0.0 < entropy[:part].mean() > 10.0 * entropy[-part:].mean():
        found.add("policy_concentration")
    if len(train) >= 12 and len(held) >= 3 and now - first > max(5.0 * noise, 0.15 * span):
        drop = held.max() - 0.3 * max(held.max() - held[0], 0.1)
        if held[-1] < drop and held[-1] <= held[0] + 0.02:
            found.add("reward_hacking")
    return frozenset(found)


def measured(run: Run) -> bool:
    """Whether the first rows measure a failure: one reward in all of them with no spread in any group, or NaN."""
    reward, spread = run.reward, run.signals.get("reward_std", np.zeros(len(run.reward)))
    same = len(reward) > 0 and bool(np.isfinite(reward).all()) and np.ptp(reward) == 0.0
    unrewarded = same and float(reward[0]) <= 0.0
    return unrewarded and not np.nansum(np.abs(spread))


def look(run: Run) -> Look:
    """What is said of a run."""
    d = diagnose(run)
    lost = d.paths is not None and float(d.paths.reward.lost()[:, -1].mean()) >= ANCHOR
    modes = {mode.name: mode for mode in all_modes()}
    probable = {m for m in MODES if (d.probability.get(m) or 0.0) >= 0.5} | {d.status.finding.mode}
    return Look(
        d.status.alarming,
        frozenset(probable if d.status.alarming else ()),
        {m: float(d.probability.get(m, np.nan)) for m in MODES},
        {m: _share(d, modes[m]) for m in MODES},
        frozenset(a.finding for a in alarms_of(run, d, Watching())),
        rules(run),
        frozenset({"dynamical_instability"} if lost else ()),
    )


def _share(diagnosed: Diagnosis, mode: Mode) -> float:
    """Share of draws in which a mode holds at the end; NaN where no signal could show it."""
    timeline = diagnosed.timeline
    found = None if timeline is None else timeline.modes.get(mode.name)
    if found is None or not found.seen:
        return np.nan
    return float(np.clip((found.under_way - mode.chances.least) / (mode.chances.most - mode.chances.least), 0.0, 1.0))


def judged(row: Mapping[str, str], looks: int) -> Judged | None:
    """A log of an index at all its looks."""
    try:
        run = read_log(row["path"])
    except BayesGrpoError as error:
        say(f"{row['run_id']}: {error}")
        return None
    return judged_run(run, row["run_id"], row["repo"], row["outcome_label"], looks)


def judged_lab(place: Path, looks: int) -> Judged:
    """A log of the laboratory at all its looks; its family stands for a repository."""
    log = lab_log(place)
    return judged_run(log.run, log.name, log.name.rpartition("-")[0], log.label, looks)


def judged_run(run: Run, name: str, repository: str, label: str, looks: int) -> Judged:
    """A run at all its looks."""
    warnings.simplefilter("ignore")
    step, _ = run.rewards
    n = len(step)
    lives = tuple(np.unique(np.linspace(min(20, n), n, looks).astype(int)).tolist())
    # A beginning is one where the run goes on for some rows, so that it is not its end.
    cuts = {*lives, *(c for c in BEGINNINGS if n >= c + 5)}
    found = {c: look(run if c == n else run.until(float(step[c - 1]))) for c in sorted(cuts)}
    early = measured(run.until(float(step[MEASURED_AT - 1]))) if n >= MEASURED_AT + 5 else False
    say(name)
    return Judged(name, repository, label, n, early, found, lives)


def rate(hits: Iterable[bool]) -> dict[str, Any]:
    """Hits, number and share."""
    found = [bool(x) for x in hits]
    return {"hits": sum(found), "of": len(found), "rate": round(sum(found) / max(len(found), 1), 4)}


def cases_of(logs: Sequence[Judged], mode: str) -> list[Case]:
    """What is said of a mode at the ends of the logs."""
    ends = [(x, x.looks[x.rows]) for x in logs]
    return [Case(x.repository, end.share[mode], end.probability[mode], x.label == mode) for x, end in ends]


def alarms(look: Look, who: str) -> bool:
    """Whether one of `WHO` gives an alarm."""
    return look.alarm if who == "package" else bool(getattr(look, who))


def names(x: Judged, look: Look, who: str) -> bool:
    """Whether one of `WHO` names the label of a log."""
    return x.label in (look.named if who == "package" else getattr(look, who))


def summary(logs: Sequence[Judged], learned_from: Sequence[Judged]) -> dict[str, Any]:
    """All numbers of a set of logs; shares that are learned anew are those of other repositories of a second set."""
    good, bad = [x for x in logs if not x.failed], [x for x in logs if x.failed]
    out: dict[str, Any] = {"unfailed": len(good), "failed": len(bad), "repositories": len({x.repository for x in logs})}
    begun = {c: [x for x in good if c in x.looks and x.rows >= c + 5] for c in BEGINNINGS}
    for who in WHO:
        each = [(x.repository, alarms(x.looks[c], who)) for c in BEGINNINGS for x in begun[c]]
        by_repository = {r: np.mean([a for q, a in each if q == r]) for r, _ in each}
        out[who] = {
            "beginnings": {c: rate(alarms(x.looks[c], who) for x in begun[c]) for c in BEGINNINGS},
            "all beginnings": rate(a for _, a in each),
            "all beginnings, mean of repositories": round(float(np.mean(list(by_repository.values()))), 4),
            "ends: false alarms": rate(alarms(x.looks[x.rows], who) for x in good),
            "ends: named": rate(names(x, x.looks[x.rows], who) for x in bad),
            "ends: alarms on failed": rate(alarms(x.looks[x.rows], who) for x in bad),
            "named at some time": rate(any(names(x, x.looks[c], who) for c in x.lives) for x in bad),
            "false at some time": rate(any(alarms(x.looks[c], who) for c in x.lives) for x in good),
            "named by label": {m: rate(names(x, x.looks[x.rows], who) for x in bad if x.label == m) for m in MODES},
        }
    early = [x for x in bad if x.measured]
    out["package"] |= {
        "measured failures named at 10 rows": rate(x.looks[MEASURED_AT].alarm for x in early),
        "watch: false alarms": rate(any(x.looks[c].watched for c in x.lives) for x in good),
        "watch: named": rate(any(x.label in x.looks[c].watched for c in x.lives) for x in bad),
        "calibration": {m: calibration(cases_of(logs, m), cases_of(learned_from, m)) for m in MODES},
        "false at the end": sorted(x.name for x in good if x.looks[x.rows].alarm),
        "not named": sorted(x.name for x in bad if not any(names(x, x.looks[c], "package") for c in x.lives)),
    }
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--apart", type=Path, nargs="*", default=[])
    parser.add_argument("--lab", type=Path, nargs="*", default=[])
    parser.add_argument("--looks", type=int, default=10, help="looks over a whole life, evenly from 20 rows on")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    asked = parser.parse_args()
    result: dict[str, Any] = {}
    at_hand: list[Judged] = []
    for name, folders in (("at hand", asked.folders), ("apart", asked.apart)):
        found = side_by_side(partial(judged, looks=asked.looks), rows_in(folders, LABELS))
        logs = [x for x in found if x is not None]
        at_hand = at_hand or logs
        result[name] = summary(logs, at_hand)
        if name == "apart":  # no log of these is to be looked at by itself
            del result[name]["package"]["false at the end"], result[name]["package"]["not named"]
    places = sorted(path.parent for folder in asked.lab for path in folder.glob("*/truth.json"))
    if places:
        in_lab = list(side_by_side(partial(judged_lab, looks=asked.looks), places))
        result["laboratory"] = summary(in_lab, in_lab)
    for name, found in result.items():
        for who in WHO:
            for what, value in found.get(who, {}).items():
                print(f"{name:10s} {who:8s} {what}: {value}")
    if asked.keep:
        keep("status", result)


if __name__ == "__main__":
    main()
