"""What public runs say about the paper: the pooled model against other algebra, and the frozen benchmark."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from bayes_grpo.backtesting import ORIGINS, crps
from benchmarks.forecast.rivals import RIVALS
from benchmarks.paper.checks import KNOWN, verdict
from benchmarks.paper.fits import said
from benchmarks.paper.frozen import FALLBACK, OURS, Score, cases_of, digest, entrant_of, row_of, table
from benchmarks.paper.pictures import PICTURES, draw_all
from benchmarks.paper.pooled import OF_LOGARITHMS, SCALES, Evidence, by_chains, by_grid, grids
from tests.helpers.claims import kept
from tests.helpers.pages import ROOT
from tests.helpers.paths import not_none

ENTRANT = ROOT / "benchmarks" / "paper" / "entrants" / "drift.py"
QUICK = {FALLBACK: RIVALS[FALLBACK]}


def design(seed: int = 0, exponent: float = -0.5) -> Evidence:
    """Six families of three authors, four group sizes each."""
    rng = np.random.default_rng(seed)
    cell, x = np.repeat(np.arange(6), 4), np.log(np.tile([2.0, 4.0, 8.0, 16.0], 6))
    author, error = cell // 2, rng.uniform(0.1, 0.5, 24)
    slope = exponent + 0.2 * rng.standard_normal(3)[author]
    value = 2.0 * rng.standard_normal(6)[cell] + slope * x + error * rng.standard_normal(24)
    return Evidence(value, error, x, cell, cell, author)


def test_the_pooled_exponent_is_that_of_a_regression_with_every_effect_written_out():
    e, rng = design(), np.random.default_rng(1)
    shown = np.stack([(e.author == a) * e.x for a in range(3)] + [(e.family == f) * e.x for f in range(6)], axis=1)
    whole = np.column_stack([e.x, shown, np.eye(6)[e.cell]])
    values, weights = [], []
    for _ in range(1500):
        author, family, spread = np.abs(rng.standard_normal(3)) * np.array(OF_LOGARITHMS[1:])
        prior = np.concatenate([[1.0], np.full(3, author), np.full(6, family), np.full(6, 30.0)]) ** 2
        noise = e.error**2 + spread**2
        precision = whole.T @ (whole / noise[:, None]) + np.diag(1.0 / prior)
        mean = np.linalg.solve(precision, whole.T @ (e.value / noise))
        rest = e.value - whole @ mean
        score = -0.5 * (rest @ (rest / noise) + mean @ (mean / prior) + np.log(noise).sum() + np.log(prior).sum())
        weights.append(score - 0.5 * np.linalg.slogdet(precision)[1])
        values.append((mean[0], np.linalg.inv(precision)[0, 0] ** 0.5))
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    mean, sd = np.array(values).T
    told = by_grid(e, OF_LOGARITHMS).told()
    for p, name in ((0.05, "low"), (0.5, "median"), (0.95, "high")):
        assert float(weight @ norm.cdf((told[name] - mean) / sd)) == pytest.approx(p, abs=0.015)


def test_what_a_run_says_times_the_prior_is_its_posterior():
    draws = np.random.default_rng(0).normal(1.3, 0.4, 4000)
    found = not_none(said(draws, 0.5, 0.9))
    precision = found.error**-2 + 0.9**-2
    assert precision**-0.5 == pytest.approx(draws.std())
    assert (found.value / found.error**2 + 0.5 / 0.9**2) / precision == pytest.approx(draws.mean())
    assert said(np.random.default_rng(0).normal(0.5, 0.9, 4000), 0.5, 0.9) is None


def test_verdicts():
    assert verdict({"p_none": 0.96, "p_positive": 0.5}) == "none"
    assert verdict({"p_none": 0.01, "p_positive": 0.02}) == "negative"
    assert verdict({"p_none": 0.04, "p_positive": 0.6}) == "cannot tell"


def folder_of_logs(folder: Path) -> dict:
    """Three logs of 40 rows, and a manifest of them."""
    rng, logs, ours = np.random.default_rng(0), {}, {}
    for name, label in (("rises", "healthy"), ("falls", "dynamical_instability"), ("flat", "plateaued")):
        trend = {"rises": 0.3, "falls": -0.3, "flat": 0.0}[name] * np.linspace(0, 1, 40)
        y = 0.5 + trend + 0.02 * rng.standard_normal(40)
        path = folder / f"{name}.csv"
        path.write_text("step,reward\n" + "\n".join(f"{i + 1},{v:.6f}" for i, v in enumerate(y)), encoding="utf-8")
        logs[name] = {"sha256": digest(path), "repo": "someone/something", "label": label, "rows": 40}
        ours |= {f"{name}@{o:g}": [0.5, 0.9] for o in ORIGINS}
    return {"logs": logs, "scores": {OURS: ours}}


def test_an_entrant_of_twenty_lines_is_scored_beside_the_others(tmp_path: Path):
    manifest, entrant = folder_of_logs(tmp_path), entrant_of(ENTRANT)
    assert len(ENTRANT.read_text().splitlines()) <= 24
    found, complaints = table([tmp_path], manifest, [entrant], QUICK)
    assert not complaints
    assert found["forecasts"][OURS]["crps"] == 0.5
    from bayes_grpo import read_log

    scores = []
    for name in manifest["logs"]:
        for case in cases_of(name, read_log(tmp_path / f"{name}.csv")):
            mean, sd = entrant.forecast(case.step, case.y, case.ahead)
            draws = mean + sd * norm.ppf((np.arange(4000) + 0.5) / 4000)[:, None]
            scores.append(crps(draws, case.came).mean() / case.scale)
    assert found["forecasts"]["drift"]["crps"] == pytest.approx(np.mean(scores), rel=5e-3)


def test_a_log_that_is_not_the_frozen_one_is_left_out_and_said(tmp_path: Path):
    manifest = folder_of_logs(tmp_path)
    (tmp_path / "flat.csv").write_text("step,reward\n1,0.5\n", encoding="utf-8")
    (tmp_path / "falls.csv").unlink()
    found, complaints = table([tmp_path], manifest, (), QUICK)
    assert found["logs"] == 1
    assert found["forecasts"][OURS]["forecasts"] == len(ORIGINS)
    assert sorted(line.split(":")[0] for line in complaints) == ["falls", "flat"]
    assert any("SHA-256 differs" in line for line in complaints)


def test_a_forecast_that_fails_counts_as_the_mean_of_the_last_rows():
    fallback = {"a@0.3": Score(0.4, 0.9), "a@0.5": Score(0.6, 0.9), "a@0.7": Score(0.6, 0.9)}
    row = row_of({"a@0.3": Score(0.2, 1.0)}, fallback)
    assert row["failed"] == 2
    assert row["crps"] == pytest.approx((0.2 + 0.6 + 0.6) / 3)


def test_the_manifest_is_whole_and_agrees_with_the_backtest():
    manifest, backtest = kept("frozen"), kept("backtest")
    assert all(len(x["sha256"]) == 64 and "/" in x["repo"] for x in manifest["logs"].values())
    ours = manifest["scores"][OURS]
    assert {key.rpartition("@")[0] for key in ours} <= set(manifest["logs"])
    # The backtest counts the cases that every forecaster could make, the manifest all of ours.
    assert np.mean([crps for crps, _ in ours.values()]) == pytest.approx(backtest["crps"], abs=2e-3)
    assert len({key.rpartition("@")[0] for key in ours}) == backtest["logs"]


def test_pooled_answers_on_the_page_have_converged_and_agree_with_the_grid():
    for name, found in kept("paper_claims")["exponents"].items():
        chains = found["chains"]
        assert chains["passed"], name
        assert chains["apart"] < 0.25, name
        assert found["low"] <= found["median"] <= found["high"]


@pytest.mark.thorough
def test_chains_and_grid_agree():
    e = design(3)
    draws, convergence = by_chains(e, OF_LOGARITHMS)
    assert convergence.passed
    assert set(draws) == {"exponent", *SCALES}
    told = by_grid(e, OF_LOGARITHMS, 14).told()
    low, high = np.quantile(draws["exponent"], [0.05, 0.95])
    assert low == pytest.approx(told["low"], abs=0.15 * told["sd"])
    assert high == pytest.approx(told["high"], abs=0.15 * told["sd"])


@pytest.mark.thorough
def test_intervals_hold_known_exponents_as_often_as_they_say():
    e, rng, inside = design(), np.random.default_rng(5), []
    for known in KNOWN:
        sets = []
        for _ in range(80):
            scales = np.abs(rng.standard_normal(3)) * np.array(OF_LOGARITHMS[1:])
            slope = known + scales[0] * rng.standard_normal(3)[e.author] + scales[1] * rng.standard_normal(6)[e.family]
            sets.append(slope * e.x + np.hypot(e.error, scales[2]) * rng.standard_normal(24))
        inside += [0.05 <= m.below(known) <= 0.95 for m in grids(sets, e, OF_LOGARITHMS)]
    assert 0.86 <= np.mean(inside) <= 0.94


@pytest.mark.thorough
def test_every_picture_is_drawn_from_stored_results(tmp_path: Path):
    drawn = draw_all(tmp_path)
    assert len(drawn) == len(PICTURES)
    assert all(p.stat().st_size > 5000 for p in drawn)
