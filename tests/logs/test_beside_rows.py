"""What stands beside the rows: the list of which they have the mean, evaluations without steps, planned steps."""

import numpy as np
import pytest

import bayes_grpo as bg
from bayes_grpo.logs.run import Run
from tests.helpers import shown
from tests.logs.log_samples import assert_read

GROUP = (0.1, 0.7, 0.2, 0.2)


def of_groups(name: str, mean: str, offset: float = 0.0, **more) -> Run:
    groups = [np.array(GROUP) + 0.01 * i for i in range(1, 9)]
    return bg.read_log(
        [
            {"step": i, mean: round(float(g.mean()) + offset, 3), name: g.tolist(), **more}
            for i, g in enumerate(groups, 1)
        ]
    )


@pytest.mark.parametrize(("name", "mean"), [("scores", "mean_score"), ("group_rewards", "reward")])
def test_a_list_beside_its_mean_is_the_group(name, mean):
    run = of_groups(name, mean, task="sort")
    assert_read(run, reward=0.3 + 0.01 * run.step, signals={"reward_std": np.full(8, np.std(GROUP))})
    assert run.settings.group_size.value == len(GROUP)
    assert name not in run.unused


def test_a_list_of_a_batch_or_of_something_else_is_no_group():
    assert of_groups("scores", "mean_score").settings.group_size.value is None
    other = of_groups("scores", "mean_score", offset=0.2, task="sort")
    assert "reward_std" not in other.signals
    assert other.unused["scores"] == "no number in it"


def columns_with(n: int, name: str) -> dict[str, list[float]]:
    rewards = [0.2 + 0.01 * i for i in range(1, 41)]
    return {"steps": list(range(1, 41)), "train_reward": rewards, name: [0.1 * i for i in range(1, n + 1)]}


def test_evaluations_without_steps_are_spread_over_the_rows(write):
    run = bg.read_log(write("a.json", columns_with(8, "val_reward")))
    assert_read(run, reward=0.2 + 0.01 * run.step, evals={5.0 * i: 0.1 * i for i in range(1, 9)})
    assert run.cautions == ("no steps are given for val_reward (8 values): spread evenly, one in every 5 rows",)


@pytest.mark.parametrize(("n", "name"), [(7, "val_reward"), (8, "weights"), (2, "val_reward")])
def test_other_lists_without_steps_are_left_out(write, n, name):
    run = bg.read_log(write("a.json", columns_with(n, name)))
    assert not run.has_eval
    assert run.cautions == (f"left out because no steps are given for their number of values: {name} ({n} values)",)


@pytest.mark.parametrize(
    ("planned", "step", "total"), [(90, None, 90), (20, None, None), (90, "step", None), (90, "batch", 90)]
)
def test_batches_that_a_file_plans_are_its_steps(write, planned, step, total):
    rows = [{"mean_reward": 0.01 * i} | ({step: i} if step else {}) for i in range(1, 31)]
    run = bg.read_log(write("a.json", {"n_batches": planned, "curve": rows}))
    assert run.settings.total_steps.value == total


@pytest.mark.parametrize(("done", "total"), [(32, 400), (61, None)])
def test_a_bar_plans_the_steps_where_a_few_rows_are_missing(write, done, total):
    bars = [f"  5%|▍    | {i}/400 [03:36<1:12:33,  6.35s/it]" for i in range(done + 1)]
    rows = [f"{{'reward': {0.2 + 0.01 * i:.2f}, 'loss': 0.1}}" for i in range(30)]
    run = bg.read_log(write("a.log", "\n".join([bars[0], *rows, *bars[1:]])))
    assert run.settings.total_steps.value == total


def test_what_a_column_may_be_stands_on_the_first_screen():
    rows = [{"step": i, "reward": 0.01 * i, "policy_kl": 0.1 * i, "gen_length_mean": 9.0} for i in range(1, 31)]
    run = bg.read_log(rows)
    assert run.keys["completion_length"] == "gen_length_mean"
    assert "Maybe: --column kl=policy_kl" in shown.text_of(run, 200, details=False)
