"""Rollouts as trainers write them, by their documented fields, from one made-up table of completions."""

import gzip
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STEPS, PROMPTS, GROUP = 6, 3, 4
QUESTION = "What is {} + 1? [bold]\x1b[31mSECRET"
"""A prompt with markup and a terminal code: neither is to be seen anywhere."""


class Made(NamedTuple):
    """A completion as it was made up."""

    step: int
    prompt: int
    sample: int
    reward: float
    format: float
    correct: float
    truncated: bool
    version: int


def made(steps: int = STEPS, prompts: int = PROMPTS, group: int = GROUP, seed: int = 0) -> list[Made]:
    """Completions of a few steps; no prompt comes twice. Reward is format and correctness."""
    rng = np.random.default_rng(seed)
    out = []
    for step in range(1, steps + 1):
        for place in range(prompts):
            for sample in range(group):
                shape, right = float(rng.random() < 0.7), float(rng.random() < 0.5)
                prompt = step * prompts + place
                out.append(Made(step, prompt, sample, shape + right, shape, right, rng.random() < 0.2, step - 1))
    return out


def question(completion: Made) -> str:
    return QUESTION.format(completion.prompt)


def output(completion: Made) -> str:
    return f"<b>SECRET</b> {completion.sample}"


def messages(completion: Made) -> list[dict[str, str]]:
    return [{"role": "system", "content": "SECRET"}, {"role": "user", "content": question(completion)}]


def reason(completion: Made) -> str:
    return "length" if completion.truncated else "stop"


def _lines(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(r) + "\n" for r in records)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def _by_step(made_up: list[Made]) -> dict[int, list[Made]]:
    """Completions by their step, in whose order they are."""
    return {step: list(some) for step, some in itertools.groupby(made_up, key=lambda c: c.step)}


def _files(folder: Path, made_up: list[Made], name: str, record: Callable[[int, Made], dict[str, Any]]) -> Path:
    """A file for each step, with a record for each completion, by its place among them."""
    for step, some in _by_step(made_up).items():
        _lines(folder / name.format(step), itertools.starmap(record, enumerate(some)))
    return folder


def write_verl(folder: Path, made_up: list[Made]) -> Path:
    return _files(folder, made_up, "{}.jsonl", lambda i, c: {
        "input": f"system\nhelp\nuser\n{question(c)}\nassistant\n", "output": output(c), "gts": "1", "score": c.reward,
        "step": c.step, "format": c.format, "correct": c.correct, "data_source": "x", "finish_reason": reason(c),
    })  # fmt: skip


def write_trl(folder: Path, made_up: list[Made]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = folder / "completions"
    place.mkdir(parents=True, exist_ok=True)
    for step, some in _by_step(made_up).items():
        reward = np.array([c.reward for c in some]).reshape(-1, GROUP)
        advantage = (reward - reward.mean(1, keepdims=True)) / (reward.std(1, ddof=1, keepdims=True) + 1e-4)
        table = pa.table(
            {
                "step": [c.step for c in some],
                "prompt": [messages(c) for c in some],
                "completion": [[{"role": "assistant", "content": output(c)}] for c in some],
                "format": [c.format for c in some],
                "correct": [c.correct for c in some],
                "advantage": advantage.ravel(),
            }
        )
        pq.write_table(table, place / f"completions_{step:05d}.parquet")
    return folder


def write_prime(folder: Path, made_up: list[Made], packed: bool = False) -> Path:
    for step, some in _by_step(made_up).items():
        for subset in ("all", "effective"):
            kept = some if subset == "all" else some[:GROUP]
            name = "traces.jsonl.gz" if packed else "traces.jsonl"
            _lines(
                folder / f"rollouts/step_{step}/train/{subset}/{name}",
                (
                    {"example_id": c.prompt, "prompt": messages(c), "reward": c.reward, "is_truncated": c.truncated,
                     "completion": [{"role": "assistant", "content": output(c)}],
                     "metrics": {"format": c.format, "correct": c.correct, "num_output_tokens": 10 + c.sample},
                     "info": {"prime_rl": {"group_id": f"g{c.prompt}", "policy_version": c.version}}}
                    for c in kept
                ),
            )  # fmt: skip
    return folder


def write_old_prime(folder: Path, made_up: list[Made]) -> Path:
    return _files(folder, made_up, "rollouts/step_{}/train_rollouts.jsonl", lambda i, c: {
        "example_id": c.prompt, "prompt": messages(c), "reward": c.reward, "is_truncated": c.truncated,
        "metrics": {"format": c.format, "correct": c.correct},
    })  # fmt: skip


def write_nemo(folder: Path, made_up: list[Made]) -> Path:
    return _files(folder, made_up, "exp_001/train_data_step{}.jsonl", lambda i, c: {
        "idx": i, "content": [question(c), output(c)], "rewards": c.reward, "input_lengths": 20, "format": c.format,
        "generation_logprobs": [-1.0, -2.0], "prev_logprobs": [-1.0, -2.0], "correct": c.correct,
        "truncated": c.truncated,
    })  # fmt: skip


def write_tinker(folder: Path, made_up: list[Made]) -> Path:
    return _files(folder, made_up, "iteration_{:06d}/train_rollout_summaries.jsonl", lambda i, c: {
        "schema_version": 1, "split": "train", "iteration": c.step, "group_idx": c.prompt, "traj_idx": c.sample,
        "tags": ["math"], "sampling_client_step": c.version, "total_reward": c.reward, "final_reward": 0.0,
        "trajectory_metrics": {}, "final_ob_len": 50,
        "steps": [{"step_idx": 0, "ob_len": 30, "ac_len": 7, "reward": c.reward, "episode_done": True,
                   "metrics": {"format": c.format, "correct": c.correct}, "logs": {"env/row_id": f"q{c.prompt}"},
                   "stop_reason": reason(c)}],
    })  # fmt: skip


def write_table(folder: Path, made_up: list[Made], name: str = "completions.csv.gz") -> Path:
    import pandas as pd

    frame = pd.DataFrame(made_up).rename(columns={"prompt": "prompt_id", "version": "policy_version"})
    folder.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        frame.to_parquet(folder / name)
    elif name.endswith(".jsonl"):
        frame.to_json(folder / name, orient="records", lines=True)
    else:
        frame.to_csv(folder / name, index=False, sep="\t" if name.endswith(".tsv") else ",")
    return folder


WRITERS: dict[str, tuple[str, Callable[[Path, list[Made]], Path]]] = {
    "verl": ("verl", write_verl),
    "trl": ("trl", write_trl),
    "prime_rl": ("prime_rl", write_prime),
    "prime_rl, older": ("prime_rl", write_old_prime),
    "nemo_rl": ("nemo_rl", write_nemo),
    "tinker_cookbook": ("tinker_cookbook", write_tinker),
    "plain_table": ("plain_table", write_table),
}
"""Words → format and the function that writes it."""
