"""The fast posterior against long NUTS and long importance sampling on real logs: quantiles, evidence, k-hat, seconds.

    python -m benchmarks.calibration.fast_posterior FOLDER... [--jobs 2] [--every 1] [--nuts-every 16]
                                                    [--json OUT]

Every law that forecasts is put on every log. The fast posterior's 5, 50 and 95% quantiles of every sampled parameter
are compared with two references, in posterior standard deviations and the sampler's coordinates: NUTS, 4 chains of
2,000 draws, on every 16th log (it takes hours for all), and importance sampling of another seed with 20,000 effective
points, on all. NUTS has an error of its own, about .04 sd at the 5% quantile of 3,000 effective draws; where its checks
fail it is no reference, and the case is counted apart. The evidence is compared with that of the long importance
sampling; where NUTS ran, its points are spread about NUTS's draws, so that a mode which both kinds of points missed
would show.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import SamplerSettings, get_regime, read_log
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.fitting.draws import sample_posterior
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings, WeightedPoints, weighted_points
from bayes_grpo.fitting.sampling.nuts import Convergence
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, forecast_priors
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep, side_by_side

QUANTILES = (0.05, 0.5, 0.95)
REFERENCE = SamplerSettings(num_samples=2000)
LONG = ImportanceSettings(effective=20_000.0, batch=4096, rounds=30)
WITHIN, EVIDENCE_WITHIN = 0.1, 0.1


def one(path: Path, seed: int, with_nuts: bool) -> list[dict[str, Any]]:
    """All laws on one log."""
    warnings.simplefilter("ignore")
    try:
        table = rows_of(read_log(path))
    except BayesGrpoError as error:
        return [{"log": path.stem, "left_out": str(error)}]
    out, arrays = [], shared(table)
    for name in FORECAST_REGIMES:
        regime = get_regime(name)
        about = {"log": path.stem, "regime": name, "rows": len(table.y)}
        try:
            target = target_of(regime, table, forecast_priors(regime, table), arrays=arrays)
        except BayesGrpoError as error:
            out.append(about | {"left_out": str(error)})
            continue
        weighted_points(target, seed + 1, ImportanceSettings(rounds=1))  # compiles
        begun = time.perf_counter()
        points, weights = weighted_points(target, seed)
        found = about | {"seconds": time.perf_counter() - begun, "trusted": weights.passed, **asdict(weights)}
        chains = None
        if with_nuts:
            nuts = sample_posterior(target, seed=seed, sampler=REFERENCE).draws
            chains = nuts.points
            assert isinstance(nuts.diagnostics, Convergence)
            found |= {"nuts_passed": nuts.diagnostics.passed, "nuts_retried": nuts.diagnostics.retried}
            found["nuts"] = _apart(points, WeightedPoints(chains, np.zeros(len(chains))))
            chains = chains[:: max(1, len(chains) // 2000)]
        exact, checks = weighted_points(target, seed + 2, LONG, chains)
        found |= {
            "long": _apart(points, exact),
            "long_passed": checks.passed,
            "evidence": points.log_evidence - exact.log_evidence,
        }
        out.append(found)
    return out


def _apart(points: WeightedPoints, reference: WeightedPoints) -> list[list[float]]:
    """Distance of every coordinate's quantiles from the reference's, in the reference's standard deviations."""
    sd = np.sqrt(np.diag(reference.moments()[1]))
    return [
        [float(abs(_quantile(points, i, q) - _quantile(reference, i, q)) / sd[i]) for q in QUANTILES]
        for i in range(len(sd))
    ]


def _quantile(points: WeightedPoints, i: int, q: float) -> float:
    order = np.argsort(points.z[:, i])
    weight = points.weight[order]
    return float(np.interp(q, np.cumsum(weight) - 0.5 * weight, points.z[order, i]))


