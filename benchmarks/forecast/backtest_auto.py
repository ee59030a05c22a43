"""The backtest's forecast beside the automatic choice of a statistical forecasting package, statsforecast.

    python -m benchmarks.forecast.backtest_auto CACHE FOLDER ... --index FOLDER/../index.csv ... --python ENV/bin/python

CACHE is a folder of finished logs as `benchmarks.forecast.backtest --cache` keeps them; ENV is an environment with
statsforecast (`uv venv ENV && uv pip install -p ENV/bin/python statsforecast "pandas<3"`). AutoETS and AutoARIMA
see the same rows, a row a step, and choose their form themselves; their normal predictive distributions are scored in
closed form.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from bayes_grpo import read_log
from bayes_grpo.backtesting import ORIGINS
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep, say
from benchmarks.forecast.backtest import nested
from benchmarks.forecast.backtest_parts import AVERAGED

PEER = Path(__file__).parent / "peers" / "auto_forecast.py"
FALLBACK = "mean10"
"""Where a model fails, its score is that of the mean of the last ten rows."""


def normal_crps(mean: np.ndarray, sd: np.ndarray, y: np.ndarray) -> np.ndarray:
    """CRPS of normal distributions (Gneiting and Raftery 2007, https://doi.org/10.1198/016214506000001437)."""
    z = (y - mean) / sd
    return sd * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--python", type=Path, required=True, help="interpreter that has statsforecast")
    options = parser.parse_args()
    repos: dict[str, str] = {}
    for index in options.index:
        with index.open(encoding="utf-8") as file:
            repos |= {row["run_id"]: row["repo"] for row in csv.DictReader(file)}
    found = nested([json.loads(p.read_text(encoding="utf-8")) for p in sorted(options.cache.glob("*.json"))], repos)
    scores = {(f["log"], s["origin"], s["name"]): s["crps"] for f in found for s in f["scores"]}
    cases: list[dict[str, Any]] = []
    for path in (p for folder in options.folder for p in sorted(folder.glob("*.csv"))):
        if not any((path.stem, origin, AVERAGED) in scores for origin in ORIGINS):
            continue
        table = rows_of(read_log(path))
        for origin in ORIGINS:
            n = round(origin * len(table.y))
            if (path.stem, origin, AVERAGED) in scores:
                cases.append({"log": path.stem, "origin": origin, "y": table.y[:n].tolist(), "came": table.y[n:],
                              "h": len(table.y) - n, "scale": table.scale})  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "series.json", Path(folder) / "forecasts.json"
        given.write_text(json.dumps([{"y": c["y"], "h": c["h"]} for c in cases]), encoding="utf-8")
        subprocess.run([str(options.python), str(PEER), str(given), str(got)], check=True)
        made = json.loads(got.read_text(encoding="utf-8"))
    names = sorted({name for m in made for name in m})
    table_: dict[str, list[float]] = {name: [] for name in (AVERAGED, *names)}
    failed = dict.fromkeys(names, 0)
    for case, forecasts in zip(cases, made, strict=True):
        key = (case["log"], case["origin"])
        table_[AVERAGED].append(scores[*key, AVERAGED])
        for name in names:
            f = forecasts[name]
            score = np.nan
            if "mean" in f:
                score = float(
                    np.mean(normal_crps(np.array(f["mean"]), np.array(f["sd"]), case["came"])) / case["scale"]
                )
            failed[name] += not np.isfinite(score)
            table_[name].append(score if np.isfinite(score) else scores[*key, FALLBACK])
    means = {name: float(np.mean(values)) for name, values in table_.items()}
    for name, value in means.items():
        say(f"{name:12s} mean CRPS/sd {value:.4f}, failed {failed.get(name, 0)} of {len(cases)}")
    best = min(names, key=means.__getitem__)
    keep(
        "backtest_auto",
        {"forecasts": len(cases), "crps": means, "failed": failed, "ratio": means[AVERAGED] / means[best]},
    )


if __name__ == "__main__":
    main()
