"""Forms in which people paste a table or a part of a log: steps in words, texts as Python prints them, bullets."""

import json

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

REWARD = [0.2, 0.35, 0.3, 0.5]


def table(names: str, *rows: str) -> str:
    width = names.count("|") - 1
    return "\n".join(["Results:", "", names, "|---" * width + "|", *rows, "", "And so on."])


@pytest.mark.parametrize(
    ("name", "cells", "steps"),
    [
        ("Steps", ["0-50", "50-100", "100–150", "150 to 200"], [50, 100, 150, 200]),
        ("Step", ["1/40", "2/40", "3 / 40", "1,000/4,000"], [1, 2, 3, 1000]),
        ("구간", ["1–100", "101–200", "201–300", "301–400"], [100, 200, 300, 400]),
        ("区间", ["1~10", "11~20", "21~30", "31~40"], [10, 20, 30, 40]),
        ("Stage", ["**iter 0**", "iter 10 (peak)", "**GRPO iter 12**", "update 20"], [0, 10, 12, 20]),
        ("rollout", ["0", "1", "2", "3"], [0, 1, 2, 3]),
        ("Step", ["50k", "1.2M", "2M (final)", "3,000,000+"], [50e3, 1.2e6, 2e6, 3e6]),
        ("Steps", ["0-1M", "1M-2M", "2M–2.5M", "final 3,000,000"], [1e6, 2e6, 2.5e6, 3e6]),
    ],
)
def test_steps_as_people_write_them_in_a_table(write, name, cells, steps):
    rows = [f"| {cell} | **{r}** (ok) | 0.1 |" for cell, r in zip(cells, REWARD, strict=True)]
    rows.insert(0, "| before | — | — |")
    run = read_log(write("notes.md", table(f"| {name} | Mean Reward | KL |", *rows)))
    assert_read(run, step=steps, reward=REWARD, signals={"kl": 0.1})


def test_a_table_without_steps_in_its_cells_is_none(write):
    for cells in (["DPO", "GRPO", "PPO"], ["0.1", "0.2", "0.4"], ["iter 3", "iter 2", "iter 1"]):
        rows = [f"| {cell} | 0.{i} | 0.1 |" for i, cell in enumerate(cells, 1)]
        with pytest.raises(LogReadError, match="found no rewards"):
            read_log(write("notes.md", table("| method | reward | KL |", *rows)))


def test_a_table_of_one_row_is_one_where_no_other_is(write):
    one = table("| Step | Reward | KL |", "| 99/2000 | 0.975 | 0.1 |")
    assert_read(read_log(write("one.md", one)), step=[99], reward=[0.975])
    more = table("| Step | Reward |", *(f"| {i} | {r} |" for i, r in enumerate(REWARD, 1)))
    assert_read(read_log(write("both.md", f"{one}\n\n{more}")), reward=REWARD)


def test_the_last_row_of_a_table_that_was_cut_off_keeps_its_whole_cells(write):
    rows = [f"{i} | {r} | 300.5 | 0.1" for i, r in enumerate(REWARD, 1)]
    text = "\n".join(["```", "Step | reward | length | kl", "-- | -- | -- | --", *rows])[:-7]
    run = read_log(write("a.txt", text))
    assert_read(run, step=range(1, 5), reward=REWARD)
    assert np.isfinite(run.signals["kl"]).tolist() == [True] * 3 + [False]


def test_tables_in_east_asian_words(write):
    for names in ("| 단계 | 평균 보상 |", "| 步骤 | 奖励 |", "| ステップ | 平均報酬 |"):
        text = table(names, *(f"| {i} | {r} |" for i, r in enumerate(REWARD, 1)))
        assert_read(read_log(write("a.md", text)), step=range(1, 5), reward=REWARD)


def test_a_refusal_describes_a_table_without_rewards(write):
    rows = table("| rollout | length | seconds |", "| 0 | 14555 | 579 |", "| 1 | 13578 | 617 |")
    with pytest.raises(LogReadError, match=r"a table without rewards of 2 rows \(rollout, length, seconds\)"):
        read_log(write("a.md", rows))


