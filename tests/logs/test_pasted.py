"""Logs as people paste them: bytes that a disk left, lines of a callback, a state at the end of JSON lines."""

import json

import numpy as np
import pandas as pd
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log
from tests.logs.log_samples import assert_read

LINES = [
    {"loss": 0.01 * i, "grad_norm": 0.3, "reward": round(0.2 + 0.01 * i, 4), "epoch": round(0.02 * i, 2)}
    for i in range(1, 25)
]
REWARD = [row["reward"] for row in LINES]


def pasted(lines) -> str:
    return "\n".join(map(str, lines))


def rows(n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(0)
    return [{"loss": 0.01, "reward": round(0.2 + 0.005 * i + 0.02 * rng.standard_normal(), 4)} for i in range(n)]


def rewards(n: int) -> list[float]:
    return [row["reward"] for row in rows(n)]


def test_nul_bytes_in_a_text_are_left_out_with_a_note(write):
    lines = [json.dumps({"step": i} | row) for i, row in enumerate(LINES, 1)]
    run = read_log(write("log.jsonl", "\n".join([*lines[:12], "\0" * 300, *lines[12:]])))
    assert_read(run, "300 NUL bytes left out", step=range(1, 25))


def test_dictionaries_beat_the_lines_that_a_callback_prints_beside_them(write):
    text = [f"{row}\n[STEP {i:3d}] loss=0.01 r_mean={row['reward']:+.1f}" for i, row in enumerate(LINES, 1)]
    assert_read(read_log(write("run.log", "\n".join(text))), reward=REWARD, format="console_dict")


def test_json_lines_that_close_with_a_state_are_json_lines(write):
    lines = [row | {"global_step/max_steps": f"{i}/40"} for i, row in enumerate(LINES, 1)]
    state = {"last_model_checkpoint": "x", "global_step": 40, "max_steps": 40, "log_history": []}
    assert len(read_log(write("logging.jsonl", [*lines, state])).reward) == 24


def test_a_total_of_environments_is_the_reward(write):
    rows = [
        {"step": i, "reward/all/mean": 0.7 - 0.01 * i, "reward/math/mean": 0.5, "reward/code/mean": 0.9 - 0.02 * i}
        for i in range(1, 25)
    ]
    run = read_log(write("log.jsonl", rows))
    assert run.keys["reward"] == "reward/all/mean"
    assert set(run.environments) == {"math", "code"}


def test_dictionaries_that_were_pasted_without_their_braces(write):
    for before, after in (("", ""), ("", "}"), ("  ", ",")):
        run = read_log(write("pasted.txt", pasted(before + str(row)[1:-1] + after for row in LINES)))
        assert_read(run, reward=REWARD, format="console_dict")
    with pytest.raises(LogReadError, match="no reader knows"):
        read_log(write("a.txt", pasted(f"'reward': {i}" for i in range(9))))


def test_a_closing_line_does_not_cost_the_step_axis(write):
    closing = {"train_runtime": 4.0, "train_steps_per_second": 0.04, "reward": 0.5, "epoch": 1.0}
    text = pasted([*LINES, closing, "100%|####| 480/480 [1:08:23<00:00,  4.46s/it]"])
    assert_read(read_log(write("run.log", text)), step=range(20, 500, 20), settings={"logging_window": 20})


def completions(**names):
    rng = np.random.default_rng(1)
    return [
        {name: f(group) for name, f in names.items()} | {"reward": {"format": 1.0, "total": float(rng.random() < 0.5)}}
        for group in range(12)
        for _ in range(4)
    ]


@pytest.mark.parametrize("names", [{"task_id": "task {}".format}, {"prompt_id": int}])
def test_one_line_a_completion_is_read_by_group_in_order(write, names):
    rows = completions(**names)
    means = np.reshape([row["reward"]["total"] for row in rows], (12, 4)).mean(axis=1)
    note = f"the 4 of each '{next(iter(names))}' are averaged"
    assert_read(read_log(write("log.jsonl", rows)), note, reward=means)


def test_one_line_a_completion_without_a_group_is_referred_to_rollouts(write):
    with pytest.raises(LogReadError, match=r"48 lines of one completion each .*bayes-grpo rollouts"):
        read_log(write("log.jsonl", completions(completion="text {}".format)))
    one_a_prompt = "task_id,reward\n" + "".join(f"t{i % 7},{0.01 * i}\n" for i in range(40))
    assert len(read_log(write("a.csv", one_a_prompt)).reward) == 40


def test_verl_behind_a_long_configuration(write):
    config = [f"'reward_model{i}': {{'reward_kwargs': {{'steps': None, 'n': 1}}}}," for i in range(3000)]
    lines = [f"(TaskRunner pid=1) step:{i} - critic/score/mean:{0.01 * i} - actor/lr:1e-06" for i in range(1, 21)]
    run = read_log(write("run.log", pasted(config + lines)))
    assert_read(run, reward=0.01 * np.arange(1, 21), format="verl_console")


def test_counts_of_outcomes_are_mean_rewards_of_training_and_evaluation(write):
    def outcomes(right, n):
        return {"correct with both format and answer reward 1": right, "format reward 1 and answer reward 0": n - right}

    lines = [f"histogram:  {outcomes(10 + i, 64)}" for i in range(20)]
    for place in (15, 10, 5):
        lines.insert(place, f"histogram:  {outcomes(100 + place, 500)}")
    run = read_log(write("loop.txt", pasted(lines)))
    np.testing.assert_allclose(run.reward, (10 + np.arange(20)) / 64)
    np.testing.assert_allclose(run.eval_reward, [0.21, 0.22, 0.23])


def test_keys_of_newer_trainers_are_known(write):
    rows = [row | {"flat_group_fraction": 0.25, "distillation_loss": 0.1, "step": i} for i, row in enumerate(LINES)]
    assert_read(read_log(write("log.jsonl", rows)), signals={"frac_reward_zero_std": 0.25})


def test_a_panel_of_prompts_between_rows_costs_no_row(write):
    """TRL prints prompts and completions in a panel; braces and dictionaries in it are no rows of metrics."""
    made = rows(12)
    text = ["Updated tokens: {'eos_token_id': 2}."]
    for i, row in enumerate(made, 1):
        count = f" {2 * i}%|█     | {i}/50 [00:32<26:08, 32.02s/it]"
        shown = {k: f"{v:.4g}" for k, v in (row | {"step_time": 34.3, "epoch": 0.01 * i}).items()}
        text += [
            f"{count}{' ' * 40}{shown}",
            f"{count}╭──── Step {i} ────╮",
            '│ │ {"type": "function",   │ ls </a> │ │',
        ]
        text += [f"│ {{'answer': {i}}} │", "│ {'open: │", "╰────╯"]
    run = read_log(write("run.log", "\n".join(text)))
    assert_read(run, step=range(1, 13), reward=rewards(12), settings={"total_steps": 50})
    assert not {"answer", "eos_token_id"} & set(run.unused)


def test_counts_of_ranks_and_files_are_no_plan(write):
    text = [f"  Learner: ({{'hosts': 0/1, 'gpus': {i}/8}}, 'rank {i}/8 initialized on cuda:{i}')" for i in range(8)]
    text += [f"step:{i} | policy_loss=0.01 | mean_reward={row['reward']} | epoch=0" for i, row in enumerate(rows(20))]
    run = read_log(write("run.log", "\n".join(text)))
    assert_read(run, reward=rewards(20), settings={"total_steps": None})


@pytest.mark.parametrize(
    ("form", "counter"),
    [
        ("  Epoch {i:3d} | loss={loss:.4f} | reward= {reward:5.4f} [-2.1 … 16.3]", "epoch"),
        ("[Epoch 0.{i:02d}]  loss={loss}  reward={reward:.4f}±0.2", "log row"),
    ],
)
def test_rows_that_count_epochs_alone(write, form, counter):
    made = rows(9)
    lines = [f"  → GET /api\n    RESPONSE_STATUS: 200\n{form.format(i=i, **row)}" for i, row in enumerate(made, 1)]
    run = read_log(write("run.log", "Phase 4: 10 epochs\n  Epoch      Loss    MeanReward\n" + "\n".join(lines)))
    assert_read(run, reward=np.round(rewards(9), 4), step_counter=counter)


def test_a_heading_over_lines_with_several_numbers(write):
    made = rows(9)
    lines = [
        f"--- Step {i} ---\nMade 64 completions (16 at once) in 35.3s | Reward: {row['reward']} (Moving Avg: 0.1 | "
        f"Format: 5.0%)\n  [Sample 0 (gt=5 | r=0.0)]: so...\nloss: 0.01, lr: 1e-6"
        for i, row in enumerate(made)
    ]
    run = read_log(write("run.log", "\n".join(lines)))
    assert_read(run, reward=[row["reward"] for row in made])
    assert set(run.signals) == {"loss", "learning_rate"}


@pytest.mark.parametrize("width", [61, 97, 240])
def test_a_row_of_verl_that_a_terminal_has_wrapped(write, width):
    def line(i: int, reward: float) -> str:
        return (
            f"(TaskRunner pid=7) step:{i} - global_seqlen/mean:4794643.875 - actor/entropy:0.3{i:02d} - "
            f"actor/grad_norm:0.11136 - actor/lr:1e-06 - val-core/aime/acc/mean@30:0.4 - critic/score/mean:{reward} - "
            f"critic/rewards/mean:{reward} - response_length/mean:352.5 - response_length/clip_ratio:0.03 - "
            f"timing_s/step:12.5"
        )

    made = rows(20)
    text = []
    for i, row in enumerate(made, 1):
        whole = line(i, row["reward"])
        text += [whole[k : k + width] for k in range(0, len(whole), width)]
        text += [
            "Training Progress:   2%|██▉      | 60/99 [21:41:02<7621:31:21, 7978.33s/it]",
            "(Worker pid=8) Saved [x]",
        ]
    run = read_log(write("run.log", "\n".join(text)))
    assert_read(run, reward=[row["reward"] for row in made])
    assert len(run.signals) == 6
    assert len(run.eval_step) == 20


def test_one_pasted_line_of_a_trainer_is_read(write):
    line = "[12:00] iteration    7/  90 | loss: -2.3E-06 | reward: 7.6E-01 | grad norm: 0.016 | nan iterations:   0 |"
    run = read_log(write("a.txt", f"Still the same here:\n\n{line}\n"))
    assert_read(run, step=[7], reward=[0.76], signals={"loss": -2.3e-06, "grad_norm": 0.016})
    with pytest.raises(LogReadError, match="no rewards"):
        read_log(write("b.txt", "The reward went from 0.2 in step 3 to 0.5 in step 90, and the loss was fine.\n"))


def test_a_total_in_words_is_the_reward_and_a_mean_of_all_no_part(write):
    lines = [
        f"Iter {i}: Train loss -0.09, Total rewards mean {r['reward']}, Total rewards std 0.1, Grouped rewards mean "
        f"{r['reward'] / 2:.4f}, format_reward_func mean {r['reward'] / 3:.4f}, KL 0.001"
        for i, r in enumerate(rows(9), 40)
    ]
    run = read_log(write("run.log", "\n".join(lines)))
    assert run.keys["reward"] == "Total rewards mean"
    table = "| Step | Score/Mean | Rewards/Mean | val/acc/mean@4 |\n|---|---|---|---|\n"
    table += "\n".join(f"| {i} | {r['reward']} | **{r['reward']}** | 0.4 |" for i, r in enumerate(rows(9)))
    run = read_log(write("notes.md", table))
    assert not run.components
    assert len(run.eval_step) == 9


def test_columns_that_add_up_to_the_reward_are_its_parts(write):
    rng = np.random.default_rng(3)
    made = []
    for i in range(30):
        answer, form = round(0.01 * i + 0.02 * rng.standard_normal(), 4), round(0.5 + 0.1 * rng.standard_normal(), 4)
        parts = {"answer_reward": answer, "mean_format_reward": form, "best_reward": 0.4, "reward_groups": i % 2}
        made.append({"step": i + 1, "reward": round(answer + 0.2 * form, 6)} | parts)
    assert set(read_log(write("log.jsonl", "\n".join(map(json.dumps, made)))).components) == {"answer", "format"}
    assert not read_log(
        write("other.jsonl", "\n".join(json.dumps(r | {"reward": rng.random()}) for r in made))
    ).components


@pytest.mark.parametrize(
    "banner",
    [
        "  Total optimization steps = 1,200",
        "   \\\\   /|    Num examples = 9,600 | Total steps = 1,200",
        "Training: 9 problems, 1,200 total steps",
    ],
)
def test_the_plan_in_a_banner(write, banner):
    lines = [f"step:{i} | loss=0.1 | mean_reward={r['reward']}" for i, r in enumerate(rows(20))]
    assert read_log(write("pairs.log", "\n".join([banner, *lines]))).settings.total_steps.value == 1200
    assert read_log(write("dicts.log", "\n".join([banner, *map(str, rows(20))]))).settings.total_steps.value == 1200


def test_a_score_of_seldom_rows_may_be_the_held_out_one(write):
    made = [{"iteration": i, "loss": 0.1, "mean_reward": r["reward"]} for i, r in enumerate(rows(30))]
    for row in made[::5]:
        row |= {"final_answer_accuracy": 0.7 + 0.001 * row["iteration"], "final_answer_correct": 118}
    assert read_log(write("log.jsonl", "\n".join(map(json.dumps, made)))).suggested["heldout"] == (
        "final_answer_accuracy",
    )


def table_texts():
    """A table as libraries print it and as people paste it, under its form."""
    frame = pd.DataFrame(rows(12)).assign(step=range(1, 13))
    bars = [
        " ┆ ".join(map(str, row)) for row in [list(frame.columns), ["---"] * 3, ["f64"] * 3, *frame.to_numpy().tolist()]
    ]
    return {
        "frame": frame.to_string(),
        "without index": frame.to_string(index=False),
        "boxes": "shape: (12, 3)\n┌──┬──┐\n" + "\n".join(f"│ {x} │" for x in bars) + "\n└──┴──┘",
        "commas in prose": f"Why does it not learn, at step 3 or later?\n\n{frame.to_csv(index=False)}\nThanks!",
        "bars in prose": "Here:\n\nstep | loss | reward\n-- | -- | --\n"
        + "\n".join(f"{i} | {x} | {y}" for x, y, i in frame.to_numpy().tolist()),
    }


@pytest.mark.parametrize("form", table_texts())
def test_a_table_in_a_text(write, form):
    run = read_log(write("a.txt", table_texts()[form]))
    assert_read(run, step=range(1, 13), reward=rewards(12))


@pytest.mark.parametrize(
    "form",
    [
        "[step={i}][reward={r}][kl=0.1]",
        "step {i:04d} → reward={r} · kl=0.1",
        "Episode {i}: avg_reward={r}, kl=0.1",
        "Iteration {i} of 12\n  avg reward : {r}\n  kl   : 0.1",
        "[grpo] step {i}/250 reward {r} (std 0.3) zero-std 0.45 kl 0.1 len 88 31s/step",
        "=== [global_logger_fF8h_r0] - METRICS STEP {i} ===\n  kl: 0.1\n  reward/mean: {r}",
        "[step {i:4d}/60] reward {r} kl 0.1 wall 213",
        "iter {i}: reward {r} ± 0.211, kl 0.1",
        "update {i} avg reward {r} max gap 213.4 kl 0.1",
    ],
)
def test_lines_of_other_hands(write, form):
    run = read_log(write("a.log", "\n".join(form.format(i=i, r=r["reward"]) for i, r in enumerate(rows(12), 1))))
    assert_read(run, step=range(1, 13), reward=rewards(12))
    signs = {" len ": "completion_length", "±": "reward_std"}
    assert set(run.signals) == {"kl", *(name for sign, name in signs.items() if sign in form)}


@pytest.mark.parametrize(
    "form", ["step={i} reward_mean={r}±{s} kl=0.1", "Step {i} | Mean Reward: {r} +/- {s} | KL: 0.1"]
)
def test_what_stands_behind_plus_and_minus_is_the_standard_deviation(write, form):
    spread = [round(0.2 + 0.01 * i, 2) for i in range(12)]
    made = [(i, row["reward"], s) for i, (row, s) in enumerate(zip(rows(12), spread, strict=True), 1)]
    run = read_log(write("a.log", "\n".join(form.format(i=i, r=r, s=s) for i, r, s in made)))
    assert_read(run, reward=rewards(12))
    assert run.values("reward_std").tolist() == spread


def test_a_curve_downloaded_from_tensorboard(write):
    lines = [f"{1.7e9 + i},{10 * i},{row['reward']}" for i, row in enumerate(rows(12), 1)]
    run = read_log(write("curve.csv", "\n".join(["Wall time,Step,Value", *lines])))
    assert_read(run, "TensorBoard", reward=rewards(12))


def test_verl_lines_in_a_block_of_code_and_with_one_key_a_line(write):
    steps = range(3, 9)
    keys = {"actor/entropy": 0.4, "critic/score/max": 1.0, "response_length/mean": 300.0}
    pairs = [[f"{k}:{v}" for k, v in ({"critic/score/mean": 0.1 * s} | keys).items()] for s in steps]
    indented = "".join(f"    step:{s} - {' - '.join(p)}\n" for s, p in zip(steps, pairs, strict=True))
    below = "".join(f"step:{s}\n" + "".join(f" - {x}\n" for x in p) for s, p in zip(steps, pairs, strict=True))
    for text in (f"You see:\n\n.. code-block:: bash\n\n{indented}", below):
        run = read_log(write("page.rst", text))
        assert_read(run, step=steps, reward=0.1 * run.step, signals={"completion_length": 300.0}, format="verl_console")


def test_a_bar_behind_a_dictionary_leaves_it_whole(write):
    text = pasted([*LINES[:-1], f"{LINES[-1]}  5%|▍         | 34/720 [03:36<1:12:33,  6.35s/it]"])
    assert_read(read_log(write("run.log", text)), reward=REWARD)


@pytest.mark.parametrize(("each", "end"), [(1, "t]warning"), (7, "")])
def test_rows_from_the_middle_of_a_training_have_the_steps_of_the_bars_below_them(write, each, end):
    step = 246 + each * np.arange(len(LINES))
    bars = [f"  1%|▍   | {at}/40166 [1:53:59<268:41:37, 24.23s/i{end}" for at in step]
    text = pasted(line for pair in zip(LINES, bars, strict=True) for line in pair)
    assert_read(read_log(write("run.log", text)), "bar of 40166, shown below each row", step=step)


def test_the_last_row_of_a_cut_log_has_the_step_of_the_bar_above_it(write):
    bars = [f" 45%|████▌     | {at}/250 [28:24<37:12, 16.30s/it]" for at in (112, 113, 114)]
    text = pasted([LINES[0], *bars[:2], LINES[1], *bars[1:], str(LINES[2])[:-15]])
    assert_read(read_log(write("run.log", text)), step=[112, 113, 114], reward=REWARD[:3])


@pytest.mark.parametrize("dots", ["...", "…"])
def test_dictionaries_that_were_abridged(write, dots):
    text = f"perf 0: {{'perf/rollout_time': 98.6, {dots}}}\n"
    text += f"rollout 0: {{'rollout/raw_reward': 0.25, {dots}, 'rollout/log_probs': -0.27, {dots}}}\n"
    text += f"step 0: {{'train/loss': 0.0021, {dots}}}\n"
    assert_read(read_log(write("run.log", text)), reward=[0.25], signals={"loss": 0.0021})


def test_dictionaries_that_begin_with_a_brace_on_a_line_of_its_own(write):
    blocks = ["{\n" + "".join(f"  '{k}': '{v}',\n" for k, v in row.items()) + "}" for row in LINES]
    run = read_log(write("notes.md", "\n\n".join(f"```python\n{block}\n```" for block in blocks)))
    assert_read(run, reward=REWARD, format="console_dict")


def test_two_blocks_of_a_pasted_console_suffice(write):
    block = "===== Step {0}/2 =====\n📊 Training Results:\n  • Generation KL Error: 0.01\n  • Avg Reward: 0.{0}\n"
    run = read_log(write("nemo.log", "".join(block.format(i) + "  • Mean Generation Length: 200\n" for i in (1, 2))))
    assert_read(run, reward=[0.1, 0.2], signals={"completion_length": 200, "engine_mismatch": 0.01})


def test_rewards_of_all_completions_of_a_row_are_averaged(write):
    groups = [[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0] * 4]
    rows = [{"group": f"task {i}", "rewards": group} for i, group in enumerate(groups)]
    printed = pasted(f"step\nrewards: {group}\nanswer: x" for group in groups)
    for name, text in (("groups.jsonl", rows), ("run.txt", printed)):
        run = read_log(write(name, text))
        assert_read(run, "3 lists of rewards", reward=[0.5, 0.75, 1.0], signals={"reward_std": np.std(groups, axis=1)})
    assert len(read_log(write("mixed.jsonl", [*rows, {"group": "x", "rewards": [0.5, "none"]}])).reward) == 3


def test_lists_with_a_name_before_them_are_columns(write):
    text = f"My curve, is this fine?\nrewards = {REWARD}\nkl = {[0.1] * 24}\n"
    run = read_log(write("chat.txt", text))
    assert run.format == "named_lists"
    assert_read(run, "lists named rewards, kl", reward=REWARD, signals={"kl": 0.1})


@pytest.mark.parametrize(
    "line",
    [
        "第 {0} 步 | 平均奖励: {1} | 损失: 0.5 | 学习率: 0.01",
        "第 {0} 步 | 平均 Reward: {1} | 平均损失: 0.5 | 学习率: 0.01",
        "步骤：{0}/40，奖励：{1}，损失：0.5，学习率：0.01",
        "{{'步数': {0}, '奖励': {1}, '损失': 0.5, '学习率': 0.01}}",
    ],
)
def test_chinese_names(write, line):
    text = pasted(line.format(i, reward) for i, reward in enumerate(REWARD, 1))
    signals = {"loss": 0.5, "learning_rate": 0.01}
    assert_read(read_log(write("训练.log", text)), step=range(1, 25), reward=REWARD, signals=signals)


def test_chinese_columns_keep_their_names(write):
    run = read_log(write("a.csv", "步,奖励,KL散度\n" + "".join(f"{i},{r},0.1\n" for i, r in enumerate(REWARD, 1))))
    assert_read(run, reward=REWARD, signals={"kl": 0.1}, keys={"reward": "奖励", "step": "步"})


@pytest.mark.parametrize(
    "line", ["Eval step {}: reward=0.5", "[eval] step {} reward=0.5", "validation step={} reward=0.5"]
)
def test_lines_of_evaluations_are_no_train_rows(write, line):
    lines = [f"Step {i}: reward={reward}, loss=0.1" for i, reward in enumerate(REWARD, 1)]
    for i in (20, 10):
        lines.insert(i, line.format(i))
    assert_read(read_log(write("run.log", pasted(lines))), reward=REWARD, evals={10: 0.5, 20: 0.5})


@pytest.mark.parametrize("key", ["test/reward/mean", "val_mean_reward", "validation/reward_mean", "eval_avg_reward"])
def test_a_mean_of_an_evaluation_is_the_held_out_score_however_it_is_spelled(write, key):
    lines = [json.dumps({"step": i, "reward": x, key: x / 2.0}) for i, x in enumerate(REWARD, 1)]
    assert read_log(write("run.jsonl", pasted(lines))).keys["eval_reward"] == key


def test_a_signal_of_nan_alone_is_noted(write):
    run = read_log(write("run.log", pasted(str(row | {"kl": float("nan")}) for row in LINES)))
    assert_read(run, "kl is logged, and no number in any row", reward=REWARD)


@pytest.mark.parametrize(
    ("key", "signal"),
    [
        ("policy_entropy_mean", "entropy"),
        ("entropy_avg", "entropy"),
        ("avg_grad_norm", "grad_norm"),
        ("mean_response_len", "completion_length"),
        ("平均回复长度", "completion_length"),
        ("degenerate_frac", "frac_reward_zero_std"),
        ("kl_k3", "kl"),
        ("zero_std_group_ratio", "frac_reward_zero_std"),
        ("grad", "grad_norm"),
        ("response_length_mean", "completion_length"),
        ("truncation_rate", "completions_clipped_ratio"),
        ("grpo_loss", "loss"),
        ("mean_len", "completion_length"),
        ("生成长度", "completion_length"),
        ("截断比", "completions_clipped_ratio"),
        ("Gnorm", "grad_norm"),
    ],
)
def test_names_of_own_scripts(write, key, signal):
    lines = [json.dumps({"outer_step": i, "mean_reward": x, key: 0.5}) for i, x in enumerate(REWARD, 1)]
    assert_read(read_log(write("run.jsonl", pasted(lines))), step=range(1, 25), reward=REWARD, signals={signal: 0.5})


NUMBERS = ("−0.086", "~25.0%", "≈1.3", "+0.5", "**0.25**")


def test_numbers_as_people_type_them(write):
    rows = "".join(f"| {i} | {text} | −{i} |\n" for i, text in enumerate(NUMBERS, 1))
    run = read_log(write("notes.md", f"| Step | Reward | KL |\n|---|---|---|\n{rows}"))
    assert_read(run, reward=[-0.086, 0.25, 1.3, 0.5, 0.25], signals={"kl": -np.arange(1.0, 6.0)})


def test_evaluations_and_remarks_in_a_table(write):
    rows = "| 0 (val) | 2.3% |\n| 1 | 1.1% |\n| 14 | 59.8% (noisy) |\n| 20 (val) | **72.3%** |\n"
    run = read_log(write("notes.md", f"| Step | Reward |\n|---|---|\n{rows}"))
    assert_read(run, step=[1, 14], reward=[0.011, 0.598], evals={0: 0.023, 20: 0.723})


def test_epochs_of_one_row_each_are_the_step(write):
    table = "| Epoch | Mean Reward |\n|---|---|\n| 1 | -0.3 |\n| 5 (warm) | -0.2 |\n| 21 | 5.6 |\n"
    assert_read(read_log(write("notes.md", table)), step=[1, 5, 21], step_counter="epoch")


def test_steps_within_an_episode_are_its_parts(write):
    rows = [{"episode": e, "step": s, "reward": 0.1 * e + 0.01 * s} for e in range(1, 9) for s in range(5)]
    run = read_log(write("moves.jsonl", pasted(map(json.dumps, rows))))
    assert_read(
        run, "an episode is a row", step=range(1, 9), reward=0.1 * np.arange(1, 9) + 0.02, step_counter="episode"
    )


def test_a_table_of_runs_is_no_training_and_those_to_choose_among_are_described(write):
    runs = "| Run | Steps | Reward |\n|---|---|---|\n| a | 200 | 1.0 |\n| b | 400 | 0.8 |\n| c | 50 | 0.2 |\n\n"
    tables = [
        "| Step | Reward |\n|---|---|\n" + "".join(f"| {s} | {r:.2f} |\n" for s, r in enumerate(rewards, 1)) + "\n"
        for rewards in ((0.1, 0.2, 0.4), (0.9, 0.8, 0.3, 0.2))
    ]
    assert_read(read_log(write("one.md", runs + tables[0])), reward=[0.1, 0.2, 0.4])
    said = r"found 2: table 1 \(steps 1 to 3, reward 0.1 to 0.4\), table 2 \(steps 1 to 4, reward 0.9 to 0.2\); choose"
    with pytest.raises(LogReadError, match=said):
        read_log(write("two.md", runs + "".join(tables)))
    assert_read(read_log(write("two.md", runs + "".join(tables)), run="table 1"), reward=[0.1, 0.2, 0.4])


@pytest.mark.parametrize(
    ("columns", "reward", "note"),
    [
        ({"episode_rewards": "abc", "moving_average_rewards": "bac"}, "episode_rewards", "averages moving_average"),
        ({"reward_latest": "abc", "window_mean": "bac", "all_time_mean": "cab"}, "reward_latest", "the only key"),
        ({"success_rate": "abc", "adv_std": "bac"}, "success_rate", "no reward and no other rate of success"),
        ({"train/pass_rate": "abc", "val/pass_rate": "cba"}, "train/pass_rate", "no other rate of success"),
    ],
)
def test_a_key_that_alone_can_be_the_reward(write, columns, reward, note):
    values = {"a": 0.1, "b": 0.3, "c": 0.2}
    rows = [{"iter": i, **{k: values[x[i]] for k, x in columns.items()}} for i in range(3)]
    run = read_log(write("log.jsonl", "\n".join(map(json.dumps, rows))))
    assert_read(run, note, reward=[0.1, 0.3, 0.2], keys={"reward": reward})


def test_parts_to_choose_among_are_all_named(write):
    text = "step,reward_valid_json,reward_has_keys,reward_env\n1,0.1,0.2,0.3\n2,0.2,0.2,0.5\n"
    with pytest.raises(LogReadError, match="differ: reward_valid_json, reward_has_keys, reward_env; choose"):
        read_log(write("log.csv", text))


def test_episodes_and_timesteps_count_where_nothing_else_does(write):
    rows = [{"episode": e, "reward": 0.01 * i} for i, e in enumerate((*range(30), *range(12)))]
    run = read_log(write("log.jsonl", "\n".join(map(json.dumps, rows))))
    assert_read(run, "training 2 of 2", step=range(12), step_counter="episode")
    columns = {"timesteps": [8000, 16000, 24000], "mean_reward": [0.1, 0.2, 0.3]}
    run = read_log(write("columns.json", json.dumps(columns)))
    assert_read(run, step=[8000, 16000, 24000], step_counter="timestep")
    trainers = [{"objective/scores": 0.1 * e, "val/num_eos_tokens": 1, "episode": 512 * e} for e in range(1, 4)]
    assert_read(read_log(write("ppo.jsonl", "\n".join(map(json.dumps, trainers)))), step=[1, 2, 3])


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("zero-var groups", True),
        ("groups with zero reward spread", True),
        ("flat_reward_group_ratio", True),
        ("groups without nonzero std", False),
        ("zero_rate", False),
    ],
)
def test_the_share_of_groups_without_spread_in_words(write, name, known):
    table = f"step,reward,{name}\n" + "".join(f"{i},0.{i},0.{9 - i}\n" for i in range(1, 5))
    assert ("frac_reward_zero_std" in read_log(write("log.csv", table)).signals) is known


