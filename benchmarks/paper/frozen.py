"""The frozen benchmark: which logs, origins, labels and scores; today's entrants; and one file to enter another.

    python -m benchmarks.paper.frozen table FOLDER ... [--entrant FILE.py ...]
    python -m benchmarks.paper.frozen freeze FOLDER ... --index INDEX.csv ... --backtest BACKTEST.json
        [--auto PYTHON]

The logs are their authors' and are not kept here; the manifest (`benchmarks/results/frozen.json`) knows each by the
SHA-256 of its file. `table` takes the logs whose files agree, says which do not, scores the entrants whose programs are
here on them, and takes from the manifest what was scored when it was frozen.

An entrant is a Python file with a NAME and

    forecast(step, y, ahead) -> (mean, sd)   # rows before the origin; of every row to come, normal

`benchmarks/paper/entrants/drift.py` is one. Forecasts are made after 30, 50 and 70% of the rows of every log with 20
rows or more, and scored by their mean CRPS over the standard deviation of the whole curve, over the rows to come,
then over forecasts; beside it the share of rows within the 90% interval. A forecast that fails counts as the mean of
the last ten rows does.

`freeze` writes the manifest anew: from the indices (columns run_id, repo, outcome_label), the scores of the whole
backtest (`benchmarks.forecast.backtest --json`), and the automatic choice of statsforecast, in its own environment
(`benchmarks.forecast.peers.auto_forecast`).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from bayes_grpo import Run, read_log
from bayes_grpo.backtesting import MIN_BACKTEST_ROWS, ORIGINS
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import RESULTS, keep, say
from benchmarks.forecast.rivals import RIVALS, Rival
from benchmarks.index import rows_in

FALLBACK = "mean10"
OURS = "bayes_grpo"
_INSIDE = 1.6448536269514722
"""Standard deviations within which a normal row lies with probability 0.9."""


class Case(NamedTuple):
    """A forecast to be made.

    Attributes:
        key: Log and origin.
        step: Steps of the rows before the origin.
        y: These rows.
        ahead: Steps of the rows to come.
        came: These rows.
        scale: Standard deviation of the whole curve.
    """

    key: str
    step: np.ndarray
    y: np.ndarray
    ahead: np.ndarray
    came: np.ndarray
    scale: float


class Score(NamedTuple):
    """Mean CRPS over the curve's standard deviation, and share of rows within the 90% interval."""

    crps: float
    inside: float


class Entrant(NamedTuple):
    """A forecaster and its name."""

    name: str
    forecast: Rival


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def agreeing(folders: Sequence[Path], logs: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Path], list[str]]:
    """Logs whose files are those of the manifest, and a sentence for each that is not.

    Args:
        folders: Folders of CSV files named after their runs.
        logs: Name → what the manifest knows of it.
    """
    there = {p.stem: p for folder in folders for p in sorted(folder.glob("*.csv"))}
    out, said = {}, []
    for name, known in logs.items():
        if name not in there:
            said.append(
                f"{name}: expected {name}.csv in {len(folders)} folders, found none; its author is {known['repo']}"
            )
        elif digest(there[name]) != known["sha256"]:
            said.append(
                f"{name}: {there[name].name} is not the frozen file (SHA-256 differs); take that of the manifest"
            )
        else:
            out[name] = there[name]
    return out, said


def cases_of(name: str, run: Run) -> list[Case]:
    """Forecasts that are to be made of a log."""
    try:
        table = rows_of(run)
    except BayesGrpoError:
        return []
    if len(table.y) < MIN_BACKTEST_ROWS:
        return []
    out = []
    for origin in ORIGINS:
        n = round(origin * len(table.y))
        out.append(Case(f"{name}@{origin:g}", table.step[:n], table.y[:n], table.step[n:], table.y[n:], table.scale))
    return out


