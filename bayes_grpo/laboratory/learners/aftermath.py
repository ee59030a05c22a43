"""What runs did next whose reward had fallen, learned from public logs and the deep laboratory.

    python -m bayes_grpo.laboratory.learners.aftermath --runs FOLDER ... --lab FOLDER ... [--keep]

Every log is seen up to a dozen of its rows, and where its reward is lost there, so many rows ahead are held against
what it had and what it has (`bayes_grpo.forecasting.aftermath`). Repositories count alike, and the laboratory as one.
The share beside laws and level is the one that scores best (continuous ranked probability, in what was lost), chosen
and judged without the repository that is scored. Writes `forecasting/aftermath.json`.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.backtesting.scores import crps
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import written_whole
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.fallen import Fallen
from bayes_grpo.forecasting.aftermath import REGAINED, Aftermath, fallen_in
from bayes_grpo.forecasting.basis import MIN_FORECAST_ROWS, Basis, basis_of_run
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_regimes
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.laboratory.learners.record import keep, say
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.future import rows_ahead
from bayes_grpo.rows.rows_of import rows_of

DISTANCES = (0.15, 0.5, 1.0)
"""Rows ahead over rows seen."""
SEEN = tuple(np.linspace(0.2, 0.9, 12).tolist())
"""Shares of a log at which it is looked at."""
REGAINED_QUANTILES = 21
MIXED_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
LABORATORY = "laboratory"
_END = 20
"""Part of the rows whose mean is the reward ahead, 1 / rows."""
_MOST = 2.0
"""What a score is held below: where little was lost, one law that runs away would outweigh everything else."""
_JUDGED = 3
"""Origins of a log at which laws are fitted, at most."""


class FallenCase(NamedTuple):
    """A log that has fallen at an origin, and what came.

    Attributes:
        repo: Repository, or `LABORATORY`.
        log: Name of the run.
        rows: Rows seen.
        ahead: One of `DISTANCES`.
        fallen: What it had lost.
        regained: Share of it that was regained so far ahead.
        run: The run.
        step: Last step seen.
        until: Step of the reward ahead.
    """

    repo: str
    log: str
    rows: int
    ahead: float
    fallen: Fallen
    regained: float
    run: Run
    step: float
    until: float


def fallen_cases(repo: str, run: Run) -> Iterator[FallenCase]:
    """Origins of a log at which its reward is lost, for every distance that its rows allow."""
    try:
        whole = rows_of(run, "auto")
    except BayesGrpoError:
        return
    for n in sorted({round(share * len(whole.y)) for share in SEEN}):
        if n < MIN_FORECAST_ROWS:
            continue
        seen = run.until(float(whole.step[n - 1]))
        try:
            fallen = fallen_in(rows_of(seen), dict(seen.settings.items()))
        except BayesGrpoError:  # a reward that never changed until here
            continue
        if fallen is None:
            continue
        for ahead in DISTANCES:
            h = round(ahead * n)
            if h < BORDERS.least_rows or n + h > len(whole.y):
                continue
            came = whole.y[n : n + h][-max(BORDERS.least_rows, (n + h) // _END) :]
            regained = (float(came.mean()) - fallen.now) / (fallen.best - fallen.now)
            end = float(whole.step[n + h - 1])
            yield FallenCase(repo, run.name, n, ahead, fallen, regained, run, float(whole.step[n - 1]), end)


def learn_aftermath(cases: Sequence[FallenCase], share: float, provenance: dict[str, object]) -> Aftermath:
    """The table: weighted quantiles at each distance, repositories alike; a farther one no less wide than a nearer."""
    even = np.linspace(0.0, 1.0, REGAINED_QUANTILES)
    lines = []
    for ahead in DISTANCES:
        chosen = [c for c in cases if c.ahead == ahead]
        count = {repo: sum(c.repo == repo for c in chosen) for repo in {c.repo for c in chosen}}
        order = sorted(chosen, key=lambda c: c.regained)
        weight = np.array([1.0 / count[c.repo] for c in order])
        place = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
        lines.append(np.clip(np.interp(even, place, [c.regained for c in order]), *REGAINED))
    return Aftermath(np.array(DISTANCES), np.array(lines), share, provenance)


def scored(case: FallenCase, aftermath: Aftermath) -> list[float]:
    """Score of each of `MIXED_SHARES` on one case, in what was lost.

    Raises:
        BayesGrpoError: No law can be fitted.
    """
    basis: Basis = basis_of_run(case.run.until(case.step))
    fitted = fit_regimes(basis.rows, FORECAST_REGIMES, reward=basis.reward, seed=0, strict=False)
    asked = rows_ahead(basis.table, case.until, basis.ahead)
    laws, after = (
        forecast_of_regimes(basis, fitted, asked, draws=400, aftermath=replace(aftermath, share=share)).latent[:, -1]
        for share in (0.0, 1.0)
    )
    lost = case.fallen.best - case.fallen.now
    truth = case.fallen.now + case.regained * lost
    after, laws = (np.random.default_rng(0).permutation(x) for x in (after, laws))
    mixed = (np.concatenate([after[: round(400 * w)], laws[: 400 - round(400 * w)]]) for w in MIXED_SHARES)
    return [min(float(crps(x[:, None], np.array([truth]))[0]) / lost, _MOST) for x in mixed]


def public_runs(folders: Sequence[Path]) -> Iterator[tuple[str, Run]]:
    """Repository and run of every log of folders with index.csv and csv."""
    for folder in folders:
        with (folder / "index.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                try:
                    yield row["repo"], read_log(folder / "csv" / f"{row['run_id']}.csv")
                except BayesGrpoError as error:
                    say(f"{row['run_id']}: {error}")


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--lab", type=Path, nargs="+", required=True)
    parser.add_argument("--scored", type=int, default=60, help="laboratory cases on which laws are fitted")
    parser.add_argument("--keep", action="store_true", help="write the table and keep the result")
    asked = parser.parse_args()
    public = [c for repo, run in public_runs(asked.runs) for c in fallen_cases(repo, run)]
    places = [p.parent for folder in asked.lab for p in sorted(folder.glob("*/truth.json"))]
    deep = [c for place in places for c in fallen_cases(LABORATORY, read_log(place))]
    cases = [*public, *deep]
    repos = sorted({c.repo for c in public})
    say(f"{len(public)} cases of {len({c.log for c in public})} logs of {len(repos)} repositories, {len(deep)} deep")
    rng = np.random.default_rng(0)
    chosen = _few(public, rng) + [deep[i] for i in rng.permutation(len(deep))[: asked.scored]]
    table: dict[str, list[list[float]]] = {}
    for case in chosen:
        without = learn_aftermath([c for c in cases if c.repo != case.repo], 1.0, {})
        try:
            table.setdefault(case.repo, []).append(scored(case, without))
        except BayesGrpoError as error:
            say(f"{case.log}: {error}")
    means = {repo: np.mean(rows, axis=0) for repo, rows in table.items()}
    for repo, row in means.items():
        say(f"{repo}: {dict(zip(MIXED_SHARES, row.round(3).tolist(), strict=True))} ({len(table[repo])})")
    nested = {r: row[np.argmin(np.mean([x for k, x in means.items() if k != r], axis=0))] for r, row in means.items()}
    overall = np.mean(list(means.values()), axis=0)
    share = MIXED_SHARES[int(np.argmin(overall))]
    result = {
        "cases": len(cases), "public logs": len({c.log for c in public}), "repositories": len(repos),
        "laboratory logs": len({c.log for c in deep}), "scored": sum(map(len, table.values())),
        "crps by share": dict(zip(map(str, MIXED_SHARES), overall.tolist(), strict=True)), "share": share,
        "crps laws alone": float(overall[0]), "crps nested": float(np.mean(list(nested.values()))),
        "by repository": {r: {"laws": float(row[0]), "nested": float(nested[r])} for r, row in means.items()},
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    if asked.keep:
        found = learn_aftermath(cases, share, {k: result[k] for k in ("cases", "public logs", "repositories")})
        target = Path(__file__).parents[2] / "forecasting" / "aftermath.json"
        with written_whole(target) as temporary:
            temporary.write_text(json.dumps(found.to_dict(), indent=1) + "\n", encoding="utf-8")
        keep("learn_aftermath", result)


def _few(cases: Sequence[FallenCase], rng: np.random.Generator) -> list[FallenCase]:
    """A few cases of every log."""
    found: dict[tuple[str, str], list[FallenCase]] = {}
    for case in cases:
        found.setdefault((case.repo, case.log), []).append(case)
    return [x[i] for x in found.values() for i in rng.permutation(len(x))[:_JUDGED]]


if __name__ == "__main__":
    main()