def test_a_dictionary_that_python_prints_over_several_texts(write):
    ray = "\x1b[36m(Runner pid=7)\x1b[0m "
    lines = [
        f"{ray}(\"Initial metrics: {{'val-core/m/reward/mean@4': 0.25, \"",
        f"{ray} \"'val-aux/m/std@4': 0.5}}\")",
    ]
    assert_read(read_log(write("whole.log", "\n".join(lines))), evals={0: 0.25})
    part = [
        f"{ray} \"'val-aux/m/std@4': 0.4, \"",
        f"{ray} \"'val-core/m/reward/mean@4': 0.25, \"",
        f"{ray} \"'val-aux/m/be",
    ]
    assert_read(read_log(write("part.log", "\n".join(part))), evals={0: 0.25})


def test_lines_of_a_log_that_python_prints_in_a_list(write):
    lines = [line for i, r in enumerate(REWARD, 1) for line in (f"Step {i} | Reward: {r} | Time: 3s", f"got {i}")]
    assert_read(read_log(write("a.log", f"AssertionError: {lines}")), step=range(1, 5), reward=REWARD)


def test_a_dictionary_abridged_before_and_in_its_keys(write):
    rows = [
        f"rollout {i}: ... 'rollout/raw_reward': {r},\n     'rollout/truncated': 0.1\n"
        f"step {i}: {{'train/loss': 1e-07,\n      'train/grad_norm': 14.5}}"
        for i, r in enumerate(REWARD)
    ]
    run = read_log(write("a.md", "```text\n" + "\nsaved to .../x\n".join(rows)))
    assert_read(run, reward=REWARD, signals={"grad_norm": 14.5, "completions_clipped_ratio": 0.1})
    text = "\n".join(f'{{"step": {i}, ... "reward": {r}, "kl": 0.1, }}' for i, r in enumerate(REWARD, 1))
    assert_read(read_log(write("b.txt", f"it says\n{text}")), step=range(1, 5), reward=REWARD)


def test_records_of_a_program_are_no_json(write):
    rows = [json.dumps({"step": 10 * i, "reward": r}) for i, r in enumerate(REWARD, 1)]
    text = ",\n".join([*rows, "]\n\n# that was it\nLIMIT = 3"])
    assert_read(read_log(write("a.txt", text)), step=[10, 20, 30, 40], reward=REWARD)


def test_rows_below_the_bar_of_each_epoch(write):
    bar = "Epoch {0}: 100%|████| 200/200 [27:58<00:00,  8.39s/it]\nEpoch {0} means: {1}"
    text = "\n".join(bar.format(i, {"mean_reward": r, "loss": 0.1}) for i, r in enumerate(REWARD, 1))
    note = "the steps are those of progress bars of 200 each"
    assert_read(read_log(write("a.txt", text)), note, step=[200, 400, 600, 800], reward=REWARD)


def test_bullets_with_marks_of_code(write):
    bullets = "".join(
        f"- `step:{i}`\n  - `critic/rewards/mean={r}`\n  - `actor/grad_norm=0.5`,\n" for i, r in enumerate(REWARD)
    )
    run = read_log(write("a.md", f"Seen so far:\n\n{bullets}\nThen it stopped."))
    assert_read(run, reward=REWARD, signals={"grad_norm": 0.5})


def test_the_summary_that_wandb_prints(write):
    shown = [
        ("actor/grad_norm", "0.5 "),
        ("critic/rewards/mean", "0.25"),
        ("timing_s/reward", "2.1"),
        ("timing_s/gen", "9."),
    ]
    lines = [f"(Runner pid=1) wandb: {key:>30} {value}   " for key, value in shown]
    assert_read(read_log(write("a.txt", "\n".join(lines))), reward=[0.25], signals={"grad_norm": 0.5})
    rest = [line for line in lines if "critic" not in line] * 2
    with pytest.raises(LogReadError, match="found no rewards"):
        read_log(write("b.txt", "\n".join(rest)))


def test_a_line_of_verl_cut_at_both_ends(write):
    pairs = (
        "oss:np.float64(3.5) - actor/grad_norm:np.float64(0.75) - training/global_step:71 - critic/score/mean:0.5 - re"
    )
    assert_read(read_log(write("a.log", pairs)), step=[71], reward=[0.5], signals={"grad_norm": 0.75})


