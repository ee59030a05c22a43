"""`diagnose`: from a run to probabilities of what is wrong with it, the evidence, the onset, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.about import AboutLog
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import LEVEL, interval, probability_text
from bayes_grpo.diagnosis.classes import ANSWERS, MODES, PRIOR, PROGRESS
from bayes_grpo.diagnosis.classify import ClassPosterior, checked_prior, posterior
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.features import RunEvidence, gather
from bayes_grpo.diagnosis.history import history_of
from bayes_grpo.diagnosis.layer import Layer
from bayes_grpo.diagnosis.mode import all_modes, label_of
from bayes_grpo.diagnosis.result import Diagnosis, Onset
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.logs.run import Run


def diagnose(
    run: Run,
    *,
    at: float | None = None,
    prior: Mapping[str, float] | None = None,
    history: int = 0,
    layer: Layer | None = None,
) -> Diagnosis:
    """Names what is wrong with a run, with probabilities.

    Args:
        run: The run.
        at: Use rows up to this optimizer step only, as if it were now.
        prior: Prior probability of some or all of healthy, plateaued, the four failures and cannot_tell; those left
            out share the rest as in the default prior.
        history: Also diagnose the log at this many cuts, each without the rows after it; 0 for none.
        layer: Learned numbers; the shipped ones if None.

    Returns:
        Probabilities, evidence, onsets and remedies. A log with too few rewards gets "cannot tell".

    Raises:
        FitError: No row is left at the step asked for.
        PriorError: A prior with unknown names or impossible numbers.
        SettingError: A negative number of cuts.
    """
    from bayes_grpo.common.cache import compilation_cache

    if history < 0:
        raise SettingError(f"--history: expected a number of cuts of at least 0, found {history}; 0 is for none")
    weights = dict(PRIOR) if prior is None else checked_prior(prior)
    shown = run if at is None else run.until(at)
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
    with compilation_cache():
        found = gather(shown)
        said = posterior({} if found is None else found.features, weights, layer)
        past = history_of(shown, said, history, weights, layer) if history and found is not None else None
    evidence = {} if found is None else found.evidence
    own = {**said.own, **_own_of_unlearned(evidence)}
    onsets, remedies = ({}, {}) if found is None else _what_to_do(found, own, said.answer)
    missing = dict.fromkeys(name for e in evidence.values() for name in e.missing) if found else ("reward",)
    assumed = "" if found is None else found.trends.assumed_range
    return Diagnosis(
        sentence=_sentence(said, own, evidence, onsets),
        answer=said.answer,
        probability=said.probability,
        own=own,
        evidence=evidence,
        onsets=onsets,
        remedies=remedies,
        missing=tuple(missing),
        prior=weights,
        about=about,
        notes=(*shown.notes, *([assumed] if assumed else [])),
        trends=None if found is None else found.trends,
        history=past,
    )


def _own_of_unlearned(evidence: Mapping[str, ModeEvidence]) -> dict[str, float]:
    """Probabilities of the modes that the layer does not know: each that of its evidence alone."""
    others = [e for name, e in evidence.items() if name not in (PROGRESS, *MODES)]
    return {e.mode: e.probability for e in others if np.isfinite(e.probability)}


def _what_to_do(
    found: RunEvidence, own: Mapping[str, float], answer: str
) -> tuple[dict[str, Onset], dict[str, tuple[str, ...]]]:
    """Onsets and remedies of the failures that are suspected; remedies of an answer that is none."""
    trends, evidence, onsets, remedies = found.trends, found.evidence, {}, {}
    for mode in all_modes():
        suspected = own.get(mode.name, 0.0) > BORDERS.suspect
        dated = mode.onset(trends) if suspected else None
        if dated is not None:
            onsets[mode.name] = Onset(interval(dated[0]), dated[1])
        if suspected or (mode.name == answer and not mode.is_failure):
            step = onsets[mode.name].step if mode.name in onsets else None
            remedies[mode.name] = mode.remedies(trends, evidence.get(mode.name, evidence[PROGRESS]), step)
    return onsets, remedies


def _sentence(
    said: ClassPosterior,
    own: Mapping[str, float],
    evidence: Mapping[str, ModeEvidence],
    onsets: Mapping[str, Onset],
) -> str:
    if not evidence:
        return "Cannot tell: the log has fewer than three rewards."
    answer, probability, fails = said.answer, said.probability, said.failing
    text = f"{label_of(answer).capitalize()} with probability {probability_text(probability[answer])}"
    others = sorted((n for n in ANSWERS if n != answer), key=lambda n: -probability[n])
    text += f" (next: {label_of(others[0])} {probability_text(probability[others[0]])}"
    doubtful = probability[answer] < BORDERS.probable <= fails
    text += f"; that something fails: {probability_text(fails)})" if doubtful else ")"
    if answer in onsets:
        step = onsets[answer].step
        text += f", since about step {step.median:.0f} [{step.low:.0f}, {step.high:.0f}] ({step.level:.0%})"
    because = evidence.get(answer, evidence[PROGRESS]).sentence
    text += f": {because}."
    others = [m for m in own if m != answer and own[m] > BORDERS.probable]
    if others:
        text += f" Also under way: {', '.join(f'{label_of(m)} ({probability_text(own[m])})' for m in others)}."
    return text
