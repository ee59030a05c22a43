"""Alarms of rldoctor, rlprobe and rlwatch with their defaults, in an environment of their own.

    python benchmarks/status/peers/rival_alarms.py LOGS.json FINDINGS.json

LOGS.json holds a list of logs: "step", "columns" (our canonical name → values on the steps, null where not logged),
"eval_step" and "eval_reward", "components" (reward function → values) and "group_size" (null where not known).
FINDINGS.json gets, by package, a list for each log of {"name", "step", "severity", "modes"}: the name is theirs; the
step is that of the onset where the package states one, else the last of the log; the modes are ours, or `OTHER`.

Every package gets every signal that it looks at, under its own names. rldoctor and rlprobe judge the whole log, as our
diagnosis does; rlwatch goes through it row by row.

    ours                          rldoctor                    rlprobe                     rlwatch
    reward                        reward                      reward_mean                 reward_mean
    eval_reward, else gold_reward eval_score                  -                           -
    reward_std                    reward_std                  reward_std                  reward_std
    frac_reward_zero_std          frac_reward_zero_std        zero_variance_group_frac    -
    entropy                       entropy                     entropy_mean                entropy
    kl                            kl                          kl_mean                     kl_divergence
    grad_norm                     grad_norm                   grad_norm                   grad_norm
    loss                          loss                        loss                        loss
    clip_ratio                    clip_ratio                  clip_fraction               -
    completion_length             completion_length           completion_len_mean         -
    completions_clipped_ratio     completions/clipped_ratio   truncation_rate             -
    learning_rate                 learning_rate               lr                          -
    components                    rewards/NAME/mean           reward_components           -
    group size                    num_generations             -                           -
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

OTHER = "other"
"""What a finding is called that names none of our failures."""

HACKING, DEGENERACY = "reward_hacking", "advantage_degeneracy"
CONCENTRATION, INSTABILITY = "policy_concentration", "dynamical_instability"

MODES_OF: dict[str, tuple[tuple[str, str, str], ...]] = {
    "rldoctor": (
        ("advantage_collapse", "", DEGENERACY),
        ("entropy_collapse", "", CONCENTRATION),
        ("reward_hacking", "", HACKING),
        ("length_pathology", "in lockstep with reward", HACKING),
        ("reward_composition", "auxiliary term", HACKING),
        ("kl_drift", "KL has reached", INSTABILITY),
        ("kl_drift", "accelerating", INSTABILITY),
        ("kl_drift", "and high", INSTABILITY),
        ("clip_saturation", "discarded by clipping", INSTABILITY),
        ("clip_saturation", "token updates are clipped", INSTABILITY),
        ("clip_saturation", "starves exploration", CONCENTRATION),
        ("gradient_pathology", "non-finite", INSTABILITY),
        ("gradient_pathology", "large gradient spikes", INSTABILITY),
        # In its own words both come of groups whose completions all score the same.
        ("gradient_pathology", "exactly zero gradient", DEGENERACY),
        ("gradient_pathology", "barely moving", DEGENERACY),
    ),
    "rlprobe": (
        ("KL_BLOWUP", "", INSTABILITY),
        ("ENTROPY_COLLAPSE", "", CONCENTRATION),
        ("REPETITION_SPIRAL", "", CONCENTRATION),
        ("REWARD_HACK_LENGTH", "", HACKING),
        ("FORMAT_GAMING", "", HACKING),
        ("CLIP_SATURATION", "", INSTABILITY),
        ("GRAD_PATHOLOGY", "", INSTABILITY),
        ("VALUE_DIVERGENCE", "", INSTABILITY),
        ("DEGENERATE_GROUPS", "", DEGENERACY),
        ("ADV_COLLAPSE", "", DEGENERACY),
        ("REWARD_STD_DEATH", "", DEGENERACY),
    ),
    "rlwatch": (
        ("entropy_collapse", "", CONCENTRATION),
        ("kl_explosion", "", INSTABILITY),
        ("gradient_norm_spike", "", INSTABILITY),
        ("loss_nan", "", INSTABILITY),
        ("advantage_variance", "", INSTABILITY),
        ("reward_hacking", "", HACKING),
        ("reward_mean_drift", "drifting upward", HACKING),
        ("reward_mean_drift", "drifting downward", INSTABILITY),
    ),
}
"""Package → (its name of a finding, a phrase of its text, our mode): what the finding names, in the package's words."""

RLDOCTOR = {"completions_clipped_ratio": "completions/clipped_ratio"} | {
    name: name
    for name in (
        "reward", "reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "loss", "clip_ratio",
        "completion_length", "learning_rate",
    )
}  # fmt: skip
RLPROBE = {
    "reward": "reward_mean", "reward_std": "reward_std", "frac_reward_zero_std": "zero_variance_group_frac",
    "entropy": "entropy_mean", "kl": "kl_mean", "grad_norm": "grad_norm", "loss": "loss",
    "clip_ratio": "clip_fraction", "completion_length": "completion_len_mean",
    "completions_clipped_ratio": "truncation_rate", "learning_rate": "lr",
}  # fmt: skip
RLWATCH = {
    "reward": "reward_mean", "reward_std": "reward_std", "entropy": "entropy", "kl": "kl_divergence",
    "grad_norm": "grad_norm", "loss": "loss",
}  # fmt: skip