def normal_crps(mean: np.ndarray, sd: np.ndarray, y: np.ndarray) -> np.ndarray:
    """CRPS of normal distributions (Gneiting and Raftery 2007, https://doi.org/10.1198/016214506000001437)."""
    z = (y - mean) / sd
    return sd * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))


def scored(case: Case, mean: Any, sd: Any) -> Score | None:
    """Score of normal rows to come; None where they are no numbers."""
    mean, sd = np.broadcast_to(mean, case.came.shape).astype(float), np.broadcast_to(sd, case.came.shape).astype(float)
    if not (np.isfinite(mean).all() and np.isfinite(sd).all() and (sd > 0).all()):
        return None
    crps = float(np.mean(normal_crps(mean, sd, case.came))) / case.scale
    return Score(crps, float(np.mean(np.abs(case.came - mean) <= _INSIDE * sd)))


def forecasts_of(rival: Rival, cases: Sequence[Case]) -> dict[str, Score]:
    """Scores of every forecast that an entrant could make."""
    out = {}
    for case in cases:
        try:
            found = scored(case, *rival(case.step, case.y, case.ahead))
        except Exception as error:  # an entrant that fails on a log is a result
            say(f"{case.key}: {type(error).__name__}: {error}")
            continue
        if found is not None:
            out[case.key] = found
    return out


