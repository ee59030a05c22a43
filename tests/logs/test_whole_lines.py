"""A log that is being written may end in half a line, and half a line may look like a whole one."""

import json

from bayes_grpo.logs.reading import read_log

CSV = "step,reward\n1,0.11\n2,0.22\n3,0.33\n1"
"""The last line is the beginning of a row of step 10 or so."""


def test_half_a_line_of_a_table_is_left_out(write):
    log = write("log.csv", CSV + "0,0.4")
    assert read_log(log).step.tolist() == [1, 2, 3, 10]
    assert read_log(log, whole_lines=True).step.tolist() == [1, 2, 3]
    assert read_log(write("log.csv", CSV + "0,0.4\n"), whole_lines=True).reward.tolist() == [0.11, 0.22, 0.33, 0.4]


def test_what_ends_by_itself_is_kept_whole(write):
    rows = [{"step": s, "reward": 0.1 * s} for s in (1, 2, 3)]
    lines = "\n".join(map(json.dumps, rows))
    for name, text in (("a.json", json.dumps(rows)), ("b.json", json.dumps(rows, indent=1)), ("c.jsonl", lines)):
        assert read_log(write(name, text), whole_lines=True).step.tolist() == [1, 2, 3]
