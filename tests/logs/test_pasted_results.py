"""Pasted results of a few steps: a line for each metric, parts in a table of their own, rows that were cut off."""

import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.run import Caution
from tests.logs.log_samples import assert_read

REWARD = [0.2, 0.35, 0.3, 0.5]


def boxed(step: int, reward: float) -> str:
    cells = (
        f"│ rollout/reward │ {reward:.4e} │ ppo_actor/update/grad_norm │ {step + 1:.4e} │\n├──────┼──────┼───┼───┤\n"
        f"│ ppo_actor/update/entropy/avg │ 2.1e-01 │ ppo_actor/n_seqs │ 6.4e+01 │"
    )
    done = f"(AReaL) 20260725-13:51:09.653 StatsLogger INFO: Epoch 1/2 Step {step}/23 Train step {step}/46 done."
    return f"{done}\n╒══════╤══════╤══════╤══════╕\n{cells}\n╘══════╧══════╧══════╧══════╛"


def test_boxes_of_names_and_numbers_in_turn_below_a_step_that_is_done(write):
    text = "\n".join(boxed(i, r) for i, r in enumerate(REWARD, 1))
    run = read_log(write("a.log", text))
    assert_read(run, step=[1, 2, 3, 4], reward=REWARD, signals={"grad_norm": [2, 3, 4, 5], "entropy": [0.21] * 4})
    assert run.settings.total_steps.value == 46


def test_values_on_lines_of_their_own_with_a_time_and_a_prose_heading(write):
    text = (
        "### run 11 (2026-05-01) — RUNNING, REWARD LANDED\n\nStep 1:\n\n"
        "04:23:46  reward/avg_pass_at_5: 0.96\n          reward/avg_raw_reward: 0.93\n          "
        "reward/mean_positive_reward: 0.93\n"
    )
    assert_read(read_log(write("a.txt", text)), reward=[0.93], keys={"reward": "reward/avg_raw_reward"})


def test_how_long_rewards_took_is_no_reward(write):
    text = (
        "'timing/step': '286.05', 'timing/generate': '27.65', 'timing/fwd_values_reward': '47.40'\n"
        "reward/avg_pass_at_4: 0.6, reward/avg_raw_reward: -0.06, reward/mean_positive_reward: 0.4\n"
    )
    assert_read(read_log(write("a.txt", text)), reward=[-0.06], keys={"reward": "reward/avg_raw_reward"})


@pytest.mark.parametrize("key", ["cal_adv_and_returns", "compute_reward", "calculate_rewards"])
def test_a_step_of_the_computation_is_no_reward(write, key):
    table = f"├── Metric Table ──┤\n│ Global Step:    1/50 │ Progress: │\n│actor/run_training=62.6  │{key}=0.0054  │\n"
    with pytest.raises(LogReadError):
        read_log(write("a.txt", f"{table}│ Step Time: 90.5s │\n"))


def test_a_list_of_zeros_and_ones_alone_is_one_step(write):
    run = read_log(write("a.txt", "accuracy rewards: [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]\n--------\n"))
    assert_read(run, "the completions of one step", reward=[0.375])
    series = read_log(write("b.txt", "accuracy rewards: [0.0, 0.5, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]\n"))
    assert_read(series, reward=[0, 0.5, 0, 1, 1, 0, 0, 0])


def test_statistics_named_in_parentheses_below_a_ruled_title_with_its_step(write):
    blocks = (
        f"===== RANK(0): Core Metrics (Step: {i}) =====\n\n--- Overall ---\nStep Time      : 90.5 s\n"
        f"Critic Rewards (Mean/Min/Max): {r} / 0.000 / 1.000\nResponse Length (Mean/Max)  : 23{i}.0 / 256\n"
        for i, r in enumerate(REWARD, 1)
    )
    run = read_log(write("a.txt", "\n".join(blocks)))
    assert_read(run, step=[1, 2, 3, 4], reward=REWARD, signals={"completion_length": [231, 232, 233, 234]})


def test_tokens_of_completions_and_success_in_a_table(write):
    rows = "".join(f"  | {i} | {r} | {460 + i} | {r / 2} | 0.2{i} |\n" for i, r in enumerate(REWARD))
    names = "  | step | mean reward | mean completion tokens | success | jaccard |\n  |---|---|---|---|---|\n"
    run = read_log(write("a.md", f"- It passed:\n\n{names}{rows}"))
    lengths, successes = [460, 461, 462, 463], [r / 2 for r in REWARD]
    assert_read(run, reward=REWARD, signals={"completion_length": lengths, "accuracy": successes})
    assert not run.suggested


def test_a_key_is_not_offered_for_the_signal_of_its_own_name(write):
    rows = '{"step": 1, "reward": 0.6, "kl": 0.0, "loss": 0.1}\n{"reward": 0.5, "kl": 0.5, "loss": 0.2}\n'
    run = read_log(write("a.jsonl", rows))
    assert "kl" not in run.signals
    assert "kl" not in run.suggested


