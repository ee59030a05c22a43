"""Priors from experience: what is learned from many logs, and how a new log gets its priors from it."""

import copy
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bayes_grpo.cli.priors import base_priors, split_priors
from bayes_grpo.common.errors import BayesGrpoError, PriorError
from bayes_grpo.forecasting.priors import LearnedPriors, priors_named
from bayes_grpo.learning.cases import CUTS, case_of, cases_of
from bayes_grpo.learning.coordinates import features_of
from bayes_grpo.learning.folder import SourcedRun, load_cases, read_folder, save_cases
from bayes_grpo.learning.learn import LogCase, corpus_priors, learn
from bayes_grpo.learning.render import render_prior_table
from bayes_grpo.learning.table import COVARIATES, SHIPPED, load_prior_table, save_prior_table
from bayes_grpo.regimes import REGIMES, get_regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.command import call
from tests.helpers.runs import rising_run

LAW = "exponential"
NAMES = tuple(p.name for p in get_regime(LAW).parameters)


def cases(rng, repositories=5, logs=4, shift=0.0):
    out = []
    for r in range(repositories):
        for i in range(logs):
            draws = shift * r + rng.standard_normal((len(CUTS), 50, len(NAMES)))
            out.append(
                LogCase(
                    regime=LAW,
                    log=f"log{i}",
                    repository=f"owner/r{r}",
                    parameters=NAMES,
                    draws=draws,
                    weak=np.zeros(50),
                    covariates=np.full((len(CUTS), len(COVARIATES)), np.nan),
                    hash=f"{r}-{i}",
                )
            )
    return out


@pytest.fixture(scope="module")
def learned():
    """A table of these cases, learned once."""
    return learn(cases(np.random.default_rng(8)), provenance={"date": "2026-01-01"})


@pytest.mark.thorough
def test_a_repository_left_out_has_no_say():
    found = cases(np.random.default_rng(6), shift=1.0)
    without = learn(found, exclude=["owner/r4"])
    same = learn([c for c in found if c.repository != "owner/r4"])
    assert np.array_equal(without.regimes[LAW].mean, same.regimes[LAW].mean)
    assert not np.array_equal(without.regimes[LAW].mean, learn(found).regimes[LAW].mean)
    assert set(without.provenance["repositories"]) == {f"owner/r{r}" for r in range(4)}
    assert without.provenance["logs"] == 16


def test_the_table_keeps_the_verdict_on_its_draws_and_says_when_it_failed(tmp_path, learned):
    verdict, found = learned.provenance["convergence"][LAW], learned.regimes[LAW].convergence
    assert found is not None
    assert verdict == {"passed": found.passed, "sentence": found.sentence}
    assert "divergences" in verdict["sentence"]
    said = {}
    for passed in (True, False):
        entry = {"passed": passed, "sentence": "NOT CONVERGED: R-hat of mean 1 is 1.500 (limit 1.01)."}
        shown = io.StringIO()
        judged = replace(learned, provenance=dict(learned.provenance) | {"convergence": {LAW: entry}})
        render_prior_table(judged, [], tmp_path / "prior.json", Console(file=shown, width=200))
        said[passed] = "exponential: NOT CONVERGED: R-hat of mean 1 is 1.500" in shown.getvalue()
    assert said == {True: False, False: True}


def test_too_few_logs_are_refused():
    with pytest.raises(PriorError, match="at least 5 logs"):
        learn(cases(np.random.default_rng(7), repositories=2, logs=2))


def test_priors_follow_scale_shift_and_length_of_the_log(synthetic_run, learned):
    table = learned
    plain = corpus_priors(LAW, replace(rows_of(synthetic_run), level=None), table)
    other = replace(
        synthetic_run,
        reward=10.0 + 3.0 * synthetic_run.reward,
        step=7.0 * synthetic_run.step,
        window=7.0 * synthetic_run.window,
    )
    changed = corpus_priors(LAW, replace(rows_of(other), level=None), table)
    assert tuple(plain) == NAMES
    assert changed["relaxation_time"].median == pytest.approx(7.0 * plain["relaxation_time"].median)
    assert changed["relaxation_time"].spread == pytest.approx(plain["relaxation_time"].spread)
    for name in ("observation_sd", "fluctuation_sd"):
        assert changed[name].median == pytest.approx(3.0 * plain[name].median)
        assert changed[name].spread == pytest.approx(plain[name].spread)
    for name in ("fixed_point", "initial_reward"):
        assert changed[name].median == pytest.approx(10.0 + 3.0 * plain[name].median)
        assert changed[name].spread == pytest.approx(3.0 * plain[name].spread)