def test_few_rows_whose_parts_add_up_exactly(write):
    lines = [f"- Step {i}0: reward={r}, format_reward={r}, env_reward=0.000, KL=0.1" for i, r in enumerate(REWARD, 1)]
    run = read_log(write("a.md", "\n".join(lines[:2])))
    assert sorted(run.components) == ["env", "format"]


@pytest.mark.parametrize(
    ("key", "signal"),
    [
        ("length", "completion_length"),
        ("gen_len", "completion_length"),
        ("reference_kl", "kl"),
        ("zero_std%", "frac_reward_zero_std"),
    ],
)
def test_further_names_of_own_scripts(write, key, signal):
    rows = [json.dumps({"step": i, "reward": r, key: 0.5}) for i, r in enumerate(REWARD, 1)]
    assert_read(read_log(write("a.jsonl", "\n".join(rows))), keys={signal: key})


def test_pairs_in_one_bullet_and_with_a_remark(write):
    text = (
        "- step 1 metrics (no signal):\n  - `actor/grad_norm=0.5`, `actor/entropy=0.25`\n"
        "  - `critic/rewards/mean=0.125` — every group scored alike, so\n"
    )
    assert_read(read_log(write("a.md", text)), reward=[0.125], signals={"grad_norm": 0.5, "entropy": 0.25})


def test_names_of_signals_in_the_words_of_a_report(write):
    names = "| Step | Train reward | held-out reward | per-token KL | sampling entropy | Train truncation |"
    rows = [f"| {i} 000 | `{r}` | {r / 2} | 0.1 | 0.2 | `25.0%` |" for i, r in enumerate(REWARD, 1)]
    run = read_log(write("a.md", table(names, *rows)))
    signals = {"kl": 0.1, "entropy": 0.2, "completions_clipped_ratio": 0.25}
    assert_read(run, step=[1000, 2000, 3000, 4000], reward=REWARD, signals=signals)
    np.testing.assert_allclose(run.eval_reward, np.array(REWARD) / 2)


def test_marks_of_code_in_a_dictionary(write):
    text = "- so it says\n    {'loss': 0.1, 'grad_norm': `nan`, 'reward': -38.5, 'kl': `nan`}\n- and stops"
    assert_read(read_log(write("a.md", text)), "kl, grad_norm are logged, and no number in any row", reward=[-38.5])


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


def test_lines_of_pairs_without_a_step(write):
    lines = [f"Time 0{i}h 36m, Avg Reward {r} +- 0.1, Avg Accuracy 0.2{i}" for i, r in enumerate(REWARD)]
    run = read_log(write("a.txt", "\n".join(["so far:", *lines])))
    assert_read(run, step=range(1, 5), reward=REWARD, signals={"accuracy": [0.2, 0.21, 0.22, 0.23]})
    with pytest.raises(LogReadError, match="found no rewards"):
        read_log(write("b.txt", "\n".join([*lines, *("and a word, of no number" for _ in range(4))])))


def test_headings_of_epoch_and_step(write):
    blocks = (f'Epoch 1/3, Step {i}/100\nGenerated: "so"\nReward: {r}\nKL: 0.1\n' for i, r in enumerate(REWARD, 1))
    assert_read(read_log(write("a.txt", "\n".join(blocks))), step=range(1, 5), reward=REWARD, signals={"kl": 0.1})


def test_dictionaries_that_share_no_key_are_one_row(write):
    parts = [
        "    'train/ppo_kl': 6e-12,\n    'train/grad_norm': 0.5\n}",
        "{\n 'rollout/step': 3,\n 'rollout/raw_reward': 0.375\n}",
    ]
    run = read_log(write("a.md", "\n```\nand\n```python\n".join(parts)))
    assert_read(run, step=[3], reward=[0.375], signals={"grad_norm": 0.5})


def test_the_end_of_another_list_before_the_rows_is_another_training(write):
    rows = [json.dumps({"step": i, "reward": r}) for i, r in enumerate((0.9, *REWARD), 0)]
    text = ",\n".join([rows[0].replace('"step": 0', '"step": 80'), "]\nLOG = [\n" + rows[1], *rows[2:]])
    assert_read(read_log(write("a.txt", text)), step=range(1, 5), reward=REWARD)


def dictionary(reward: float) -> str:
    return str({"loss": "0.1", "grad_norm": "0.5", "reward": str(reward), "kl": "0.01"})


