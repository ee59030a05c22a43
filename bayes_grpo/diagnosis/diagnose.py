"""`diagnose`: from a run to probabilities of what is wrong with it, the evidence, the onset, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL, interval, probability_text
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, MODES, PRIOR
from bayes_grpo.diagnosis.classify import Likelihoods, checked_prior, most_likely, posterior
from bayes_grpo.diagnosis.evidence import Courses, Evidence
from bayes_grpo.diagnosis.features import gather
from bayes_grpo.diagnosis.onset import onset_of
from bayes_grpo.diagnosis.remedies import remedies_for
from bayes_grpo.diagnosis.result import LABELS, Diagnosis, Onset
from bayes_grpo.logs.run import Run

SUSPECT = 0.2
"""A failure whose own probability is above this gets an onset and remedies."""


def diagnose(
    run: Run,
    *,
    at: float | None = None,
    prior: Mapping[str, float] | None = None,
    likelihoods: Likelihoods | None = None,
) -> Diagnosis:
    """Names what is wrong with a run, with probabilities.

    Args:
        run: The run.
        at: Use rows up to this optimizer step only, as if it were now.
        prior: Prior probability of some or all of healthy, plateaued, the four failures and cannot_tell; those left
            out share the rest as in the default prior.
        likelihoods: Learned likelihoods; the shipped ones if None.

    Returns:
        Probabilities, evidence, onsets and remedies. A log with too few rewards gets "cannot tell".

    Raises:
        FitError: No row is left at the step asked for.
        PriorError: A prior with unknown names or impossible numbers.
    """
    from bayes_grpo.common.cache import compilation_cache

    weights = dict(PRIOR) if prior is None else checked_prior(prior)
    shown = run if at is None else run.until(at)
    if not len(shown.step) and not len(shown.eval_step):
        raise FitError(f"--at: expected rows up to step {at:g}, found none in {run.name}; choose a later step")
    with compilation_cache():
        found = gather(shown)
    meta = _meta(shown, at)
    if found is None:
        certain = {name: float(name == CANNOT_TELL) for name in ANSWERS}
        sentence = "Cannot tell: the log has fewer than three rewards."
        own = {mode: weights[mode] for mode in MODES}
        return Diagnosis(sentence, CANNOT_TELL, certain, own, {}, {}, {}, ("reward",), weights, meta, shown.notes, None)
    result = posterior(found.features, weights, likelihoods)
    suspects = [mode for mode in MODES if result.own[mode] > SUSPECT]
    onsets = {mode: o for mode in suspects if (o := _onset(mode, found.courses)) is not None}
    answer = most_likely(result.probability)
    wanted = suspects + (["plateaued"] if answer == "plateaued" else [])
    remedies = {
        mode: remedies_for(
            mode,
            found.courses,
            found.evidence.get(mode, found.evidence["progress"]),
            onsets[mode].step if mode in onsets else None,
        )
        for mode in wanted
    }
    missing = tuple(dict.fromkeys(name for e in found.evidence.values() for name in e.missing))
    notes = list(shown.notes)
    if found.courses.assumed_range and np.isfinite(found.courses.low):
        notes.append("rewards all lie in [0, 1], so that is taken for their range (--set reward_low, reward_high)")
    return Diagnosis(
        _sentence(answer, result.probability, result.own, found.evidence, onsets),
        answer,
        result.probability,
        result.own,
        found.evidence,
        onsets,
        remedies,
        missing,
        weights,
        meta,
        tuple(notes),
        found.courses,
    )


def _onset(mode: str, courses: Courses) -> Onset | None:
    found = onset_of(mode, courses)
    return None if found is None else Onset(interval(found[0]), found[1])


def _sentence(
    answer: str,
    probability: Mapping[str, float],
    own: Mapping[str, float],
    evidence: Mapping[str, Evidence],
    onsets: Mapping[str, Onset],
) -> str:
    text = f"{LABELS[answer].capitalize()} with probability {probability_text(probability[answer])}"
    others = sorted((n for n in ANSWERS if n != answer), key=lambda n: -probability[n])
    text += f" (next: {LABELS[others[0]]} {probability_text(probability[others[0]])})"
    if answer in onsets:
        step = onsets[answer].step
        text += f", since about step {step.median:.0f} [{step.low:.0f}, {step.high:.0f}] ({step.level:.0%})"
    because = evidence[answer if answer in MODES else "progress"].sentence
    text += f": {because}."
    beside = [m for m in MODES if m != answer and own[m] > 0.5]
    if beside:
        text += f" Also under way: {', '.join(f'{LABELS[m]} ({probability_text(own[m])})' for m in beside)}."
    return text


def _meta(run: Run, at: float | None) -> dict[str, Any]:
    steps = np.concatenate([run.step, run.eval_step])
    return {
        "name": run.name,
        "source": run.source,
        "format": run.format,
        "log_hash": run.log_hash,
        "rows": len(run.step),
        "evaluations": len(run.eval_step),
        "first_step": float(steps.min()),
        "last_step": float(steps.max()),
        "at": at,
        "interval_level": LEVEL,
    }
