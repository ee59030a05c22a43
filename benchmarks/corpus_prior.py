"""Does a prior from experience forecast better than a weak one? Every repository judged by the others.

    python benchmarks/corpus_prior.py FOLDER --index INDEX.csv [--laws NAME ...] [--origins 0.3 0.5 0.7] [--every K]
        [--cases FILE] [--json OUT]

Every log is cut off at each origin, fitted with the weak priors of a fit, with those of a forecast and with the corpus
prior, and its later rows are forecast under the learning rate that was logged. The table for a log is learned without
the logs of its repository. CRPS is in units of the whole curve's standard deviation; "last 10" is the rival that
forecasts the mean of the last ten rows with their spread.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.analysis.forecast_priors import forecast_priors
from bayes_grpo.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.inference.corpus import LogCase, corpus_priors, learn
from bayes_grpo.inference.corpus_cases import SAMPLER, cases_of, padded
from bayes_grpo.inference.corpus_folder import load_cases, read_folder, save_cases
from bayes_grpo.inference.corpus_table import PriorTable
from bayes_grpo.inference.predict import FutureRows, predict
from bayes_grpo.inference.run import sample_posterior
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import REGIMES, get_regime, rows_of
from bayes_grpo.regimes.rows import RowTable

LEAST_ROWS, LEAST_FUTURE = 10, 5
PRIORS = ("weak", "forecast", "corpus")


def crps(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of sorted-or-not draws (draws, h) at y (h,), shape (h,).

    Gneiting and Raftery 2007, https://doi.org/10.1198/016214506000001437.
    """
    x, n = np.sort(draws, axis=0), len(draws)
    spread = ((2 * np.arange(1, n + 1) - n - 1)[:, None] * x).sum(axis=0) / n**2
    return np.abs(x - y).mean(axis=0) - spread


def score(draws: np.ndarray, y: np.ndarray, scale: float) -> dict[str, float]:
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return {
        "crps": float(crps(draws, y).mean() / scale),
        "coverage": float(np.mean((y >= low) & (y <= high))),
        "width": float(np.mean(high - low) / scale),
    }


def judge(whole: RowTable, cut: RowTable, law: str, priors: dict[str, Any] | None, seed: int) -> dict[str, float]:
    """Scores of the rows after the cut, forecast by one law under the rate that was logged."""
    regime = REGIMES[law]
    found = sample_posterior(regime, cut, priors=priors, seed=seed, sampler=SAMPLER, retry=False, rows=padded(cut))
    n = len(cut.y)
    values = {name: x.ravel() for name, x in found.draws.items()}
    future = FutureRows(whole.step[n:], whole.window[n:], whole.rate[n:], whole.weight[n:])
    paths = predict(regime, cut, found.priors, values, future, seed)
    return score(paths.rows, whole.y[n:], whole.scale)


def priors_of(kind: str, law: str, rows: RowTable, table: PriorTable) -> dict[str, Any] | None:
    """Overrides of one kind of prior; None for the weak ones."""
    if kind == "weak":
        return None
    return forecast_priors(get_regime(law), rows) if kind == "forecast" else corpus_priors(law, rows, table)


def last_ten(whole: RowTable, cut: RowTable, rng: np.random.Generator) -> dict[str, float]:
    last, n = cut.y[-10:], len(cut.y)
    draws = last.mean() + last.std(ddof=1) * rng.standard_normal((1000, len(whole.y) - n))
    return score(draws, whole.y[n:], whole.scale)


def evaluate(
    runs: list[tuple[Run, str]], cases: list[LogCase], laws: list[str], origins: list[float], seed: int = 0
) -> list[dict[str, Any]]:
    """One record a log, origin, law and prior."""
    out: list[dict[str, Any]] = []
    rng = np.random.default_rng(seed)
    for repository in sorted({r for _, r in runs}):
        table = learn(cases, exclude=[repository])
        for run, _ in [x for x in runs if x[1] == repository]:
            try:
                whole = rows_of(run)
            except BayesGrpoError:
                continue
            for origin in origins:
                try:
                    cut = rows_of(
                        run.until(whole.start + origin * whole.length), "eval" if whole.signal != "reward" else "reward"
                    )
                except BayesGrpoError:
                    continue
                if len(cut.y) < LEAST_ROWS or len(whole.y) - len(cut.y) < LEAST_FUTURE:
                    continue
                about = {"log": run.name, "repository": repository, "origin": origin}
                out.append(about | {"law": "last 10", "prior": ""} | last_ten(whole, cut, rng))
                for law in laws:
                    for prior in PRIORS:
                        try:
                            given = priors_of(prior, law, cut, table)
                            out.append(about | {"law": law, "prior": prior} | judge(whole, cut, law, given, seed))
                        except BayesGrpoError:
                            continue
    return out


def report(records: list[dict[str, Any]]) -> None:
    """Mean scores by law, prior and origin, and the paired difference of the priors with its standard error."""
    print(f"{'law':12s} {'prior':7s} {'origin':>6s} {'n':>4s} {'CRPS/sd':>8s} {'coverage':>8s} {'width':>6s}")
    keys = sorted({(r["law"], r["origin"]) for r in records})
    for law, origin in keys:
        for prior in ("", *PRIORS):
            mine = [r for r in records if (r["law"], r["prior"], r["origin"]) == (law, prior, origin)]
            if mine:
                mean = {k: np.mean([r[k] for r in mine]) for k in ("crps", "coverage", "width")}
                print(
                    f"{law:12s} {prior:7s} {origin:6.0%} {len(mine):4d} {mean['crps']:8.3f} {mean['coverage']:8.3f} "
                    f"{mean['width']:6.2f}"
                )
    print()
    where = {r["log"]: r["repository"] for r in records}
    for law in sorted({r["law"] for r in records if r["prior"]}):
        crps_of = {
            p: {(r["log"], r["origin"]): r["crps"] for r in records if (r["law"], r["prior"]) == (law, p)}
            for p in PRIORS
        }
        for rival in PRIORS[:-1]:
            both = [k for k in crps_of[rival] if k in crps_of["corpus"]]
            difference = {k: crps_of["corpus"][k] - crps_of[rival][k] for k in both}
            # Cuts of a log, and logs of a repository, are not independent: the error is that of repository means.
            groups = [[d for k, d in difference.items() if where[k[0]] == name] for name in sorted(set(where.values()))]
            means = [np.mean(g) for g in groups if g]
            error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else float("nan")
            values = np.array(list(difference.values()))
            print(
                f"{law:12s} corpus minus {rival:8s}: CRPS {values.mean():+.3f} over {len(both)} cuts, "
                f"{np.mean(means):+.3f} ± {error:.3f} over {len(means)} repos, better on {(values < 0).mean():.0%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--laws", nargs="*", default=[name for name, law in REGIMES.items() if law.forecasts])
    parser.add_argument("--origins", nargs="*", type=float, default=[0.3, 0.5, 0.7])
    parser.add_argument("--every", type=int, default=1, help="Judge every k-th log only.")
    parser.add_argument("--cases", type=Path, help="Fitted logs, read if there and written if not.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    runs, _ = read_folder(options.folder, options.index)
    begun = time.perf_counter()
    if options.cases and options.cases.exists():
        cases = load_cases(options.cases)
    else:
        cases, _ = cases_of(runs, options.laws, tell=print)
        if options.cases:
            save_cases(cases, options.cases)
    print(f"{len(runs)} logs of {len({r for _, r in runs})} repositories, {len(cases)} fits")
    records = evaluate(runs[:: options.every], cases, options.laws, options.origins)
    report(records)
    print(f"{time.perf_counter() - begun:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
