"""A small log of every trainer, under the keys that its own code writes, for every place that it can write to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.helpers.stores import WRITERS, Rows

STEPS = range(1, 7)
EVALUATED, HELD_OUT = 4, 0.75
"""Step and value of the one evaluation."""


def reward_at(step: int) -> float:
    """The train reward of every sample."""
    return 0.125 * step


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A trainer's log.

    Attributes:
        trainer: Its name among the trainers.
        label: Its name as its authors write it.
        step: Keys that hold the step beside the metrics, as W&B gets them.
        reward: Key of the reward.
        held_out: Key of the evaluation reward; "" where it logs none.
        signals: Canonical signal → key and value.
        stores: Stores that it can write to.
        config: Its configuration.
        settings: Settings that follow from it.
        more: Further metrics that must not be taken for those above.
        file: Name of its file and what makes it out of rows.
        console: What makes a line of its console out of a step and its metrics.
        renamed: Store → what a key is called there.
    """

    trainer: str
    label: str
    step: tuple[str, ...] = ()
    reward: str
    held_out: str = ""
    signals: Mapping[str, tuple[str, float]]
    stores: tuple[str, ...] = ()
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    more: Mapping[str, float] = field(default_factory=dict)
    file: tuple[str, Callable[[Rows], str]] | None = None
    console: Callable[[int, Mapping[str, float]], str] | None = None
    renamed: Mapping[str, Callable[[str], str]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, **more: Any) -> Sample:
        """A sample whose first fields are written as "trainer: verl; label: verl; stores: wandb tensorboard"."""
        named: dict[str, Any] = dict(part.split(": ", 1) for part in text.split("; "))
        return cls(**named | {k: tuple(named[k].split()) for k in ("step", "stores") if k in named}, **more)

    def places(self) -> list[str]:
        """Where it can write: "file", stores, "console"."""
        stores = [name for store in self.stores for name in ((store, "mlruns") if store == "mlflow" else (store,))]
        return [*(["file"] if self.file else []), *stores, *(["console"] if self.console else [])]

    def rows(self, place: str) -> Rows:
        """Steps and metrics as a place gets them."""
        called = self.renamed.get("mlflow" if place == "mlruns" else place, lambda key: key)
        signals = dict(self.signals.values())
        found = []
        for s in STEPS:
            row = {**dict.fromkeys(self.step, float(s)), self.reward: reward_at(s), **signals, **self.more}
            if self.held_out and s == EVALUATED:
                row[self.held_out] = HELD_OUT
            found.append((s, {called(k): v for k, v in row.items() if called(k)}))
        return found

    def write(self, place: str, folder: Path) -> Path:
        """Writes the log to a place below a folder.

        Returns:
            What to read.
        """
        rows = self.rows(place)
        if place == "file" and self.file is not None:
            path, text = folder / self.file[0], self.file[1](rows)
        elif place == "console" and self.console is not None:
            path, text = folder / "out.log", "\n".join(self.console(s, row) for s, row in rows) + "\n"
        else:
            config = flat(self.config) if place in ("mlflow", "mlruns") else self.config
            return WRITERS[place](folder, rows, config, "run")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration as MLflow gets it: parts joined by a point, lists as text of their own."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, list):
            value = dict(zip(map(str, range(len(value))), value, strict=True))
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