def test_what_only_sounds_like_a_signal_is_not_suggested(write):
    names = ("value_loss", "critic/values/mean", "syntax_valid_pct", "age", "avg_grader", "adv_std", "nonzero_ratio")
    rows = [{"step": i, "reward": 0.1 * i, **dict.fromkeys(names, 0.1 + 0.01 * i)} for i in range(1, 6)]
    run = read_log(write("log.jsonl", "\n".join(map(json.dumps, rows))))
    assert {"heldout", "staleness", "grad_norm", "reward_std", "frac_reward_zero_std"}.isdisjoint(run.suggested)


def in_a_viewer(text: str) -> str:
    return "\n".join(f"| {line.strip()} | |" for line in text.splitlines())


def in_a_viewer_between_bars(text: str) -> str:
    return "| " + " |\n|\n".join(line.strip() for line in text.splitlines())


def as_a_difference(text: str) -> str:
    head = 'diff --git "a/state.json" "b/state.json"\nnew file mode 100644\n--- /dev/null\n+++ "b/state.json"\n'
    return f"{head}@@ -0,0 +1,900 @@\n" + "\n".join(f"+{line}" for line in text.splitlines())


@pytest.mark.parametrize("shown", [in_a_viewer, in_a_viewer_between_bars, as_a_difference])
def test_a_state_as_a_page_shows_it(write, shown):
    state = {"global_step": 24, "is_world_process_zero": True, "max_steps": 24}
    state |= {"log_history": [row | {"step": i, "note": "a | b"} for i, row in enumerate(LINES, 1)]}
    text = json.dumps(state, indent=2)
    for end, n in ((len(text), 24), (text.index('"step": 11'), 10)):
        run = read_log(write("state.txt", shown(text[:end])))
        assert_read(run, step=range(1, n + 1), reward=REWARD[:n], format="trl_trainer_state")
    run = read_log(write("part.txt", shown(text[text.index('"log_history"') : text.index('"step": 11')])))
    assert_read(run, step=range(1, 11), reward=REWARD[:10])