def test_numbers_between_backticks_below_steps_that_are_completed(write):
    notes = "".join(
        f"- Step {i} completed:\n  - generate `47.{i}s`; raw reward `{r}`, pass@4 `0.9`\n  - it went on at `16:0{i}`.\n"
        for i, r in enumerate(REWARD, 1)
    )
    assert_read(read_log(write("a.md", notes)), step=[1, 2, 3, 4], reward=REWARD, keys={"reward": "raw reward"})


def test_a_bar_of_minibatches_with_short_names_is_a_step(write):
    bars = "".join(
        f"Train epoch [1/1]: {50 * i}%|███| {i}/2 [00:0{i}<00:01, 1.5s/it, pg=0.1, rm={r + i / 10:.1f}, ret=-0.1, "
        f"glen={100 * i}, tlen=264, kl=0.02, act_lr=1e-6]\n"
        for r in (0.1, 0.3)
        for i in (1, 2)
    )
    run = read_log(write("a.log", bars))
    assert_read(run, reward=[0.25, 0.45], signals={"completion_length": [150, 150], "kl": [0.02, 0.02]})


def test_the_middle_of_a_range_is_a_caution(write):
    table = "| Step | Train reward |\n|---|---|\n| 0 | ~ -0.4 |\n| 5 | ~ 0.1 |\n| 40 | ~ +0.5 to +0.7 |\n"
    run = read_log(write("a.md", table))
    assert_read(run, reward=[-0.4, 0.1, 0.6])
    assert any(isinstance(note, Caution) and "the middle is read" in note for note in run.notes)


RESULTS = "The gate ended:\n\n- Job: `3086`\n- Step time: 370.57 seconds\n- Mean length: 6,064.03 tokens\n"


def test_a_list_of_the_values_of_one_step(write):
    text = f"{RESULTS}- Throughput: 328.75 tokens/s/GPU\n- Reward: 0.65\n- KL: 0.0056\n"
    assert_read(read_log(write("a.md", text)), reward=[0.65], signals={"kl": [0.0056]})
    with pytest.raises(LogReadError):
        read_log(write("b.md", f"{RESULTS}- Best reward of others: 0.65\n- KL: 0.0056\n- Loss: 0.1\n"))


def test_a_table_of_one_value_for_each_metric(write):
    rows = "| reward_mean | 0.188 |\n| best_action_reward | 0.9 |\n| entropy | 2.06 |\n| grad_norm | 1.47 |\n"
    run = read_log(write("a.md", f"Means:\n\n| Metric | Value |\n|---|---:|\n{rows}"))
    assert_read(run, "has one value", reward=[0.188], signals={"entropy": [2.06], "grad_norm": [1.47]})


def test_a_row_of_rewards_in_columns_without_steps_is_named(write):
    text = "| metric | before | after |\n|---|---|---|\n| reward | 0.6 | 0.39 |\n| kl | 0.003 | 0.24 |\n"
    with pytest.raises(LogReadError, match=r"found a table with a row 'reward' in columns that name no step"):
        read_log(write("a.md", text))


STEPS = "\n".join(f"| {10 * i} | {r} | 0.2 |" for i, r in enumerate(REWARD))
PARTS = "\n".join(f"| {10 * i} | 0.5 | {r / 2} |" for i, r in enumerate(REWARD))


def test_parts_of_the_reward_in_a_table_of_their_own(write):
    whole = f"| Step | Mean Reward | Std |\n|---|---|---|\n{STEPS}"
    parts = f"### Components\n\n| Step | Format | Bond Score |\n|---|---|---|\n{PARTS}"
    run = read_log(write("a.md", f"{whole}\n\nIt oscillates.\n\n{parts}\n"))
    assert_read(run, "other table on the same steps", step=[0, 10, 20, 30], reward=REWARD)
    other = parts.replace("| 30 |", "| 40 |")
    with pytest.raises(LogReadError, match="found 2"):
        read_log(write("b.md", f"{whole}\n\nIt oscillates.\n\n{other}\n"))


def test_a_table_of_signals_whose_reward_has_another_name(write):
    rows = "\n".join(f"| {i} | {r} | 0.9 | {2 - r} | 0.00{i} |" for i, r in enumerate(REWARD, 1))
    path = write("a.md", f"Done.\n\n| step | answer | format | entropy | KL |\n|---|---|---|---|---|\n{rows}\n")
    with pytest.raises(LogReadError, match=r"column.*reward.*if it is among answer, format"):
        read_log(path)
    assert_read(
        read_log(path, columns={"reward": "answer"}), reward=REWARD, signals={"kl": [0.001, 0.002, 0.003, 0.004]}
    )


