"""Several trainings in one file: where each begins, which one is read, which are no trainings of their own."""

import json

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.views.logs import log_document
from tests.helpers.command import call
from tests.logs.log_samples import trl_row, trl_state

CLOSING = {"train_runtime": 300.0, "train_steps_per_second": 0.1, "train_loss": 0.01, "epoch": 1.0}


def training(n, seed=0, **more):
    rng = np.random.default_rng(seed)
    return [
        {"loss": round(rng.normal(0, 0.1), 4), "reward": round(rng.uniform(), 4), "epoch": round((i + 1) / n, 2)} | more
        for i in range(n)
    ]


def supervised(n):
    return [{"loss": 2.0 - 0.1 * i, "grad_norm": 1.0, "epoch": round((i + 1) / n, 2)} for i in range(n)]


def printed(*rows):
    return "\n".join(map(str, rows)) + "\n"


def names(run):
    return [(x.name, x.rows, x.taken) for x in run.trainings]


def test_a_supervised_phase_before_is_left_out_with_a_note(write):
    grpo = training(40)
    text = printed(*supervised(15), CLOSING, *grpo, CLOSING)
    run = read_log(write("run.log", text))
    assert run.reward.tolist() == [row["reward"] for row in grpo]
    assert run.step.tolist() == list(range(1, 41))
    assert names(run) == [("training 1", 15, False), ("training 2", 40, True)]
    assert run.notes[0].startswith("training 2 of 2 in the log is read, the only one with rewards; --run 'training 1'")
    assert "left out: training 1 (15 rows, steps 1 to 15, no reward)" in run.notes[0]
    with pytest.raises(LogReadError, match="expected a train reward"):
        read_log(write("run.log", text), run="training 1")


def test_the_only_training_with_rewards_is_read_wherever_it_is(write):
    run = read_log(write("run.log", printed(*training(30), CLOSING, *supervised(8), CLOSING)))
    assert names(run) == [("training 1", 30, True), ("training 2", 8, False)]
    assert len(run.step) == 30


@pytest.mark.parametrize("closing", [(), (CLOSING,)])
def test_five_trainings_are_five_runs(write, closing):
    parts = [training(30, seed) for seed in range(5)]
    text = printed(*(row for part in parts for row in (*part, *closing)))
    path = write("all.txt", text)
    run = read_log(path)
    assert run.reward.tolist() == [row["reward"] for row in parts[4]]
    assert "the last with rewards; --run 'training 1' takes another" in run.notes[0]
    for i, part in enumerate(parts, 1):
        assert read_log(path, run=f"training {i}").reward.tolist() == [row["reward"] for row in part]
    with pytest.raises(LogReadError, match=r"expected a run among training 1, .*found 'training 6'; correct --run"):
        read_log(path, run="training 6")
    with pytest.raises(LogReadError, match=r"expected one run, found 5 called 'tra'"):
        read_log(path, run="tra")


def test_steps_that_begin_anew_are_another_training(write):
    rows = [{"step": s, "reward": 0.1 + 0.01 * s, "loss": 0.1} for s in range(1, 21)]
    more = [{"step": s, "reward": 0.5 - 0.01 * s, "loss": 0.2} for s in range(1, 11)]
    run = read_log(write("log.jsonl", rows + more))
    assert run.reward.tolist() == [row["reward"] for row in more]
    assert names(run) == [("training 1", 20, False), ("training 2", 10, True)]


def test_trainings_with_other_logging_steps(write):
    rows = [{"step": s, "reward": s / 1000, "loss": 0.1} for s in range(10, 310, 10)]
    more = [{"step": s, "reward": s / 500, "loss": 0.2} for s in range(5, 155, 5)]
    assert len(read_log(write("log.jsonl", rows + more)).step) == 30


def test_a_state_with_a_supervised_phase(write):
    phase = [{"loss": 1.0, "grad_norm": 1.0, "epoch": s / 10, "step": s} for s in range(1, 6)]
    rows = [trl_row(s, 0.1 + 0.01 * s) for s in range(1, 31)]
    run = read_log(write("trainer_state.json", trl_state([*phase, *rows])))
    assert (len(run.step), names(run)[1]) == (30, ("training 2", 30, True))