def test_a_table_in_markdown_keeps_its_bars(write):
    table = "| step | reward |\n|---|---|\n" + "".join(f"| {i} | {0.1 * i} |\n" for i in range(1, 6))
    assert_read(read_log(write("a.md", table)), step=range(1, 6), format="marked_table")


def gathered(*rewards: float) -> str:
    shown = "gather: 100%|█| 6/6 [0{}:37<00:00, 86.33s/it, reward={}, format_reward=0.588, sources_count=8, compl"
    return "\n".join(
        f"{shown.format(i, reward)}\nPacked 3 trajectories\n[train] step={i} epoch={i}"
        for i, reward in enumerate(rewards)
    )


def test_a_bar_for_the_rollouts_of_each_step_is_a_row_each(write):
    assert_read(read_log(write("art.log", gathered(0, 0.113, 0.25))), step=[1, 2, 3], reward=[0, 0.113, 0.25])
    assert_read(read_log(write("one.log", gathered(0.113))), step=[6], reward=[0.113])


def test_a_line_that_begins_as_an_evaluation_is_one(write):
    lines = [f"Step {i}/60 | reward: {0.01 * i:.2f}" for i in range(10, 70, 10)]
    lines += [f"[EVAL] Task 0 Step {i} | Reward: 0.{i}±0.145 | Pass: 23.4%" for i in (20, 60, 60)]
    lines[-1] = lines[-1].replace("0.60", "0.7")
    note = "1 evaluation logged more than once; the last record of each is kept"
    run = read_log(write("a.log", pasted(lines)))
    assert_read(run, note, reward=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], evals={20: 0.2, 60: 0.7})


