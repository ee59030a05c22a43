"""What reference runs tell: forecasts with and without them, and what they cost.

    python -m benchmarks.forecast.reference_runs forecasts FOLDER ... [--index INDEX.csv ...] --cache DIR
    python -m benchmarks.forecast.reference_runs time

A folder holds one log a run as CSV; an index names the repository and the task of each (columns run_id, repo, task).
Families are the runs of one repository, task and signal, five at least. `forecasts` forecasts every run after 30, 50
and 70% of its rows with and without its reference runs, which are known to their ends; paths without them are kept in
the cache. Their largest share of paths is learned with the judged repository left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from bayes_grpo import Run, read_log, rows_of
from bayes_grpo.backtesting import DRAWS, MIN_BACKTEST_ROWS, ORIGINS, crps
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.sampling import seed_of
from bayes_grpo.forecasting.events import RewardPaths
from bayes_grpo.forecasting.references import paths_with_references, with_effect
from bayes_grpo.references.gather import gather_references
from bayes_grpo.references.transfer import read_jointly
from bayes_grpo.rows.series import Series
from benchmarks.common import keep, run_process, write_log
from benchmarks.forecast.backtest_parts import Origin, origin_of, predicted
from benchmarks.forecast.rivals import mean_of_last
from benchmarks.index import rows_in
from benchmarks.lab.learners.pieces import apart

FEWEST = 5
"""Runs of a family at least."""


@dataclass(frozen=True, eq=False)
class Log:
    """A log with its rows and where it is from."""

    run: Run
    table: Series
    repo: str
    task: str


def logs_of(folders: Sequence[Path], indices: Sequence[Path]) -> list[Log]:
    """All logs whose rows can be looked at."""
    about = {row["run_id"]: row for row in rows_in(indices)}
    out = []
    for path in sorted(p for folder in folders for p in folder.glob("*.csv") if p.stem in about):
        row = about[path.stem]
        try:
            run = replace(read_log(path), name=path.stem)
            out.append(Log(run, rows_of(run), row["repo"], row["task"].split("(")[0].split(",")[0].strip()))
        except BayesGrpoError as error:
            print(f"left out: {error}")
    return out


def families_of(logs: Sequence[Log]) -> dict[str, list[Log]]:
    """Runs of one repository, task and signal."""
    found: dict[str, list[Log]] = {}
    for log in logs:
        found.setdefault(f"{log.repo}, {log.task}, {log.table.signal}", []).append(log)
    return {name: some for name, some in found.items() if len(some) >= FEWEST}


def paths_of(origin: Origin, log: str, cache: Path) -> RewardPaths:
    """Paths of a forecast without reference runs, from the cache where they are there."""
    kept, key = cache / f"{log}.npz", f"{origin.share:g}"
    stored = dict(np.load(kept)) if kept.exists() else {}
    if f"{key}/rows" not in stored:
        found = predicted(origin, seed_of(0, "origin", origin.share)).average
        stored |= {f"{key}/{k}": v.astype(np.float32) for k, v in found._asdict().items()}
        np.savez_compressed(kept, **stored)
    return RewardPaths(*(np.asarray(stored[f"{key}/{k}"], float) for k in RewardPaths._fields))


def case(log: Log, reference_runs: Sequence[Log], share: float, cache: Path) -> dict[str, Any]:
    """Scores of a forecast with and without reference runs, and what their largest share is learned from."""
    origin = origin_of(log.run, log.table, share)
    past, reward, y, scale = origin.inputs.table, origin.inputs.reward, origin.y, origin.scale
    paths = paths_of(origin, log.run.name, cache)
    gathered = gather_references(log.run, past, [x.run for x in reference_runs])
    known = read_jointly(past, gathered)
    given, _, used = paths_with_references(paths, origin.future, known, reward, -1, 0)
    moved = with_effect(paths, origin.future, known, reward)
    told = known.transfer_forecast(origin.future.step, origin.future.window)
    rival = mean_of_last(past.step, past.y, origin.future.step).draws(DRAWS)
    out: dict[str, Any] = {
        "repo": log.repo,
        "log": log.run.name,
        "origin": share,
        "mean10": float(crps(rival, y).mean()) / scale,
        "without": float(crps(paths.rows, y).mean()) / scale,
        "with": float(crps(given.rows, y).mean()) / scale,
        "moved": float(crps(moved, y).mean()) / scale,
        "inside": float(np.mean(np.abs(below(given.rows, y) - 0.5) <= 0.5 * LEVEL)),
        "inside_without": float(np.mean(np.abs(below(paths.rows, y) - 0.5) <= 0.5 * LEVEL)),
        "share": used.share,
        "same_order": known.order is not None,
        "helps": 0.0,
    }
    if told is not None:
        rows = told.paths(DRAWS // 2, np.random.default_rng(0))[1]
        rows = np.clip(rows, reward.low, reward.high)
        out |= {"helps": float(expit(told.gain)), "alike": float(crps(rows, y).mean()) / scale}
        out |= {
            "apart": float(apart(rows, moved[::2]).mean()) / scale,
            "pit": below(rows, y),
            "pit_moved": below(moved, y),
        }
    return out


def below(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of draws below every row, those that tie in the middle, shape (h,)."""
    return np.mean(draws < y, axis=0) + 0.5 * np.mean(draws == y, axis=0)


