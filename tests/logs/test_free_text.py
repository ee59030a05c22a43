"""Text in which names stand before numbers is read whatever is between them; more of it: ``samples/free_text.txt``."""

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from tests.helpers.command import printed_by

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


def test_a_text_that_is_piped_in_is_read():
    program = "from bayes_grpo.logs import read_log; run = read_log('-'); print(run.name, run.reward.tolist())"
    text = "step 1 → reward: 0.5\nstep 2 → reward: 0.6\n"
    assert printed_by(program, text=text) == "stdin [0.5, 0.6]"
