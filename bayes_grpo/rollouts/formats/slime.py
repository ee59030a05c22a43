"""slime: ``--save-debug-rollout-data`` writes pickled torch files, which are refused: to load one may run anything."""

from __future__ import annotations

from collections.abc import Iterator

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.rollouts.completion import Completion
from bayes_grpo.rollouts.lines import LeftOut
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "slime"


def sniff(place: Place) -> list[RolloutFile]:
    """Torch files named by the number of a rollout, where the folder holds nothing else."""
    found = place.named(r"(?:eval_)?(\d+)\.pt")
    return [RolloutFile(path, float(m[1])) for path, m in found] if len(found) == len(place.files) else []


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[Completion]:
    """Refuses.

    Raises:
        LogReadError: Always.
    """
    raise LogReadError(
        f"{part.path}: expected rollouts as JSON lines or a table, found a pickled torch file, "
        "which is not loaded because "
        "loading may run code in it; where you trust it, write its samples as JSON lines with "
        "step, prompt_id, reward: "
        f"[s.to_dict() for s in torch.load(file)['samples']]"
    )
    yield  # a generator, as every other format
