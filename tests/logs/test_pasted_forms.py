"""Forms in which people paste a table or a part of a log: steps in words, texts as Python prints them, bullets."""

from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

REWARD = [0.2, 0.35, 0.3, 0.5]


def table(names: str, *rows: str) -> str:
    width = names.count("|") - 1
    return "\n".join(["Results:", "", names, "|---" * width + "|", *rows, "", "And so on."])


def test_a_reward_in_the_lines_of_a_logger_that_count_nothing(write):
    time = "(entrypoint pid=8455) 2026-03-26 15:07:10.801 | INFO     | skyrl.train.trainer:postprocess_outputs:776 - "
    said = f"{time}Finished: 'generate', time cost: 78.47s"
    lines = [x for r in REWARD[:2] for x in (said, f"{time}reward/avg_pass_at_5: 0.65, reward/avg_raw_reward: {r}")]
    run = read_log(write("a.txt", "\n".join(lines)))
    assert_read(run, step=[1, 2], reward=REWARD[:2], keys={"reward": "reward/avg_raw_reward"})