def test_a_summary_with_a_count_beside_lines_with_steps(write):
    lines = "\n".join(f"Step {2 * i}:  reward=-3.0  reward_std=0.0  ← flat" for i in range(1, 4))
    run = read_log(write("a.txt", f"{lines}\n\nMean reward: +7.58  |  Slope: +0.055  |  Collapsed steps: 0/30\n"))
    assert_read(run, step=[2, 4, 6], reward=[-3.0] * 3)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("done\n\n{'loss': -0.0684, 'grad_nor", "loss but no reward"),
        ("it failed:\n'grad_norm': '0'   → nothing\n'loss': '0.0005'   → only KL\n", "grad_norm, loss but no reward"),
    ],
)
def test_a_row_that_was_cut_before_its_reward_is_named(write, text, keys):
    with pytest.raises(LogReadError, match=f"whole rows of metrics, found {keys}"):
        read_log(write("a.txt", text))


def test_no_ratio_no_time_and_no_refusal_is_offered_as_a_held_out_reward(write):
    keys = (
        "val/ratio",
        "val/clipfrac_avg",
        "val/num_tokens",
        "eval/runtime",
        "heldout_false_refuse_rate",
        "bench_exact",
    )
    rows = [{"step": i, "reward": r, **dict.fromkeys(keys, r)} for i, r in enumerate(REWARD)]
    run = read_log(rows)
    assert run.suggested["heldout"] == ("bench_exact",)


def test_groups_without_a_gradient_are_not_offered_as_its_norm(write):
    run = read_log([{"step": i, "reward": r, "groups with no gradient": i} for i, r in enumerate(REWARD)])
    assert "grad_norm" not in run.suggested


def test_blocks_of_means_with_their_standard_deviations(write):
    block = (
        "{line}\nIter {step}:\n{line}\nLoss: -0.002\nTotal Rewards:  μ={r}, σ=0.3\nGroup Rewards:  μ={r}, σ=0.18\n"
        "KL Divergence: 0.003\nSpeed: 0.12 it/s, 85.1 tok/s\n\nFunctions:\n  • accuracy_reward: μ=0.1, σ=0.4, cov=9%"
    )
    text = "\n".join(block.format(line="=" * 80, step=10 * i, r=r) for i, r in enumerate(REWARD, 1))
    run = read_log(write("a.log", text))
    assert_read(run, step=[10, 20, 30, 40], reward=REWARD, signals={"kl": 0.003, "reward_std": 0.18})


def test_the_step_of_roll_is_its_own(write):
    row = 'metrics: {{"critic/score/mean": {}, "critic/entropy/mean": 0.4, "actor/kl_loss": 0.1, "system/step": {}}}'
    run = read_log(write("a.log", "\n".join(row.format(r, i) for i, r in enumerate(REWARD, 7))))
    assert_read(run, step=[7, 8, 9, 10], reward=REWARD)


def test_steps_of_a_bar_that_counts_the_batches_of_a_training(write):
    bar = (
        "Training Batches Processed:  1%|▏         | {}/804 [58:25<62:28:36, 283.99s/it]2026-06-15 | INFO | Finished\n"
    )
    other = "Generating Trajectories: 100%|██████████| 128/128 [00:45<00:00,  2.84it/s]\n"
    rewards = "reward/avg_pass_at_4: 0.7, reward/avg_raw_reward: 0.{}\n'batch_num_seq': '128'\n"
    text = [bar.format(i) + other + rewards.format(i) for i in (12, 13, 15)]
    run = read_log(write("a.txt", "".join(text)))
    assert_read(run, step=[12, 13, 15], reward=[0.12, 0.13, 0.15], settings={"total_steps": (804, "logged")})
    falling = read_log(write("b.txt", "".join(reversed(text))))
    assert_read(falling, step=[1, 2, 3], reward=[0.15, 0.13, 0.12], settings={"total_steps": None})


def test_a_panel_of_metrics_by_their_kind(write):
    bar = "─" * 40
    panel = (
        f"╭{bar} Metrics {bar}╮\n"
        "│  loss       policy_avg: 0.01 | kl_avg: 0.02                            │\n"
        "│  objective  scores: 0.{0} | verifiable_correct_rate: 0.40 |              │\n"
        "│             verifiable_reward: 4.{0}                                     │\n"
        "│  other      episode: 512 | training_step: {0} | epoch: 0.01 | lr: 5.00e-07 │\n"
        "│  val        sequence_lengths: 812.{0} | stop_rate: 0.98                  │\n"
        f"╰{bar}─────────{bar}╯\n"
    )
    text = "".join(f"2026-01-01 - INFO - packing\n{panel.replace('{0}', str(i))}" for i in (2, 3, 4))
    run = read_log(write("a.txt", text))
    assert_read(run, step=[2, 3, 4], keys={"reward": "objective/verifiable_reward"}, reward=[4.2, 4.3, 4.4])
    assert run.signals["completion_length"].tolist() == [812.2, 812.3, 812.4]
    assert read_log(write("b.txt", panel.replace("{0}", "7"))).step.tolist() == [7]