def test_bars_of_the_shell_of_a_notebook_stand_below_the_rows(write):
    warned = "Both `max_new_tokens` (=384) and `max_length`(=32768) seem to have been set."
    bars = [f" {i}% {i}/100 [0{i}:00<10:00, 60.5s/it]{warned}" for i in range(3, 8)]
    lines = [x for bar, r in zip(bars[1:], REWARD, strict=True) for x in (dictionary(r), bar)]
    run = read_log(write("a.txt", "\n".join([bars[0], *lines])))
    assert_read(run, "of the progress bar of 100, shown below each row", step=[4, 5, 6, 7], reward=REWARD)
    for end in ("", "\n{'train_runtime': '148.9', 'train_loss': '0.1'}\n 5% 5/100 [05:03<09:00, 60.5s/it]"):
        one = read_log(write("b.txt", "\n".join([bars[1], dictionary(0.5), bars[2] + end])))
        assert_read(one, "of the progress bar of 100, shown below the row", step=[5], reward=[0.5])


def test_bars_that_load_a_model_count_no_steps(write):
    bar = "Loading weights: 100%|████| 76/76 [00:00<00:00, 4600it/s]"
    run = read_log(write("a.txt", "\n".join([bar, *map(dictionary, REWARD)])))
    assert_read(run, step=range(1, 5), reward=REWARD)


def test_lines_of_verl_in_the_quotes_of_a_program(write):
    lines = [f'    "step:{i} - critic/score/mean:{r} - actor/grad_norm:0.5",' for i, r in enumerate(REWARD, 1)]
    run = read_log(write("a.txt", "\n".join(lines)))
    assert_read(run, step=range(1, 5), reward=REWARD, signals={"grad_norm": 0.5})


def test_a_reward_in_the_lines_of_a_logger_that_count_nothing(write):
    time = "(entrypoint pid=8455) 2026-03-26 15:07:10.801 | INFO     | skyrl.train.trainer:postprocess_outputs:776 - "
    said = f"{time}Finished: 'generate', time cost: 78.47s"
    lines = [x for r in REWARD[:2] for x in (said, f"{time}reward/avg_pass_at_5: 0.65, reward/avg_raw_reward: {r}")]
    run = read_log(write("a.txt", "\n".join(lines)))
    assert_read(run, step=[1, 2], reward=REWARD[:2], keys={"reward": "reward/avg_raw_reward"})


def test_a_table_that_is_folded(write):
    names = "| Step | Reward | KL | Step | Reward | KL |"
    rows = [f"| {i} | {REWARD[i - 1]} | 0.1 | {i + 2} | {REWARD[i + 1]} | 0.1 |" for i in (1, 2)]
    run = read_log(write("a.md", table(names, *rows)))
    assert_read(run, step=range(1, 5), reward=REWARD, signals={"kl": 0.1})


def test_a_row_that_was_cut_off_between_two_cells(write):
    rows = [f"| {i} | {r} | 300.5 | 0.1 |" for i, r in enumerate(REWARD, 1)]
    text = "\n".join(["| Step | Reward | length | KL |", "|---|---|---|---|", *rows]).removesuffix(" 300.5 | 0.1 |")
    assert_read(read_log(write("a.md", text)), step=range(1, 5), reward=REWARD)


def test_rows_cut_at_both_ends_are_two(write):
    text = (
        "'rewards/a/mean': 0.5, 'reward': 0.25, 'kl': 0.1}\n{'loss': 0.1, 'grad_norm': 0.5, 'rewards/b/mean': 0.1, 're"
    )
    run = read_log(write("a.txt", text))
    np.testing.assert_array_equal(run.reward, [0.25, np.nan])
    np.testing.assert_array_equal(run.signals["grad_norm"], [np.nan, 0.5])


def test_remarks_behind_the_values_of_a_dictionary(write):
    text = """
        {
          'loss': 0.001,              # of the policy, 'small'
          'completions/mean_length': 330,    # tokens
          'completions/clipped_ratio': 0.35, # cut off

          'reward': 0.7,              # mean {of all}
          'kl': 0.001,                # KL
                                      # above 5 it is a danger
          'global_step/max_steps': '300/2622'  # the comma is missing
          'remaining_time': '15h 30m'
          'train_speed(s/it)': 24.3   # seconds
        }"""
    run = read_log(write("a.txt", text))
    assert_read(run, step=[300], reward=[0.7], signals={"kl": 0.001, "completions_clipped_ratio": 0.35})


