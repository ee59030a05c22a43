"""The laboratory's network as `transformers`' Llama, its task as a data set, and TRL's trainer on both."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from datasets import Dataset  # pyright: ignore[reportMissingImports]
from tokenizers import Tokenizer, models, pre_tokenizers  # pyright: ignore[reportMissingImports]
from transformers import (  # pyright: ignore[reportMissingImports]
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]

from benchmarks.lab.network import NORM_EPSILON, ROPE_BASE, flat, unflattened
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import END, PAD, Task

LOSSES = {"sequence": ("grpo",), "token": ("bnpo", "dapo"), "constant": ("dr_grpo",)}
"""Our word for a mean and TRL's."""
PARTS = {
    "attention_norm": "input_layernorm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "out": "self_attn.o_proj",
    "unit_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def llama_weights(lab: Lab, vocabulary: int, parameters: Any) -> dict[str, Any]:
    """Parameters side by side as Llama's weights by their names."""
    network = unflattened(lab.network, vocabulary)[1](parameters)
    named: dict[str, Any] = {
        "model.embed_tokens": network.embedding,
        "model.norm": network.norm,
        "lm_head": network.head,
    }
    for i, block in enumerate(network.blocks):
        named |= {f"model.layers.{i}.{theirs}": getattr(block, ours) for ours, theirs in PARTS.items()}
    return {f"{name}.weight": torch.from_numpy(np.array(part.weight)) for name, part in named.items()}


def side_by_side(lab: Lab, vocabulary: int, weights: dict[str, Any]) -> np.ndarray:
    """Llama's weights, or their gradients, in the order of our parameters."""
    size, made = unflattened(lab.network, vocabulary)
    # Each of our places is filled with its own number, so that theirs can be told by name.
    place = llama_weights(lab, vocabulary, np.arange(size, dtype=np.float32))
    assert sorted(place) == sorted(weights)
    assert np.array_equal(flat(made(jnp.arange(size, dtype=jnp.float32))), np.arange(size))
    out = np.empty(size)
    for name, index in place.items():
        out[index.numpy().astype(int).ravel()] = weights[name].double().numpy().ravel()
    return out


def words(vocabulary: int) -> list[str]:
    """A word for every token."""
    return ["<pad>", "<end>", *(f"w{i}" for i in range(2, vocabulary))]


def save_start(folder: Path, lab: Lab, vocabulary: int, parameters: Any) -> Path:
    """A policy as a folder that `transformers` loads."""
    shape = lab.network
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        rms_norm_eps=NORM_EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=PAD,
        max_position_embeddings=64,
    )
    model = LlamaForCausalLM(config)
    model.load_state_dict(llama_weights(lab, vocabulary, parameters))
    model.save_pretrained(folder)
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words(vocabulary))}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>").save_pretrained(folder)
    return folder


def data_set(task: Task, prompts: np.ndarray | None = None, answers: np.ndarray | None = None) -> Dataset:
    """The training prompts in words, their answers in tokens."""
    word = words(task.vocabulary)
    asked, right = (task.train, task.train_answer) if prompts is None else (prompts, answers)
    assert right is not None
    rows = [" ".join(word[t] for t in row) for row in asked.tolist()]
    return Dataset.from_dict({"prompt": rows, "answer": [[t for t in row if t != PAD] for row in right.tolist()]})


def plain_reward(numbers: LabNumbers) -> Callable[..., list[float]]:
    """The laboratory's reward of right answers and of answers anywhere, completion by completion."""

    def reward(completion_ids: Sequence[list[int]], answer: Sequence[list[int]], **_: Any) -> list[float]:
        out = []
        for written, right in zip(completion_ids, answer, strict=True):
            symbols = right[:-1]
            inside = any(written[i : i + len(symbols)] == symbols for i in range(len(written)))
            out.append(float(numbers.right) * (list(written) == right) + float(numbers.anywhere) * inside)
        return out

    return reward


def trainer(
    start: Path,
    data: Dataset,
    reward: Callable[..., list[float]],
    lab: Lab,
    numbers: LabNumbers,
    folder: Path,
    **more: Any,
) -> GRPOTrainer:
    """TRL's trainer with a laboratory's settings."""
    structure, base = lab.structure, numbers.base
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": structure.n_steps,
        "per_device_train_batch_size": structure.group_size * structure.prompts_per_step,
        "gradient_accumulation_steps": 1,
        "num_generations": structure.group_size,
        "max_completion_length": lab.limit,
        "temperature": float(numbers.temperature),
        "learning_rate": float(base.learning_rate),
        "lr_scheduler_type": structure.schedule,
        "warmup_steps": int(base.warmup_steps),
        "optim": "adamw_torch",
        "weight_decay": 0.0,
        "adam_beta1": float(base.momentum),
        "adam_beta2": float(base.adam_beta2),
        "adam_epsilon": float(base.adam_epsilon),
        "max_grad_norm": float(numbers.max_grad_norm),
        "steps_per_generation": int(base.refresh_interval) // int(numbers.epochs),
        "num_iterations": int(numbers.epochs),
        "epsilon": float(base.clip_low),
        "epsilon_high": float(base.clip_high),
        "beta": float(base.kl_weight),
        "use_bias_correction_kl": lab.kl == "weighted",
        "entropy_coef": float(base.entropy_weight),
        "loss_type": LOSSES[lab.loss][-1],
        "scale_rewards": "group" if structure.advantage == "std" else "none",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "model_init_kwargs": {"dtype": "float32"},
    }
    rollouts, adapter = more.pop("rollout_func", None), more.pop("peft_config", None)
    return GRPOTrainer(
        model=str(start),
        reward_funcs=reward,
        args=GRPOConfig(**settings | more),
        train_dataset=data,
        processing_class=PreTrainedTokenizerFast.from_pretrained(start),
        rollout_func=rollouts,
        peft_config=adapter,
    )


def real_run(
    start: Any, task: Task, lab: Lab, numbers: LabNumbers, seed: int, folder: Path, **more: Any
) -> list[dict[str, Any]]:
    """A run of TRL's trainer, kept as its `trainer_state.json`; the rows of its log."""
    state = folder / "trainer_state.json"
    if not state.exists():
        with tempfile.TemporaryDirectory() as saved:
            path = save_start(Path(saved), lab, task.vocabulary, start)
            reward = more.pop("reward", None) or plain_reward(numbers)
            data = more.pop("data", None) or data_set(task)
            run = trainer(path, data, reward, lab, numbers, folder, seed=seed, **more)
            run.train()
            run.save_state()
    rows = json.loads(state.read_text())["log_history"]
    return [row for row in rows if "train_runtime" not in row]


def on_processor() -> None:
    """One thread a process: several runs are made side by side."""
    torch.set_num_threads(1)
    jax.config.update("jax_platforms", "cpu")
