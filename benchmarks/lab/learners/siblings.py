"""Labeled public runs as families of siblings: what was changed between them, and which failed.

An index (`run_id`, `repo`, `model`, `task`, settings, `outcome_label`, `notes`) is all that is read. Its settings are
text in their authors' words ("epochs=4, train_batch=64 (16 opt steps/rollout)"), parsed here with care: what cannot be
read is unknown, and an unknown setting counts as unchanged.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.index import rows_in

_FAILED = ("dynamical_instability", "policy_concentration")
_WORKED = ("healthy", "plateaued")
_DECAYS = ("cosine", "linear")
_LEFT_OUT = ("tsushanth/rlhf-lab",)
"""Repositories whose runs are one script before and after it was mended: no setting tells them apart."""
_STATED: tuple[tuple[str, dict[str, str]], ...] = (
    ("shb_lrsweep_5e5", {"run_id": "shb_lrsweep_7e5 (no log)", "learning_rate": "7e-05"}),
    ("shb_lrsweep_5e5", {"run_id": "shb_lrsweep_2e4 (no log)", "learning_rate": "2e-04"}),
)
"""Runs without a log whose failure an index states in a sibling's notes ("lr 2e-4 collapsed to 0 and 7e-5 to 21%")."""


class Sibling(NamedTuple):
    """A labeled run.

    Attributes:
        name: Its name.
        repo: Where it comes from.
        family: Repository, task and model, what its siblings share.
        settings: Known settings; flags (all weights, no decay, fewer safeguards) as numbers.
        label: Its label.
    """

    name: str
    repo: str
    family: str
    settings: Mapping[str, Any]
    label: str

    @property
    def failed(self) -> bool:
        """Whether it failed as settings make runs fail."""
        return self.label in _FAILED


def siblings_in(indices: Sequence[Path]) -> list[Sibling]:
    """Labeled runs of the indices that worked or failed; hackings, degeneracies and unknown outcomes are left out.

    Args:
        indices: CSV files.
    """
    rows = rows_in(indices)
    known = {row["run_id"]: row for row in rows}
    rows += [
        known[name] | changed | {"outcome_label": "dynamical_instability"} for name, changed in _STATED if name in known
    ]
    return [
        Sibling(row["run_id"], row["repo"], _family(row), _settings(row), row["outcome_label"])
        for row in rows
        if row["outcome_label"] in _FAILED + _WORKED and row["repo"] not in _LEFT_OUT
    ]


def _settings(row: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a row; unknown ones are absent."""
    refresh, notes = row["refresh"], row["notes"].lower() + " " + row["run_id"].lower()
    said = {
        "learning_rate": _number(row["learning_rate"]),
        "group_size": _number(row["group_size"]),
        "prompts_per_step": _number(row["prompts_per_step"]),
        "kl_weight": _number(row["kl_beta"]),
        "refresh_interval": _first(
            refresh, r"\((\d+) opt steps?", r"^(\d+) optimizer update", r"every (\d+) steps", r"^(1)\b", r"mu=(\d+)"
        ),
        "epochs": _first(
            refresh, r"epochs[a-z_]*=(\d+)", r"epochs (\d+)", r"^(\d+) epoch", r"mu=(\d+)", r"num_iterations=(\d+)"
        ),
        "clip_range": _first(notes, r"clip [\d.]+/([\d.]+)", r"epsilon ([\d.]+)"),
        # The Tinker service trains adapters alone.
        "full": float("lora" not in row["model"].lower() and "tinker" not in row["repo"]),
        "undecayed": float(not any(x in row["lr_schedule"] for x in _DECAYS)),
        "unguarded": float("no_baseline" in notes or "nobaseline" in notes)
        + float("no_clip" in notes or "noclip" in notes),
        "unscaled": float("without std division" in notes or "std norm false" in notes or "nostd" in notes),
    }
    if said["refresh_interval"] is None and "on policy" in refresh:
        said["refresh_interval"] = 1.0
    # Only "epochs over the rollout batch" is said where a minibatch is of constant size: ratios are right.
    said["refresh_interval"] = said["refresh_interval"] or said["epochs"]
    if said["refresh_interval"] and said["epochs"] is None:
        said["epochs"] = 1.0
    return {k: v for k, v in said.items() if v is not None}


def _family(row: Mapping[str, str]) -> str:
    model = row["model"].partition("(")[0].strip()
    task = re.split(r"[,(]", row["task"])[0].strip()
    apart = [
        word
        for word, there in (
            ("before a bug was mended", "prefix" in row["family"]),
            ("PPO", "ppo" in row["run_id"]),
            ("from SFT", "sftinit" in row["run_id"] or "v2: SFT" in row["task"]),
        )
        if there
    ]
    return ", ".join([row["repo"], task, model, *apart])


def _number(text: str) -> float | None:
    found = re.match(r"\A\s*+(\d+(?:\.\d*)?(?:e[-+]?\d+)?)", text, re.IGNORECASE)
    return None if found is None else float(found[1])


def _first(text: str, *patterns: str) -> float | None:
    return next((float(m[1]) for p in patterns if (m := re.search(p, text)) is not None), None)


class SiblingPair(NamedTuple):
    """A run that worked and another run of its family.

    Attributes:
        worked: The run that worked.
        other: The other run.
    """

    worked: Sibling
    other: Sibling

    @property
    def changed(self) -> frozenset[str]:
        """Settings that are known of both runs and differ."""
        before, after = self.worked.settings, self.other.settings
        return frozenset(name for name in before if name in after and before[name] != after[name])


def sibling_pairs(siblings: Sequence[Sibling]) -> list[SiblingPair]:
    """Every run that worked with each other run of its family."""
    families: dict[str, list[Sibling]] = defaultdict(list)
    for sibling in siblings:
        families[sibling.family].append(sibling)
    return [
        SiblingPair(run, other)
        for runs in families.values()
        for run in runs
        for other in runs
        if not run.failed and other is not run
    ]