def report(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Prints the tables and returns their numbers."""
    cases = [f for f in found if "long" in f]
    logs = len({f["log"] for f in cases})
    print(f"{len(cases)} posteriors of {logs} logs; {sum('left_out' in f for f in found)} left out")
    trusted = [f for f in cases if f["trusted"]]
    out: dict[str, Any] = {"posteriors": len(cases), "logs": logs, "fallbacks": 1.0 - len(trusted) / len(cases)}
    for name, judged in (
        ("nuts", [f for f in trusted if f.get("nuts_passed")]),
        ("long", [f for f in trusted if f["long_passed"]]),
    ):
        if not judged:
            continue
        away = np.array([x for f in judged for x in f[name]])
        shares = np.mean(away <= WITHIN, axis=0)
        out[name] = {
            "posteriors": len(judged),
            "within": float(np.mean(away <= WITHIN)),
            "quantile_95": float(np.quantile(away, 0.95)),
            "largest": float(away.max()),
        }
        print(
            f"{name}, {len(judged)} posteriors: {np.mean(away <= WITHIN):.3f} of the quantiles within {WITHIN} sd "
            f"(aim .95; by 5, 50, 95%: {', '.join(f'{x:.3f}' for x in shares)}); 95% within "
            f"{np.quantile(away, 0.95):.3f} sd, all within {away.max():.2f}"
        )
        for f in sorted(judged, key=lambda f: -np.max(f[name]))[:6]:
            print(f"    {f['log']:40s} {f['regime']:12s} {np.max(f[name]):.2f} sd  k {f['pareto_k']:.2f}")
    evidence = np.abs([f["evidence"] for f in trusted if f["long_passed"]])
    k = np.array([f["pareto_k"] for f in cases])
    with_nuts = [f for f in cases if "nuts" in f]
    out |= {
        "evidence_within": float(np.mean(evidence <= EVIDENCE_WITHIN)),
        "evidence_95": float(np.quantile(evidence, 0.95)),
        "pareto_k": [float(x) for x in np.quantile(k, [0.05, 0.25, 0.5, 0.75, 0.95, 0.99])],
        "nuts_failed": float(np.mean([not f["nuts_passed"] for f in with_nuts])) if with_nuts else None,
        "nuts_retried": float(np.mean([f["nuts_retried"] for f in with_nuts])) if with_nuts else None,
        "seconds_median": float(np.median([f["seconds"] for f in cases])),
        "seconds_95": float(np.quantile([f["seconds"] for f in cases], 0.95)),
    }
    print(f"evidence within {EVIDENCE_WITHIN} nat: {out['evidence_within']:.3f} of {len(evidence)}; 95% within "
          f"{out['evidence_95']:.3f}, all within {evidence.max():.2f}")  # fmt: skip
    print(f"not trusted: {out['fallbacks']:.3f} (aim at most .05); NUTS failed its checks {out['nuts_failed']}, "
          f"retried {out['nuts_retried']}")  # fmt: skip
    print("Pareto k at 5, 25, 50, 75, 95, 99%:", np.round(out["pareto_k"], 2))
    print(f"seconds: median {out['seconds_median']:.3f}, 95% {out['seconds_95']:.3f}")
    for f in cases:
        if not f["trusted"]:
            print(f"  not trusted: {f['log']} {f['regime']} k {f['pareto_k']:.2f} effective {f['effective']:.0f}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="Folders of logs as tables (.csv).")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--nuts-every", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    paths = sorted((p for folder in options.folders for p in folder.glob("*.csv")), key=lambda p: -p.stat().st_size)
    paths = paths[:: options.every]
    with_nuts = [i % options.nuts_every == 0 for i in range(len(paths))]
    found: list[dict[str, Any]] = []
    for i, part in enumerate(side_by_side(one, paths, [options.seed] * len(paths), with_nuts, jobs=options.jobs)):
        found += part
        if options.json and i % 10 == 9:
            options.json.write_text(json.dumps(found))
    numbers = report(found)
    if options.every == 1:
        keep("fast_posterior", numbers)
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
