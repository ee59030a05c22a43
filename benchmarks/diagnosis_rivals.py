"""What practitioners use today: alarms at fixed thresholds, and the package rlwatch where it is installed.

Each rival maps a log to the step of its first alarm for each failure. Alarms become probabilities of the classes in the
most favourable way: by how often each pattern of alarms met each class in runs that were simulated for that purpose.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import numpy as np

from bayes_grpo.diagnosis.classes import CLASSES, MODES
from bayes_grpo.logs.run import Run

Alarms = dict[str, float]
"""Mode → step of the first alarm; no entry without one."""

RLWATCH_MODES = {
    "entropy_collapse": "policy_concentration",
    "kl_explosion": "dynamical_instability",
    "gradient_norm_spike": "dynamical_instability",
    "loss_nan": "dynamical_instability",
    "advantage_variance": "dynamical_instability",
    "reward_hacking": "reward_hacking",
}


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


def has_rlwatch() -> bool:
    """Whether the package rlwatch can be imported."""
    return find_spec("rlwatch") is not None


def rlwatch(run: Run) -> Alarms:
    """Alarms of rlwatch with its defaults, fed every signal of the log that it takes."""
    from rlwatch.config import RLWatchConfig  # pyright: ignore[reportMissingImports]
    from rlwatch.detectors import DetectorSuite  # pyright: ignore[reportMissingImports]

    suite = DetectorSuite(RLWatchConfig())
    names = {"entropy": "entropy", "kl": "kl_divergence", "reward_std": "reward_std", "loss": "loss",
             "grad_norm": "grad_norm"}  # fmt: skip
    out: Alarms = {}
    for i, step in enumerate(run.step):
        fed = {theirs: float(run.signals[ours][i]) for ours, theirs in names.items() if ours in run.signals}
        fed["reward_mean"] = float(run.reward[i])
        # What was not logged in a row is not fed; only a logged loss can be "not finite".
        for alert in suite.check_step(int(step), **{k: v for k, v in fed.items() if np.isfinite(v)}):
            out.setdefault(RLWATCH_MODES[alert.detector], float(step))
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
if has_rlwatch():
    RIVALS["rlwatch"] = rlwatch
