"""Many logs, one table: errors as data, the same numbers everywhere, and nothing lost or done twice after a kill."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayes_grpo as bg
from bayes_grpo.batches import table as table_module
from bayes_grpo.batches.batch import batch, find_logs
from bayes_grpo.batches.table import journal_of
from bayes_grpo.batches.unit import fingerprint
from bayes_grpo.cli.batch import dask_executor
from bayes_grpo.common.errors import MissingExtraError, OutputError, SettingError
from bayes_grpo.diagnosis import diagnose
from bayes_grpo.forecasting.summary import summarize_forecast
from tests.helpers.command import call
from tests.helpers.pages import ROOT
from tests.helpers.paths import not_none
from tests.helpers.runs import FEW, make_run, rising_run, steps
from tests.helpers.shown import text_of


@pytest.fixture
def write_logs(tmp_path: Path, write_trl_log) -> Callable[..., Path]:
    """Writes logs whose rewards rise by different amounts; their folder."""

    def write(n: int, rows: int = 30, folder: str = "runs") -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        for i in range(n):
            rng = np.random.default_rng(i)
            step = np.arange(1, rows + 1)
            reward = 0.2 + 0.05 * i * (1 - np.exp(-step / 10)) + 0.02 * rng.standard_normal(rows)
            write_trl_log(tmp_path / folder / f"run{i:02d}.json", np.round(reward, 4))
        return tmp_path / folder

    return write


def lines(out: Path) -> list[tuple[str, dict]]:
    """Key and row of whole lines of a table's journal."""
    path = journal_of(out)
    return list(table_module._rows(path.read_bytes())) if path.exists() else []


def same(left: pd.DataFrame, right: pd.DataFrame) -> None:
    one, two = (x.drop(columns="seconds") for x in (left, right))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_a_corrupt_log_is_a_row_among_good_ones(write_logs, tmp_path):
    folder = write_logs(3)
    (folder / "run01.json").write_text("{")
    (tmp_path / "empty").mkdir()
    found = batch([folder, tmp_path / "empty", str(tmp_path / "no*where"), tmp_path / "gone.json"])
    assert list(found.frame["log"]) == ["run00", "run01", "run02", "empty", "no*where", "gone.json"]
    good = [True, False, True, False, False, False]
    assert found.frame["status"].map(bool).tolist() == found.frame["failing"].notna().tolist() == good
    assert [not row["error"] for row in found.table] == good
    assert "found nothing of this pattern" in found.table[4]["error"]
    assert (found.logs, found.errors, found.resumed) == (6, 4, 0)
    assert "6 logs, 4 with an error; " in found.sentence
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.to_frame() is not found.frame


def test_an_unforeseen_error_is_a_row_and_is_tried_again(write_logs, tmp_path, monkeypatch):
    out = tmp_path / "t.csv"

    def broken(*_, **__):
        raise ValueError("surprise")

    monkeypatch.setattr(diagnose, "diagnose", broken)
    found = batch(write_logs(1), out=out)
    assert found.frame["error"].tolist() == ["diagnosis: Failed unexpectedly: ValueError: surprise"]
    assert lines(out) == []
    monkeypatch.undo()
    assert batch(tmp_path / "runs", out=out).errors == 0
    assert len(lines(out)) == 1