def test_the_fixed_point_is_measured_from_the_last_rows(synthetic_run, learned):
    table = learned
    rows = rows_of(synthetic_run)
    seen, mean = features_of(rows), table.regimes[LAW].predictive(np.full(len(COVARIATES), np.nan))[0]
    found = corpus_priors(LAW, rows, table)
    assert found["fixed_point"].median == pytest.approx(
        rows.y[-8:].mean() + rows.scale * mean[NAMES.index("fixed_point")]
    )
    assert found["initial_reward"].median == pytest.approx(
        seen.first + rows.scale * mean[NAMES.index("initial_reward")]
    )


def test_a_table_survives_its_file(tmp_path, synthetic_run, learned):
    table = learned
    path = tmp_path / "prior.json"
    save_prior_table(table, path)
    again = load_prior_table(path)
    before, after = (corpus_priors(LAW, rows_of(synthetic_run), t) for t in (table, again))
    for name in NAMES:
        assert after[name].median == pytest.approx(before[name].median, rel=2e-3, abs=1e-3)
        assert after[name].spread == pytest.approx(before[name].spread, rel=2e-3)
    assert again.provenance["date"] == "2026-01-01"
    assert corpus_priors("hold", rows_of(synthetic_run), again) == {}


def test_a_table_of_the_format_before_reads_the_same(tmp_path, synthetic_run):
    content = load_prior_table(SHIPPED).to_dict()
    assert content["format"] == 3
    path = tmp_path / "prior.json"
    path.write_text(json.dumps({"format": 2, "provenance": content["provenance"], "laws": content["regimes"]}))
    rows = rows_of(synthetic_run)
    assert load_prior_table(path).provenance == load_prior_table(SHIPPED).provenance
    assert corpus_priors(LAW, rows, path) == corpus_priors(LAW, rows)
    assert corpus_priors(LAW, rows, path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot read this prior table"),
        ("[]", "format 2 or 3"),
        ('{"format": 99}', "found 99"),
        ('{"format": [], "regimes": {}}', r"found \[\]"),
        ('{"format": 2, "laws": {"exponential": {}}, "provenance": {}}', "damaged"),
        ('{"format": 3, "laws": {}, "provenance": {}}', "damaged"),
    ],
)
def test_bad_tables_say_so(tmp_path: Path, synthetic_run, content: str, said: str):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(PriorError, match=said):
        corpus_priors(LAW, rows_of(synthetic_run), path)


def test_impossible_numbers_and_foreign_parameters_are_refused(tmp_path, synthetic_run, learned):
    content = copy.deepcopy(learned.to_dict())
    path = tmp_path / "prior.json"
    entry = content["regimes"][LAW]["parameters"]
    entry["relaxation_time"]["spread"] = 0.0
    path.write_text(json.dumps(content))
    with pytest.raises(PriorError, match="spreads must be above 0"):
        load_prior_table(path)
    entry["relaxation_time"]["spread"] = 1.0
    content["regimes"][LAW]["parameters"] = {"other": entry["relaxation_time"]}
    path.write_text(json.dumps(content))
    with pytest.raises(PriorError, match="learn it anew"):
        corpus_priors(LAW, rows_of(synthetic_run), path)
    with pytest.raises(PriorError, match=r"missing\.json"):
        load_prior_table(tmp_path / "missing.json")


def test_the_shipped_table_gives_every_law_usable_priors(synthetic_run):
    table, rows = load_prior_table(SHIPPED), rows_of(synthetic_run)
    assert table.provenance["logs"] >= 50
    assert len(table.provenance["repositories"]) >= 5
    assert {"date", "version", "how"} <= set(table.provenance)
    assert table.regimes
    for regime in table.regimes:
        assert REGIMES[regime].forecasts
        resolve_priors(REGIMES[regime], rows, corpus_priors(regime, rows))


