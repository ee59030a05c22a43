"""Forms in which people paste a table or a part of a log: steps in words, texts as Python prints them, bullets."""

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

REWARD = [0.2, 0.35, 0.3, 0.5]


def table(names: str, *rows: str) -> str:
    width = names.count("|") - 1
    return "\n".join(["Results:", "", names, "|---" * width + "|", *rows, "", "And so on."])


def test_a_refusal_describes_other_tables_and_what_rows_without_a_reward_show(write):
    rows = table("| calls | proxy RM | acc |", "| 0–14 | 1.854 | 0.904 |", "| 30–44 | 3.841 | 0.504 |")
    with pytest.raises(LogReadError, match=r"a table without rewards of 2 rows \(calls, proxy RM, acc\)"):
        read_log(write("a.md", rows))
    with pytest.raises(LogReadError, match=r"a table without steps of 1 row \(method, reward\)"):
        read_log(write("b.md", table("| method | reward |", "| a | 0.5 |")))
    parts = "step,format mean,answer mean,clipped_ratio\n1,0.03,0,0.91\n2,0.02,0.1,0.88\n"
    with pytest.raises(
        LogReadError, match=r"the last shows completions clipped ratio 0.88; .* among format mean, answer"
    ):
        read_log(write("c.csv", parts))


def test_dictionaries_that_share_no_key_are_one_row(write):
    parts = [
        "    'train/ppo_kl': 6e-12,\n    'train/grad_norm': 0.5\n}",
        "{\n 'rollout/step': 3,\n 'rollout/raw_reward': 0.375\n}",
    ]
    run = read_log(write("a.md", "\n```\nand\n```python\n".join(parts)))
    assert_read(run, step=[3], reward=[0.375], signals={"grad_norm": 0.5})


def test_a_reward_in_the_lines_of_a_logger_that_count_nothing(write):
    time = "(entrypoint pid=8455) 2026-03-26 15:07:10.801 | INFO     | skyrl.train.trainer:postprocess_outputs:776 - "
    said = f"{time}Finished: 'generate', time cost: 78.47s"
    lines = [x for r in REWARD[:2] for x in (said, f"{time}reward/avg_pass_at_5: 0.65, reward/avg_raw_reward: {r}")]
    run = read_log(write("a.txt", "\n".join(lines)))
    assert_read(run, step=[1, 2], reward=REWARD[:2], keys={"reward": "reward/avg_raw_reward"})