def test_the_share_of_groups_that_train_is_read_of_counts(write):
    step = "22:43:1{0} SUCCESS Step {0} | 22.5s | Reward 0.5000 | Trainable {1}/{2} (50.0%) | Turns 3.0 | Error 0.0%"
    counts = [(2, 4), (2, 20), (0, 8), (8, 8)]
    run = read_log(write("a.log", pasted(step.format(i, *x) for i, x in enumerate(counts, 1))))
    assert_read(run, signals={"frac_reward_zero_std": [0.5, 0.9, 1.0, 0.0], "turns": 3.0})


def test_a_refusal_describes_rows_without_a_reward(write):
    block = "=== [global_logger_r0] - METRICS STEP 1 ===\n"
    block += "".join(f"  buffer/sample/{x}: 24.0\n" for x in "abcdef")
    with pytest.raises(LogReadError, match=r"found 1 row without a reward \(buffer/sample/a, buffer/sample/b"):
        read_log(write("a.txt", block))


def test_openrlhf_on_the_console(write):
    row = {"policy_loss": 0.1, "actor_lr": 5e-7, "actor_grad_norm": 0.4, "ppo_kl": 0.01, "group_reward_std": 0.2}
    line = "(PPOTrainer) ppo_trainer.py:547] ✨ Global step {}: {}"
    run = read_log(write("a.log", pasted(line.format(i, row | {"reward": 0.1 * i}) for i in range(1, 5))))
    assert_read(run, step=range(1, 5), signals={"update_kl": 0.01, "grad_norm": 0.4, "reward_std": 0.2})
    with pytest.raises(LogReadError, match="OpenRLHF logs its reward as reward: pass that part"):
        read_log(write("b.log", pasted(line.format(i, row) for i in range(1, 5))))