def entrant_of(path: Path) -> Entrant:
    """An entrant out of its file, which is run as any program that one starts.

    Raises:
        SystemExit: No NAME or no function.
    """
    spec = importlib.util.spec_from_file_location(f"entrant_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    said: dict[str, Any] = vars(module)
    name, forecast = said.get("NAME"), said.get("forecast")
    if not isinstance(name, str) or forecast is None:
        raise SystemExit(
            f"{path.name}: expected NAME and forecast, found neither or one; see benchmarks/paper/entrants"
        )
    return Entrant(name, forecast)


def row_of(scores: Mapping[str, Score], fallback: Mapping[str, Score]) -> dict[str, float]:
    """One line of the table of forecasts."""
    whole = {key: scores.get(key, fallback[key]) for key in fallback}
    crps, least = (float(np.mean([s.crps for s in some.values()])) for some in (whole, fallback))
    out = {
        "forecasts": len(whole),
        "failed": len(whole) - len(set(scores) & set(whole)),
        "crps": crps,
        "median_crps": float(np.median([s.crps for s in whole.values()])),
        "inside": float(np.mean([s.inside for s in whole.values()])),
        "over_fallback": crps / least,
    }
    return out | {
        f"origin_{100 * o:.0f}": float(np.mean([s.crps for k, s in whole.items() if k.endswith(f"@{o:g}")]))
        for o in ORIGINS
    }


def table(
    folders: Sequence[Path],
    manifest: Mapping[str, Any],
    entrants: Sequence[Entrant] = (),
    rivals: Mapping[str, Rival] = RIVALS,
) -> tuple[dict[str, Any], list[str]]:
    """The table of all entrants on the logs that agree, and a sentence for each of the others.

    Args:
        folders: Folders with the logs.
        manifest: What `freeze` kept.
        entrants: Further ones.
        rivals: Forecasts of the package's own backtest that are made anew, the one that stands in among them.
    """
    paths, said = agreeing(folders, manifest["logs"])
    if not paths:
        raise SystemExit("frozen: none of the logs is that of the manifest; name the folders that hold its CSV files")
    runs = {name: read_log(path) for name, path in paths.items()}
    cases = [c for name, run in runs.items() for c in cases_of(name, run)]
    here = [Entrant(name, rival) for name, rival in rivals.items()]
    made = {e.name: forecasts_of(e.forecast, cases) for e in (*here, *entrants)}
    keys = {c.key for c in cases}
    for name, kept in manifest["scores"].items():
        made.setdefault(name, {k: Score(*v) for k, v in kept.items() if k in keys})
    fallback = made[FALLBACK]
    forecasts = {name: row_of(scores, fallback) for name, scores in made.items()}
    return {"logs": len(paths), "forecasts": dict(sorted(forecasts.items(), key=lambda x: x[1]["crps"]))}, said


def printed(found: Mapping[str, Any]) -> None:
    """The table."""
    print(f"{found['logs']} logs of the manifest\n")
    print(f"{'forecast':18s}  CRPS/sd  median  /mean10  within 90%  failed     30%     50%     70%")
    for name, x in found["forecasts"].items():
        origins = "  ".join(f"{x[f'origin_{100 * o:.0f}']:6.3f}" for o in ORIGINS)
        head = f"{name:18s} {x['crps']:8.3f} {x['median_crps']:7.3f} {x['over_fallback']:8.3f}"
        print(f"{head} {x['inside']:11.3f} {x['failed']:7.0f}  {origins}")


def freeze(options: argparse.Namespace) -> dict[str, Any]:
    """The manifest: logs with their hashes and labels, and the scores of what is not run again for every table."""
    rows = {row["run_id"]: row for row in rows_in(options.index)}
    paths = {p.stem: p for folder in options.folder for p in sorted(folder.glob("*.csv")) if p.stem in rows}
    logs: dict[str, dict[str, Any]] = {
        name: {"sha256": digest(path), "repo": rows[name]["repo"], "label": rows[name]["outcome_label"]}
        for name, path in paths.items()
    }
    runs = {name: read_log(path) for name, path in paths.items()}
    cases = [c for name, run in runs.items() for c in cases_of(name, run)]
    for c in cases:
        logs[c.key.rpartition("@")[0]]["rows"] = len(c.y) + len(c.came)
    scores: dict[str, dict[str, Any]] = {OURS: {}}
    content = json.loads(options.backtest.read_text(encoding="utf-8"))["weak"]["found"]
    for f in content:
        for s in f["scores"]:
            if s["name"] == "forecast":
                scores[OURS][f"{f['log']}@{s['origin']:g}"] = [round(s["crps"], 5), round(s["coverage"], 4)]
    if options.auto:
        scores |= automatic(cases, options.auto)
    return {"logs": logs, "origins": list(ORIGINS), "level": LEVEL, "scores": scores}


def automatic(cases: Sequence[Case], python: Path) -> dict[str, dict[str, Any]]:
    """AutoETS and AutoARIMA of statsforecast in an environment of their own."""
    peer = Path(__file__).parents[1] / "forecast" / "peers" / "auto_forecast.py"
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "series.json", Path(folder) / "forecasts.json"
        given.write_text(json.dumps([{"y": c.y.tolist(), "h": len(c.came)} for c in cases]), encoding="utf-8")
        subprocess.run([str(python), str(peer), str(given), str(got)], check=True)
        made = json.loads(got.read_text(encoding="utf-8"))
    out: dict[str, dict[str, Any]] = {}
    for case, found in zip(cases, made, strict=True):
        for name, f in found.items():
            score = scored(case, np.array(f["mean"]), np.array(f["sd"])) if "mean" in f else None
            if score is not None:
                out.setdefault(name, {})[case.key] = [round(score.crps, 5), round(score.inside, 4)]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("table", "freeze"))
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--entrant", type=Path, nargs="*", default=[])
    parser.add_argument("--index", type=Path, nargs="*", default=[])
    parser.add_argument("--backtest", type=Path)
    parser.add_argument("--auto", type=Path)
    parser.add_argument("--keep", action="store_true", help="keep today's table for the documentation")
    options = parser.parse_args()
    if options.part == "freeze":
        if not options.index or options.backtest is None:
            parser.error("freeze needs --index and --backtest")
        keep("frozen", freeze(options))
        return
    manifest = json.loads((RESULTS / "frozen.json").read_text(encoding="utf-8"))["result"]
    found, said = table(options.folder, manifest, [entrant_of(p) for p in options.entrant])
    for line in said:
        print(f"left out: {line}", file=sys.stderr)
    printed(found)
    if options.keep:
        keep("frozen_table", found)


if __name__ == "__main__":
    main()
