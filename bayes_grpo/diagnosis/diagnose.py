"""`diagnose`: from a run to probabilities of what is wrong with it, the evidence, the onset, and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayes_grpo.common.about import AboutLog
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.diagnosis.actions import FOR, advice
from bayes_grpo.diagnosis.classes import MODES, PRIOR
from bayes_grpo.diagnosis.classify import answers_of, checked_prior
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.facts import Facts, facts_of
from bayes_grpo.diagnosis.gather import gather
from bayes_grpo.diagnosis.history import history_of
from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.diagnosis.modes.lost_values import lost_at_end
from bayes_grpo.diagnosis.plausibility import implausible
from bayes_grpo.diagnosis.result import Diagnosis, Onset
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.story import story
from bayes_grpo.diagnosis.timeline import Timeline
from bayes_grpo.diagnosis.top_line import top_line
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.resolve import share_without_spread_of
from bayes_grpo.logs.run import Run
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.join import join
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.siblings.departure import Departure, departure_of
from bayes_grpo.siblings.gather import Like


def diagnose(
    run: RunLike,
    *,
    at: float | None = None,
    prior: Mapping[str, float] | None = None,
    history: int = 0,
    rollouts: Rollouts | None = None,
    like: Like | None = None,
) -> Diagnosis:
    """Names what is wrong with a run, with probabilities.

    Args:
        run: The run, or what `bayes_grpo.read_log` makes one of: a path, a data frame, records.
        at: Use rows up to this optimizer step only, as if it were now.
        prior: Prior probability of some or all of healthy, plateaued, the four failures and cannot_tell; those left
            out share the rest as in the default prior.
        history: Also diagnose the log at this many cuts, each without the rows after it; 0 for none.
        rollouts: Completions of the same run, which tell what its gain is made of.
        like: Siblings, other runs of the same task: whether the run departs from them at the same steps. It is told
            beside the probabilities and does not move them.

    Returns:
        Probabilities, evidence, onsets and remedies. A log with too few rewards gets "cannot tell".

    Raises:
        FitError: No row is left at the step asked for.
        PriorError: A prior with unknown names or impossible numbers.
        SettingError: A negative number of cuts.
    """
    if history < 0:
        raise SettingError(f"--history: expected a number of cuts of at least 0, found {history}; 0 is for none")
    weights = dict(PRIOR) if prior is None else checked_prior(prior)
    run = as_run(run)
    shown = _of_groups(run if at is None else run.until(at))
    if not len(shown.step) and not len(shown.eval_step):
        raise FitError(f"--at: expected rows up to step {at:g}, found none in {run.name}; choose a later step")
    steps = np.concatenate([shown.step, shown.eval_step])
    about = AboutLog(
        name=shown.name,
        source=shown.source,
        format=shown.format,
        log_hash=shown.log_hash,
        rows=len(shown.step),
        evaluations=len(shown.eval_step),
        first_step=float(steps.min()),
        last_step=float(steps.max()),
        at=at,
        interval_level=LEVEL,
    )
    gain, doubts = _gain(shown, rollouts, at)
    beside, unread = _beside(shown, like)
    found = gather(shown, gain)
    timeline, said = answers_of(None if found is None else found.trends, weights)
    past = history_of(shown, said, history, weights) if history and found is not None else None
    evidence = {} if found is None else found.evidence
    own = {**said.own, **_own_of_others(timeline, evidence)}
    rows, facts = None, Facts(rows=about.rows)
    if found is not None:
        rows = RunSoFar.of(shown, found.trends)
        failing = 1.0 - math.prod(1.0 - own[mode] for mode in MODES)
        facts = replace(facts_of(found.trends, rows, failing, lost_at_end(found.trends)), suggested=shown.suggested)
    evidence = {m: replace(e, probability=own.get(m, e.probability)) for m, e in evidence.items()}
    onsets, remedies = ({}, {}) if timeline is None else _what_to_do(timeline, own, said.answer, facts)
    missing = dict.fromkeys(name for e in evidence.values() for name in e.missing) if found else ("reward",)
    assumed = "" if found is None else found.trends.assumed_range
    top = top_line(said, timeline, rows, facts)
    return Diagnosis(
        top=top,
        sentence=" ".join(
            [
                story(said, timeline, evidence, top.finding),
                *([gain.sentence] if gain else []),
                *([_said(beside)] if beside else []),
            ]
        ),
        answer=said.answer,
        probability=said.probability,
        own=own,
        evidence=evidence,
        onsets=onsets,
        remedies=remedies,
        missing=tuple(missing),
        suggested=shown.suggested,
        prior=weights,
        about=about,
        notes=(*shown.notes, *implausible(shown), *([assumed] if assumed else []), *doubts, *unread),
        trends=None if found is None else found.trends,
        timeline=timeline,
        history=past,
        gain=gain,
        beside=beside,
    )


def _gain(run: Run, rollouts: Rollouts | None, at: float | None) -> tuple[Decomposition | None, tuple[str, ...]]:
    """What the gain is made of by rollouts, and how far they fit the log."""
    if rollouts is None:
        return None, ()
    from bayes_grpo.rollouts.decompose import decompose  # SciPy's statistics, half a second that few calls need

    some = rollouts if at is None else rollouts.until(at)
    try:
        fits = join(run, some).sentence
    except FitError as error:
        fits = str(error)
    return decompose(some), (f"rollouts: {fits}", *(f"rollouts: {note}" for note in some.notes))


def _beside(run: Run, like: Like | None) -> tuple[Departure | None, tuple[str, ...]]:
    """The run beside its siblings, and which were left out, or why there is no such thing."""
    if like is None:
        return None, ()
    try:
        found = departure_of(run, like)
    except FitError as error:
        return None, (f"siblings: {error}",)
    return found, found.notes


def _said(beside: Departure) -> str:
    """A departure as a sentence of the story."""
    return beside.sentence[0].upper() + beside.sentence[1:] + "."


def _own_of_others(timeline: Timeline | None, evidence: Mapping[str, ModeEvidence]) -> dict[str, float]:
    """Probabilities of failures beside the four: the timeline's where the log shows them, else the evidence's alone."""
    followed = {} if timeline is None else {n: m.under_way for n, m in timeline.modes.items() if m.seen}
    out = {}
    for mode in all_modes():
        if not mode.is_failure or mode.name in MODES:
            continue
        alone = evidence[mode.name].probability if mode.name in evidence else np.nan
        p = followed.get(mode.name, alone)
        if np.isfinite(p):
            out[mode.name] = p
    return out


def _of_groups(run: Run) -> Run:
    """The run without a share of groups without spread that is not one."""
    if share_without_spread_of(run) != "batch":
        return run
    signals = {name: x for name, x in run.signals.items() if name != "frac_reward_zero_std"}
    note = "frac_reward_zero_std is of the whole batch in this log and says nothing of its groups"
    return replace(run, signals=signals, notes=(*run.notes, note))


def _what_to_do(
    timeline: Timeline, own: Mapping[str, float], answer: str, facts: Facts
) -> tuple[dict[str, Onset], dict[str, tuple[str, ...]]]:
    """Onsets and remedies of the failures that are suspected; remedies of an answer that is none."""
    onsets, remedies = {}, {}
    for mode in all_modes():
        episode = timeline.last(mode.name)
        over = episode is None and any(e.mode == mode.name and e.probable for e in timeline.episodes)
        suspected = own.get(mode.name, 0.0) > BORDERS.suspect and not over
        if suspected and episode is not None:
            onsets[mode.name] = Onset(episode.onset, episode.depth)
        if (suspected or (mode.name == answer and not mode.is_failure)) and mode.name in FOR:
            remedies[mode.name] = tuple(x.rstrip(".") for x in advice(mode.name, facts))
    return onsets, remedies