def test_rewards_that_begin_after_rows_without_any(write):
    rows = [{"step": s, "loss": 2.0 - 0.01 * s, "entropy": 1.0} for s in range(1, 21)]
    rows += [{"step": s, "loss": 0.1, "entropy": 0.5, "reward": 0.01 * s} for s in range(21, 61)]
    run = read_log(write("log.jsonl", rows))
    assert (run.step[0], len(run.step), set(run.signals["entropy"])) == (21, 40, {0.5})


@pytest.mark.parametrize("first", [False, True])
def test_rows_of_kinds_that_complete_each_other_are_one_training(write, first):
    losses = [{"step": s, "loss": 0.1 * s} for s in range(1, 11)]
    rewards = [{"step": s, "reward": 0.01 * s} for s in range(1, 11)]
    run = read_log(write("log.jsonl", rewards + losses if first else losses + rewards))
    assert (run.trainings, len(run.step)) == ((), 10)
    assert np.isfinite(run.signals["loss"]).all()


def test_records_that_only_repeat_the_rewards_are_no_training(write):
    rows = [{"step": s, "reward": 0.01 * s, "loss": 0.1} for s in range(1, 11)]
    run = read_log(write("log.jsonl", [*rows, *[row | {"kl": 0.1} for row in rows]]))
    assert (run.trainings, len(run.step)) == ((), 10)


@pytest.mark.parametrize("begin", [31, 36])
def test_a_resume_after_a_closing_line_is_one_run_with_its_step(write, begin):
    rows = [trl_row(s, 0.01 * s) for s in range(1, 31)]
    rows += [CLOSING | {"step": 30}, *(trl_row(s, 0.01 * s) for s in range(begin, 51))]
    run = read_log(write("log.jsonl", rows))
    assert (run.trainings, run.resumes) == ((), (float(begin),))
    assert any(note == f"resumed at step {begin}, after a closing line" for note in run.notes)


def test_an_evaluation_after_a_training_is_of_that_training(write):
    rows = [trl_row(s, 0.01 * s) for s in range(1, 11)]
    after, before = {"eval_reward": 0.9, "step": 10}, {"eval_reward": 0.1, "step": 0}
    path = write("log.jsonl", [*rows, CLOSING | {"step": 10}, after, before, *(trl_row(s, 0.9) for s in range(1, 13))])
    assert read_log(path, run="training 1").eval_reward.tolist() == [0.9]
    assert read_log(path).eval_reward.tolist() == [0.1]


def bar(done, planned):
    return f"{100 * done // planned}%|###   | {done}/{planned} [00:10<00:20, 2.00s/it]"


def test_each_training_has_its_own_progress_bar(write):
    parts = []
    for n, each, rows in ((10, 5, supervised(10)), (20, 10, training(20))):
        for i, row in enumerate(rows, 1):
            parts += [bar(each * i, each * n), str(row)]
        parts += [str(CLOSING)]
    path = write("run.log", "\n".join(parts))
    run = read_log(path)
    assert run.step.tolist() == list(range(10, 210, 10))
    assert run.settings.total_steps.value == 200
    assert run.trainings[0][1:4] == (10, 5.0, 50.0)


def test_bars_at_the_ends_give_each_training_its_steps(write):
    text = printed(*training(10), CLOSING) + bar(50, 50) + "\n" + printed(*training(20, 1), CLOSING) + bar(400, 400)
    run = read_log(write("run.log", text))
    assert (run.step[0], run.step[-1], run.settings.total_steps.value) == (20, 400, 400)


@pytest.mark.parametrize("name", ["run", "experiment", "seed"])
@pytest.mark.parametrize("sorted_by_run", [False, True])
def test_a_column_tells_runs_apart(write, name, sorted_by_run):
    runs = ["1", "2"] if name == "seed" else ["low", "high"]
    rows = [(s, run, 0.01 * s + (i == 1) * 0.5) for s in range(1, 21) for i, run in enumerate(runs)]
    rows = sorted(rows, key=lambda row: runs.index(row[1])) if sorted_by_run else rows
    path = write("all.csv", f"step,{name},reward\n" + "".join(f"{s},{run},{r}\n" for s, run, r in rows))
    called = [f"seed={x}" for x in runs] if name == "seed" else runs
    run = read_log(path)
    assert names(run) == [(called[0], 20, False), (called[1], 20, True)]
    np.testing.assert_allclose(run.reward, 0.5 + 0.01 * run.step)
    np.testing.assert_allclose(read_log(path, run=called[0]).reward, 0.01 * run.step)


