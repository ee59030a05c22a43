"""Backtest of the averaged forecast on every log of a folder, against its own regimes and simple rivals.

    python -m benchmarks.forecast.backtest FOLDER ... [--index FOLDER/../index.csv ...]
                                  [--jobs 2] [--cache DIR] [--json OUT] [--only NAME ...] [--apart]

Each log with at least 20 rows is forecast after 30, 50 and 70% of its rows; every later row is scored. With --cache
a finished log is not computed again. With indices that have the columns run_id and repo, results are listed by
repository, and the share that the level has in the forecast of a repository is learned from the others; with --apart
the logs are ones on which nothing was learned, and the shipped share is judged.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.backtesting import MIN_BACKTEST_ROWS, ORIGINS
from bayes_grpo.common.errors import BayesGrpoError, FitError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import json_safe
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.forecasting.pool import Pool
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep, side_by_side
from benchmarks.forecast.backtest_parts import (
    AVERAGED,
    PartLine,
    PartScore,
    PartScores,
    origin_of,
    predicted,
    scores_at,
)
from benchmarks.index import repositories
from benchmarks.lab.learners.pieces import Piece, piece_at
from benchmarks.lab.learners.pool import learn_pool

AIM_RATIO = 0.95
AIM_COVERAGE = (0.86, 0.94)


BOOTSTRAP = 2000
"""Draws of repositories."""
SEVERAL = 3
"""Repositories of fewer logs say little of the forecast."""


def one(path: Path, cache: Path | None, seed: int) -> dict[str, Any]:
    """Scores of one log, from the cache where they are there."""
    warnings.simplefilter("ignore")
    kept = None if cache is None else cache / f"{path.stem}.json"
    if kept is not None and kept.exists():
        return json.loads(kept.read_text())
    begun, cpu = time.perf_counter(), time.process_time()
    found: dict[str, Any] = {"log": path.stem, "scores": [], "refused": []}
    try:
        run = read_log(path)
        table = rows_of(run)
        if len(table.y) < MIN_BACKTEST_ROWS:
            found["refused"] = [f"{path.stem}: fewer than {MIN_BACKTEST_ROWS} rows"]
        else:
            found["pieces"] = []
            for share in ORIGINS:
                part = seed_of(seed, "origin", share)
                try:
                    origin = origin_of(run, table, share)
                    said = predicted(origin, part)
                except FitError as error:
                    found["refused"].append(f"{run.name}, origin {share:.0%}: {error}")
                    continue
                found["scores"] += json_safe(scores_at(origin, said, part))
                piece = piece_at(origin, said, part)
                found["pieces"] += [] if piece is None else [piece._asdict()]
    except BayesGrpoError as error:
        found["refused"] = [f"{path.stem}: {error}"]
    found |= {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - cpu}
    if kept is not None:
        kept.write_text(json.dumps(found))
    return found


def scores_of(found: list[dict[str, Any]]) -> PartScores:
    """All scores, each log by the name of its file: two logs may state the same run."""
    missing = {"weight": math.nan, "log_score": -math.inf}  # numbers that JSON cannot hold

    def score(log: str, stored: dict[str, Any]) -> PartScore:
        known: dict[str, Any] = {k: missing.get(k) if v is None else v for k, v in stored.items()}
        known["log"] = log
        return PartScore(**known)

    return PartScores(tuple(score(f["log"], s) for f in found for s in f["scores"]))


def nested(found: list[dict[str, Any]], repos: dict[str, str]) -> list[dict[str, Any]]:
    """The same scores, those of the forecast with a share of the level that other repositories taught."""
    pieces = {f["log"]: [Piece(**p) for p in f.get("pieces", ())] for f in found}
    known = [(repos.get(log, "unknown"), p) for log, own in pieces.items() for p in own]
    pools = {repo: learn_pool([x for x in known if x[0] != repo]) for repo in {r for r, _ in known}}
    out = []
    for f in found:
        pool = pools.get(repos.get(f["log"], "unknown"))
        by_origin = {p.origin: p for p in pieces[f["log"]]}
        scores = [_with(s, by_origin.get(s["origin"]), pool) if s["name"] == AVERAGED else s for s in f["scores"]]
        out.append(f | {"scores": scores})
    return out


def _with(score: dict[str, Any], piece: Piece | None, pool: Pool | None) -> dict[str, Any]:
    """A score of the forecast with the share of a pool."""
    if piece is None or pool is None:
        return score
    share = pool.share(np.array(piece.features))
    below = piece.below(share)
    inside = np.abs(below - 0.5) <= 0.5 * LEVEL
    return score | {
        "crps": piece.crps(share),
        "log_score": piece.log_score(share),
        "coverage": float(inside.mean()),
        "pit": below.tolist(),
    }


def report(found: list[dict[str, Any]], repos: dict[str, str]) -> dict[str, Any]:
    """Prints all tables and returns their numbers."""
    for f in found:
        for line in f["refused"]:
            print("left out:", line)
    result = scores_of(found)
    if not result.lines:
        return {}
    lines = {line.name: line for line in result.lines}
    head = f"{'forecaster':16s} {'kind':9s} {'CRPS/sd':>8s} {'log score':>9s}"
    print(f"\n{head} {'cover':>6s} {'weight':>6s}   by origin")
    for x in result.lines:
        weight = "" if math.isnan(x.weight) else f"{x.weight:.2f}"
        parts = "  ".join(f"{o:.0%} {c:.3f} ({v:.2f})" for o, (c, v) in x.by_origin.items())
        head = f"{x.name:16s} {x.kind:9s} {x.crps:8.3f} {x.log_score:9.2f} {x.coverage:6.3f} {weight:>6s}"
        print(f"{head}   {parts}")
    ours = lines["forecast"]
    rival, regime = (min((x for x in result.lines if x.kind == k), key=lambda x: x.crps) for k in ("rival", "regime"))
    ratio = result.ratio
    low, high = AIM_COVERAGE
    covers = [ours.coverage, *(v for _, v in ours.by_origin.values())]
    print(f"\n{ours.cases} forecasts of {len({s.log for s in result.scores})} logs")
    print(f"ratio to the best rival ({rival.name}): {ratio:.3f}, aim at most {AIM_RATIO}: {said(ratio <= AIM_RATIO)}")
    print(f"below every regime (best {regime.name} {regime.crps:.3f}): {said(ours.crps < regime.crps)}")
    print(f"{LEVEL:.0%} coverage in all and by origin within [{low}, {high}]: "
          f"{', '.join(f'{c:.3f}' for c in covers)}: {said(all(low <= c <= high for c in covers))}")  # fmt: skip
    groups = by_repository(result, repos, rival.name)
    by_authors = over_repositories(result, repos, rival.name)
    print(f"\nover repositories: {by_authors}")
    values = result.pit()
    counts = np.histogram(values, np.linspace(0, 1, 11))[0] / len(values)
    print("\nPIT of the forecast, share of rows in each tenth (0.10 each if calibrated):")
    print("  " + "  ".join(f"{c:.3f}" for c in counts))
    seconds, cpu = ([f[k] for f in found] for k in ("seconds", "cpu_seconds"))
    print(f"\nseconds a log: median {np.median(seconds):.1f}, sum {sum(seconds):.0f}")
    print(f"CPU seconds a log, three forecasts each: median {np.median(cpu):.2f}, mean {np.mean(cpu):.2f}")
    return {
        "logs": len({s.log for s in result.scores}),
        "crps": ours.crps,
        "ratio": ratio,
        "over repositories": by_authors,
        "coverage": {f"origin_{100 * o:.0f}": c for o, (_, c) in ours.by_origin.items()},
        "highest_tenth": float(counts[-1]),
        "flat_behind": max([0.0, *(g["ratio"] - 1.0 for g in groups.values() if g["logs"] >= SEVERAL)]),
        "table": json_safe([asdict(line) for line in result.lines]),
        "by_repository": groups,
        "pit": counts.tolist(),
        "seconds": sum(seconds),
        "cpu_seconds_a_log": {"median": float(np.median(cpu)), "mean": float(np.mean(cpu))},
    }


def by_repository(result: PartScores, repos: dict[str, str], rival: str) -> dict[str, dict[str, float]]:
    """Prints the forecast and a rival for each repository, and the ratio without any one of them."""

    def of(kept: Callable[[str], bool]) -> dict[str, PartLine]:
        part = PartScores(tuple(s for s in result.scores if kept(repos.get(s.log, "unknown"))))
        return {line.name: line for line in part.lines}

    out, left = {}, {}
    print(f"\n{'repository':40s} logs  forecast cover  {rival:>9s} ratio")
    for group in sorted({repos.get(s.log, "unknown") for s in result.scores}):
        own, others = of(lambda g, group=group: g == group), of(lambda g, group=group: g != group)
        if others:
            left[group] = others["forecast"].crps / others[rival].crps
        if not own:
            continue
        a, b = own["forecast"], own[rival]
        logs = len({s.log for s in result.scores if repos.get(s.log, "unknown") == group})
        out[group] = {"logs": logs, "crps": a.crps, "coverage": a.coverage, "rival": b.crps, "ratio": a.crps / b.crps}
        print(f"{group[:40]:40s} {logs:4d}  {a.crps:8.3f} {a.coverage:5.2f}  {b.crps:9.3f} {a.crps / b.crps:5.2f}")
    if len(left) > 1:
        worst = max(left, key=lambda g: left[g])
        print(f"ratio without any one repository: at most {left[worst]:.3f} (without {worst})")
    return out


def over_repositories(result: PartScores, repos: dict[str, str], rival: str) -> dict[str, Any]:
    """Ratio to a rival and coverage by origin, with 90% intervals over repositories, which are drawn with return."""
    cases = {(s.log, s.origin): (s.crps, s.coverage) for s in result.scores if s.name == AVERAGED}
    theirs = {(s.log, s.origin): s.crps for s in result.scores if s.name == rival}
    both = [case for case in cases if case in theirs]
    names = sorted({repos.get(log, "unknown") for log, _ in both})
    place = {name: i for i, name in enumerate(names)}
    count, ours, other = (np.zeros(len(names)) for _ in range(3))
    covered = {origin: np.zeros((2, len(names))) for origin in sorted({origin for _, origin in both})}
    for log, origin in both:
        i = place[repos.get(log, "unknown")]
        crps, inside = cases[log, origin]
        count[i] += 1.0
        ours[i] += crps
        other[i] += theirs[log, origin]
        covered[origin][:, i] += inside, 1.0
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(len(names), np.full(len(names), 1.0 / len(names)), size=BOOTSTRAP)

    def range_of(values: np.ndarray) -> list[float]:
        return np.nanquantile(values, [0.05, 0.95]).tolist()

    with np.errstate(invalid="ignore"):
        return {
            "repositories": len(names),
            "ratio interval": range_of((drawn @ ours) / (drawn @ other)),
            "ratio, repositories weighted equally": float(np.sum(ours / count) / np.sum(other / count)),
            "coverage interval": {
                f"origin_{100 * o:.0f}": range_of((drawn @ inside) / (drawn @ n)) for o, (inside, n) in covered.items()
            },
        }


def said(met: bool) -> str:
    return "met" if met else "NOT MET"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--index", type=Path, nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--apart", action="store_true", help="judge the shipped numbers; kept as backtest_apart")
    options = parser.parse_args()
    repos = repositories(options.index)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # small matrices, and a process a core
    logs = [p for folder in options.folder for p in sorted(folder.glob("*.csv"))]
    paths = [p for p in logs if not options.only or p.stem in options.only]
    found = run(paths, options.jobs, options.cache, options.seed)
    if repos and not options.apart:
        found = nested(found, repos)
    table = report(found, repos)
    if not options.only:
        kept = {k: v for k, v in table.items() if k not in ("by_repository", "table")}
        if options.apart:
            keep("backtest_apart", kept)
        else:
            keep("backtest", kept)
    if options.json:
        options.json.write_text(json.dumps({**table, "found": found}, indent=1))


def run(paths: list[Path], jobs: int, cache: Path | None, seed: int) -> list[dict[str, Any]]:
    """`one` of every log, side by side."""
    if cache:
        cache.mkdir(parents=True, exist_ok=True)
    found, n = [], len(paths)
    for result in side_by_side(one, paths, [cache] * n, [seed] * n, jobs=jobs):
        found.append(result)
        ours = [s for s in result["scores"] if s["name"] == "forecast"]
        text = "  ".join(f"{s['origin']:.0%} {s['crps']:.2f} ({s['coverage']:.2f})" for s in ours)
        print(f"{result['log']:40s} {result['seconds']:6.1f} s  {text}", flush=True)
    return found


if __name__ == "__main__":
    main()
