"""What a refusal says of a log without metrics, of several runs in a file or folder, of single reward functions."""

import json

import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import LogReadError

BARS = "\n".join(f"  3%|##   | {i}/2196 [2:06:55<61:15:24, 103.97s/it]" for i in range(75, 98))
SKIPPED = "Loading\n" + "Warning: Gradient norm too large: 3776.00, skipping update\n" * 20
FAILED = "10:42 - main - INFO - Loading\n10:43 - wrapper - ERROR - ❌ Failed to load: \ntorchvision was not found\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BARS, r"found a progress bar \(97 of 2196 steps\) and no metrics; these stand in .*trainer_state.json"),
        (SKIPPED, r"found 20 skipped updates and no metrics"),
        (FAILED, r"found none and the error 'Failed to load: torchvision was not found', which may have"),
        (FAILED + BARS, r"found a progress bar \(97 of 2196 steps\) and no metrics"),
        ("Loading\nnothing\nmore\n", "format that no reader knows"),
    ],
)
def test_a_text_without_metrics(write, text, said):
    with pytest.raises(LogReadError, match=said):
        bg.read_log(write("a.log", text))


RUNS = {f"{arm}-s{i}": [0.1 * i + 0.01 * j for j in range(12)] for arm in ("base", "other") for i in range(3)}


def test_runs_of_numbers_by_name(write):
    path = write("a.json", {"levels": {"base": 0.3}, "curves": RUNS})
    with pytest.raises(LogReadError, match=r"expected one run, found 6: base-s0, .*other-s2; choose with") as refused:
        bg.read_log(path)
    assert str(refused.value).count("base-s1") == 1
    assert bg.read_log(path, run="other-s2").reward.tolist() == RUNS["other-s2"]


RECORDS = {
    "runs": {arm: [{"step": i, "reward": i * r} for i in range(1, 5)] for arm, r in (("base", 0.1), ("ours", 0.2))}
}


@pytest.mark.parametrize("name", ["runs.ours", "ours"])
def test_a_run_of_several_in_a_file_is_named_behind_it(write, name):
    path = write("a.json", RECORDS)
    for run in (bg.read_log(f"{path}#{name}"), bg.read_log(path, run=name)):
        assert run.reward.tolist() == [0.2 * i for i in range(1, 5)]
    with pytest.raises(LogReadError, match=r"expected a run among runs\.base, runs\.ours, found 'other'"):
        bg.read_log(f"{path}#other")
    with pytest.raises(LogReadError, match="found nothing there"):
        bg.read_log(f"{path.with_name('b.json')}#ours")


def test_numbered_metrics_are_no_runs(write):
    layers = {f"loss_{i}": [0.1 * i + 0.01 * j for j in range(12)] for i in range(3)}
    with pytest.raises(LogReadError, match="expected a train reward"):
        bg.read_log(write("a.json", {"curves": layers}))


def test_reward_functions_without_a_total():
    rows = [{"step": i, "reward_json": 0.1 * i, "reward_keys": 0.5, "reward_env": 0.02 * i} for i in range(1, 9)]
    with pytest.raises(LogReadError, match=r"which read like reward functions; choose with .*KEY\+KEY for their sum"):
        bg.read_log(rows)
    with pytest.raises(LogReadError, match="several that differ: reward_a, score_b; choose with"):
        bg.read_log([{"step": i, "reward_a": 0.1 * i, "score_b": 0.5} for i in range(1, 9)])


def test_a_folder_that_holds_one_run_or_several(tmp_path):
    state = {"log_history": [{"step": i, "reward": 0.1 * i} for i in range(1, 9)], "max_steps": 20}
    for i in range(2):
        folder = tmp_path / f"run-00{i}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps(state))
        if i == 0:
            (folder / "bayes_grpo.toml").write_text("[settings]\ngroup_size = 6\n")
            run = bg.read_log(tmp_path)
            assert run.settings.group_size.value == 6
            assert run.name == "run-000"
    with pytest.raises(LogReadError, match=r"found the folders of 2: run-000, run-001; pass one, such as .*run-000"):
        bg.read_log(tmp_path)