@pytest.mark.thorough
def test_a_row_has_the_numbers_of_the_single_calls_with_its_seed():
    run = rising_run(40, total_steps=60.0)
    both = [run, make_run(steps(3), [0.1, 0.2, 0.3], name="short")]
    found = batch(both, ["fit", "forecast"], regime="exponential", sampler=FEW)
    fitted, short = found.frame.to_dict("records")
    assert (fitted["error"], bool(short["error"])) == ("", True)
    assert "fit: " in short["error"]
    assert "forecast: " in short["error"]
    assert np.isnan(short["fixed_point_50"])
    assert short["status"]
    assert fitted["seed"] != 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bg.BayesGrpoWarning)  # so short a sampling does not always converge
        summary = bg.summarize(bg.fit(run, "exponential", seed=int(fitted["seed"]), sampler=FEW))
    rows = {r.name: r.posterior for r in summary.rows}
    for name, value in rows.items():
        assert [fitted[f"{name}_{q}"] for q in (5, 50, 95)] == [value.low, value.median, value.high]
    assert fitted["p_growth"] == summary.probabilities["growth"]
    assert fitted["fit"] == summary.verdict
    other = summarize_forecast(bg.forecast(run, 60.0, seed=int(fitted["seed"]), sampler=FEW))
    assert (fitted["until"], fitted["until_from"]) == (60.0, "planned length")
    assert fitted["at_horizon_50"] == other.at_horizon.median
    assert (fitted["gain_5"], fitted["gain_95"]) == (other.remaining_gain.low, other.remaining_gain.high)
    assert fitted["p_gain"] == other.p_gain
    diagnosis = bg.diagnose(run)
    assert fitted["status"] == diagnosis.status.status
    assert fitted["p_reward_hacking"] == diagnosis.probability["reward_hacking"]
    assert all(words in text_of(found) for words in ("settles at", "at step 60, gain", "1 fine"))


def test_the_worst_status_is_the_first_of_a_batch():
    step = steps(80)
    rises = [
        make_run(step, 0.8 - 0.6 * np.exp(-step / 15.0) + 0.02 * np.cos(7.0 * step + k), name=f"{k}") for k in (0, 1)
    ]
    lost = make_run(step, np.where(step < 50, 0.7, 0.1) + 0.01 * np.cos(7.0 * step), name="lost")
    statuses = batch([*rises, lost], ["diagnose"]).clauses[1]
    assert statuses.startswith("1 failed, ")


def test_any_executor_and_a_cluster_give_what_is_given_here(write_logs, monkeypatch):
    folder = write_logs(3)
    here = batch(folder)
    with ThreadPoolExecutor(2) as threads:
        same(batch(folder, executor=threads).frame, here.frame)
        client, addresses = nullcontext(SimpleNamespace(get_executor=lambda **_: threads)), []
        made = SimpleNamespace(Client=lambda address, **_: addresses.append(address) or client)
        monkeypatch.setitem(sys.modules, "distributed", made)
        done = call("batch", folder, "--dask", "tcp://host:8786", "--json")
    assert addresses == ["tcp://host:8786"]
    assert [row["failing"] for row in json.loads(done.out)["table"]] == here.frame["failing"].tolist()


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"bayes-grpo\[dask\]"), dask_executor("tcp://127.0.0.1:1"):
        pass


def test_more_logs_and_tasks_do_only_what_is_left(write_logs, tmp_path):
    out, folder = tmp_path / "t.parquet", write_logs(4)
    some = batch([folder / "run02.json"], out=out)
    before = lines(out)
    every = batch(folder, out=out)
    assert (some.resumed, every.resumed) == (0, 1)
    assert lines(out)[:1] == before
    assert len(set(dict(lines(out)))) == len(lines(out)) == 4
    same(every.frame, batch(folder).frame)
    same(pd.read_parquet(out), every.frame)
    again = batch(folder, out=out)
    assert (again.resumed, len(lines(out))) == (4, 4)
    pd.testing.assert_frame_equal(again.frame, every.frame)
    other = batch(folder, out=out, read={"settings": {"group_size": 2}})
    assert (other.resumed, len(lines(out))) == (0, 8)
    again = batch(folder, out=out, resume=False)
    assert (again.resumed, len(lines(out))) == (0, 4)


def test_a_changed_log_is_done_again_and_a_copy_is_not(write_logs, tmp_path, write_trl_log):
    out, folder = tmp_path / "t.csv", write_logs(2)
    shutil.copy(folder / "run00.json", folder / "copy.json")
    first = batch(folder, out=out)
    assert len(lines(out)) == 2
    same, copy, _ = (row["failing"] for row in first.table)
    assert same == copy
    write_trl_log(folder / "run01.json", np.linspace(0.1, 0.5, 31))
    second = batch(folder, out=out)
    assert len(lines(out)) == 3
    assert second.frame["rows"].tolist() == [30, 30, 31]


