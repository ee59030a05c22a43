"""Measurement noise known before a fit: predicted against observed sd of rows, and how sure the prediction is.

    python -m benchmarks.calibration.known_noise --index FOLDER/index.csv ... --rollouts FOLDER

Every log is cut into windows of about 50 rows. In each, the sd of a row as `bayes_grpo.rows.known_noise` predicts it
stands against the sd of the rows about a local line. Group size and prompts a step come from the index, as a user would
state them. Tables of rollouts (one row a completion) give the share of groups without
spread and the spread within groups of runs whose logs lack them; rewards of several values also count as 0 or 1.

Beside it, how much the rows then teach of the fluctuation: contraction of its prior without and with known noise.

Errors are corrected for what the observed sd is itself unsure by. The typical correlation that stands in is learned
from all other repositories, and so is the spread.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, polygamma

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.fitting.draws import fast_posterior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.known_noise import BY_GROUPS, BY_LEVEL, BY_SPREAD, NEAREST_RATE, row_noise
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import is_share
from benchmarks.common import keep
from benchmarks.index import logs_in

WINDOW = 50
FRESH = 0.5
"""Below this share of new prompts among those of a step, prompts come back."""

EVIDENCE = {e.name: e for e in (BY_GROUPS, BY_LEVEL, BY_SPREAD)}


class Window(NamedTuple):
    """One window of a log.

    Attributes:
        log: Name of the log.
        repo: Its repository.
        evidence: What the prediction rests on.
        predicted: Predicted sd of a row, root mean square over the rows.
        naive: The same for completions that are independent.
        group: Completions of a group.
        observed: Sd of the rows about a local line.
        freedom: Degrees of freedom of this.
    """

    log: str
    repo: str
    evidence: str
    predicted: float
    naive: float
    group: float
    observed: float
    freedom: float


def local_line(n: int, width: float = 5.0) -> np.ndarray:
    """Matrix that smooths n rows by local lines with a normal kernel, shape (n, n)."""
    x = np.arange(n)
    out = np.zeros((n, n))
    for i in x:
        w = np.exp(-0.5 * ((x - i) / width) ** 2)
        design = np.stack([np.ones(n), x - i])
        out[i] = np.linalg.solve((design * w) @ design.T, design * w)[0]
    return out


def observed_sd(y: np.ndarray) -> tuple[float, float]:
    """Sd of rows about a local line, and its degrees of freedom."""
    smooth = local_line(len(y))
    freedom = len(y) - 2.0 * np.trace(smooth) + np.sum(smooth**2)
    return float(np.sqrt(np.sum((y - smooth @ y) ** 2) / freedom)), float(freedom)


def windows_of(run: Run, repo: str) -> Iterator[Window]:
    """Windows of a run in which something is predicted."""
    there = np.flatnonzero(np.isfinite(run.reward))
    if len(there) < 20:
        return
    share = is_share(run.reward[there])
    for part in np.array_split(there, max(1, round(len(there) / WINDOW))):
        kept = np.zeros(len(run.step), bool)
        kept[part] = True
        variance, level = row_noise(run, kept) if np.ptp(run.reward[part]) > 0 else (None, None)
        mean = float(run.reward[part].mean())
        at_an_end = share and not NEAREST_RATE < mean < 1.0 - NEAREST_RATE  # where the prediction has a floor
        if variance is None or level is None or at_an_end or is_share(run.reward[part]) != share:
            continue
        observed, freedom = observed_sd(run.reward[part])
        predicted = level.sd * float(np.sqrt(np.mean(variance)))
        group = float(run.settings.group_size.value)
        naive = predicted / np.sqrt(level.design)
        yield Window(run.name, repo, level.evidence, predicted, naive, group, observed, freedom)


def logs_of(index: Path) -> Iterator[tuple[Run, str]]:
    """Runs of an index with their repository, and with the group size and prompts a step that it states."""
    for run, row in logs_in([index]):
        known = {name: whole(row[name]) for name in ("group_size", "prompts_per_step")}
        settings = replace(run.settings, **{k: Setting(v, Provenance.USER) for k, v in known.items() if v})
        yield replace(run, name=row["run_id"], settings=settings), row["repo"].split("/")[0]


def whole(text: str | None) -> float | None:
    """The number at the start of a cell; None where it is not one of prompts or completions."""
    found = re.match(r"\s*(\d+(\.\d+)?)\s*($|[\s(])", text or "")
    return float(found.group(1)) if found and "see log" not in (text or "") else None


def rollouts_of(folder: Path) -> Iterator[tuple[Run, str, bool]]:
    """Runs out of tables of completions, as logged and as 0 or 1, and whether their prompts are new."""
    for path in sorted(folder.glob("*.csv.gz")):
        if ".steps." in path.name:
            continue
        groups: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                groups[float(row["step"])][row["prompt_id"]].append(float(row["reward"]))
        name = path.name.split(".csv")[0]
        prompts = [set(g) for g in groups.values()]
        new = len(set().union(*prompts)) / sum(len(p) for p in prompts) > FRESH
        values = [v for step in groups.values() for g in step.values() for v in g]
        yield run_of(name, groups, None), name.split("_")[0], new
        if min(values) >= 0.0 and max(values) <= 1.0 and new:
            yield run_of(f"{name} as 0 or 1", groups, 0.5), name.split("_")[0], new


def run_of(name: str, groups: Mapping[float, Mapping[str, Sequence[float]]], border: float | None) -> Run:
    """A log of completions, with what trainers log beside the mean."""
    steps = [
        [np.array(g) if border is None else (np.array(g) > border).astype(float) for g in step.values()]
        for step in groups.values()
    ]
    spread = [float(np.mean([g.std(ddof=1) for g in step])) for step in steps]
    total = [float(np.concatenate(step).std(ddof=1)) for step in steps]
    n = len(steps)
    kind = "total" if border is None else "within"
    settings = {
        "group_size": float(np.median([len(g) for step in steps for g in step])),
        "prompts_per_step": float(np.median([len(step) for step in steps])),
        "reward_std_kind": kind,
    }
    return Run(
        name, name, "rollouts", "0" * 64, np.arange(1.0, n + 1.0),
        np.array([np.concatenate(step).mean() for step in steps]), np.ones(n),
        {
            "frac_reward_zero_std": np.array([np.mean([np.ptp(g) < 1e-9 for g in step]) for step in steps]),
            "reward_std": np.array(spread if kind == "within" else total),
        },
        np.array([]), np.array([]), Settings(**{k: Setting(v, Provenance.LOGGED) for k, v in settings.items()}),
    )  # fmt: skip


def errors_of(windows: Sequence[Window], correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Logarithm of observed over predicted sd, and its sampling variance; NaN for a correlation that the log said."""
    predicted = np.array([
        w.predicted if np.isnan(correlation) else w.naive * np.sqrt(1.0 + (w.group - 1.0) * correlation)
        for w in windows
    ])  # fmt: skip
    half = 0.5 * np.array([w.freedom for w in windows])
    observed = np.log([w.observed for w in windows]) - 0.5 * (digamma(half) - np.log(half))
    return observed - np.log(predicted), 0.25 * polygamma(1, half)


