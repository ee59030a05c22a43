"""What to do about a failure: two or three remedies a mode, tied to the run's own numbers."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.advantage_degeneracy import TYPICAL_GROUP, implied_share
from bayes_grpo.diagnosis.evidence import Courses, Evidence


def remedies_for(mode: str, courses: Courses, evidence: Evidence, onset: Interval | None) -> tuple[str, ...]:
    """Remedies of one mode.

    Args:
        mode: The failure, or "plateaued".
        courses: Courses of the run.
        evidence: Its evidence.
        onset: When it began, where known.
    """
    found = {q.name: q.posterior for q in evidence.quantities}
    stop = () if onset is None else (onset.median,)
    return _WRITERS[mode](courses, found, *stop)


def _hacking(courses: Courses, found: dict[str, Interval], *stop: float) -> tuple[str, ...]:
    out = []
    if stop:
        out.append(f"go back to the checkpoint of about step {stop[0]:.0f}, where the two rewards part")
    if courses.held_out is None:
        out.append("log a held-out or gold reward every 10 to 20 steps: without one this cannot be confirmed")
    else:
        out.append("read 20 completions of the last steps with a high train and a low held-out reward; mend the reward")
    kl = courses.signals.get("kl")
    now = "" if kl is None else f" (the KL stands at {float(kl.mean[-1]):.3g})"
    out.append(f"raise the KL penalty or stop at a KL budget{now}")
    return tuple(out)


def _degeneracy(courses: Courses, found: dict[str, Interval], *stop: float) -> tuple[str, ...]:
    out = []
    size = int(courses.run.settings.group_size.value or TYPICAL_GROUP)
    level = _level(courses)
    if np.isfinite(level):
        p = np.array(np.clip(level, 0.02, 0.98))
        now, then = (float(1.0 - implied_share(p, g)) for g in (size, 4 * size))
        out.append(
            f"a larger group: from G = {size} to {4 * size} a reward of {level:.2f} lets one expect {now:.0%} to "
            f"{then:.0%} of the groups to have spread"
        )
        if level > 0.8:
            out.append("drop prompts that are solved, or sample prompts by their success rate (0.2 to 0.8)")
        elif level < 0.2:
            out.append("easier prompts first, partial credit, or a supervised start: nearly all groups fail as a whole")
        else:
            out.append("drop prompts that are always or never solved, and resample until groups have spread")
    else:
        out.append(f"a larger group than G = {size}, and prompts whose rewards differ within a group")
        out.append("resample prompts until the batch is full of groups with spread")
    share = found.get("zero_share")
    if share is not None:
        out.append(f"at a share of {share.median:.0%} a step does the work of {1.0 - share.median:.0%} of its batch")
    return tuple(out)


def _concentration(courses: Courses, found: dict[str, Interval], *stop: float) -> tuple[str, ...]:
    out = []
    if stop:
        out.append(f"go back to about step {stop[0]:.0f}, where half of the entropy was left")
    out.append("raise the upper clip range (0.2 to 0.28) or add an entropy bonus; a smaller learning rate also helps")
    room = found.get("entropy_headroom")
    if room is not None:
        out.append(f"the entropy law leaves {room.median:.2g} of reward at zero entropy: more steps bring no more")
    return tuple(out)


def _instability(courses: Courses, found: dict[str, Interval], *stop: float) -> tuple[str, ...]:
    settings = courses.run.settings
    out = []
    if stop:
        out.append(
            f"stop, and go back to the checkpoint of about step {stop[0]:.0f}, when the reward first neared its best"
        )
    interval = settings.refresh_interval.value
    known = "" if not interval else f" (K_ref is {float(interval):g} here)"
    out.append(f"lower the learning rate times the refresh interval, eta * K_ref{known}: half of it first")
    out.append("clip the gradient norm; more prompts a step if the fluctuation is the batch's")
    return tuple(out)


def _plateau(courses: Courses, found: dict[str, Interval], *stop: float) -> tuple[str, ...]:
    return (
        "a larger learning rate, if the KL hardly grew; more prompts a step, if noise hides the trend",
        "stop here if the level is what you need: the log shows no growth to wait for",
    )


def _level(courses: Courses) -> float:
    if not np.isfinite(courses.low):
        return float("nan")
    return float((courses.progress.mean[-1] - courses.low) / (courses.high - courses.low))


_WRITERS = {
    "reward_hacking": _hacking,
    "advantage_degeneracy": _degeneracy,
    "policy_concentration": _concentration,
    "dynamical_instability": _instability,
    "plateaued": _plateau,
}
