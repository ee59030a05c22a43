"""`diagnose`: from a run to probabilities of what is wrong with it, the evidence, the onset, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import LogSubject
from bayes_grpo.diagnosis.actions import advice
from bayes_grpo.diagnosis.causes import status_of
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.few_rows import SINGLE_STEPS, status_of_rows
from bayes_grpo.diagnosis.freshness import freshness
from bayes_grpo.diagnosis.mode import HELD_OUT, Timeline, all_modes, probabilities_of, timeline_of
from bayes_grpo.diagnosis.modes.lost_gradient import zeros_of
from bayes_grpo.diagnosis.plausibility import implausible, negative_kl, of_groups, unpaid_parts
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.result import Diagnosis, Onset
from bayes_grpo.diagnosis.story import progress_text, resume_before, sudden_events
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.diagnosis.wording import joined
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.parts import parts_of
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from bayes_grpo.rollouts.records import Rollouts


def diagnose(run: RunLike, *, up_to_step: float | None = None, rollouts: Rollouts | None = None) -> Diagnosis:
    """Names what is wrong with a run, with probabilities.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        up_to_step: Use rows up to this optimizer step only, as if it were now.
        rollouts: Completions of the same run, which decompose its gain.

    Returns:
        Probabilities, evidence, onsets and remedies. The status of a log with too few rewards is "unclear".

    Raises:
        FitError: No row is left at that step.

    Examples:
        >>> run = read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
        >>> diagnose(run).status.headline
        'The reward is rising; no failure detected.'
    """
    run = as_run(run)
    shown = of_groups(run if up_to_step is None else run.until(up_to_step))
    if not len(shown.step) and not len(shown.eval_step):
        expected = f"expected rows up to step {up_to_step:g}, found none in {run.name}"
        raise FitError(f"{expected}; choose a later step", parameter="up_to_step")
    steps = np.concatenate([shown.step, shown.eval_step])
    about = LogSubject(
        name=shown.name,
        source=shown.source,
        format=shown.format,
        log_hash=shown.log_hash,
        rows=len(shown.step),
        evaluations=len(shown.eval_step),
        first_step=float(steps.min()),
        last_step=float(steps.max()),
        up_to_step=up_to_step,
        interval_level=LEVEL,
    )
    gain, doubts = None, ()
    if rollouts is not None:
        from bayes_grpo.rollouts.join import gain_of  # SciPy's statistics, half a second that few calls need

        gain, doubts = gain_of(shown, rollouts if up_to_step is None else rollouts.until(up_to_step))
    view = RunView.of(shown, gain)
    rows = max(len(shown.step), len(shown.eval_step))
    status = status_of_rows(shown)
    happened: tuple[Finding, ...] = ()
    timeline = None
    evidence = {}
    zeros = None
    assumed: tuple[str, ...] = ()
    onsets = {}
    remedies = {}
    missing = () if shown.has_reward or shown.has_eval else ("reward",)
    useful = tuple(dict.fromkeys(x for m in all_modes() for x in m.wants))
    empty = tuple(x for x in useful if len(shown.step) and shown.not_finite(x).all())
    single = tuple(x for x in useful if rows > 1 and _values(shown, x) == 1)
    if view is not None:
        timeline = timeline_of(view)
        if rows <= SINGLE_STEPS:
            timeline = timeline.for_few_rows()
        assumed = (view.paths.ends.assumed,) if view.paths.ends.assumed else ()
        zeros = zeros_of(view)
        evidence = _evidence(timeline, view) | ({} if zeros is None else {"zero_loss": zeros.clause})
        evidence |= {
            x.kind: x.clause for x in (negative_kl(shown), freshness(shown), unpaid_parts(shown)) if x is not None
        }
        resumed = resume_before(timeline, view)
        facts = Facts(view, timeline, resumed)
        if resumed is not None:
            changes = (x.clause for x in resumed.changes)
            evidence["resume"] = joined((f"a fall begins at {shown.step_name(resumed.step)}", *changes))
        onsets, remedies = _what_to_do(timeline, facts)
        logged = {*shown.signals, *([HELD_OUT] if view.held_out is not None else [])}
        wanted = [x for x in useful if x not in {*logged, *empty, *single}]
        # A log of evaluation rewards alone lacks the train reward that hacking would raise.
        missing = tuple("train reward" if x == HELD_OUT and view.paths.uses_eval else x for x in wanted)
        happened = sudden_events(view)
        if rows > SINGLE_STEPS:
            status = status_of(facts, happened)
    return Diagnosis(
        status=status,
        events=happened,
        probability=(probabilities_of(None) if timeline is None else timeline.now).probability,
        evidence=evidence,
        onsets=onsets,
        remedies=remedies,
        missing=missing,
        empty=empty,
        single=single,
        suggested=shown.suggested,
        about=about,
        notes=(*shown.notes, *implausible(shown), *assumed, *doubts),
        paths=None if view is None else view.paths,
        timeline=timeline,
        gain=gain,
        zeros=zeros,
        parts=() if view is None else parts_of(view.paths),
    )


def _values(run: Run, name: str) -> int:
    """Number of values of a useful signal."""
    if name == HELD_OUT:
        return max(np.isfinite(run.eval_reward).sum(), np.isfinite(run.values("gold_reward")).sum())
    return int(np.isfinite(run.values(name)).sum())


def _evidence(timeline: Timeline, view: RunView) -> dict[str, str]:
    """Evidence of each mode that has any, over the whole log."""
    found = {"progress": progress_text(view)}
    for mode in all_modes():
        if mode.is_failure and mode.name in timeline.modes:
            found[mode.name] = mode.text(view, view.first_step, view.last_step)
    return {name: text for name, text in found.items() if text}


def _what_to_do(timeline: Timeline, facts: Facts) -> tuple[dict[str, Onset], dict[str, tuple[Action, ...]]]:
    """Onsets and remedies of the failures that are suspected; where none is, remedies of what the reward does."""
    onsets = {}
    remedies = {}
    probability = timeline.now.probability
    for mode in all_modes():
        episode = next((e for e in reversed(timeline.episodes) if e.mode == mode.name and not e.over), None)
        over = episode is None and any(e.mode == mode.name for e in timeline.probable(over=True))
        suspected = probability.get(mode.name, 0.0) > THRESHOLDS.suspect and not over
        if suspected and episode is not None:
            onsets[mode.name] = Onset(episode.onset, episode.severity_text)
        calm = not mode.is_failure and timeline.modes[mode.name].under_way >= THRESHOLDS.probable
        if suspected or (calm and facts.failing < THRESHOLDS.probable):
            remedies[mode.name] = advice(mode.name, facts)
    return onsets, remedies
