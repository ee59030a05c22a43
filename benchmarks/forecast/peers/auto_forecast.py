"""Automatic forecasts of statsforecast, in an environment of its own: it asks for an older pandas than this project.

    python benchmarks/forecast/peers/auto_forecast.py SERIES.json FORECASTS.json

SERIES.json holds a list of {"y": rows, "h": rows to come}; FORECASTS.json gets, for each, mean and standard deviation
of every row to come by each model. Both models choose their own form by an information criterion (AICc).
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from statsforecast.models import AutoARIMA, AutoETS  # pyright: ignore[reportMissingImports]

LEVEL, QUANTILE = 90, 1.6448536269514722
MODELS = {"auto_ets": lambda: AutoETS(model="ZZN"), "auto_arima": lambda: AutoARIMA(seasonal=False)}


def main() -> None:
    warnings.simplefilter("ignore")
    series = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out = []
    for one in series:
        y, found = np.array(one["y"], float), {}
        for name, model in MODELS.items():
            try:
                f = model().forecast(y=y, h=int(one["h"]), level=[LEVEL])
                sd = (np.asarray(f[f"hi-{LEVEL}"]) - np.asarray(f["mean"])) / QUANTILE
                found[name] = {"mean": np.asarray(f["mean"]).tolist(), "sd": np.maximum(sd, 1e-12).tolist()}
            except Exception as error:  # a model that fails on a series is a result
                found[name] = {"error": str(error)}
        out.append(found)
        print(f"\r{len(out)} of {len(series)}", end="", file=sys.stderr)
    Path(sys.argv[2]).write_text(json.dumps(out), encoding="utf-8")


if __name__ == "__main__":
    main()