def test_a_log_becomes_a_case_seen_from_its_cuts(synthetic_run):
    found = case_of(synthetic_run, LAW, "owner/r")
    assert found.parameters == NAMES
    assert found.draws.shape[0] == len(CUTS)
    assert found.draws.shape[2] == len(NAMES)
    assert found.weak.shape == found.draws.shape[1:2]
    time, fixed = NAMES.index("relaxation_time"), NAMES.index("fixed_point")
    # One time in lengths of 12 to 40 steps; the curve rises from 0.2 to 0.8, so early cuts have most before them.
    medians = np.median(found.draws, axis=1)
    assert medians[0, time] - medians[-1, time] == pytest.approx(math.log(40 / 12))
    assert np.all(np.diff(medians[:, fixed]) < 0)
    rows = rows_of(synthetic_run)
    assert rows.y[-8:].mean() + rows.scale * medians[-1, fixed] == pytest.approx(0.8, abs=0.05)


def test_cases_survive_their_file(tmp_path):
    before = cases(np.random.default_rng(12), repositories=2)
    save_cases(before, tmp_path / "cases.npz")
    after = load_cases(tmp_path / "cases.npz")
    assert [(c.regime, c.log, c.repository, c.parameters, c.hash) for c in after] == [
        (c.regime, c.log, c.repository, c.parameters, c.hash) for c in before
    ]
    assert np.allclose(after[3].draws, before[3].draws, atol=1e-6)
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(PriorError, match="fit them again"):
        load_cases(tmp_path / "bad.npz")


def test_folders_and_indexes_name_repositories(tmp_path, write_trl_log, curve):
    for place in ("one/run-a", "one/run-b", "two/run-c"):
        (tmp_path / "logs" / place).mkdir(parents=True)
        write_trl_log(tmp_path / "logs" / place / "trainer_state.json", curve)
    (tmp_path / "logs" / "notes.txt").write_text("no log")
    runs, refused = read_folder(tmp_path / "logs")
    assert [(run.name, where) for run, where in runs] == [("run-a", "one"), ("run-b", "one"), ("run-c", "two")]
    assert len(refused) == 1
    index = tmp_path / "index.csv"
    index.write_text("run_id,repo,licence\nrun-a,x/y,MIT\nrun-c,z/z,MIT\n")
    assert [where for _, where in read_folder(tmp_path / "logs", index)[0]] == ["x/y", "one", "z/z"]
    index.write_text("file,licence\nrun-a,MIT\n")
    with pytest.raises(PriorError, match="columns run_id and repo"):
        read_folder(tmp_path / "logs", index)
    with pytest.raises(BayesGrpoError, match="expected a folder of logs"):
        read_folder(tmp_path / "nowhere")


def test_words_and_overrides_share_an_option(tmp_path, synthetic_run, learned):
    assert split_priors(None) == ("", [])
    assert split_priors(["corpus", "fixed_point=0.7,0.1"]) == ("corpus", ["fixed_point=0.7,0.1"])
    with pytest.raises(PriorError, match="both weak and corpus"):
        split_priors(["weak", "corpus"])
    assert base_priors("weak", None, LAW, synthetic_run, "auto") == {}
    path = tmp_path / "prior.json"
    save_prior_table(learned, path)
    assert tuple(base_priors("corpus", path, LAW, synthetic_run, "auto")) == NAMES
    assert base_priors("", path, LAW, synthetic_run, "auto") == base_priors("corpus", path, LAW, synthetic_run, "auto")
    assert base_priors("", None, LAW, synthetic_run, "auto") == {}
    with pytest.raises(PriorError, match="leave one of them out"):
        base_priors("weak", path, LAW, synthetic_run, "auto")


@pytest.fixture
def logs(tmp_path, write_trl_log, curve):
    """A folder of six logs that are alike."""
    logs, rng = tmp_path / "logs", np.random.default_rng(14)
    logs.mkdir()
    for i in range(6):
        rewards = 0.2 + (0.5 + 0.05 * i) * (curve - 0.2) + 0.01 * rng.standard_normal(len(curve))
        write_trl_log(logs / f"run{i}.json", rewards)
    return logs


def test_the_command_line_learns_a_table(logs, tmp_path):
    table = tmp_path / "prior.json"
    code, out, err = call("learn-prior", logs, "--out", table, "--regimes", LAW)
    assert code == 0, err
    assert "Learned from 6 logs of 1 repository" in out
    assert tuple(load_prior_table(table).regimes) == (LAW,)


def test_the_command_line_refuses_what_is_no_folder(tmp_path):
    code, _, err = call("learn-prior", tmp_path / "nowhere", "--out", tmp_path / "prior.json")
    assert code == 3
    assert "expected a folder of logs" in err


