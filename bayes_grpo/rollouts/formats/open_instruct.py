"""open-instruct: ``save_traces``, JSON lines in shards (allenai/open-instruct PR 1406)."""

from __future__ import annotations

from collections.abc import Iterator

from bayes_grpo.rollouts.completion import Completion, count, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "open_instruct"
_OWN = ("step", "sample_idx", "prompt_idx", "reward", "advantage", "model_step")


def sniff(place: Place) -> list[RolloutFile]:
    """Records with prompt_idx, reward and finish_reason."""
    found = place.lines_with("step", "prompt_idx", "reward", "finish_reason")
    return [RolloutFile(path, None, place.split(path)) for path, _ in found]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """One completion a line; its prompt is told by its tokens, or by its place within the step."""
    for r in json_lines(part.path, damage):
        tokens, response = r.get("prompt_tokens"), r.get("response_tokens")
        yield Completion(
            step=scalar_of(r.get("step")),
            reward=scalar_of(r.get("reward")),
            prompt=tokens if tokens else r.get("prompt"),
            group=r.get("prompt_idx"),
            version=count(r.get("model_step")),
            length=len(response) if isinstance(response, list) else -1,
            truncated=was_cut(r.get("finish_reason")),
            parts=scalars_in(r, *_OWN),
            answer=r.get("ground_truth"),
        )