def test_a_word_before_a_name_is_no_part_of_it(write):
    actions = ["look", "call_tool", "finish", "look"]
    lines = [f"[STEP] step={i} phase={x} reward=0.{i} done=False" for i, x in enumerate(actions, 1)]
    assert_read(read_log(write("a.log", pasted(lines))), reward=[0.1, 0.2, 0.3, 0.4], keys={"reward": "reward"})


def test_blocks_below_learning_iterations(write):
    block = "  Learning iteration {0}/300\n\n  Computation: 226426 steps/s (collection: 0.4s)\n"
    block += f"  Mean entropy loss: 2.9\n{' ' * 24}" + "Mean reward: 0.{0}\n  Mean episode length: 28.8\n"
    run = read_log(write("a.txt", "".join(map(block.format, range(1, 5)))))
    assert_read(run, step=range(1, 5), reward=[0.1, 0.2, 0.3, 0.4], settings={"total_steps": 300})


@pytest.mark.parametrize(
    ("line", "signals"),
    [
        ("  [grpo] step {0:3d}/30  mean_reward 0.{0}  acc=3/12  kl 0.01", {"accuracy": 0.25, "kl": 0.01}),
        ("step {0} mean loss 0.1 | reward 0.{0} | groups=8", {"loss": 0.1}),
        ("🏋️ Step {0} ▸ reward: 0.{0} ▸ kl: 0.01 ▸ epoch: 1/3", {"kl": 0.01}),
    ],
)
def test_rows_whose_first_metric_follows_the_step_without_a_sign(write, line, signals):
    run = read_log(write("a.log", pasted(map(line.format, range(1, 6)))))
    assert_read(run, step=range(1, 6), reward=[0.1, 0.2, 0.3, 0.4, 0.5], signals=signals)


def test_prose_about_steps_is_no_row(write):
    prose = ["At step 20 was 0.72 the reward, and step 29 reached 0.73 more.", "Step 3 reward 0.2 seemed low to us."]
    with pytest.raises(LogReadError, match="no reader knows"):
        read_log(write("notes.txt", pasted(prose * 3)))
