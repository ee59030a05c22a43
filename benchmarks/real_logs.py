"""Fits every table of a folder of logs with every regime: rows, R², convergence, seconds.

    python benchmarks/real_logs.py FOLDER [--index FOLDER/../index.csv] [--json OUT] [--only NAME ...]

Each table is read as any user's would be. Train reward is fitted where there is one, held-out reward where that is
what the index marks as growing, or all there is. With an index that has the columns run_id, growth and smoother_r2,
the R² of the posterior mean curve is set against that of the smoother.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import fit, read_log, summarize
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from benchmarks.common import keep

REGIMES = ("oscillator", "exponential")
PAPER_R2 = 0.91
TOLERANCE = 0.03


def signals(run, growing: set[str]) -> list[str]:
    """What to fit of a run: its train reward, and its held-out reward where that grows or is all there is."""
    out = ["reward"] if run.has_reward else []
    if run.has_eval and (not out or "eval_reward" in growing):
        out.append("eval")
    return out


def by_signal(text: str) -> dict[str, float]:
    """Reads "reward=0.64;eval_reward=0.8" of the index."""
    pairs = (part.split("=") for part in text.replace(",", ";").split(";") if "=" in part)
    return {name.strip(): float(value) for name, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    index = {}
    if options.index:
        with options.index.open(encoding="utf-8") as file:
            index = {row["run_id"]: row for row in csv.DictReader(file)}
    results, refused = [], []
    print(f"{'log':40s} {'signal':11s} {'regime':11s} rows  R²law R²lat smooth  conv  retry  sec")
    for path in sorted(options.folder.glob("*.csv")):
        if options.only and path.stem not in options.only:
            continue
        known = index.get(path.stem, {})
        growing = {g.strip() for g in known.get("growth", "").replace(",", ";").split(";") if g.strip()}
        smoother = by_signal(known.get("smoother_r2", ""))
        try:
            run = read_log(path)
        except BayesGrpoError as error:
            refused.append(f"{path.stem}: {error}")
            continue
        for signal in signals(run, growing):
            for regime in REGIMES:
                begun = time.perf_counter()
                try:
                    result = fit(run, regime, signal=signal, seed=options.seed)
                except BayesGrpoError as error:
                    refused.append(f"{path.stem} {signal} {regime}: {error}")
                    continue
                seconds = time.perf_counter() - begun
                s = summarize(result)
                name = s.about.signal
                row = {
                    "log": path.stem,
                    "signal": name,
                    "regime": regime,
                    "rows": s.about.rows,
                    "r2": s.r2,
                    "r2_latent": s.r2_latent,
                    "smoother_r2": smoother.get(name) if name in growing else None,
                    "converged": s.convergence.passed,
                    "retried": s.convergence.retried,
                    "reasons": s.convergence.reasons,
                    "seconds": seconds,
                    "probabilities": s.probabilities,
                }
                results.append(row)
                ceiling = "" if row["smoother_r2"] is None else f"{row['smoother_r2']:.3f}"
                print(
                    f"{path.stem:40s} {name:11s} {regime:11s} {row['rows']:4d}  {s.r2:5.2f} {s.r2_latent:5.2f} "
                    f"{ceiling:>6s}  {'ok' if row['converged'] else 'FAIL':4s}  "
                    f"{'yes' if row['retried'] else '':5s} {seconds:5.1f}",
                    flush=True,
                )
                if not row["converged"]:
                    print(f"    {'; '.join(row['reasons'])}")
    report(results, refused)
    if not options.only:
        keep("real_logs", totals(results, refused))
    if options.json:
        options.json.write_text(json.dumps({"fits": results, "refused": refused}, indent=1))


def totals(results: list[dict], refused: list[str]) -> dict[str, Any]:
    """Counts over all fits of each regime."""
    out: dict[str, Any] = {"refused": len(refused)}
    for regime in REGIMES:
        rows = [r for r in results if r["regime"] == regime]
        out[regime] = {
            "fits": len(rows),
            "converged": sum(r["converged"] for r in rows),
            "at_once": sum(r["converged"] and not r["retried"] for r in rows),
            "seconds": float(np.median([r["seconds"] for r in rows])) if rows else None,
        }
    return out


def report(results: list[dict], refused: list[str]) -> None:
    """Prints the totals."""
    print()
    for line in refused:
        print("refused:", line)
    for regime in (*REGIMES, None):
        rows = [r for r in results if regime in (None, r["regime"])]
        if rows:
            passed = sum(r["converged"] for r in rows)
            first = sum(r["converged"] and not r["retried"] for r in rows)
            seconds = [r["seconds"] for r in rows]
            print(
                f"{regime or 'all':12s} {len(rows)} fits, converged {passed} ({passed / len(rows):.1%}), at the first "
                f"attempt {first} ({first / len(rows):.1%}); seconds median {np.median(seconds):.1f}, "
                f"sum {sum(seconds):.0f}"
            )
    for regime in REGIMES:
        growth = [r for r in results if r["smoother_r2"] is not None and r["regime"] == regime]
        if not growth:
            continue
        for key, label in (("r2", "unforced law"), ("r2_latent", "latent reward")):
            near = [r for r in growth if r[key] >= r["smoother_r2"] - TOLERANCE]
            print(
                f"{regime}: posterior mean of the {label}: R² ≥ smoother − {TOLERANCE} on {len(near)} of {len(growth)} "
                f"growing signals ({len(near) / len(growth):.0%})"
            )
            short = sorted((r[key] - r["smoother_r2"], r["log"], r["signal"]) for r in growth if r not in near)
            for gap, log, signal in short:
                print(f"    {gap:+.3f}  {log} {signal}")
        high = [f"{r['log']} ({r['signal']})" for r in growth if r["r2"] >= PAPER_R2]
        print(f"{regime}: unforced law with R² ≥ {PAPER_R2} on {len(high)} of {len(growth)}: {', '.join(high)}")


if __name__ == "__main__":
    main()
