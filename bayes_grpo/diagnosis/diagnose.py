"""`diagnose`: from a run to probabilities of what is wrong with it, the evidence, the onset, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import LogSubject
from bayes_grpo.diagnosis.actions import advice
from bayes_grpo.diagnosis.causes import status_of
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.few_rows import SINGLE_STEPS, status_of_rows
from bayes_grpo.diagnosis.mode import HELD_OUT, Timeline, all_modes, probabilities_of, timeline_of
from bayes_grpo.diagnosis.modes.lost_gradient import zeros_of
from bayes_grpo.diagnosis.plausibility import freshness, implausible, negative_kl, of_groups, unpaid_parts
from bayes_grpo.diagnosis.records import Action
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
    useful = tuple(dict.fromkeys(x for m in all_modes() for x in m.wants))
    empty = tuple(x for x in useful if len(shown.step) and shown.not_finite(x).all())
    single = tuple(x for x in useful if rows > 1 and _values(shown, x) == 1)
    missing = () if shown.has_reward or shown.has_eval else ("reward",)
    judged: dict[str, Any] = {"status": status_of_rows(shown), "probability": probabilities_of(None).probability}
    assumed: tuple[str, ...] = ()
    if view is not None:
        judged |= _judged(view, few=rows <= SINGLE_STEPS)
        assumed = (view.paths.ends.assumed,)
        logged = {*shown.signals, *([HELD_OUT] if view.held_out is not None else [])}
        wanted = [x for x in useful if x not in {*logged, *empty, *single}]
        # A log of evaluation rewards alone lacks the train reward that hacking would raise.
        missing = tuple("train reward" if x == HELD_OUT and view.paths.uses_eval else x for x in wanted)
    return Diagnosis(
        **judged,
        missing=missing,
        empty=empty,
        single=single,
        suggested=shown.suggested,
        about=about,
        notes=tuple(x for x in (*shown.notes, *implausible(shown), *assumed, *doubts) if x),
        gain=gain,
    )


def _values(run: Run, name: str) -> int:
    """Number of values of a useful signal."""
    if name == HELD_OUT:
        return max(np.isfinite(run.eval_reward).sum(), np.isfinite(run.values("gold_reward")).sum())
    return int(np.isfinite(run.values(name)).sum())


def _judged(view: RunView, few: bool) -> dict[str, Any]:
    """Fields of the diagnosis of a run that has paths; of few rows without a status."""
    run = view.run
    timeline = timeline_of(view)
    if few:
        timeline = timeline.for_few_rows()
    zeros = zeros_of(view)
    resumed = resume_before(timeline, view)
    facts = Facts(view, timeline, resumed)
    happened = sudden_events(view)
    onsets, remedies = _what_to_do(timeline, facts)
    evidence = {"progress": progress_text(view)}
    for mode in all_modes():
        if mode.is_failure and mode.name in timeline.modes:
            evidence[mode.name] = mode.text(view, view.first_step, view.last_step)
    if zeros is not None:
        evidence["zero_loss"] = zeros.clause
    evidence |= {x.kind: x.clause for x in (negative_kl(run), freshness(run), unpaid_parts(run)) if x is not None}
    if resumed is not None:
        changes = (x.clause for x in resumed.changes)
        evidence["resume"] = joined((f"a fall begins at {run.step_name(resumed.step)}", *changes))
    judged = {} if few else {"status": status_of(facts, happened)}
    return judged | {
        "events": happened,
        "probability": timeline.now.probability,
        "evidence": {name: text for name, text in evidence.items() if text},
        "onsets": onsets,
        "remedies": remedies,
        "paths": view.paths,
        "timeline": timeline,
        "zeros": zeros,
        "parts": parts_of(view.paths),
    }


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