def typical_correlation(windows: Sequence[Window]) -> float:
    """Correlation at which errors are 0 in the mean over repositories."""
    grid = np.linspace(0.0, 0.9, 91)
    return float(grid[np.argmin([abs(over_repositories(windows, errors_of(windows, r)[0])) for r in grid])])


def over_repositories(windows: Sequence[Window], values: np.ndarray) -> float:
    """Mean of values over windows of a repository, then over repositories."""
    repos = np.array([w.repo for w in windows])
    return float(np.mean([values[repos == r].mean() for r in sorted(set(repos))]))


def judged(name: str, windows: Sequence[Window]) -> dict[str, Any]:
    """How far predictions of one kind are off, each repository by what the others teach."""
    stands_in = not np.isnan(EVIDENCE[name].correlation)
    repos = sorted({w.repo for w in windows})
    squares, medians = np.zeros(len(windows)), np.zeros(len(windows))
    for repo in repos:
        own = np.array([w.repo == repo for w in windows])
        others = [w for w in windows if w.repo != repo]
        correlation = typical_correlation(others) if stands_in and others else EVIDENCE[name].correlation
        error, sampling = errors_of([w for w in windows if w.repo == repo], correlation)
        medians[own], squares[own] = error, error**2 - sampling
    naive = np.array([np.log(w.naive / w.observed) for w in windows])
    return {
        "windows": len(windows),
        "logs": len({w.log for w in windows}),
        "repositories": len(repos),
        "ratio": float(np.exp(-np.median(medians))),
        "error": float(np.median(np.abs(medians))),
        "spread": float(np.sqrt(max(over_repositories(windows, squares), 0.0))),
        "correlation": typical_correlation(windows) if stands_in else None,
        "naive_ratio": float(np.exp(np.median(naive))),
        "naive_error": float(np.median(np.abs(naive))),
        "by_repository": {
            r: float(np.exp(-np.mean([m for m, w in zip(medians, windows, strict=True) if w.repo == r]))) for r in repos
        },
    }