def test_columns_that_a_line_in_words_names(write):
    rows = [f" {10 * i}  {r}  {0.1 * i:.3f}  300.5" for i, r in enumerate(REWARD, 1)]
    rows[1] += "   <- the spike"
    text = "\n".join(["It fell (see above).", "", "Per step (step / reward / KL / mean_len):", "```", *rows, "```"])
    run = read_log(write("a.md", text))
    assert_read(run, step=[10, 20, 30, 40], reward=REWARD, signals={"kl": [0.1, 0.2, 0.3, 0.4]})


def test_remarks_behind_the_names_of_columns(write):
    names = "| Step | Train reward (self-play) | Test reward (against the base) | Reward (std) | KL (k3) |"
    rows = [f"| {i} | ~ {r} | ~ +{r} to +{r + 0.2:.1f} | 0.4 | 0.1 |" for i, r in enumerate([0.2, 0.4], 1)]
    run = read_log(write("a.md", table(names, *rows)))
    assert_read(run, reward=[0.2, 0.4], evals={1: 0.3, 2: 0.5}, signals={"kl": 0.1})


def test_evaluations_in_a_table_of_their_own(write):
    train = table("| Step | Reward | Entropy |", *(f"| {5 * i} | {r} | 0.5 |" for i, r in enumerate(REWARD, 1)))
    evaluations = ["| 0 (base model) | 7.5% |", "| 5–15 | 10% |", "| 20 (final) | 12.5% |"]
    found = {0: 0.075, 15: 0.1, 20: 0.125}
    for above, name in (("### Evaluation (greedy)", "Accuracy"), ("Results:", "Pass@1")):
        other = table(f"| Step | {name} |", *evaluations).replace("Results:", above)
        run = read_log(write("a.md", f"{other}\n\n### Training\n\n{train}"))
        assert_read(run, "3 rows of evaluations", step=[5, 10, 15, 20], reward=REWARD, evals=found)
    other = table("| Step | Accuracy |", *evaluations)
    assert_read(read_log(write("a.md", f"{other}\n\n{train}")), reward=REWARD, evals={})


def test_a_dictionary_in_the_comment_of_a_program(write):
    text = """
# (Actor pid=7) log_utils.py:54 - rollout 100: {'rollout/
# response_lengths': 152.3, 'rollout/rewards': 0.0,
# 'rollout/raw_reward': 0.723, 'rollout/sample_staleness': 1.5, ...}
#
# The raw reward is the mean.
"""
    run = read_log(write("a.py", text))
    assert_read(run, step=[100], reward=[0.723], signals={"completion_length": 152.3, "staleness": 1.5})


def test_lines_of_the_console_of_two_processes(write):
    lines = [
        "- Orchestrator: `Step 3 | Time: 98.02s | Reward: 0.4353 | Seq. Length: 2069.9 tokens/sample`",
        "- Trainer: `Step 3 | Time: 289.52s | Loss: -0.0036 | Entropy: 1.0338 | Mismatch KL: 0.3523`",
    ]
    run = read_log(write("a.md", "\n".join(lines)))
    found = {"completion_length": 2069.9, "engine_mismatch": 0.3523, "entropy": 1.0338}
    assert_read(run, step=[3], reward=[0.4353], signals=found)
    assert run.definitions["engine_mismatch"] == "k3"


def test_a_rate_of_success_beside_the_reward_is_the_accuracy(write):
    lines = [f"Step {i} | Loss: 0.1 | Avg Reward: {r} | Success Rate: 50%" for i, r in enumerate(REWARD, 1)]
    assert_read(read_log(write("a.txt", "\n".join(lines))), reward=REWARD, signals={"accuracy": 0.5})


def test_lines_that_count_examples(write):
    lines = [f"Ex {25 + i} | loss: -0.001 | reward: {r}    # partly right" for i, r in enumerate(REWARD)]
    text = "\n".join(["Look at the loss:", "```", *lines, "```", "It is not better when it is lower."])
    assert_read(read_log(write("a.md", text)), step=range(25, 29), reward=REWARD, signals={"loss": -0.001})