def test_half_a_line_in_the_journal_counts_for_nothing(write_logs, tmp_path):
    out, folder = tmp_path / "t.csv", write_logs(3)
    batch(folder, out=out)
    journal = journal_of(out)
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) - 40])
    found = batch(folder, out=out)
    assert found.resumed == 2
    assert set(dict(lines(out))) == {json.loads(x)["key"] for x in whole.splitlines()}
    assert batch(folder, out=out).resumed == 3
    assert pd.read_csv(out)["log"].tolist() == ["run00", "run01", "run02"]


@pytest.mark.thorough
def test_a_killed_fleet_goes_on_where_it_was(write_logs, tmp_path):
    n, out, folder = 24, tmp_path / "t.csv", write_logs(24)
    command = [sys.executable, "-m", "bayes_grpo", "batch", folder, "--do", "diagnose", "--jobs", 2, "--out", out]
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT)
    end = time.monotonic() + 120
    while len(lines(out)) < 3:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = lines(out)
    assert 3 <= len(before) < n
    assert not out.exists()
    found = batch(folder, out=out)
    assert found.resumed == len(before)
    assert lines(out)[: len(before)] == before
    assert len(set(dict(lines(out)))) == len(lines(out)) == n  # none lost, none done twice
    same(found.frame, batch(folder).frame)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"do": ["fit", "guess"]}, SettingError, "do: expected some of fit, forecast, diagnose, found 'guess'"),
        ({"do": []}, SettingError, "do: expected some of"),
        ({"regime": "law"}, SettingError, "regime: expected one of"),
        ({"signal": "both"}, SettingError, "signal: expected"),
        ({"jobs": 0}, SettingError, "jobs: expected"),
        ({"out": "t.xlsx"}, OutputError, "ending in .parquet, .csv, found '.xlsx'"),
        ({"out": "nowhere/t.csv"}, OutputError, "does not exist"),
        ({"read": {"settings": {"group": 4}}}, SettingError, "group"),
    ],
)
def test_what_would_fail_for_every_log_is_refused(options, kind, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        batch(rising_run(30), **{"do": ["diagnose"], **options})
    assert words in str(caught.value)


def test_parquet_without_its_package_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(table_module, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"bayes-grpo\[parquet\]"):
        batch(rising_run(30), out=tmp_path / "t.parquet")


def test_the_columns_of_a_part_are_there_without_any_value_and_keep_their_types(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    frame = batch(tmp_path / "bad.json", ["fit", "forecast", "diagnose"]).frame
    assert {"converged", "rhat", "until", "until_from", "p_gain", "status"} <= set(frame.columns)
    kinds = {name: frame[name].dtype.kind for name in ("rhat", "until", "p_gain", "first_step")}
    assert set(kinds.values()) == {"f"}
    assert (str(frame["rows"].dtype), str(frame["converged"].dtype)) == ("Int64", "boolean")


def test_the_command(write_logs, tmp_path):
    folder = write_logs(2)
    out = tmp_path / "t.csv"
    done = call("batch", folder, "--do", "diagnose", "--out", out, "--json", "--set", "group_size=4")
    assert (done.code, done.err) == (0, "")
    shown = json.loads(done.out)
    assert shown["logs"] == 2
    assert [row["log"] for row in shown["table"]] == pd.read_csv(out)["log"].tolist() == ["run00", "run01"]
    again = call("batch", folder, "--do", "diagnose", "--out", out, "--set", "group_size=4")
    assert "2 from the journal" in again.out
    assert call("batch", folder, "--do", "guess").code == 2
    (tmp_path / "bad.json").write_text("{")
    nothing = call("batch", tmp_path / "bad.json")
    assert (nothing.code, "Errors: 1; the first is bad: " in nothing.out) == (3, True)


def test_files_folders_patterns_and_runs_each_once(write_logs, tmp_path):
    folder = write_logs(3)
    output = tmp_path / "trainer" / "checkpoint-30"
    output.mkdir(parents=True)
    shutil.copy(folder / "run01.json", output / "trainer_state.json")
    found = list(find_logs([folder, str(folder / "run*.json"), tmp_path / "trainer", rising_run(name="made")], {}))
    assert [log.name for log in found] == ["run00", "run01", "run02", "trainer", "made"]
    assert all(log.error == "" and log.log_hash for log in found)
    assert {log.rows for log in found[:4]} == {30}
    assert found[1].fingerprint == found[3].fingerprint != found[2].fingerprint
    (folder / "table.csv").write_text("step,reward\n1,0.1\n2,0.2\n3,0.3\n")
    assert len(list(find_logs([folder, str(folder / "*.csv")], {}))) == 4
    assert len(list(find_logs([folder, str(folder / "*.csv")], {}, {(folder / "table.csv").resolve()}))) == 3


def test_a_fingerprint_is_of_rows_and_settings_and_not_of_the_name(write_logs, tmp_path):
    path = write_logs(1) / "run00.json"
    other = tmp_path / "renamed.json"
    state = json.loads(path.read_text())
    other.write_text(json.dumps(state))
    mine = fingerprint(bg.read_log(path))
    assert fingerprint(bg.read_log(other)) == mine
    assert fingerprint(bg.read_log(path, settings={"group_size": 4})) != mine
    assert fingerprint(bg.read_log(path).until(20)) != mine


def test_a_row_says_the_levels_of_the_reward_and_why_it_has_its_status():
    step = steps(60)
    rising = 0.2 + 0.01 * step
    scores = {float(s): 0.1 + 0.005 * float(s) for s in step[9::10]}
    run = make_run(step, rising, evals=scores)
    row = batch(run).table[0]
    path = not_none(bg.diagnose(run).paths)
    for name, level in (("first", path.reward.start), ("last", path.reward.now), ("best", path.reward.best)):
        assert row[f"reward_{name}"] == pytest.approx(float(np.median(level)))
    assert row["reward_best_step"] == 60.0
    assert row["eval_reward_last"] > row["eval_reward_first"]
    assert row["reason"] == bg.diagnose(run).status.headline
    shown = text_of(batch(run))
    assert all(word in shown for word in ("first", "last", "best", "no failure detected"))


def test_each_training_of_a_file_has_a_row(tmp_path):
    rng = np.random.default_rng(0)
    rewards = [round(start + 0.01 * i + 0.01 * rng.normal(), 4) for start in (0.1, 0.5) for i in range(1, 41)]
    log = tmp_path / "two.log"
    rows = (
        {"loss": 0.01, "learning_rate": 1e-6, "reward": x, "epoch": (i % 40 + 1) / 40} for i, x in enumerate(rewards)
    )
    log.write_text("".join(f"{row}\n" for row in rows))
    found = batch(log).table
    assert [row["log"] for row in found] == ["two training 1", "two training 2"]
    assert [row["reward_first"] for row in found] == pytest.approx([0.12, 0.52], abs=0.06)
    assert [row["log"] for row in batch(log, read={"run": "training 1"}).table] == ["two"]
    one = batch(f"{log}#training 1").table
    assert [(row["log"], row["reward_last"]) for row in one] == [("two training 1", found[0]["reward_last"])]
    out = tmp_path / "table.csv"
    batch(log, out=out)
    again = batch(log, out=out)
    assert again.resumed == 2
    assert again.table[0]["reward_last"] == pytest.approx(found[0]["reward_last"])


def test_several_runs_stand_in_one_figure_with_their_levels(write_logs, tmp_path):
    folder = write_logs(2)
    picture = tmp_path / "runs.png"
    result = call("batch", str(folder), "--plot", str(picture))
    assert result.code == 0
    assert picture.stat().st_size > 10_000
    step = steps(40)
    scores = {float(s): 0.01 * float(s) for s in step[9::10]}
    runs = [make_run(step, 0.02 * step, evals=scores, name="one"), make_run(step, 0.01 * step, name="one")]
    figure = bg.plot_runs([*runs, make_run([1.0], [0.5], name="too short")])
    (curves,) = figure.axes
    assert sum(line.get_linestyle() == "--" for line in curves.lines) == 1
    labels = [re.split(": | to |, best", x) for x in curves.get_legend_handles_labels()[1]]
    assert [x[0] for x in labels] == ["one, train", "one, evaluation", "one, train"]
    assert [float(labels[i][2]) for i in (0, 2)] == pytest.approx([0.79, 0.4], abs=0.03)