def contraction(run: Run) -> dict[str, Any] | None:
    """Share of the fluctuation's prior variance that the rows take away, without and with noise known by groups.

    The law is the exponential one; the prior of the fluctuation is the same in both.
    """
    try:
        table = rows_of(run)
    except BayesGrpoError:
        return None
    if table.level is None or table.level.evidence != BY_GROUPS.name:
        return None
    regime = get_regime("exponential")
    out: dict[str, Any] = {}
    for name, rows in (("without", replace(table, noise=None, level=None)), ("with", table)):
        found = fast_posterior(target_of(regime, rows, arrays=shared(rows)), seed=0)
        logs = {k: np.log(found.values[k]) for k in ("fluctuation_sd", "observation_sd")}
        out[name] = {
            "fluctuation": float(1.0 - logs["fluctuation_sd"].var()),  # of a prior of one e-fold
            "width": float(logs["fluctuation_sd"].std()),
            "together": float(np.corrcoef(logs["fluctuation_sd"].ravel(), logs["observation_sd"].ravel())[0, 1]),
            "share": float(np.median(np.exp(logs["fluctuation_sd"] - logs["observation_sd"]))),
        }
    return out


def main() -> None:
    """Measures, prints, keeps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--rollouts", type=Path, required=True)
    options = parser.parse_args()
    kept: dict[str, list[Window]] = defaultdict(list)
    learned: list[dict[str, Any] | None] = []
    for index in options.index:
        for run, repo in logs_of(index):
            learned.append(contraction(run))
            for w in windows_of(run, repo):
                kept[w.evidence].append(w)
    repeated = {}
    for run, repo, new in rollouts_of(options.rollouts):
        learned.append(contraction(run) if new else None)
        for w in windows_of(run, repo):
            if new:
                kept[w.evidence].append(w)
            else:
                repeated[w.log] = {"between_over_observed": w.predicted / w.observed, "observed": w.observed}
    result = {name: judged(name, kept[name]) for name in EVIDENCE if kept[name]}
    for name, found in result.items():
        print(
            f"{name:24s} {found['windows']:4d} windows, {found['repositories']} repositories: predicted/observed "
            f"{found['ratio']:.2f}, median |log error| {found['error']:.3f} (independent completions: "
            f"{found['naive_ratio']:.2f}, {found['naive_error']:.2f}); spread {found['spread']:.2f}, correlation "
            f"{found['correlation']}\n    {json.dumps({k: round(v, 2) for k, v in found['by_repository'].items()})}"
        )
    own = [x for x in learned if x is not None]
    both = {
        when: {k: float(np.median([x[when][k] for x in own])) for k in own[0][when]} for when in ("without", "with")
    }
    result[BY_GROUPS.name]["contraction"] = both | {"logs": len(own)}
    print(f"contraction, {len(own)} logs, medians without and with known noise: {json.dumps(both)}")
    print("prompts that come back:", json.dumps(repeated))
    keep("known_noise", result | {"repeated": repeated})


if __name__ == "__main__":
    main()
