"""What whole logs of scripts of one's own hold beside their reward: parts, evaluations, runs, steps."""

import json

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log

STEPS = range(1, 9)


def rows(whole="reward_mean", /, **columns):
    """Eight rows with a mean reward and other columns, each a number or values by step."""
    found = [{k: x if not isinstance(x, list) else x[s - 1] for k, x in columns.items()} for s in STEPS]
    return [{"step": s, whole: 0.2 + 0.05 * s, **row} for s, row in zip(STEPS, found, strict=True)]


@pytest.mark.parametrize(
    ("total", "columns", "parts"),
    [
        ("reward_mean", {"fp_reward": 0.5, "task_reward": 0.3}, {"fp": "fp_reward", "task": "task_reward"}),
        ("mean_reward", {"fp_reward": 0.5, "mean_question_reward": 0.3}, {}),
        ("mean_reward", {"best_reward": 0.5, "max_reward": 1.0, "window_reward": 0.4, "ema_reward": 0.4}, {}),
        ("reward_mean", {"fp_reward": 0.5, "rare_reward": [0.5, *[None] * 7]}, {}),
        ("reward_mean", {"verifier_reward_mean": 0.0}, {"verifier": "verifier_reward_mean"}),
        ("reward_mean", {"copy_penalty_mean": 0.1}, {"copy_penalty": "-copy_penalty_mean"}),
        ("reward_mean", {"copy_penalty_mean": -0.1}, {"copy_penalty": "copy_penalty_mean"}),
    ],
)
def test_rewards_and_penalties_beside_a_mean_reward_are_its_parts(total, columns, parts):
    found = read_log(rows(total, **columns))
    assert found.part_keys == {f"rewards/{name}": key for name, key in parts.items()}
    assert found.keys["reward"] == total


def test_the_size_of_a_penalty_is_read_below_zero():
    assert read_log(rows(copy_penalty_mean=[0.1 * s for s in STEPS])).components["copy_penalty"][-1] == -0.8


@pytest.mark.parametrize(
    ("columns", "kl"),
    [({"loss": 0.2, "loss_pg": 0.1, "loss_kl": 0.1}, "penalty"), ({"loss": 0.2, "loss_kl": 0.1}, None)],
)
def test_the_divergence_beside_the_other_term_of_the_loss_is_its_own_term(columns, kl):
    assert read_log(rows(**columns)).definitions.get("kl") == kl


