"""Several files are one run where they complete each other, and are refused where they are runs of their own."""

import json

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

STEPS = range(1, 31)


@pytest.fixture
def parts(write):
    train = [{"step": s, "reward": 0.01 * s, "kl": 0.001} for s in STEPS]
    evals = [{"step": s, "reward": 0.5 + 0.01 * s} for s in (10, 20, 30)]
    done = [{"step": s, "prompt": "a", "completion": "b", "reward": float(k)} for s in STEPS for k in range(4)]
    files = {"train_steps": train, "eval": evals, "rollouts": done}
    return [write(f"run/{name}.jsonl", rows) for name, rows in files.items()]


def check(run):
    assert_read(run, step=STEPS, reward=[0.01 * s for s in STEPS], signals={"kl": 0.001})
    assert_read(run, evals={10: 0.6, 20: 0.7, 30: 0.8})
    assert_read(run, "rollouts.jsonl has one line a completion and is left out; read it with `bayes-grpo rollouts`")


def test_the_parts_of_a_run_are_one_run(parts):
    check(read_log(parts))
    check(run := read_log(parts[0].parent))
    assert run.name == "run"


def test_a_folder_of_several_runs_is_refused(write, parts):
    other = write("run/train_b.jsonl", [{"step": s, "reward": 0.2} for s in STEPS])
    with pytest.raises(LogReadError, match=r"expected one log in the directory.*list all with `bayes-grpo batch"):
        read_log(other.parent)


def test_two_runs_are_refused_with_the_command_that_takes_both(write):
    one = write("a.jsonl", [{"step": s, "reward": 0.01 * s} for s in range(1, 301)])
    other = write("b.jsonl", [{"step": 10 * s, "reward": 4.05} for s in range(1, 101)])
    said = (
        r"a.jsonl and b.jsonl, which have other rewards at 30 steps of 30 that both have; "
        r"compare them with `bayes-grpo compare-runs .*a.jsonl .*b.jsonl`, or list them with `bayes-grpo batch"
    )
    with pytest.raises(LogReadError, match=said):
        read_log([one, other])
    config = [{"config": {"group_size": size}} for size in (4, 8)]
    named = [
        write(f"{size['config']['group_size']}.jsonl", [size, *({"step": s, "reward": 0.1} for s in STEPS)])
        for size in config
    ]
    with pytest.raises(LogReadError, match="which have group_size 4 and 8"):
        read_log(named)


def test_a_resumed_run_and_a_second_signal_complete_it(write):
    first = write("a.jsonl", [{"step": s, "reward": 0.01 * s} for s in range(1, 101)])
    rest = write("b.jsonl", [{"step": s, "reward": 0.02 * s} for s in range(91, 151)])
    assert len(read_log([first, rest]).step) == 150
    kl = write("kl.csv", "step,kl\n" + "".join(f"{s},0.1\n" for s in range(1, 101)))
    assert_read(read_log([first, kl]), step=range(1, 101), signals={"kl": 0.1})


RECORDS = {
    "runs": {arm: [{"step": i, "reward": i * r} for i in range(1, 5)] for arm, r in (("base", 0.1), ("ours", 0.2))}
}


@pytest.mark.parametrize("name", ["runs.ours", "ours"])
def test_a_run_of_several_in_a_file_is_named_behind_it(write, name):
    path = write("a.json", RECORDS)
    for run in (read_log(f"{path}#{name}"), read_log(path, run=name)):
        assert run.reward.tolist() == [0.2 * i for i in range(1, 5)]
    with pytest.raises(LogReadError, match=r"expected a run among runs\.base, runs\.ours, found 'other'"):
        read_log(f"{path}#other")
    with pytest.raises(LogReadError, match="found nothing there"):
        read_log(f"{path.with_name('b.json')}#ours")


def test_a_folder_that_holds_one_run_or_several(tmp_path):
    state = {"log_history": [{"step": i, "reward": 0.1 * i} for i in range(1, 9)], "max_steps": 20}
    for i in range(2):
        folder = tmp_path / f"run-00{i}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps(state))
        if i == 0:
            (folder / "bayes_grpo.toml").write_text("[settings]\ngroup_size = 6\n")
            run = read_log(tmp_path)
            assert run.settings.group_size.value == 6
            assert run.name == "run-000"
    with pytest.raises(LogReadError, match=r"found the folders of 2: run-000, run-001; pass one, such as .*run-000"):
        read_log(tmp_path)