def test_another_run_id_whose_steps_go_on_is_a_resume(write):
    rows = [{"run_id": "a" if s < 11 else "b", "step": s, "reward": 0.01 * s} for s in range(1, 21)]
    assert (read_log(path := write("log.jsonl", rows)).trainings, len(read_log(path).step)) == ((), 20)


def test_a_table_with_a_second_line_of_names(write):
    one = "step,reward,loss\n" + "".join(f"{s},{0.01 * s},0.1\n" for s in range(1, 11))
    two = "step,loss,reward,kl\n" + "".join(f"{s},0.2,{0.02 * s},0.3\n" for s in range(1, 16))
    run = read_log(write("log.csv", one + two))
    np.testing.assert_allclose(run.reward, 0.02 * run.step)
    assert ([x[:2] for x in names(run)], set(run.signals["kl"])) == ([("training 1", 10), ("training 2", 15)], {0.3})
    on = one + "step,reward,loss\n" + "".join(f"{s},{0.01 * s},0.1\n" for s in range(11, 21))
    assert (read_log(write("on.csv", on)).trainings, len(read_log(write("on.csv", on)).step)) == ((), 20)


def test_records_in_memory_and_several_lists_of_a_document(write):
    rows = training(10) + training(10, 1)
    assert [x[:2] for x in names(read_log(rows))] == [("training 1", 10), ("training 2", 10)]
    lists = {
        "first": [{"step": s, "reward": 0.1} for s in range(3)],
        "second": [{"step": s, "reward": 0.2} for s in range(4)],
    }
    path = write("both.json", lists)
    assert len(read_log(path, run="second").step) == 4
    with pytest.raises(LogReadError, match="found 2: first, second; choose with --run"):
        read_log(path)


def test_a_summary_lists_all_trainings(write):
    run = read_log(write("run.log", printed(*supervised(15), CLOSING, *training(40), CLOSING)))
    assert json.loads(json.dumps(run.to_dict()))["trainings"][0] == {
        "name": "training 1", "rows": 15, "first_step": 1.0, "last_step": 15.0, "rewards": 0, "taken": False,
    }  # fmt: skip
    page = log_document(run)
    assert "2 trainings: training 2 is read" in page.why
    assert any(s.title == "Trainings in the file" and len(s.tables[0].rows) == 2 for s in page.sections)


@pytest.mark.parametrize("first", [0, 1])
def test_steps_that_count_within_an_epoch_go_on(write, first):
    rows = [{"epoch": e, "step": first + s, "reward": 0.1 * e + 0.01 * s} for e in range(3) for s in range(10)]
    run = read_log(write("log.jsonl", rows))
    assert run.trainings == ()
    assert run.step.tolist() == list(range(first, first + 30))
    np.testing.assert_allclose(run.reward, [row["reward"] for row in rows])
    again = [*rows, *[row | {"reward": 0.9} for row in rows]]  # a training whose epochs begin anew as well
    assert [x[:2] for x in names(read_log(write("log.jsonl", again)))][-1][1] <= 30


def test_a_training_within_a_run_of_a_chart(write):
    steps = [*range(1, 11), *range(1, 13)]
    text = "Step,a - train/reward,b - train/reward\n" + "".join(f"{s},0.5,{s / 100 + i}\n" for i, s in enumerate(steps))
    path = write("chart.csv", text)
    assert [len(read_log(path, run=f"b/training {i}").step) for i in (1, 2)] == [10, 12]
    assert [len(read_log(path, run="b").step), read_log(path, run="b").trainings[1].taken] == [12, True]


def test_the_command_line_takes_any(write):
    path = write("run.log", printed(*training(20), CLOSING, *training(30, 1), CLOSING))
    shown = call("inspect", path, "--run", "training 1", "--details").out
    assert "20 rows" in shown
    assert "Trainings in the file" in shown
    assert "--run 'training 2' takes another" in " ".join(
        call("diagnose", path, "--run", "training 1", "--details").out.split()
    )
