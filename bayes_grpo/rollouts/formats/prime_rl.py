"""prime-rl: ``rollouts/step_N/{train,eval}/{all,effective}/traces.jsonl``, older ``train_rollouts.jsonl``.

PrimeIntellect-ai/prime-rl PRs 2248 and 2983. "all" is what was sampled, "effective" what was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayes_grpo.rollouts.completion import Completion, count, last_turn, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "prime_rl"
_NEW = r"step_(\d+)/(train|eval)/(all|effective)/traces\.jsonl(?:\.gz)?"
_OLD = r"step_(\d+)/(train|eval)_rollouts\.jsonl(?:\.gz)?"


def sniff(place: Place) -> list[RolloutFile]:
    """Files at the places where it writes them."""
    new = [RolloutFile(path, float(m[1]), m[2], m[3]) for path, m in place.named(_NEW)]
    return new or [RolloutFile(path, float(m[1]), m[2]) for path, m in place.named(_OLD)]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """One completion a line; the metrics of its reward functions are parts."""
    for r in json_lines(part.path, damage):
        own = _mapping(_mapping(r.get("info")).get("prime_rl"))
        metrics = _mapping(r.get("metrics"))
        tokens = r.get("completion_len", metrics.get("num_output_tokens", metrics.get("completion_tokens")))
        yield Completion(
            step=part.step if part.step is not None else float("nan"),
            reward=scalar_of(r.get("reward")),
            prompt=r.get("example_id", _mapping(r.get("task")).get("id", r.get("prompt"))),
            group=r.get("group_id", own.get("group_id")),
            version=count(r.get("policy_version", own.get("policy_version"))),
            length=count(tokens),
            truncated=was_cut(r.get("is_truncated", r.get("stop_condition", r.get("stop_reason")))),
            parts=scalars_in(metrics),
            output=last_turn(r.get("completion")),
            answer=r.get("answer"),
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
