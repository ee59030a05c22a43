"""The fast posterior against long NUTS on real logs: quantiles, evidence, k-hat, seconds.

    python benchmarks/fast_posterior.py FOLDER... [--jobs 2] [--every 1] [--priors forecast fit] [--json OUT] [--plot P]

Every law that forecasts is put on every log. Under the priors of a forecast (and of a fit) the fast posterior's 5, 50
and 95% quantiles of every parameter are compared with those of NUTS, 4 chains of 2,000 draws, in NUTS's posterior
standard deviations; parameters that are sampled in the sampler's coordinates, levels in units of the reward. NUTS has
an error of its own, about .03 sd at the 5% quantile of 4,000 effective draws; where its checks fail it is no
reference, and the case is counted apart. The reference of the evidence are 20,000 effective points of importance
sampling spread about NUTS's draws.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import FORECAST_REGIMES, SamplerSettings, forecast_priors, get_regime, read_log
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.fitting.sampling.adaptive import Care
from bayes_grpo.fitting.sampling.fast import LEAST_EFFECTIVE, FastPosterior, fast_posterior, weighted_posterior
from bayes_grpo.fitting.sampling.sample import sample_posterior
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep

QUANTILES = (0.05, 0.5, 0.95)
REFERENCE = SamplerSettings(draws=2000)
WITHIN, EVIDENCE_WITHIN = 0.1, 0.1


def one(path: Path, regimes: Sequence[str], kind: str, seed: int) -> list[dict[str, Any]]:
    """All laws on one log."""
    warnings.simplefilter("ignore")
    try:
        table = rows_of(read_log(path))
    except BayesGrpoError as error:
        return [{"log": path.stem, "left_out": str(error)}]
    out = []
    for name in regimes:
        regime = get_regime(name)
        about = {"log": path.stem, "regime": name, "rows": len(table.y)}
        try:
            priors = forecast_priors(regime, table) if kind == "forecast" else None
            rows = shared(table)
            found = fast_posterior(regime, table, rows, priors=priors, seed=seed, fallback=False)
            begun = time.perf_counter()
            fast_posterior(regime, table, rows, priors=priors, seed=seed, fallback=False)  # compiled by now
            seconds = time.perf_counter() - begun
            nuts = sample_posterior(regime, table, priors=priors, seed=seed, sampler=REFERENCE, rows=rows)
        except BayesGrpoError as error:
            out.append(about | {"left_out": str(error)})
            continue
        out.append(about | _compared(found, nuts) | {"seconds": seconds})
    return out


def _compared(found: FastPosterior, nuts: Any) -> dict[str, Any]:
    regime, z = found.regime, np.reshape(nuts.chain.z, (-1, found.z.shape[1]))
    levels, reference = found.levels(0), np.asarray(nuts.summary.linear)
    pairs = {p.name: (found.z[:, i], z[:, i]) for i, p in enumerate(regime.sampled)}
    pairs |= {p.name: (levels[p.name], reference[..., i].ravel()) for i, p in enumerate(regime.linear)}
    apart = {
        k: [float(abs(np.quantile(a, q) - np.quantile(b, q)) / b.std()) for q in QUANTILES]
        for k, (a, b) in pairs.items()
    }
    care = Care(effective=20_000.0, batch=2048, rounds=40)
    exact, trust = weighted_posterior(regime, found.numbers, found.rows, 11, care, z[:: max(1, len(z) // 2000)])
    return {
        "apart": apart,
        "evidence": found.log_evidence - exact.log_evidence,
        "evidence_reference": bool(trust.passed and trust.effective > 10 * LEAST_EFFECTIVE),
        "trusted": found.trust.passed,
        "pareto_k": found.trust.pareto_k,
        "effective": found.trust.effective,
        "rounds": found.trust.rounds,
        "nuts_passed": nuts.convergence.passed,
        "nuts_retried": nuts.convergence.retried,
    }


def report(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Prints the tables and returns their numbers."""
    cases = [f for f in found if "apart" in f]
    print(f"{len(cases)} posteriors of {len({f['log'] for f in cases})} logs; "
          f"{sum('left_out' in f for f in found)} left out")  # fmt: skip
    trusted = [f for f in cases if f["trusted"]]
    judged = [f for f in trusted if f["nuts_passed"]]
    away = np.array([x for f in judged for q in f["apart"].values() for x in q])
    evidence = np.abs([f["evidence"] for f in trusted if f["evidence_reference"]])
    k = np.array([f["pareto_k"] for f in cases])
    share = lambda x: float(np.mean(x))  # noqa: E731
    out = {
        "posteriors": len(cases),
        "logs": len({f["log"] for f in cases}),
        "fallbacks": 1.0 - len(trusted) / len(cases),
        "quantiles": len(away),
        "within": share(away <= WITHIN),
        "quantile_95": float(np.quantile(away, 0.95)),
        "evidences": len(evidence),
        "evidence_within": share(evidence <= EVIDENCE_WITHIN),
        "evidence_95": float(np.quantile(evidence, 0.95)),
        "nuts_failed": share([not f["nuts_passed"] for f in cases]),
        "nuts_retried": share([f["nuts_retried"] for f in cases]),
        "seconds_median": float(np.median([f["seconds"] for f in cases])),
        "seconds_95": float(np.quantile([f["seconds"] for f in cases], 0.95)),
    }
    print(
        f"quantiles within {WITHIN} sd of NUTS: {out['within']:.3f} of {len(away)} (aim .95); "
        f"95% lie within {out['quantile_95']:.3f} sd"
    )
    for i, q in enumerate(QUANTILES):
        part = np.array([x[i] for f in judged for x in f["apart"].values()])
        print(f"  {q:.0%}: within {share(part <= WITHIN):.3f}, median {np.median(part):.3f}, largest {part.max():.2f}")
    print(
        f"evidence within {EVIDENCE_WITHIN} nat: {out['evidence_within']:.3f} of {len(evidence)}; 95% within "
        f"{out['evidence_95']:.3f}"
    )
    print(
        f"not trusted: {out['fallbacks']:.3f} (aim at most .05); NUTS failed its checks {out['nuts_failed']:.3f}, "
        f"retried {out['nuts_retried']:.3f}"
    )
    print("Pareto k at 5, 25, 50, 75, 95, 99%:", np.quantile(k, [0.05, 0.25, 0.5, 0.75, 0.95, 0.99]).round(2))
    print(f"seconds: median {out['seconds_median']:.3f}, 95% {out['seconds_95']:.3f}")
    worst = sorted(judged, key=lambda f: -max(max(x) for x in f["apart"].values()))[:12]
    for f in worst:
        name, x = max(f["apart"].items(), key=lambda item: max(item[1]))
        print(f"  {f['log']:40s} {f['regime']:12s} {name:18s} {max(x):.2f} sd  k {f['pareto_k']:.2f}")
    for f in cases:
        if not f["trusted"]:
            print(f"  not trusted: {f['log']} {f['regime']} k {f['pareto_k']:.2f} effective {f['effective']:.0f}")
    return out


