"""Text in which names stand before numbers is read whatever is between them; prose about numbers is not."""

import subprocess
import sys

import numpy as np
import pytest

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.logs import read_log

STEPS = (10, 11, 12, 13)
REWARDS = (0.2134, 0.2461, 0.2755, 0.3102)
KL = (0.0012, 0.0019, 0.0031, 0.0044)
LAYOUTS = {
    "arrows": "step {s} → reward {r} → kl {k}",
    "a heading and bold bullets": "**Step {s}**\n- **Mean reward:** {r}\n- **KL divergence:** {k}\n",
    "a call": "Step {s} (reward={r}, kl={k})",
    "brackets": "[{s}/100] [reward {r}] [kl {k}]",
    "a sentence": "At step {s} the mean reward was {r} with a KL of {k}.",
    "steps behind their number": "After {s} steps: reward {r}, KL {k}.",
    "a box": "╭──── Step {s} ────╮\n│ reward     {r}   │\n│ kl         {k}   │\n╰────────────────╯",
    "a table a step": "---\n| train/ |     |\n|  step  | {s} |\n|  reward | {r} |\n|  kl    | {k} |\n---",
    "the step last": "---\n| rollout/ep_rew_mean | {r} |\n| train/approx_kl | {k} |\n| time/iterations | {s} |\n---",
    "dots": "---\nIteration {s}\n  avg reward ........ {r}\n  kl ................ {k}\n",
    "short names": "it {s} rew {r} kl {k}",
    "a name of a letter": "it={s} r={r} kl={k}",
    "a line below its step": "Step {s}\nreward {r} kl {k}",
    "a name above its number": "Step:\n{s}\nReward:\n{r}\nKL:\n{k}",
    "a key that holds the step": "step_{s}:\n  reward_mean: {r}\n  kl: {k}",
    "the step alone before a colon": "{s}: reward={r} kl={k}",
    "tensors": "step {s} reward tensor({r}) kl tensor({k}, device='cuda:0')",
    "a return": "update {s}, mean return {r}, kl {k}",
    "a rate": "iter {s} success_rate={r} kl={k}",
    "the sum of two parts": "step {s} | correctness: {p} | format: 0.1 | total: {r} | kl: {k}",
    "columns with the step last": "reward/mean          {r}\nkl/mean              {k}\nglobal_step          {s}\n",
    "a table of two columns a step": "      Step {s}\n│ env/all/reward/total │ {r} │\n│ kl │ {k} │\n└────┘",
    "statistics behind their name": "--- step {s} ---\nrewards: mean={r} std=0.4\nadvantages: mean=0.0\nkl: {k}",
    "a Korean counter": "[{s}스텝] 평균 보상 {r}, KL {k}",
    "ranks": "[Rank 0] step {s}: reward: {p}, kl: {k}\n[Rank 1] step {s}: reward: {q}, kl: {k}",
    "two lines of keys": "Step {s}: Loss: 0.1, LR: 1e-6\ntrain/reward_mean {r} train/kl {k}",
    "a mean of one task": "Step {s}/20 done.\n│ grpo_actor/task_reward/avg │ {r} │ kl │ {k} │",
    "a count of all": "Update {s} of 100: avg reward {r} (min 0.0, max 1.0), KL {k}",
    "Turkish": "Adım {s}: ödül {r}, KL {k}",
    "backticks": "- step `{s}`: reward `{r}`, kl `{k}`",
    "a time in front": "2026-01-01 10:{s}:00,123 step {s} -> reward {r}; kl {k}",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_rows_are_read_from_every_layout(layout, write):
    low = [round(r - 0.1, 4) for r in REWARDS]
    high = [round(r + 0.1, 4) for r in REWARDS]
    rows = zip(STEPS, REWARDS, KL, low, high, strict=True)
    lines = [LAYOUTS[layout].format(s=s, r=r, k=k, p=p, q=q) for s, r, k, p, q in rows]
    run = read_log(write("a.txt", "\n".join(lines)))
    assert run.step.tolist() == list(STEPS)
    np.testing.assert_allclose(run.reward, REWARDS)
    np.testing.assert_allclose(run.signals["kl"], KL)


@pytest.mark.parametrize(
    ("text", "steps", "rewards"),
    [
        ("reward: 0.21 → 0.25 → 0.28 → 0.31 (steps 10, 20, 30, 40)", [10, 20, 30, 40], [0.21, 0.25, 0.28, 0.31]),
        ("reward 0.21 -> 0.25 -> 0.28\nkl 0.001 -> 0.002 -> 0.003", [1, 2, 3], [0.21, 0.25, 0.28]),
        ("rewards per step: 0.21, 0.25, 0.28", [1, 2, 3], [0.21, 0.25, 0.28]),
        ("history = {'step': [5, 6, 7], 'reward': [0.21, 0.25, 0.28]}", [5, 6, 7], [0.21, 0.25, 0.28]),
        (r"step & reward \\" + "\n" + "\n".join(rf"{s} & 0.{s} \\" for s in (5, 6, 7)), [5, 6, 7], [0.5, 0.6, 0.7]),
        ("Reward at step 5: 0.2\nReward at step 6: 0.3\nReward at step 9: 0.4", [5, 6, 9], [0.2, 0.3, 0.4]),
        ("rewards: array([0.21, 0.25, 0.28])", [1, 2, 3], [0.21, 0.25, 0.28]),
        (
            "| Step | Accuracy | KL |\n|---|---|---|\n| 5 | 20% | .1 |\n| 6 | 30% | .1 |\n| 7 | 40% | .1 |\n",
            [5, 6, 7],
            [0.2, 0.3, 0.4],
        ),
        ("| Step | 🏆 Reward |\n|---|---|\n| 5 | 0.2 ✅ |\n| 6 | 0.3 ✅ |\n", [5, 6], [0.2, 0.3]),
        ("Reward history (last 4 steps): 0.21 0.25 0.28 0.3", [1, 2, 3, 4], [0.21, 0.25, 0.28, 0.3]),
        ("step 5 | rewards [1.0, 0.0] | loss 0.1\nstep 6 | rewards [1.0, 1.0] | loss 0.2", [5, 6], [0.5, 1.0]),
        ("Schritt 5: Belohnung 0,5, KL 0,01\nSchritt 6: Belohnung 0,6, KL 0,02", [5, 6], [0.5, 0.6]),
        ("step 0 gsm8k acc 0.12\nstep 5 gsm8k acc 0.35\nstep 9 gsm8k acc 0.41", [0, 5, 9], [0.12, 0.35, 0.41]),
        ("step 3 -> reward: 0.5\nstep 4 -> reward: 0.6\nstep 5 rewa", [3, 4], [0.5, 0.6]),
    ],
)
def test_lists_and_lines_of_other_languages(text, steps, rewards, write):
    run = read_log(write("a.txt", text))
    assert run.step.tolist() == steps
    np.testing.assert_allclose(run.reward, rewards)


def test_an_evaluation_between_the_steps_is_one(write):
    lines = [f"step {s} → reward: {r}" for s, r in zip(STEPS, REWARDS, strict=True)]
    run = read_log(write("a.txt", "\n".join([*lines[:2], "[eval] step 11 → reward: 0.9", *lines[2:]])))
    np.testing.assert_allclose(run.reward, REWARDS)
    assert run.eval_reward.tolist() == [0.9]
    assert run.eval_step.tolist() == [11]


@pytest.mark.parametrize(
    "text",
    [
        "My reward is stuck at 0 after 100 steps. I use learning rate 1e-6 and 8 generations.",
        "I trained for 300 steps on 8 GPUs. The reward went from 0.3 to 0.6 but accuracy only from 41% to 43%.",
        "The paper reports a mean reward of 0.82 at step 500.",
        "Sample 1 → reward=1.0\nSample 2 → reward=0.0\nSample 3 → reward=1.0",
        "Question 1: what is 2+2? Reward: 1.0\nQuestion 2: what is 3+5? Reward: 0.0",
        "Model A reward 0.5\nModel B reward 0.6\nModel C reward 0.7",
        "Name\tState\treward\tStep\nrun-a\tfinished\t0.31\t100\nrun-b\tfinished\t0.44\t100\n",
        "| Metric | Before | After |\n|---|---|---|\n| reward | 0.21 | 0.31 |\n| kl | 0.001 | 0.004 |",
        "0.21 mean reward at step 100\n0.34 mean reward at step 200\n0.41 mean reward at step 300",
        "step 10: reward 0.31 -> 0.34 after the update\nstep 11: reward 0.34 -> 0.36 after the update",
        "reward_weights: [1.0, 0.5]\nnum_generations: 8\nlearning_rate: 1e-6\nmax_steps: 500",
        "Reward function 1: correctness, weight 2.0\nReward function 2: format, weight 0.5",
    ],
)
def test_numbers_of_something_else_are_no_rows(text, write):
    with pytest.raises(LogReadError):
        read_log(write("a.txt", text))


TABLES = {
    "a step of some kind, turned": (
        "| GRPO step | 0 (base) | 100 | 250 |\n|---|---|---|---|\n"
        "| **held-out pass@1** | 5.9% (4/68) | **8.8%** | 7.4% |\n| train reward (mean) | 0.22 | 0.37 | 0.41 |\n",
        [0, 100, 250],
        [0.22, 0.37, 0.41],
        [0.059, 0.088, 0.074],
    ),
    "a remark behind the step": (
        "| Step | 平均 score |\n|---|---|\n| 1 | 0.45 |\n| 2，16 卡 | 0.5 |\n| 3，16 卡 | 0.55 |\n",
        [1, 2, 3],
        [0.45, 0.5, 0.55],
        [],
    ),
    "an evaluation beside its truncation": (
        "| Step | Train reward | p50 validation | eval truncation |\n|---|---|---|---|\n| 0 | 0.45 | 0.44 | 0.0% |\n"
        "| 50 | 0.4 | 0.45 | 9.4% |\n| 100 | 0.5 | 0.6 | 1.0% |\n| 150 | n/a | 0.67 | 1.0% |\n",
        [0, 50, 100],
        [0.45, 0.4, 0.5],
        [0.44, 0.45, 0.6, 0.67],
    ),
    "the step behind a share of all, arrows in cells": (
        "| Phase | Step | Reward | KL |\n|---|---|---|---|\n| a | 25% (100/400) | 0.14 → 0.2 | .1 |\n"
        "| b | 50% (200/400) | 0.3 | .1 |\n| c | 75% (300/400) | 0.4 | .1 |\n",
        [100, 200, 300],
        [0.17, 0.3, 0.4],
        [],
    ),
    "a line of settings above the blocks": (
        "10:33:30 - INFO - Dataset: 150000 training, 15000 validation\n"
        + "".join(
            f"Epoch {e}/3: 100%|██| 9/9 [2:15:32<00:00, 1.15it/s]\n  loss: 1.2\n  reward_mean: 0.{e}\n" for e in "123"
        ),
        [1, 2, 3],
        [0.1, 0.2, 0.3],
        [],
    ),
    "a chart of Mermaid": (
        '```mermaid\nxychart-beta\n    title "Average Batch Reward (Accuracy) Over Steps"\n'
        '    x-axis ["Step 2", "Step 4", "Step 6"]\n    y-axis "Accuracy" 0 --> 1.0\n    line [0.4, 0.0, 0.5]\n```\n',
        [2, 4, 6],
        [0.4, 0.0, 0.5],
        [],
    ),
    "a chart of Mermaid with a title of its axis": (
        'xychart-beta\n title "GRPO reward"\n x-axis "Training step" [0, 20, 40]\n bar [0.1, 0.2, 0.3]\n',
        [0, 20, 40],
        [0.1, 0.2, 0.3],
        [],
    ),
    "a reward below the line of its step": (
        "epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.5|cri_loss: 0.6\naverage reward score: -7.8\n-----\n"
        "epoch: 0|step: 4|ppo_ep: 1|act_loss: 0.4|cri_loss: 0.6\naverage reward score: -6.3\n-----\n",
        [3, 4],
        [-7.8, -6.3],
        [],
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_and_charts_of_pages(kind, write):
    text, steps, rewards, evaluations = TABLES[kind]
    run = read_log(write("a.md", text))
    assert run.step.tolist() == steps
    np.testing.assert_allclose(run.reward, rewards)
    np.testing.assert_allclose(run.eval_reward, evaluations)


def test_rows_of_a_table_without_a_step_are_told(write):
    rows = "| 1 | 0.4 |\n| later | 0.5 |\n| 3 | 0.6 |\n"
    run = read_log(write("a.md", f"| Step | Reward |\n|---|---|\n{rows}"))
    assert run.step.tolist() == [1, 3]
    assert any("1 row whose step is no number left out, such as 'later'" in note for note in run.notes)


def test_a_chart_is_read_by_its_reader(write):
    run = read_log(write("a.md", 'xychart-beta\n title "GRPO reward"\n line [0.1, 0.2, 0.3]\n'))
    assert run.format == "charts"


def test_several_lines_of_a_chart_are_no_single_reward(write):
    chart = 'xychart-beta\n title "GRPO reward"\n x-axis [0, 20, 40]\n line [0.1, 0.2, 0.3]\n line [0.4, 0.5, 0.6]\n'
    with pytest.raises(LogReadError, match="found several that differ: GRPO reward line 1, GRPO reward line 2"):
        read_log(write("a.md", chart))


def test_rewards_above_texts_of_completions_may_be_of_single_samples(write):
    lines = "\n".join(f"- step={s} reward=0.{s}\n  query: …\n  answer: …" for s in (2, 5, 7))
    assert any("single samples" in note for note in read_log(write("a.md", lines)).notes)


def test_a_dictionary_of_settings_above_the_lines_is_no_row(write):
    lines = "\n".join(f"step {s}/13 reward {r} kl 0.001" for s, r in zip(STEPS, REWARDS, strict=True))
    run = read_log(write("a.log", f"Config: {{'learning_rate': 1e-06, 'reward_weights': [1.0, 0.5]}}\n{lines}\n"))
    np.testing.assert_allclose(run.reward, REWARDS)


def test_a_text_that_is_piped_in_is_read():
    program = "from bayes_grpo.logs import read_log; run = read_log('-'); print(run.name, run.reward.tolist())"
    text = "step 1 → reward: 0.5\nstep 2 → reward: 0.6\n"
    found = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    assert found.stdout == "stdin [0.5, 0.6]\n"
