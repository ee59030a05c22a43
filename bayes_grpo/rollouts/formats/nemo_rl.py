"""NeMo-RL: ``exp_NNN/train_data_stepN.jsonl``, on by default (NVIDIA-NeMo/RL issue 2472).

Records of a prompt stand side by side. Where ``content`` is one text, nothing tells prompts apart but the group size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayes_grpo.rollouts.completion import Completion, count, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "nemo_rl"
_OWN = ("rewards", "reward", "idx", "input_lengths", "step", "truncated", "sample_loss_mask")


def sniff(place: Place) -> list[RolloutFile]:
    """Files at the places where it writes them."""
    found = place.named(r"(train|val)_data_step_?(\d+)\.jsonl(?:\.gz)?")
    return [RolloutFile(path, float(m[2]), "eval" if m[1] == "val" else "train") for path, m in found]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """One completion a line."""
    for r in json_lines(part.path, damage):
        content = r.get("content")
        turns = content if isinstance(content, list) and len(content) > 1 else None
        yield Completion(
            step=part.step if part.step is not None else float("nan"),
            reward=scalar_of(r.get("rewards", r.get("reward"))),
            prompt=_question(turns),
            length=count(r.get("input_lengths")),
            truncated=was_cut(r.get("truncated")),
            parts=scalars_in(r, *_OWN),
            output=turns[-1] if turns else content,
        )


def _question(turns: list[Any] | None) -> Any:
    """All turns but the last, which is the completion; messages keep the user's."""
    if turns is None:
        return None
    return turns[:-1] if isinstance(turns[0], dict) else "\n".join(map(str, turns[:-1]))
