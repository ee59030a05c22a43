"""tinker-cookbook: ``iteration_NNNNNN/train_rollout_summaries.jsonl`` (thinking-machines-lab/tinker-cookbook PR 389).

Groups of constant reward are dropped before they are written: shares of useful groups are 1 by construction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayes_grpo.rollouts.completion import UNKNOWN, Completion, count, scalar_of, scalars_in, was_cut
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "tinker_cookbook"
DROPS_CONSTANT = True
"""Whether groups without spread are left out by the trainer."""


def sniff(place: Place) -> list[RolloutFile]:
    """Files at the places where it writes them."""
    found = place.named(r"iteration_(\d+)/(train|eval[^/]*)_rollout_summaries\.jsonl(?:\.gz)?")
    return [RolloutFile(path, float(m[1]), "train" if m[2] == "train" else "eval") for path, m in found]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """One trajectory a line; metrics of its steps are summed into parts."""
    for r in json_lines(part.path, damage):
        steps = [s for s in r.get("steps") or [] if isinstance(s, dict)]
        parts: dict[str, float] = scalars_in(_mapping(r.get("trajectory_metrics")))
        for s in steps:
            for name, value in scalars_in(_mapping(s.get("metrics"))).items():
                parts[name] = parts.get(name, 0.0) + value
        lengths = [count(s.get("ac_len")) for s in steps]
        tags = r.get("tags")
        row = next((_mapping(s.get("logs")).get("env/row_id") for s in steps), None)
        yield Completion(
            step=scalar_of(r.get("iteration", part.step)),
            reward=scalar_of(r.get("total_reward")),
            prompt=row if row is not None else _first_observation(steps),
            group=(str(tags), r.get("group_idx")),
            sample=count(r.get("traj_idx")),
            version=count(r.get("sampling_client_step")),
            length=sum(lengths) if lengths and UNKNOWN not in lengths else UNKNOWN,
            truncated=was_cut(steps[-1].get("stop_reason")) if steps else UNKNOWN,
            parts=parts,
        )


def _first_observation(steps: list[dict[str, Any]]) -> Any:
    trace = _mapping(steps[0].get("trace")) if steps else {}
    return _mapping(trace.get("prompt")).get("messages")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