def plot(found: list[dict[str, Any]], path: Path) -> None:
    """Distances of quantiles, and k-hat, by law."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    cases = [f for f in found if "apart" in f]
    for name in dict.fromkeys(f["regime"] for f in cases):
        mine = [f for f in cases if f["regime"] == name]
        away = np.sort([x for f in mine if f["nuts_passed"] for q in f["apart"].values() for x in q])
        left.plot(away, np.linspace(0.0, 1.0, len(away)), label=name)
        right.hist([max(min(f["pareto_k"], 1.5), -1.0) for f in mine], np.linspace(-1.0, 1.5, 51), histtype="step")
    left.axvline(WITHIN, color="0.6", lw=1)
    left.set(xlabel="distance of a quantile from NUTS, posterior sd", ylabel="share", xlim=(0.0, 0.3))
    left.legend()
    right.axvline(0.7, color="0.6", lw=1)
    right.set(xlabel="Pareto k", ylabel="posteriors")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="Folders of logs as tables (.csv).")
    parser.add_argument("--regimes", nargs="+", default=list(FORECAST_REGIMES))
    parser.add_argument("--priors", choices=("forecast", "fit"), default="forecast")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    paths = sorted((p for folder in options.folders for p in folder.glob("*.csv")), key=lambda p: -p.stat().st_size)
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(one, p, options.regimes, options.priors, options.seed) for p in paths[:: options.every]]
        for i, part in enumerate(parts):
            found += part.result()
            if options.json and i % 10 == 9:
                options.json.write_text(json.dumps(found))
    numbers = report(found)
    if options.every == 1 and set(options.regimes) == set(FORECAST_REGIMES):
        keep(f"fast_posterior_{options.priors}", numbers)
    if options.json:
        options.json.write_text(json.dumps(found))
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
