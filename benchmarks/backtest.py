"""Backtest of the averaged forecast on every log of a folder, against its own regimes and simple rivals.

    python benchmarks/backtest.py FOLDER [--index FOLDER/../index.csv] [--jobs 2] [--cache DIR] [--json OUT]
                                  [--plot OUT.png] [--only NAME ...]

Each log with at least 20 rows is forecast after 30, 50 and 70% of its rows; every later row is scored. With --cache
a finished log is not computed again. With an index that has the columns run_id and repo, results are listed by
repository. Collapses, logs that fall far below an earlier level, are listed with the probability that the forecast
gave to what came.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.intervals import LEVEL

AIM_RATIO = 0.95
AIM_COVERAGE = (0.86, 0.94)
COLLAPSE = 0.5
"""A log that loses this share of what it had gained at its origin, from there to its last tenth, collapsed."""


def one(path: Path, cache: Path | None, seed: int) -> dict[str, Any]:
    """Scores of one log, from the cache where they are there."""
    warnings.simplefilter("ignore")
    kept = None if cache is None else cache / f"{path.stem}.json"
    if kept is not None and kept.exists():
        return json.loads(kept.read_text())
    from bayes_grpo import read_log
    from bayes_grpo.analysis.backtest import MIN_ROWS, backtest
    from bayes_grpo.errors import BayesGrpoError
    from bayes_grpo.regimes import rows_of

    begun, cpu = time.perf_counter(), time.process_time()
    found: dict[str, Any] = {"log": path.stem, "scores": [], "refused": []}
    try:
        run = read_log(path)
        table = rows_of(run)
        if len(table.y) < MIN_ROWS:
            found["refused"] = [f"{path.stem}: fewer than {MIN_ROWS} rows"]
        else:
            result = backtest(run, seed=seed)
            found |= {k: v for k, v in result.to_dict().items() if k in ("scores", "refused")}
            found["fall"] = falls(table.y)
    except BayesGrpoError as error:
        found["refused"] = [f"{path.stem}: {error}"]
    found |= {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - cpu}
    if kept is not None:
        kept.write_text(json.dumps(found))
    return found


def falls(y: np.ndarray) -> dict[str, float]:
    """Origin → share of the gain from the first rows to the origin that is lost by the last tenth of the log."""
    out = {}
    for origin in (0.3, 0.5, 0.7):
        n = round(origin * len(y))
        k = max(3, n // 5)
        first, now, end = y[:k].mean(), y[max(0, n - k) : n].mean(), y[-max(3, len(y) // 10) :].mean()
        noise = np.std(np.diff(y)) / np.sqrt(2.0)
        if now - first > 2.0 * noise / np.sqrt(k):
            out[f"{origin:g}"] = float((now - end) / (now - first))
    return out


def table(scores: list[dict[str, Any]], origins: list[float]) -> dict[str, dict[str, Any]]:
    """Forecaster → means over all logs and origins that every forecaster has."""
    names = list(dict.fromkeys(s["name"] for s in scores))
    cases: dict[tuple[str, float], int] = {}
    for s in scores:
        cases[s["log"], s["origin"]] = cases.get((s["log"], s["origin"]), 0) + 1
    whole = {c for c, k in cases.items() if k == len(names)}
    out = {}
    for name in names:
        own = [s for s in scores if s["name"] == name and (s["log"], s["origin"]) in whole]
        if own:
            out[name] = {
                "kind": own[0]["kind"],
                "crps": float(np.mean([s["crps"] for s in own])),
                "log_score": float(np.mean([s["log_score"] for s in own if s["log_score"] is not None])),
                "coverage": float(np.mean([s["coverage"] for s in own])),
                "weight": float(np.mean([s["weight"] or 0.0 for s in own])) if own[0]["kind"] == "regime" else None,
                "by_origin": {
                    f"{o:g}": [float(np.mean([s[k] for s in own if s["origin"] == o])) for k in ("crps", "coverage")]
                    for o in origins
                    if any(s["origin"] == o for s in own)
                },
                "cases": len(own),
            }
    return out


def report(found: list[dict[str, Any]], repos: dict[str, str]) -> dict[str, Any]:
    """Prints all tables and returns them."""
    scores = [s | {"file": f["log"]} for f in found for s in f["scores"]]
    for f in found:
        for line in f["refused"]:
            print("left out:", line)
    if not scores:
        return {}
    scores = [s | {"log": s["file"]} for s in scores]
    origins = sorted({s["origin"] for s in scores})
    lines = table(scores, origins)
    order = {"forecast": 0, "regime": 1, "rival": 2}
    print(
        f"\n{'forecaster':16s} {'kind':9s} {'CRPS/sd':>8s} {'log score':>9s} {'cover':>6s} {'weight':>6s}   by origin"
    )
    for name, x in sorted(lines.items(), key=lambda i: (order[i[1]["kind"]], i[1]["crps"])):
        weight = "" if x["weight"] is None else f"{x['weight']:.2f}"
        parts = "  ".join(f"{float(o):.0%} {c:.3f} ({v:.2f})" for o, (c, v) in x["by_origin"].items())
        head = f"{name:16s} {x['kind']:9s} {x['crps']:8.3f} {x['log_score']:9.2f} {x['coverage']:6.3f} {weight:>6s}"
        print(f"{head}   {parts}")
    ours = lines["forecast"]
    rival = min((x["crps"], n) for n, x in lines.items() if x["kind"] == "rival")
    regime = min((x["crps"], n) for n, x in lines.items() if x["kind"] == "regime")
    ratio = ours["crps"] / rival[0]
    low, high = AIM_COVERAGE
    covers = [ours["coverage"], *(v for _, v in ours["by_origin"].values())]
    print(f"\n{ours['cases']} forecasts of {len({s['log'] for s in scores})} logs")
    print(f"ratio to the best rival ({rival[1]}): {ratio:.3f}, aim at most {AIM_RATIO}: {said(ratio <= AIM_RATIO)}")
    print(f"below every regime (best {regime[1]} {regime[0]:.3f}): {said(ours['crps'] < regime[0])}")
    print(f"{LEVEL:.0%} coverage in all and by origin within [{low}, {high}]: "
          f"{', '.join(f'{c:.3f}' for c in covers)}: {said(all(low <= c <= high for c in covers))}")  # fmt: skip
    by_repo = {}
    groups = sorted({repos.get(s["log"], "unknown") for s in scores})
    print(f"\n{'repository':40s} logs  forecast cover  {rival[1]:>9s} ratio")
    for group in groups:
        own = [s for s in scores if repos.get(s["log"], "unknown") == group]
        t = table(own, origins)
        if "forecast" not in t:
            continue
        a, b = t["forecast"], t[rival[1]]
        by_repo[group] = {"logs": len({s["log"] for s in own}), "crps": a["crps"], "coverage": a["coverage"],
                          "rival": b["crps"], "ratio": a["crps"] / b["crps"]}  # fmt: skip
        print(f"{group[:40]:40s} {by_repo[group]['logs']:4d}  {a['crps']:8.3f} {a['coverage']:5.2f}  {b['crps']:9.3f} "
              f"{a['crps'] / b['crps']:5.2f}")  # fmt: skip
    if len(by_repo) > 1:
        left = {g: table([s for s in scores if repos.get(s["log"], "unknown") != g], origins) for g in by_repo}
        ratios = {g: t["forecast"]["crps"] / t[rival[1]]["crps"] for g, t in left.items()}
        worst = max(ratios, key=lambda g: ratios[g])
        print(f"ratio without any one repository: at most {ratios[worst]:.3f} (without {worst})")
    values = np.array([v for s in scores if s["name"] == "forecast" for v in s["pit"]])
    counts = np.histogram(values, np.linspace(0, 1, 11))[0]
    print("\nPIT of the forecast, share of rows in each tenth (0.10 each if calibrated):")
    print("  " + "  ".join(f"{c / counts.sum():.3f}" for c in counts))
    collapses(found, scores)
    seconds = [f["seconds"] for f in found]
    print(f"\nseconds a log: median {np.median(seconds):.1f}, sum {sum(seconds):.0f}; "
          f"CPU seconds sum {sum(f['cpu_seconds'] for f in found):.0f}")  # fmt: skip
    return {"table": lines, "ratio": ratio, "by_repository": by_repo, "pit": (counts / counts.sum()).tolist(),
            "seconds": sum(seconds)}  # fmt: skip


def collapses(found: list[dict[str, Any]], scores: list[dict[str, Any]]) -> None:
    """What the forecast said before a collapse: PIT of the last tenth of the rows that came."""
    print(f"\ncollapses: logs that lost {COLLAPSE:.0%} of their gain after the origin, and the probability that the "
          "forecast gave to a reward as low as the last tenth of the rows (median PIT)")  # fmt: skip
    nothing = True
    for f in found:
        for origin, lost in f.get("fall", {}).items():
            if lost < COLLAPSE:
                continue
            own = [
                s for s in scores if s["log"] == f["log"] and f"{s['origin']:g}" == origin and s["name"] == "forecast"
            ]
            for s in own:
                last = s["pit"][-max(1, len(s["pit"]) // 10) :]
                print(
                    f"  {f['log']:40s} origin {float(origin):.0%}: lost {lost:.0%}, probability {np.median(last):.3f}"
                )
                nothing = False
    if nothing:
        print("  none")


def said(met: bool) -> str:
    return "met" if met else "NOT MET"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    repos = {}
    if options.index:
        with options.index.open(encoding="utf-8") as file:
            repos = {row["run_id"]: row["repo"] for row in csv.DictReader(file)}
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # small matrices, and a process a core
    paths = [p for p in sorted(options.folder.glob("*.csv")) if not options.only or p.stem in options.only]
    found = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(one, paths, [options.cache] * len(paths), [options.seed] * len(paths)):
            found.append(result)
            ours = [s for s in result["scores"] if s["name"] == "forecast"]
            text = "  ".join(f"{s['origin']:.0%} {s['crps']:.2f} ({s['coverage']:.2f})" for s in ours)
            print(f"{result['log']:40s} {result['seconds']:6.1f} s  {text}", flush=True)
    tables = report(found, repos)
    if options.plot:
        from bayes_grpo.analysis.backtest import Backtest, Score
        from bayes_grpo.report.picture import save_plot
        from bayes_grpo.report.plot_backtest import plot_backtest

        scores = (Score(**(s | {"log": f["log"], "pit": tuple(s["pit"])})) for f in found for s in f["scores"])
        save_plot(plot_backtest(Backtest(tuple(scores))), options.plot)
    if options.json:
        options.json.write_text(json.dumps({"logs": found, **tables}, indent=1))


if __name__ == "__main__":
    main()