@pytest.mark.thorough
def test_a_team_learns_from_its_own_logs_and_fits_with_it(logs, tmp_path, write_trl_log, curve):
    table = tmp_path / "prior.json"
    learning = ("learn-prior", logs, "--out", table, "--regimes", LAW, "--cases", tmp_path / "cases.npz")
    code, out, err = call(*learning)
    assert code == 0, err
    assert "Learned from 6 logs of 1 repository" in out
    first = table.read_text()
    write_trl_log(logs / "run6.json", curve)
    code, out, _ = call(*learning, "--json")
    assert code == 0
    assert json.loads(out)["provenance"]["logs"] == 7
    assert table.read_text() != first
    small = ("--regime", LAW, "--chains", 4, "--warmup", 300, "--draws", 600, "--json")
    fits = {}
    for name, words in (("weak", ()), ("corpus", ("--prior-table", table, "--prior", "observation_sd=0.02,0.3"))):
        code, out, err = call("fit", logs / "run6.json", *small, *words)
        assert code == 0, err
        fits[name] = {row["name"]: row["prior"] for row in json.loads(out)["rows"]}
    # These runs are alike, so their own prior of the time is narrower than the weak one; the override stands.
    width = {k: math.log(v["relaxation_time"]["high"] / v["relaxation_time"]["low"]) for k, v in fits.items()}
    assert width["corpus"] < width["weak"]
    assert fits["corpus"]["observation_sd"]["median"] == pytest.approx(0.02, rel=0.1)
    code, _, err = call("fit", logs / "run6.json", "--prior", "weak", "--prior", "corpus")
    assert code == 3
    assert "both weak and corpus" in err
    code, _, err = call("learn-prior", tmp_path / "nowhere", "--out", table)
    assert code == 3
    assert "expected a folder of logs" in err


@pytest.mark.thorough
def test_only_times_depend_on_the_learning_rate():
    """Over these logs every parameter rises with the learning rate; a new log's priors follow it in its time alone."""
    rng = np.random.default_rng(15)
    known = []
    for case in cases(rng, repositories=6, logs=6):
        rate, length = rng.uniform(-16.0, -11.0), math.log(rng.uniform(50.0, 500.0))
        known.append(
            replace(case, draws=case.draws * 0.3 + rate, covariates=np.tile([rate, length], (len(CUTS), 1))),
        )
    table = learn(known)

    def priors(rate):
        run = rising_run()
        return corpus_priors(LAW, rows_of(replace(run, signals={"learning_rate": np.full(len(run.step), rate)})), table)

    slow, fast = priors(1e-6), priors(1e-5)
    assert math.log(fast["relaxation_time"].median / slow["relaxation_time"].median) == pytest.approx(
        math.log(10.0), rel=0.2
    )
    for name in set(NAMES) - {"relaxation_time"}:
        assert fast[name] == slow[name]


def test_laws_that_the_table_does_not_know_are_named():
    learned = priors_named("corpus")
    assert isinstance(learned, LearnedPriors)
    known = [get_regime(x) for x in learned.table.regimes]
    assert learned.note([get_regime("flat"), *known]) == ""
    note = learned.note([get_regime("hold"), *known])
    assert "does not know hold" in note


@pytest.mark.thorough
def test_fits_side_by_side_are_those_of_one_after_another():
    logs = [replace(rising_run(30, seed=i, name=f"run{i}"), log_hash=f"{i}" * 64) for i in range(2)]
    flat = replace(logs[0], reward=np.full(30, 0.5), name="still", log_hash="f" * 64)
    runs = [SourcedRun(run, "here") for run in (logs[0], flat, logs[1], logs[0])]
    told: list[str] = []
    here = cases_of(runs, [LAW], tell=told.append)
    away = cases_of(runs, [LAW], jobs=2)
    assert [c.log for c in here.cases] == [c.log for c in away.cases] == ["run0", "run1"]
    for one, other in zip(here.cases, away.cases, strict=True):
        np.testing.assert_array_equal(one.draws, other.draws)
        np.testing.assert_array_equal(one.weak, other.weak)
    assert here.refused == away.refused
    assert ["the same log" in x for x in here.refused] == [True, False]
    assert told == ["log 1 of 4: run0", "log 2 of 4: still", "log 3 of 4: run1"]