@dataclass(frozen=True, kw_only=True)
class SlimeSample(Sample):
    """slime: two updates a rollout, rollouts, updates and evaluations each on steps and rows of their own."""

    def rows(self, place: str) -> Rows:
        """Rows of rollouts and updates; a store that keeps steps apart from keys gets no key of the step."""
        found: list[tuple[int, Mapping[str, float]]] = []
        signals = dict(self.signals.values())
        for r in range(len(STEPS) // 2):
            rollout = {k: v for k, v in signals.items() if k.startswith("rollout/")}
            train = {k: v for k, v in signals.items() if k.startswith("train/")}
            found.append((r, {"rollout/step": r, self.reward: reward_at(2 * r), **rollout}))
            found += [(u, {"train/step": u, **train}) for u in (2 * r, 2 * r + 1)]
        found.append((EVALUATED // 2, {"eval/step": EVALUATED // 2, self.held_out: HELD_OUT}))
        if place in ("tensorboard", "mlflow", "mlruns"):
            found = [(s, {k: v for k, v in row.items() if not k.endswith("/step")}) for s, row in found]
        return found


def jsonl(of: Callable[[int, Mapping[str, float]], Mapping[str, Any]]) -> Callable[[Rows], str]:
    """One record a line."""
    return lambda rows: "".join(json.dumps(of(s, row)) + "\n" for s, row in rows)


def beside(step: str) -> Callable[[int, Mapping[str, float]], Mapping[str, Any]]:
    """Metrics with the step beside them."""
    return lambda s, row: {step: s, **row}


def bare(key: str) -> str:
    """TRL's key without what W&B gets before it; nothing for the step that only W&B gets."""
    if key == "train/global_step":
        return ""
    return key.removeprefix("train/") if key.startswith("train/") else key.replace("eval/", "eval_", 1)


def without_step(key: str) -> str:
    """Nothing for the step: TensorBoard gets it beside the key."""
    return "" if key == "train/global_step" else key


VALUES = {
    "reward_std": 0.25, "frac_reward_zero_std": 0.5, "entropy": 0.4, "kl": 0.01, "clip_ratio": 0.02, "grad_norm": 0.3,
    "completion_length": 200.0, "learning_rate": 1e-6, "loss": 0.01, "completions_clipped_ratio": 0.1,
    "engine_mismatch": 0.02, "step_time": 30.0, "accuracy": 0.5, "update_kl": 0.003, "staleness": 0.0, "dropped": 2.0,
    "filtered_groups": 3.0,
}  # fmt: skip
"""Signal → what every sample logs of it."""


def logged(text: str) -> dict[str, tuple[str, float]]:
    """Signals with their keys and values, written as "signal: key; signal: key=value"."""
    found = {}
    for name, _, key in (part.strip().partition(": ") for part in text.split(";")):
        key, _, value = key.partition("=")
        found[name] = (key, float(value or VALUES[name]))
    return found


def trl_state(rows: Rows) -> str:
    """``trainer_state.json``."""
    history = [{**row, "step": s} for s, row in rows]
    return json.dumps({"log_history": history, "max_steps": 300, "logging_steps": 1, "global_step": len(rows)})


TRL_CONFIG = {"num_generations": 16, "per_device_train_batch_size": 8, "generation_batch_size": 128, "max_steps": 300}
TRL_CONFIG |= {"gradient_accumulation_steps": 4, "steps_per_generation": 4, "num_iterations": 2, "adam_beta1": 0.95}
TRL_SETTINGS = {"group_size": 16, "prompts_per_step": 8, "refresh_interval": 2, "momentum": 0.95, "total_steps": 300}

TRL = Sample.of(
    "trainer: TRL; label: TRL, unsloth; step: train/global_step; reward: train/reward; held_out: eval/reward; "
    "stores: wandb tensorboard trackio mlflow",
    signals=logged(
        "engine_mismatch: train/sampling/sampling_logp_difference/mean; reward_std: train/reward_std; "
        "frac_reward_zero_std: train/frac_reward_zero_std; entropy: train/entropy; kl: train/kl; "
        "clip_ratio: train/clip_ratio/region_mean; grad_norm: train/grad_norm; "
        "completion_length: train/completions/mean_length; learning_rate: train/learning_rate; loss: train/loss; "
        "completions_clipped_ratio: train/completions/clipped_ratio"
    ),
    more={"train/rewards/accuracy/mean": 0.3, "train/rewards/accuracy/std": 0.4, "train/num_tokens": 9.0},
    config=TRL_CONFIG,
    settings=TRL_SETTINGS,
    renamed={"tensorboard": without_step, "mlflow": bare, "file": bare, "console": bare},
    file=("trainer_state.json", trl_state),
    console=lambda s, row: f" {s}%|# | {s}/300 [00:01<00:02, 1.0s/it]\n{ ({k: f'{v:.4g}' for k, v in row.items()}) }",
)


SAMPLES: Sequence[Sample] = (
    TRL,
    replace(
        TRL,
        trainer="ms-swift",
        label="ms-swift",
        signals={
            **TRL.signals,
            "entropy": ("train/entropy/mean", 0.4),
            "engine_mismatch": ("train/rollout_correction/k3_kl", 0.02),
        },
        stores=("wandb", "tensorboard"),
        file=("logging.jsonl", jsonl(lambda s, row: {**row, "global_step/max_steps": f"{s}/300"})),
        console=lambda s, row: str({**row, "global_step/max_steps": f"{s}/300"}),
    ),
    replace(
        TRL,
        trainer="TRL AsyncGRPO",
        label="TRL AsyncGRPO",
        signals={
            **{name: x for name, x in TRL.signals.items() if name != "kl"},
            "engine_mismatch": ("train/kl", 0.02),
            "staleness": ("train/sample/staleness_mean", 0.0),
            "dropped": ("train/sample/dropped_stale_total", 2.0),
        },
        stores=("wandb", "tensorboard", "trackio"),
        console=None,
        settings={k: v for k, v in TRL_SETTINGS.items() if k != "refresh_interval"},
    ),
    Sample.of(
        "trainer: verl; label: verl; step: training/global_step; reward: critic/score/mean; "
        "held_out: val-core/gsm8k/acc/mean@4; stores: wandb tensorboard trackio mlflow",
        signals=logged(
            "engine_mismatch: training/rollout_probs_diff_mean; entropy: actor/entropy; kl: actor/kl_loss; "
            "clip_ratio: actor/pg_clipfrac; grad_norm: actor/grad_norm; completion_length: response_length/mean; "
            "learning_rate: actor/lr; loss: actor/pg_loss; completions_clipped_ratio: response_length/clip_ratio"
        ),
        more={"critic/rewards/mean": 9.0, "critic/score/max": 1.0, "val-aux/gsm8k/reward/std@4": 0.3},
        config={
            "actor_rollout_ref": {"rollout": {"n": 16}, "actor": {"optim": {"betas": [0.95, 0.999]}}},
            "data": {"train_batch_size": 256},
            "trainer": {"total_training_steps": 300},
        },
        settings={"group_size": 16, "prompts_per_step": 256, "momentum": 0.95, "total_steps": 300},
        file=("run.jsonl", jsonl(lambda s, row: {"step": s, "data": row})),
        console=lambda s, row: f"step:{s} - " + " - ".join(f"{k}:np.float64({v})" for k, v in row.items()),
    ),
    Sample.of(
        "trainer: EasyR1; label: EasyR1; reward: critic/score/mean; held_out: val/reward_score; "
        "stores: wandb tensorboard mlflow",
        signals=logged(
            "entropy: actor/entropy_loss; kl: actor/kl_loss; clip_ratio: actor/pg_clipfrac_higher; "
            "grad_norm: actor/grad_norm; completion_length: response_length/mean; learning_rate: actor/lr"
        ),
        more={
            "actor/pg_clipfrac_lower": 0.0,
            "reward/overall": 0.9,
            "reward/accuracy": 0.9,
            "val/accuracy_reward": 0.1,
        },
        config={
            "worker": {"rollout": {"n": 16}, "actor": {"optim": {"betas": [0.95, 0.999]}}},
            "data": {"rollout_batch_size": 256},
            "trainer": {"max_steps": 300},
        },
        settings={"group_size": 16, "prompts_per_step": 256, "momentum": 0.95, "total_steps": 300},
        file=("experiment_log.jsonl", jsonl(beside("step"))),
    ),
    Sample.of(
        "trainer: rLLM; label: rLLM; step: training/global_step; reward: critic/rewards/mean; "
        "held_out: val/math/pass@1; stores: wandb tensorboard",
        signals=logged(
            "frac_reward_zero_std: batch/policy/fractions/effective=0.5; entropy: actor/entropy; "
            "clip_ratio: actor/pg_clipfrac; grad_norm: actor/grad_norm; completion_length: response_length/mean; "
            "learning_rate: actor/lr; loss: actor/pg_loss; update_kl: actor/ppo_kl; step_time: timing_s/step"
        ),
        more={"batch/policy/fractions/too_easy": 0.25, "batch/policy/fractions/too_hard": 0.25},
        config={"actor_rollout_ref": {"rollout": {"n": 16}}, "data": {"train_batch_size": 256}},
        settings={"group_size": 16, "prompts_per_step": 256},
    ),
    Sample.of(
        "trainer: ROLL; label: ROLL; reward: critic/score/mean; held_out: val_correct/all/mean; "
        "stores: wandb tensorboard",
        signals=logged(
            "entropy: critic/entropy/mean; kl: actor/kl_loss; clip_ratio: actor/ppo_ratio_clipfrac; "
            "completion_length: tokens/response_length/mean; learning_rate: actor/lr"
        ),
        more={"critic/rewards/mean": 9.0},
        config={"num_return_sequences_in_group": 16, "rollout_batch_size": 256, "max_steps": 300},
        settings={"group_size": 16, "prompts_per_step": 256, "total_steps": 300},
        console=lambda s, row: f"[INFO] metrics_tag: {json.dumps({'step': s, 'metrics': row})}",
    ),
    Sample.of(
        "trainer: OpenRLHF; label: OpenRLHF; step: train/global_step eval/global_step; reward: train/reward; "
        "held_out: eval/eval_gsm8k_pass1; stores: wandb tensorboard",
        signals=logged(
            "engine_mismatch: train/logprobs_diff; reward_std: train/group_reward_std; kl: train/kl; "
            "clip_ratio: train/ppo_clip_ratio; grad_norm: train/actor_grad_norm; "
            "completion_length: train/response_length; learning_rate: train/actor_lr; "
            "completions_clipped_ratio: train/truncated"
        ),
        config={"rollout": {"n_samples_per_prompt": 16, "batch_size": 256}, "adam_betas": [0.95, 0.999]},
        settings={"group_size": 16, "prompts_per_step": 256, "momentum": 0.95},
        renamed={"tensorboard": lambda key: "" if key.endswith("/global_step") else key},
    ),
    Sample.of(
        "trainer: prime-rl; label: prime-rl; step: step; reward: train/agg/all/main/reward/mean; "
        "held_out: eval/math/all/main/avg@4; stores: wandb",
        signals=logged(
            "entropy: entropy/all/mean; engine_mismatch: mismatch_kl/all/mean; clip_ratio: is_masked/all/mean; "
            "grad_norm: optim/grad_norm; completion_length: train/agg/all/main/num_output_tokens/mean; "
            "learning_rate: optim/lr; completions_clipped_ratio: train/agg/all/main/is_truncated/mean; "
            "step_time: time/step"
        ),
        more={"train/agg/effective/main/reward/mean": 9.0},
        config={"orchestrator": {"group_size": 16, "batch_size": 512}, "max_steps": 300},
        settings={"group_size": 16, "prompts_per_step": 32, "total_steps": 300},
        file=("metrics.jsonl", jsonl(beside("step"))),
    ),
    Sample.of(
        "trainer: NeMo-RL; label: NeMo-RL; reward: train/reward; held_out: validation/accuracy; "
        "stores: wandb tensorboard mlflow",
        signals=logged(
            "engine_mismatch: train/gen_kl_error; frac_reward_zero_std: train/baseline_reward/pct_mixed=50.0; "
            "entropy: train/approx_entropy; kl: train/kl_penalty; grad_norm: train/grad_norm; "
            "completion_length: train/mean_gen_tokens_per_sample; learning_rate: train/lr; loss: train/loss; "
            "step_time: timing/train/total_step_time"
        ),
        more={"train/probs_ratio": 1.0},
        config={
            "grpo": {"num_generations_per_prompt": 8, "num_prompts_per_step": 64, "max_num_steps": 300},
            "policy": {"optimizer": {"kwargs": {"betas": [0.95, 0.999]}}},
        },
        settings={"group_size": 8, "prompts_per_step": 64, "momentum": 0.95, "total_steps": 300},
    ),
    Sample.of(
        "trainer: open-instruct; label: open-instruct; step: training_step; reward: scores; held_out: eval/scores; "
        "stores: wandb",
        signals=logged(
            "entropy: policy/entropy_avg; kl: loss/kl_avg; clip_ratio: policy/clipfrac_avg; "
            "grad_norm: optim/grad_norm; completion_length: val/sequence_lengths; learning_rate: lr; "
            "loss: loss/policy_avg"
        ),
        more={"episode": 512.0, "objective/verifiable_reward": 9.0},
        config={"num_samples_per_prompt_rollout": 16, "num_unique_prompts_rollout": 32, "num_training_steps": 300},
        settings={"group_size": 16, "prompts_per_step": 32, "total_steps": 300},
    ),
    Sample.of(
        "trainer: AReaL; label: AReaL; reward: ppo_actor/task_reward/avg; held_out: eval-rollout/reward; "
        "stores: wandb tensorboard trackio",
        signals=logged(
            "entropy: ppo_actor/update/entropy/avg; update_kl: ppo_actor/update/approx_kl/avg; "
            "engine_mismatch: ppo_actor/update/behave_approx_kl/avg; "
            "clip_ratio: ppo_actor/update/clip_ratio/avg; grad_norm: ppo_actor/update/grad_norm; "
            "completion_length: ppo_actor/seq_len/avg; learning_rate: ppo_actor/update/lr; "
            "completions_clipped_ratio: ppo_actor/no_eos_ratios/avg"
        ),
        config={
            "gconfig": {"n_samples": 16},
            "train_dataset": {"batch_size": 256},
            "actor": {"optimizer": {"beta1": 0.95}},
            "total_train_steps": 300,
        },
        settings={"group_size": 16, "prompts_per_step": 256, "momentum": 0.95, "total_steps": 300},
    ),
    SlimeSample.of(
        "trainer: slime; label: slime; reward: rollout/raw_reward; held_out: eval/aime; stores: wandb tensorboard",
        signals=logged(
            "engine_mismatch: train/train_rollout_logprob_abs_diff; entropy: train/entropy_loss; "
            "kl: train/kl_loss; clip_ratio: train/pg_clipfrac; grad_norm: train/grad_norm; "
            "completion_length: rollout/response_len/mean; learning_rate: train/lr-pg_0; loss: train/pg_loss; "
            "completions_clipped_ratio: rollout/truncated_ratio"
        ),
        config={"n_samples_per_prompt": 16, "global_batch_size": 512, "adam_beta1": 0.95},
        settings={"group_size": 16, "prompts_per_step": 32, "momentum": 0.95},
        console=lambda s, row: next(
            f"{word} {s}: { ({k: v for k, v in row.items() if not k.endswith('/step')}) }"
            for key, word in (("rollout/step", "rollout"), ("train/step", "step"), ("eval/step", "eval"))
            if key in row
        ),
    ),
    Sample.of(
        "trainer: SkyRL; label: SkyRL; step: trainer/global_step; reward: reward/avg_raw_reward; "
        "held_out: eval/all/avg_score; stores: wandb tensorboard mlflow",
        signals=logged(
            "engine_mismatch: policy/rollout_train_logprobs_abs_diff_mean; entropy: policy/policy_entropy; "
            "kl: policy/policy_kl; clip_ratio: policy/loss_metrics/clip_ratio; grad_norm: policy/raw_grad_norm; "
            "completion_length: generate/avg_num_tokens; learning_rate: policy/policy_lr; "
            "loss: policy/policy_loss"
        ),
        more={"reward/avg_pass_at_5": 0.9, "loss/avg_final_rewards": 0.3, "trainer/epoch": 0.0},
        config={
            "generator": {"n_samples_per_prompt": 16},
            "trainer": {"train_batch_size": 256, "policy": {"optimizer_config": {"adam_betas": [0.95, 0.999]}}},
        },
        settings={"group_size": 16, "prompts_per_step": 256, "momentum": 0.95},
    ),
    Sample.of(
        "trainer: Tinker cookbook; label: Tinker cookbook; step: step; reward: env/all/reward/total; "
        "held_out: test/env/all/reward/total; stores: wandb",
        signals=logged(
            "frac_reward_zero_std: env/all/by_group/frac_mixed; entropy: optim/entropy; "
            "kl: kl_policy_base; engine_mismatch: optim/kl_sample_train_v1; "
            "completion_length: env/all/ac_tokens_per_turn; learning_rate: optim/lr; "
            "accuracy: env/all/correct"
        ),
        more={"progress/done_frac": 0.5},
        config={"dataset_builder": {"group_size": 16, "batch_size": 256}},
        settings={"group_size": 16, "prompts_per_step": 256},
        file=("metrics.jsonl", jsonl(beside("step"))),
    ),
    Sample.of(
        "trainer: ART; label: ART; step: training_step; reward: train/reward; held_out: val/reward; stores: wandb",
        signals=logged(
            "reward_std: train/reward_std_dev; entropy: loss/entropy; kl: loss/kl_div; grad_norm: loss/grad_norm; "
            "completion_length: train/completion_tokens; learning_rate: loss/learning_rate; loss: loss/train"
        ),
        config={"group_size": 16},
        settings={"group_size": 16},
        file=("history.jsonl", jsonl(beside("step"))),
    ),
    Sample.of(
        "trainer: mlx-lm-lora; label: mlx-lm-lora; step: iteration; reward: train_total_rewards_mean; stores: wandb",
        signals=logged(
            "reward_std: train_total_rewards_std; kl: train_kl; clip_ratio: train_clip_ratio_total; "
            "completion_length: train_average_generated_tokens; learning_rate: learning_rate; loss: train_loss"
        ),
        config={"group_size": 16, "batch_size": 4, "iters": 300},
        settings={"group_size": 16, "prompts_per_step": 4, "total_steps": 300},
    ),
    Sample.of(
        "trainer: Baseten Loops; label: Baseten Loops; reward: reward/mean; step: step",
        signals=logged("reward_std: reward/group_std_mean"),
        config={},
        settings={},
        file=("steps.jsonl", jsonl(beside("step"))),
    ),
    Sample.of(
        "trainer: MiniMind; label: MiniMind; reward: Reward",
        signals=logged(
            "kl: KL_ref; completion_length: Avg Response Len; learning_rate: Learning Rate; loss: Actor Loss"
        ),
        config={},
        settings={"total_steps": 300},
        more={"Adv Std": 0.93, "Adv Mean": 0.0},
        console=lambda s, row: f"Epoch:[1/1]({s}/300), " + ", ".join(f"{k}: {v:.8f}" for k, v in row.items()),
    ),
)
"""The trainers, those with most users first."""
