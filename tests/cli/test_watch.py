"""`bayes-grpo watch`: its line, and the words of what it refuses."""

import json

from tests.helpers.command import call
from tests.watching.test_watch import write


def test_a_log_without_a_reward_is_refused_in_words_of_the_command(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"step": n, "loss": 0.1, "mood": n / 9}) + "\n" for n in range(9)))
    for done in (call("watch", log, "--once", "--state", tmp_path / "state.json"), call("batch", log)):
        assert "--column reward=KEY, if it is among mood" in " ".join((done.out + done.err).split())
        assert "columns=" not in done.out + done.err


def test_one_look_is_one_line(tmp_path):
    write(tmp_path / "log.jsonl", 40)
    done = call("watch", tmp_path / "log.jsonl", "--state", tmp_path / "state.json", "--once", "--horizon", 60)
    assert done.code == 0, done.err
    (line,) = done.out.splitlines()
    assert line.startswith("Step 40, 40 rows. ")
    assert " at step 60, " in line
    assert len(line) < 400
