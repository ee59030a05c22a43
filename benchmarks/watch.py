"""`watch`: false alarms and detection delays over logs replayed row by row; seconds and memory of its looks.

    python -m benchmarks.watch replay EPISODES.csv --runs FOLDER ... --lab FOLDER ... [--cuts 60] [--keep]
    python -m benchmarks.watch speed [--rows 2000] [--keep]

`replay` looks at labelled real logs as they stood after 8 rows and up to 60 later numbers of rows, by chains that
were learned without the log's repository, and counts which ever raise an alarm under the rule of
`bayes_grpo.watching.alarms`. The rule's numbers were chosen on the same logs; how they do where they are chosen without
the log's repository too is said beside. Labels and folders are those of `laboratory.learners.episodes`.
`speed` measures looks at a log that grows by one row a time.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo import Question, diagnose
from bayes_grpo.common.cache import compilation_cache
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.classify import ClassPosterior, answers_of
from bayes_grpo.diagnosis.gather import gather_all
from bayes_grpo.diagnosis.timeline import Chains
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.logs.run import Provenance, Run, Setting, Settings
from bayes_grpo.watching.alarms import earlier
from bayes_grpo.watching.result import ALARM, LASTING, LEAST_LOOK_ROWS, Watching
from bayes_grpo.watching.update import rewards_of, update_of
from benchmarks.common import keep, say
from benchmarks.lab.learners.episode_cases import lab_episodes, public_episodes
from benchmarks.lab.learners.episodes import learn_chains
from benchmarks.lab.learners.public_logs import LabelledLog, labelled_logs

FIRST, CUTS, BATCH = 8, 60, 64
SUSPECT = 0.4
"""Earlier looks are needed only where a failure is at least as probable."""
RATE = 0.10
"""Share of unfailed logs that may ever raise an alarm."""
LEVELS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
SHARES = (0.0, 0.05, 0.1, 0.2)
LEAST = (10, 20, 30)


class Rule(NamedTuple):
    """When a failure is told: the numbers of `bayes_grpo.watching.result.Watching`."""

    alarm: float
    lasting: float
    least_rows: int


class Replayed(NamedTuple):
    """A log with what is said of it at numbers of its rows.

    Attributes:
        log: The log.
        cuts: Numbers of rows at which it is looked at, increasing.
        said: Number of rows → what is said; of the cuts, and of earlier looks where they matter.
    """

    log: LabelledLog
    cuts: np.ndarray
    said: dict[int, ClassPosterior]

    def alarms(self, rule: Rule) -> dict[str, int]:
        """Failure → number of rows at which it is told first."""
        out: dict[str, int] = {}
        for n in self.cuts.tolist():
            if n < rule.least_rows:
                continue
            looks = [self.said.get(k) for k in (n, *earlier(n, rule.lasting))]
            told = [() if look is None else look.alarming(rule.alarm) for look in looks]
            for mode in set(told[0]).intersection(*told[1:]):
                out.setdefault(mode, n)
        return out


def trends_at(logs: Sequence[LabelledLog], wanted: Sequence[tuple[int, int]]) -> list[RunTrends | None]:
    """Trends of logs as they stood after numbers of their rows: (place of a log, number of its rows)."""
    out: list[RunTrends | None] = []
    steps = [rewards_of(x.run)[0] for x in logs]
    for first in range(0, len(wanted), BATCH):
        part = wanted[first : first + BATCH]
        found = gather_all([logs[i].run.until(float(steps[i][n - 1])) for i, n in part])
        out += [None if g is None else g.trends for g in found]
        if first % (16 * BATCH) == 0:
            say(f"{first} of {len(wanted)} cuts")
    return out


def replayed(logs: Sequence[LabelledLog], chains: Mapping[str, Chains], cuts: int) -> list[Replayed]:
    """Every log at its cuts, and at the earlier looks of those where a failure is probable."""

    def said(wanted: Sequence[tuple[int, int]]) -> list[ClassPosterior]:
        with compilation_cache():
            found = trends_at(logs, wanted)
        return [answers_of(t, None, chains[logs[i].repository])[1] for (i, _), t in zip(wanted, found, strict=True)]

    places = []
    for x in logs:
        n = len(rewards_of(x.run)[0])
        places.append(np.unique(np.linspace(min(FIRST, n), n, cuts).round().astype(int)))
    wanted = [(i, n) for i, p in enumerate(places) for n in p.tolist()]
    looks: list[dict[int, ClassPosterior]] = [{} for _ in logs]
    for (i, n), p in zip(wanted, said(wanted), strict=True):
        looks[i][n] = p
    more = sorted({
        (i, k)
        for i, found in enumerate(looks)
        for n, p in found.items() if p.failing >= SUSPECT
        for share in SHARES for k in earlier(n, share) if k > 2 and k not in found
    })  # fmt: skip
    for (i, k), p in zip(more, said(more), strict=True):
        looks[i][k] = p
    return [Replayed(*x) for x in zip(logs, places, looks, strict=True)]


def unfailed(x: Replayed) -> bool:
    """Whether nothing is wrong with the log."""
    return x.log.label not in MODES


RULES = tuple(Rule(a, s, n) for a in LEVELS for s in SHARES for n in LEAST)


class Told(NamedTuple):
    """What rules tell of a set of logs.

    Attributes:
        false: Whether each unfailed log ever raises an alarm, shape (rules, unfailed).
        named: Whether each failed log raises one of the right name, shape (rules, failed).
        false_owner: Repository of each unfailed log.
        named_owner: Repository of each failed log.
    """

    false: np.ndarray
    named: np.ndarray
    false_owner: np.ndarray
    named_owner: np.ndarray

    def best(self, without: str = "") -> int:
        """Place of the rule that names most failures among those with few enough false alarms, the most sparing."""
        false = self.false[:, self.false_owner != without].mean(axis=1)
        named = self.named[:, self.named_owner != without].mean(axis=1)
        return max(np.flatnonzero(false <= RATE).tolist(), key=lambda i: (named[i], -false[i]))


def told(logs: Sequence[Replayed]) -> Told:
    """What every rule tells."""
    good, bad = [x for x in logs if unfailed(x)], [x for x in logs if not unfailed(x)]
    return Told(
        np.array([[bool(x.alarms(rule)) for x in good] for rule in RULES]),
        np.array([[x.log.label in x.alarms(rule) for x in bad] for rule in RULES]),
        np.array([x.log.repository for x in good]),
        np.array([x.log.repository for x in bad]),
    )


def half_lost(run: Run) -> int | None:
    """Row from which on, to the end, a reward has lost half of its gain, or of its level where it began high.

    Rewards are running means over a fortieth of the log; None where it ends with more than that.
    """
    y = run.reward if run.has_reward else run.eval_reward
    y = np.where(np.isfinite(y), y, np.nanmedian(y))
    width = max(2, len(y) // 40)
    mean = np.convolve(y, np.ones(width) / width, "valid")
    top, start = np.maximum.accumulate(mean), mean[0]
    kept = top - mean <= 0.5 * np.where(start > 0.5 * top, top, top - start)
    if kept[-1]:
        return None
    last = np.flatnonzero(kept)
    return (int(last[-1]) + 1 if len(last) else 0) + width - 1


def damage(x: LabelledLog) -> tuple[float, str]:
    """Row from which on a failed log is damaged, and what says so; NaN where nothing does."""
    step = rewards_of(x.run)[0]
    if x.label == "dynamical_instability" and (row := half_lost(x.run)) is not None:
        return float(row), "half of the gain lost for good"
    onset = diagnose(x.run).onsets.get(x.label)
    return (
        (np.nan, "") if onset is None else (float(np.searchsorted(step, onset.step.median)), "dated by the whole log")
    )


def summarised(logs: Sequence[Replayed], rule: Rule) -> dict[str, Any]:
    """Counts and delays under one rule, printed."""
    good, bad = [x for x in logs if unfailed(x)], [x for x in logs if not unfailed(x)]
    out: dict[str, Any] = {"rule": rule._asdict(), "unfailed": len(good), "failed": len(bad)}
    for label in ("healthy", "plateaued"):
        part = [x for x in good if x.log.label == label]
        out[label] = {"logs": len(part), "alarmed": sum(bool(x.alarms(rule)) for x in part)}
    out["false_rate"] = float(np.mean([bool(x.alarms(rule)) for x in good]))
    out["named_rate"] = float(np.mean([x.log.label in x.alarms(rule) for x in bad]))
    out["alarmed_failed"] = sum(bool(x.alarms(rule)) for x in bad)
    out["false"] = {x.log.name: x.alarms(rule) for x in good if x.alarms(rule)}
    for mode in MODES:
        part = [x for x in bad if x.log.label == mode]
        told = [x for x in part if mode in x.alarms(rule)]
        dates = [damage(x.log) for x in told]
        delay = np.array([x.alarms(rule)[mode] - row for x, (row, _) in zip(told, dates, strict=True)])
        length = np.array([x.cuts[-1] for x in told])
        known = np.isfinite(delay)
        out[mode] = {"logs": len(part), "named": len(told), "dated": int(known.sum())}
        if known.any():
            out[mode] |= {
                "delay_rows_median": float(np.median(delay[known])),
                "delay_rows": np.sort(delay[known]).round(1).tolist(),
                "delay_share_median": float(np.median(delay[known] / length[known])),
                "dated_by": sorted({said for _, said in dates if said}),
            }
        print(f"  {mode:24s} {len(told)} of {len(part)} named; delay {out[mode].get('delay_rows_median')}")
    print(f"  {rule}: false {out['false_rate']:.3f}, named {out['named_rate']:.3f}")
    return out


def left_out(found: Told) -> dict[str, float]:
    """Rates where the rule, too, is chosen without the repository that is judged."""
    chosen = {r: found.best(r) for r in {*found.false_owner.tolist(), *found.named_owner.tolist()}}
    false = [found.false[chosen[r], i] for i, r in enumerate(found.false_owner.tolist())]
    named = [found.named[chosen[r], i] for i, r in enumerate(found.named_owner.tolist())]
    return {"false_rate": float(np.mean(false)), "named_rate": float(np.mean(named))}


def replay(options: argparse.Namespace) -> dict[str, Any]:
    """The first part."""
    indices = [folder / "index.csv" for folder in options.runs]
    logs = [x for x in labelled_logs(indices) if not x.name.startswith(tuple(options.leave_out))]
    say(f"{len(logs)} logs")
    cases = [*public_episodes(options.labels, options.runs), *lab_episodes(options.lab)]
    chains = {r: learn_chains([c for c in cases if c.author != r], say) for r in sorted({x.repository for x in logs})}
    found = replayed(logs, chains, options.cuts)
    tables = told(found)
    rates = np.column_stack([tables.false.mean(axis=1), tables.named.mean(axis=1)])
    for rule, (false, named) in zip(RULES, rates, strict=True):
        print(f"{rule.alarm:.2f} {rule.lasting:.2f} {rule.least_rows:3d}  false {false:.3f}  named {named:.3f}")
    best = RULES[tables.best()]
    print("the rule that names most")
    summarised(found, best)
    print("the shipped rule")
    out = summarised(found, Rule(ALARM, LASTING, LEAST_LOOK_ROWS))
    out |= {"logs": len(logs), "repositories": len(chains), "cuts": options.cuts, "names_most": best._asdict()}
    out["chosen_without_the_repository"] = left_out(tables)
    print(f"chosen without the repository: {out['chosen_without_the_repository']}")
    return out


def growing(rows: int) -> Run:
    """A log with the signals that a trainer writes, whose reward rises over the first third."""
    rng, step = np.random.default_rng(5), np.arange(1.0, rows + 1.0)

    def about(middle: float, sd: float) -> np.ndarray:
        return middle + sd * rng.standard_normal(rows)

    signals = {"entropy": about(1.0, 0.05), "kl": np.abs(about(0.02, 0.01)), "grad_norm": about(1.0, 0.1)}
    signals |= {"completion_length": about(200.0, 10.0), "reward_std": about(0.3, 0.02)}
    signals |= {"frac_reward_zero_std": np.clip(about(0.3, 0.05), 0.0, 1.0)}
    stated = {"reward_low": 0.0, "reward_high": 1.0}
    return Run(
        name="growing",
        source="growing",
        format="made",
        log_hash="0" * 64,
        step=step,
        reward=0.8 - 0.6 * np.exp(-step / (rows / 6.0)) + 0.05 * rng.standard_normal(rows),
        window=np.ones(rows),
        signals=signals,
        eval_step=np.empty(0),
        eval_reward=np.empty(0),
        settings=Settings(**{k: Setting(v, Provenance.USER) for k, v in stated.items()}),
    )


def resident() -> float:
    """Memory of this process now, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """The second part: looks while a log grows, every so many rows, and row by row from 400 on."""
    run, memory, out = growing(options.rows), None, {}
    watching = Watching(question=Question(cost_per_step=1.0, value_per_reward=1000.0))
    places = sorted({*range(20, options.rows + 1, options.every), *range(400, 411)})
    rows, wall, used, megabytes = [], [], [], []
    for n in places:
        begin = time.process_time()
        update, memory = update_of(run.until(float(n)), watching, memory)
        rows.append(n)
        used.append(time.process_time() - begin)
        wall.append(update.seconds)
        megabytes.append(resident())
        if n % 100 == 0:
            say(f"{n} rows: {wall[-1]:.2f} s, {used[-1]:.2f} s of processors, {megabytes[-1]:.0f} MB")
    place, seconds, busy, size = (np.array(x) for x in (rows, wall, used, megabytes))
    for n, part in ((100, (64, 128)), (400, (400, 410)), (1000, (900, 1024)), (2000, (1900, 2048))):
        inside = (place > part[0]) & (place <= part[1])
        if inside.any():
            out[f"rows_{n}"] = {
                "seconds": float(np.median(seconds[inside])),
                "seconds_most": float(seconds[inside].max()),
                "processor_seconds": float(np.median(busy[inside])),
            }
    later = place > 1100  # the last class of lengths is compiled
    if later.sum() > 10:
        out["megabytes"] = {"at_1100_rows": float(size[later][0]), "at_the_end": float(size[-1])}
        out["megabytes"] |= {"most": float(size.max()), "a_look": float(np.polyfit(place[later], size[later], 1)[0])}
    load = round(os.getloadavg()[0], 1)  # other work on the machine makes seconds longer
    out |= {"looks": len(rows), "rows": options.rows, "slowest": float(seconds.max()), "load": load}
    print(out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("replay", "speed"))
    parser.add_argument("labels", type=Path, nargs="?", help="episodes of public logs, one a line")
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="folders with index.csv, csv and raw")
    parser.add_argument("--lab", type=Path, nargs="*", default=[], help="folders of `laboratory.learners.lab_logs`")
    parser.add_argument("--cuts", type=int, default=CUTS)
    parser.add_argument("--leave-out", nargs="*", default=["rec_"], help="logs whose names begin so: out of domain")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--keep", action="store_true", help="keep the result")
    options = parser.parse_args()
    begun = time.perf_counter()
    alarms = options.part == "replay"
    result = replay(options) if alarms else speed(options)
    if options.keep:
        keep("watch_alarms" if alarms else "watch", result)
    say(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
