"""What practitioners use today: alarms at fixed thresholds, and packages that live in an environment of their own.

Each rival maps a log to the step of its first alarm for each failure. Alarms become probabilities of the classes in the
most favourable way: by how often each pattern of alarms met each class in runs that were simulated for that purpose.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.results import json_safe
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.logs.run import Run
from benchmarks.lab.learners.public_logs import CLASSES

Alarms = dict[str, float]
"""Mode → step of the first alarm; no entry without one."""

PEER = Path(__file__).parent / "peers" / "rival_alarms.py"
ALARMING = ("warn", "warning", "critical")
"""Levels of a finding at which the packages interrupt by default; lower ones are notes."""


def thresholds(run: Run) -> Alarms:
    """Fixed thresholds in common use.

    Reward hacking: slope of the KL above 3 times the slope of the reward over 50 steps. Advantage degeneracy: mean
    reward std below 0.01 or share of groups without spread above 40%, over ten rows. Policy concentration: entropy
    below 0.1 nat or half of its start. Dynamical instability: KL or gradient norm 3 sigma above the mean of up to 100
    rows before, or gradient norm above 10 times their median.
    """
    found: dict[str, list[float]] = defaultdict(list)
    reward, kl = run.reward, run.signals.get("kl")
    if kl is not None:
        for i in range(len(run.step)):
            window = (run.step > run.step[i] - 50) & (run.step <= run.step[i])
            window &= np.isfinite(kl) & np.isfinite(reward)
            if window.sum() >= 5 and run.step[i] - run.step[0] >= 49:
                away = run.step[window] - run.step[window].mean()
                # Least-squares slopes but for their common factor.
                rise = away @ reward[window]
                if rise > 0 and away @ kl[window] > 3 * rise:
                    found["reward_hacking"].append(run.step[i])
                    break
    for name, fails in (("reward_std", lambda m: m < 0.01), ("frac_reward_zero_std", lambda m: m > 0.4)):
        values = run.signals.get(name)
        if values is not None:
            kept = np.flatnonzero(np.isfinite(values))
            if len(kept) >= 10:
                means = np.convolve(values[kept], np.full(10, 0.1), mode="valid")
                found["advantage_degeneracy"] += run.step[kept[9:]][fails(means)][:1].tolist()
    entropy = run.signals.get("entropy")
    if entropy is not None and np.isfinite(entropy).sum() >= 5:
        start = np.nanmean(entropy[:5])
        found["policy_concentration"] += run.step[(entropy < 0.1) | (entropy < 0.5 * start)][:1].tolist()
    for name in ("kl", "grad_norm"):
        values = run.signals.get(name)
        if values is None:
            continue
        for i in range(20, len(values)):
            before = values[max(i - 100, 0) : i]
            before = before[np.isfinite(before)]
            if len(before) < 10 or not np.isfinite(values[i]):
                continue
            far = values[i] > before.mean() + 3 * max(before.std(), 1e-8)
            if far or (name == "grad_norm" and values[i] > 10 * np.median(before) > 0):
                found["dynamical_instability"].append(run.step[i])
                break
    return {mode: float(min(steps)) for mode, steps in found.items() if steps}


def external(runs: Sequence[Run], python: Path, group_sizes: Sequence[int | None]) -> dict[str, list[Alarms]]:
    """Alarms of the packages that `benchmarks.status.peers.rival_alarms` feeds, for each run.

    Args:
        runs: The runs.
        python: An interpreter that has the packages (`uv pip install rldoctor rlprobe rlwatch` in its environment).
        group_sizes: Completions of a prompt for each run, None where not known.

    Returns:
        Package → alarms of each run; an alarm that names none of `MODES` is "other".
    """
    with tempfile.TemporaryDirectory() as folder:
        given, got = Path(folder) / "logs.json", Path(folder) / "findings.json"
        logs = [as_given(run, size) for run, size in zip(runs, group_sizes, strict=True)]
        given.write_text(json.dumps(json_safe(logs), allow_nan=False), encoding="utf-8")
        subprocess.run([str(python), str(PEER), str(given), str(got)], check=True)
        found = json.loads(got.read_text(encoding="utf-8"))
    return {name: [alarms_of(findings) for findings in each] for name, each in found.items()}


def as_given(run: Run, group_size: int | None) -> dict[str, Any]:
    """A run as `benchmarks.status.peers.rival_alarms` reads it.

    A run does not tell a value logged as NaN from one not logged, so detectors of such values have nothing to see.
    """
    seen = np.isfinite(run.eval_reward)
    return {
        "step": run.step.tolist(),
        "columns": {name: x.tolist() for name, x in {"reward": run.reward, **run.signals}.items()},
        "eval_step": run.eval_step[seen].tolist(),
        "eval_reward": run.eval_reward[seen].tolist(),
        "components": {name: x.tolist() for name, x in run.components.items()},
        "group_size": group_size,
    }


def alarms_of(findings: Sequence[Mapping[str, Any]]) -> Alarms:
    """First alarm of each mode among a package's findings; notes are no alarms."""
    out: Alarms = {}
    for finding in findings:
        if finding["severity"] in ALARMING:
            for mode in finding["modes"]:
                out[mode] = min(float(finding["step"]), out.get(mode, np.inf))
    return out


class AlarmOdds:
    """Probabilities of the classes given a pattern of alarms, from counts."""

    def __init__(self, alarms: Sequence[Mapping[str, float]], labels: Sequence[str]) -> None:
        self._counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        self._all = Counter(labels)
        for found, label in zip(alarms, labels, strict=True):
            self._counts[self._key(found)][label] += 1

    @staticmethod
    def _key(alarms: Mapping[str, float]) -> tuple[str, ...]:
        return tuple(mode for mode in MODES if mode in alarms)

    def __call__(self, alarms: Mapping[str, float]) -> np.ndarray:
        """Probabilities of `CLASSES`: counts with the frequencies of all runs worth one run added."""
        counts = self._counts[self._key(alarms)]
        base = np.array([self._all[name] for name in CLASSES], float) + 1.0
        share = np.array([counts[name] for name in CLASSES], float) + base / base.sum()
        return share / share.sum()


RIVALS: dict[str, Callable[[Run], Alarms]] = {"fixed thresholds": thresholds}
