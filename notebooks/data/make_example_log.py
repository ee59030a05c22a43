"""Makes `softmax_policy_grpo.json`: the log of a real GRPO run of a small softmax policy.

128 prompts of different difficulty share the policy's parameters; each step draws 16 of them with groups of 8
completions, and Adam follows the clipped surrogate with a KL penalty under TRL's linear learning-rate decay.

    python notebooks/data/make_example_log.py
"""

from pathlib import Path

import jax
import numpy as np

from bayes_grpo.simulate.policies import contextual_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.trainer_log import trainer_state, write_json
from bayes_grpo.simulate.training import simulate

SEED = 0
TARGET = Path(__file__).with_name("softmax_policy_grpo.json")


def main() -> None:
    """Simulates the run and writes its log."""
    environment = contextual_bandit(
        np.random.default_rng(3), n_prompts=128, n_held_out=256, difficulty_mean=0.4, difficulty_sd=2.0
    )
    structure = Structure(
        n_steps=300, group_size=8, prompts_per_step=16, optimizer="adam", schedule="linear", eval_every=20
    )
    numbers = Numbers(learning_rate=0.025, momentum=0.9, kl_weight=0.4, warmup_steps=15)
    batch = simulate(structure, numbers, environment, [SEED])
    run = jax.tree.map(lambda leaf: leaf[0], batch)
    write_json(TARGET, trainer_state(run, structure, n_prompts=128))
    print(f"{TARGET}: true reward {run.true_reward[0]:.2f} -> {run.true_reward[-1]:.2f}")


if __name__ == "__main__":
    main()