Finding = dict[str, Any]


def modes_of(package: str, name: str, text: str) -> list[str]:
    """Our modes that a package's finding names; `OTHER` where it names none."""
    found = {mode for theirs, phrase, mode in MODES_OF[package] if theirs == name and phrase in text}
    return sorted(found) or [OTHER]


def fed(columns: Mapping[str, list[float | None]], names: Mapping[str, str], row: int) -> dict[str, float]:
    """What was logged in a row, under a package's names. What was not logged is not fed."""
    values = {theirs: columns[ours][row] for ours, theirs in names.items() if ours in columns}
    return {name: x for name, x in values.items() if x is not None and math.isfinite(x)}


def held_out(log: Mapping[str, Any]) -> dict[float, float]:
    """Step → held-out score: of the evaluations, or of a true reward logged beside the train reward."""
    steps, values = log["eval_step"], log["eval_reward"]
    if not steps:
        steps, values = log["step"], log["columns"].get("gold_reward", [])
    return {step: x for step, x in zip(steps, values, strict=False) if x is not None}


def records(log: Mapping[str, Any]) -> list[dict[str, float]]:
    """A log as the rows that rldoctor reads, evaluations among them, one row a step."""
    rows = {step: {"step": step} | fed(log["columns"], RLDOCTOR, i) for i, step in enumerate(log["step"])}
    for i, step in enumerate(log["step"]):
        rows[step] |= fed(log["components"], {name: f"rewards/{name}/mean" for name in log["components"]}, i)
    for step, score in held_out(log).items():
        rows.setdefault(step, {"step": step})["eval_score"] = score
    return [rows[step] for step in sorted(rows)]


def rldoctor(log: Mapping[str, Any]) -> list[Finding]:
    """What `rl_doctor.diagnose` finds, from its level "info" on."""
    from rl_doctor import diagnose, run_from_records  # pyright: ignore[reportMissingImports]

    size = log["group_size"]
    run = run_from_records(records(log), config=None if size is None else {"num_generations": size})
    return [
        {
            "name": f.detector,
            "step": float(run.steps[-1]),
            "severity": f.severity.name.lower(),
            "modes": modes_of("rldoctor", f.detector, f.summary),
        }
        for f in diagnose(run).problems
    ]


def rlprobe(log: Mapping[str, Any]) -> list[Finding]:
    """What `rlprobe.doctor` finds in the log as a recording."""
    from rlprobe.doctor import RunView  # pyright: ignore[reportMissingImports]
    from rlprobe.doctor.engine import diagnose_view  # pyright: ignore[reportMissingImports]
    from rlprobe.schemas import RunManifest, StepRecord  # pyright: ignore[reportMissingImports]

    names = {name: name for name in log["components"]}
    rows = [
        StepRecord(
            step=int(step), **fed(log["columns"], RLPROBE, i), reward_components=fed(log["components"], names, i)
        )
        for i, step in enumerate(log["step"])
    ]
    found = diagnose_view(RunView(RunManifest(run_id="log", created_at="", algorithm="grpo"), rows))
    return [
        {
            "name": f.signature_id,
            "step": log["step"][-1] if f.first_step is None else float(f.first_step),
            "severity": f.severity,
            "modes": modes_of("rlprobe", f.signature_id, f.explanation),
        }
        for f in found
    ]


def rlwatch(log: Mapping[str, Any]) -> list[Finding]:
    """Alerts of rlwatch's detectors, the first of each kind and level."""
    from rlwatch.config import RLWatchConfig  # pyright: ignore[reportMissingImports]
    from rlwatch.detectors import DetectorSuite  # pyright: ignore[reportMissingImports]

    suite = DetectorSuite(RLWatchConfig())
    found: dict[tuple[str, ...], Finding] = {}
    for i, step in enumerate(log["step"]):
        for alert in suite.check_step(int(step), **fed(log["columns"], RLWATCH, i)):
            modes = modes_of("rlwatch", alert.detector, alert.message)
            finding = {"name": alert.detector, "step": step, "severity": alert.severity, "modes": modes}
            found.setdefault((alert.detector, alert.severity, *modes), finding)
    return list(found.values())


PACKAGES: dict[str, Callable[[Mapping[str, Any]], list[Finding]]] = {
    "rldoctor": rldoctor,
    "rlprobe": rlprobe,
    "rlwatch": rlwatch,
}


def main() -> None:
    warnings.simplefilter("ignore")
    logs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out = {name: [find(log) if log["step"] else [] for log in logs] for name, find in PACKAGES.items()}
    Path(sys.argv[2]).write_text(json.dumps(out), encoding="utf-8")
    print("fed to " + ", ".join(f"{name} {version(name)}" for name in PACKAGES))


if __name__ == "__main__":
    main()
