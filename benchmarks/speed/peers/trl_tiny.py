"""TRL's own trainer on a policy small enough for a processor: random weights, a vocabulary of words, nothing loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset  # pyright: ignore[reportMissingImports]
from tokenizers import Tokenizer, models, pre_tokenizers  # pyright: ignore[reportMissingImports]
from transformers import (  # pyright: ignore[reportMissingImports]
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    set_seed,
)
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]

WORDS = ("<pad>", "<end>", *(f"w{i}" for i in range(13)))


def tokenizer() -> PreTrainedTokenizerFast:
    """A word is a token."""
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>")


def model() -> LlamaForCausalLM:
    """A Llama of two layers of width 64, weights random."""
    set_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            bos_token_id=None,
            eos_token_id=1,
            pad_token_id=0,
            max_position_embeddings=32,
            **shape,
        )
    )


def low_words(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """Share of the words with a number below 5: a rule tells a right completion from a wrong one."""
    return [sum(2 <= token < 7 for token in written) / max(len(written), 1) for written in completion_ids]


def trainer(folder: Path, steps: int, *, work: Callable[[], None] = lambda: None, **settings: Any) -> GRPOTrainer:
    """TRL's trainer on the small policy.

    Args:
        folder: Its output directory.
        steps: Optimizer steps.
        work: What every step does besides, in the place of a larger policy.
        **settings: Fields of `GRPOConfig`.
    """

    def reward(completion_ids: Sequence[Sequence[int]], **more: Any) -> list[float]:
        work()
        return low_words(completion_ids, **more)

    fixed: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 64,
        "num_generations": 8,
        "max_completion_length": 2,
        "learning_rate": 3e-3,
        "beta": 0.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "seed": 0,
    }
    return GRPOTrainer(
        model=model(),
        reward_funcs=reward,
        args=GRPOConfig(**fixed | settings),
        train_dataset=Dataset.from_dict({"prompt": [f"w{i} w{j}" for i in range(8) for j in range(8)]}),
        processing_class=tokenizer(),
    )