def every(n, values):
    """Values in every nth row."""
    return [values[s // n - 1] if s % n == 0 else None for s in STEPS]


HALF, RATE, HITS, UNEVEN = [30, 31, 33, 36], [0.5, 0.6, 0.6, 0.9], [0.5, 31 / 60, 0.55, 0.6], (2, 4, 5)


@pytest.mark.parametrize(
    ("columns", "heldout"),
    [
        (
            {"accuracy": every(2, RATE), "hits": every(2, HITS), "n_correct": every(2, HALF)},
            "hits",
        ),
        ({"accuracy": every(2, RATE), "other": every(2, HALF)}, "accuracy"),
        ({"accuracy": every(2, RATE)}, None),
        ({"accuracy": every(1, [0.1 * s for s in STEPS]), "other": every(2, HALF), "more": every(2, HALF)}, None),
        ({k: [0.5 if s in UNEVEN else None for s in STEPS] for k in ("accuracy", "other", "more")}, None),
    ],
)
def test_an_evaluation_in_seldom_rows_is_known_by_what_it_counts(columns, heldout):
    size = [60 if s in UNEVEN else None for s in STEPS] if "more" in columns else every(2, [60] * 4)
    assert read_log(rows("mean_reward", total=size, **columns)).keys.get("eval_reward") == heldout


@pytest.mark.parametrize(
    ("groups", "skipped", "share"),
    [([12, 18] * 4, [8, 2] * 4, 0.4), (8, [4, 2] * 4, 0.5), ([12, 18] * 4, 3, None)],
)
def test_skipped_groups_are_those_without_variance(groups, skipped, share):
    found = read_log(rows(n_groups=groups, skipped_groups=skipped)).signals.get("frac_reward_zero_std", [None])
    assert found[0] == share


RISING, OTHER = [0.1 * s for s in STEPS], [0.05 * s for s in STEPS]


def summary(folder, lists):
    """A file of JSON with lists of numbers and the number of steps."""
    log = folder / "summary.json"
    log.write_text(json.dumps(lists | {"training_steps": 90}))
    return log


@pytest.mark.parametrize(
    ("lists", "one", "other"),
    [
        ({"reward_log_v1": RISING, "reward_log_v2": OTHER, "step_log": [10 * s for s in STEPS]}, "v1", "v2"),
        ({"rewards_seed1": RISING, "rewards_seed2": OTHER}, "seed1", "seed2"),
        ({"reward_a": RISING, "reward_b": OTHER, "loss_a": RISING, "loss_b": OTHER}, "a", "b"),
    ],
)
def test_lists_of_rewards_that_differ_by_the_end_of_a_run_are_runs(tmp_path, lists, one, other):
    log = summary(tmp_path, lists)
    with pytest.raises(LogReadError, match=f"expected one run, found 2: {one}, {other}"):
        read_log(log)
    run = read_log(log, run=other)
    assert list(run.reward) == OTHER
    assert run.settings.total_steps.value == 90
    assert run.step[-1] == lists.get("step_log", STEPS)[-1]


def test_lists_of_rewards_without_more_are_no_runs(tmp_path):
    with pytest.raises(LogReadError, match="several that differ: reward_a, reward_b"):
        read_log(summary(tmp_path, {"reward_a": RISING, "reward_b": OTHER}))
    assert (
        list(read_log(summary(tmp_path, {"reward": RISING, "reward_v1": OTHER, "reward_v2": OTHER})).reward) == RISING
    )


@pytest.mark.parametrize(("step", "planned"), [("global_step", 100), ("step", None)])
def test_planned_steps_beside_the_step_of_the_training(step, planned):
    found = read_log([{step: s, "reward": 0.1 * s, "max_steps": 100} for s in STEPS])
    assert found.settings.total_steps.value == planned


@pytest.mark.parametrize(
    ("printed", "falls", "steps"),
    [
        ([20, 20, 20, 20], 0, [5, 10, 15, 20]),
        ([20, 20, 20, 20, 30, 30], 0, [5, 10, 15, 20, 25, 30]),
        ([22, 22, 22, 22], 5, [5, 10, 15, 20]),
        ([40, 40, 40, 40], 5, [1, 2, 3, 4]),
        ([22, 22, 22, 22], 0, [1, 2, 3, 4]),
    ],
)
def test_rows_that_are_printed_late_have_the_step_at_which_their_block_ends(tmp_path, printed, falls, steps):
    bar, text, shown = " 1%|x| {}/300 [00:01<00:02, 5.00s/it]\r", "", 0
    for k, at in enumerate(printed, 1):
        text += bar.format(at) if at != shown else ""
        text += f"{ {'loss': 0.1, 'reward': 0.1 * k, 'learning_rate': 1e-5 * (1 - falls * k / 300)} }\n"
        shown = at
    log = tmp_path / "train.log"
    log.write_text(text + bar.format(100))
    run = read_log(log)
    assert list(run.step) == steps
    assert any("not known" in note for note in run.notes) == (steps[-1] == 4)


VERL = "step:{0} - critic/score/mean:0.{0} - actor/{1} - actor/kl_loss:0.001\n"
DICT = "[Step {0}0] Generated Reasoning: A user asks.\n\n{{'loss': 0.1, 'reward': 0.{0}, 'kl': 0.2}}\n\n"
BAR = "Training Batches Processed:  1%|x| {0}/80 [00:01<00:02, 5.00s/it]\nreward/avg_raw_reward: 0.{0}\n"


@pytest.mark.parametrize(
    ("line", "name", "values"),
    [
        (VERL.format("{0}", "lr:0.000"), "learning_rate", None),
        (VERL.format("{0}", "lr:0.001"), "learning_rate", 0.001),
        (VERL.format("{0}", "lr(1e-4):0.010"), "learning_rate", 1e-6),
        (DICT, "step", 10),
        (BAR, "step", 2),
    ],
)
def test_a_console_in_words_of_its_trainer(tmp_path, line, name, values):
    log = tmp_path / "train.log"
    log.write_text("".join(line.format(i) for i in range(1, 5)))
    run = read_log(log)
    assert (run.step if name == "step" else run.signals.get(name, [None]))[0] == pytest.approx(values)
    assert any("after rounding" in note for note in run.notes) == (values is None)


def test_the_refusal_of_a_console_of_verl_names_its_completions(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(
        "(TaskRunner pid=7) [score] -0.9\n(TaskRunner pid=7) Dumped generations to out/rollout_data/26.jsonl\n"
    )
    with pytest.raises(LogReadError, match="bayes-grpo rollouts out/rollout_data"):
        read_log(log)


@pytest.mark.parametrize(
    ("key", "column"),
    [("pass@4", None), ("pass@1", "accuracy"), ("frac hit 512 limit", "completions_clipped_ratio")],
)
def test_what_is_suggested_for_a_share_under_a_name_of_its_own(key, column):
    assert read_log(rows(**{f"the {key}": [0.1 * s for s in STEPS]})).suggested == (
        {column: (f"the {key}",)} if column else {}
    )


@pytest.mark.parametrize(
    ("steps", "end", "last"),
    [
        ((1, 2, 3, 4), "{'loss': 0.2, 'reward': 0.9,", 5),
        ((10, 20, 30, 40), "{'loss': 0.2, 'reward': 0.9, 'st", 50),
        ((10, 20, 35, 40), "{'loss': 0.2, 'reward': 0.9,", 40),
        ((10, 20, 30, 40), "{'reward': 0.9,", 40),
    ],
)
def test_a_last_row_that_ends_before_its_step_is_placed_where_the_others_are_equally_apart(tmp_path, steps, end, last):
    log = tmp_path / "train.log"
    log.write_text("".join(f"{ {'loss': 0.1, 'reward': 0.5, 'step': s} }\n" for s in steps) + end)
    run = read_log(log)
    assert run.step[-1] == last
    assert any("ends before its step" in note for note in run.notes) == (last > steps[-1])


TABLE = "{0}\n\n| step | reward | test d4 / d8 |\n|---|---|---|\n| 1 | 0.1 | 0.5 / 0.3 |\n| 2 | {1} | 0.6 / 0.2 |\n\n"


def test_tables_of_a_page_are_called_by_the_headings_right_above_them(tmp_path):
    page = tmp_path / "notes.md"
    page.write_text(TABLE.format("**Run A:**", 0.2) + TABLE.format("## Run B (beta 0)", 0.3))
    with pytest.raises(LogReadError, match=r"found 2: Run A \(.*, Run B \(beta 0\) \("):
        read_log(page)
    assert list(read_log(page, run="Run B").reward) == [0.1, 0.3]


@pytest.mark.parametrize(("key", "last"), [("test d4", 0.6), ("test d8", 0.2)])
def test_a_cell_that_lists_as_many_numbers_as_its_column_has_names(tmp_path, key, last):
    page = tmp_path / "notes.md"
    page.write_text(TABLE.format("", 0.2))
    assert read_log(page, columns={"heldout": key}).eval_reward[-1] == last
