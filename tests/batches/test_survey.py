"""Which logs a batch has."""

import json
import shutil

from bayes_grpo.batches.batch import survey
from bayes_grpo.batches.unit import fingerprint
from bayes_grpo.logs.reading import read_log
from tests.helpers.runs import rising_run


def test_files_folders_patterns_and_runs_each_once(write_logs, tmp_path):
    folder = write_logs(3)
    output = tmp_path / "trainer" / "checkpoint-30"
    output.mkdir(parents=True)
    shutil.copy(folder / "run01.json", output / "trainer_state.json")
    found = list(survey([folder, str(folder / "run*.json"), tmp_path / "trainer", rising_run(name="made")], {}))
    assert [log.name for log in found] == ["run00", "run01", "run02", "trainer", "made"]
    assert all(log.error == "" and log.log_hash for log in found)
    assert {log.rows for log in found[:4]} == {30}
    assert found[1].fingerprint == found[3].fingerprint != found[2].fingerprint
    assert [log.name for log in survey(folder / "run02.json", {})] == ["run02"]


def test_what_cannot_be_read_has_a_reason(write_logs, tmp_path):
    folder = write_logs(2)
    (folder / "broken.json").write_text('{"log_history": [{"reward"')
    (tmp_path / "empty").mkdir()
    given = [folder, tmp_path / "empty", str(tmp_path / "no*where"), tmp_path / "gone.json"]
    found = {log.name: log.error for log in survey(given, {})}
    assert {name for name, error in found.items() if not error} == {"run00", "run01"}
    assert set(found) == {"run00", "run01", "broken", "empty", "no*where", "gone.json"}
    assert "found nothing of this pattern" in found["no*where"]


def test_the_table_and_its_journal_are_no_logs(write_logs):
    folder = write_logs(2)
    (folder / "table.csv").write_text("step,reward\n1,0.1\n2,0.2\n3,0.3\n")
    assert len(list(survey(folder, {}))) == 3
    assert len(list(survey([folder, str(folder / "*.csv")], {}, {(folder / "table.csv").resolve()}))) == 2


def test_a_fingerprint_is_of_rows_and_settings_and_not_of_the_name(write_logs, tmp_path):
    path = write_logs(1) / "run00.json"
    other = tmp_path / "renamed.json"
    state = json.loads(path.read_text())
    other.write_text(json.dumps(state))
    mine = fingerprint(read_log(path))
    assert fingerprint(read_log(other)) == mine
    assert fingerprint(read_log(path, settings={"group_size": 4})) != mine
    assert fingerprint(read_log(path).until(20)) != mine