def nested(cases: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Repository → largest share of reference runs of least mean CRPS among the others, repositories counting alike."""

    def score(most: float, some: Sequence[dict[str, Any]]) -> float:
        by_repo: dict[str, list[float]] = {}
        for c in some:
            by_repo.setdefault(c["repo"], []).append(mixed(c, most))
        return float(np.mean([np.mean(v) for v in by_repo.values()]))

    repos = sorted({c["repo"] for c in cases})
    return {
        r: min(np.linspace(0.0, 1.0, 51).tolist(), key=lambda m, r=r: score(m, [c for c in cases if c["repo"] != r]))
        for r in repos
    }


def mixed(c: Mapping[str, Any], most: float) -> float:
    """CRPS where reference runs get at most such a share."""
    q = most * c["helps"]
    return c["moved"] if not q else (1 - q) * c["moved"] + q * c["alike"] - q * (1 - q) * c["apart"]


def forecasts(logs: Sequence[Log], cache: Path) -> dict[str, Any]:
    """Backtest with and without reference runs."""
    cases = []
    for name, some in families_of(logs).items():
        for log in some:
            if len(log.table.y) < MIN_BACKTEST_ROWS:
                continue
            others = [x for x in some if x is not log]
            for share in ORIGINS:
                try:
                    cases.append(case(log, others, share, cache))
                except BayesGrpoError as error:
                    print(f"left out: {log.run.name}, {share:g}: {error}")
        print(f"{name[:70]} done", flush=True)
    most = nested(cases)
    for c in cases:
        q = most[c["repo"]] * c["helps"]
        c["nested"] = mixed(c, most[c["repo"]])
        if q:
            c["inside_nested"] = float(np.mean(np.abs((1 - q) * c["pit_moved"] + q * c["pit"] - 0.5) <= 0.5 * LEVEL))
        else:
            c["inside_nested"] = c["inside"]

    def line(label: str, some: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        mean = {k: float(np.mean([c[k] for c in some])) for k in _SHOWN}
        ratio = mean["nested"] / mean["without"]
        print(f"{label[:42]:42s} {len(some):4d} " + " ".join(f"{mean[k]:8.3f}" for k in _SHOWN)
              + f"  {ratio:6.3f} {mean['nested'] / mean['mean10']:6.3f}", flush=True)  # fmt: skip
        return mean | {"forecasts": len(some), "ratio": ratio, "of_mean10": mean["nested"] / mean["mean10"]}

    print(f"{'':42s}    n " + " ".join(f"{k[-8:]:>8s}" for k in _SHOWN) + "  nested over without, mean10")
    out: dict[str, Any] = {"all": line("all", cases)}
    out["by_origin"] = {
        f"origin_{100 * o:.0f}": line(f"origin {o:.0%}", [c for c in cases if c["origin"] == o]) for o in ORIGINS
    }
    out["by_repository"] = {r: line(r, [c for c in cases if c["repo"] == r]) for r in most}
    for r in most:
        for o in ORIGINS:
            line(f"  {r[:28]} {o:.0%}", [c for c in cases if c["repo"] == r and c["origin"] == o])
    out["most"] = {"low": min(most.values()), "high": max(most.values())}
    out["worst"] = max(x["ratio"] for x in out["by_repository"].values())
    print(f"largest share of reference runs, learned elsewhere: {out['most']}; worst repository {out['worst']:.3f}")
    return out


_SHOWN = ("mean10", "without", "moved", "with", "nested", "inside_without", "inside", "inside_nested", "share")


def timed() -> dict[str, Any]:
    """Seconds and memory of a warm `forecast` of a log of 100 rows, by the number of its reference runs of 200 rows."""
    from tests.references.made import runs_of_orders

    past, *others = runs_of_orders([0] * 51, rows=200, share=0.5, seed=0)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = write_log(folder / "log.json", past.reward[:100], total=200)
        for count in (0, 10, 20, 50):
            place = folder / f"runs{count}"
            place.mkdir()
            for i, run in enumerate(others[:count]):
                write_log(place / f"run{i}.json", run.reward)
            program = [sys.executable, "-m", "bayes_grpo", "forecast", str(log), "--json"]
            program += ["--reference-runs", str(place)] if count else []
            turns = [run_process(program, {"BAYES_GRPO_CACHE": str(folder / "cache")}) for _ in range(3)][1:]
            numbers = {"seconds": min(x.wall for x in turns), "memory, MB": min(x.peak for x in turns)}
            found[str(count)] = numbers
            print(count, {k: round(v, 2) for k, v in numbers.items()})
    added = {f"added by {n}": found[n]["seconds"] - found["0"]["seconds"] for n in ("10", "20", "50")}
    return {"runs": found} | added | {"added": added["added by 20"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("forecasts", "time"))
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--index", type=Path, nargs="+", default=[])
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "time":
        found = timed()
    else:
        options.cache.mkdir(parents=True, exist_ok=True)
        found = forecasts(logs_of(options.folders, options.index), options.cache)
    keep(f"reference_runs_{options.what}", found)


if __name__ == "__main__":
    main()
