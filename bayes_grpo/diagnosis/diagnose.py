"""`diagnose`: from a run to probabilities of what is wrong with it, the evidence, the onset, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayes_grpo.common.about import AboutLog
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.intervals import LEVEL, interval, probability_text
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, MODES, PRIOR, PROGRESS
from bayes_grpo.diagnosis.classify import ClassPosterior, checked_prior, most_likely, posterior
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.features import gather
from bayes_grpo.diagnosis.history import history_of
from bayes_grpo.diagnosis.layer import Layer
from bayes_grpo.diagnosis.mode import Mode, all_modes, label_of
from bayes_grpo.diagnosis.result import Diagnosis, Onset
from bayes_grpo.diagnosis.trends import RunTrends
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
    about = _about(shown, at)
    with compilation_cache():
        found = gather(shown)
        said = posterior({} if found is None else found.features, weights, layer)
        past = history_of(shown, said, history, weights, layer) if history and found is not None else None
    if found is None:
        return Diagnosis(
            sentence="Cannot tell: the log has fewer than three rewards.",
            answer=CANNOT_TELL,
            probability=said.probability,
            own=said.own,
            evidence={},
            onsets={},
            remedies={},
            missing=("reward",),
            prior=weights,
            about=about,
            notes=shown.notes,
            trends=None,
            history=None,
        )
    trends, evidence, answer = found.trends, found.evidence, most_likely(said.probability)
    own = {**said.own, **_own_of_unlearned(evidence)}
    modes = {mode.name: mode for mode in all_modes()}
    suspects = [name for name in modes if own.get(name, 0.0) > BORDERS.suspect]
    onsets = {name: o for name in suspects if (o := _onset(modes[name], trends)) is not None}
    wanted = suspects + [name for name, m in modes.items() if name == answer and not m.is_failure]
    remedies = {
        name: modes[name].remedies(
            trends, evidence.get(name, evidence[PROGRESS]), onsets[name].step if name in onsets else None
        )
        for name in wanted
    }
    assumed = trends.assumed_range
    return Diagnosis(
        sentence=_sentence(answer, said, own, evidence, onsets),
        answer=answer,
        probability=said.probability,
        own=own,
        evidence=evidence,
        onsets=onsets,
        remedies=remedies,
        missing=tuple(dict.fromkeys(name for e in evidence.values() for name in e.missing)),
        prior=weights,
        about=about,
        notes=(*shown.notes, *([assumed] if assumed else [])),
        trends=trends,
        history=past,
    )


def _own_of_unlearned(evidence: Mapping[str, ModeEvidence]) -> dict[str, float]:
    """Probabilities of the modes that the layer does not know: each that of its evidence alone."""
    others = [e for name, e in evidence.items() if name not in (PROGRESS, *MODES)]
    return {e.mode: e.probability for e in others if np.isfinite(e.probability)}


def _onset(mode: Mode, trends: RunTrends) -> Onset | None:
    found = mode.onset(trends)
    return None if found is None else Onset(interval(found[0]), found[1])


def _sentence(
    answer: str,
    said: ClassPosterior,
    own: Mapping[str, float],
    evidence: Mapping[str, ModeEvidence],
    onsets: Mapping[str, Onset],
) -> str:
    probability, fails = said.probability, said.failing
    text = f"{label_of(answer).capitalize()} with probability {probability_text(probability[answer])}"
    others = sorted((n for n in ANSWERS if n != answer), key=lambda n: -probability[n])
    text += f" (next: {label_of(others[0])} {probability_text(probability[others[0]])}"
    text += f"; that something fails: {probability_text(fails)})" if probability[answer] < 0.5 <= fails else ")"
    if answer in onsets:
        step = onsets[answer].step
        text += f", since about step {step.median:.0f} [{step.low:.0f}, {step.high:.0f}] ({step.level:.0%})"
    because = evidence.get(answer, evidence[PROGRESS]).sentence
    text += f": {because}."
    beside = [m for m in own if m != answer and own[m] > 0.5]
    if beside:
        text += f" Also under way: {', '.join(f'{label_of(m)} ({probability_text(own[m])})' for m in beside)}."
    return text


def _about(run: Run, at: float | None) -> AboutLog:
    steps = np.concatenate([run.step, run.eval_step])
    return AboutLog(
        name=run.name,
        source=run.source,
        format=run.format,
        log_hash=run.log_hash,
        rows=len(run.step),
        evaluations=len(run.eval_step),
        first_step=float(steps.min()),
        last_step=float(steps.max()),
        at=at,
        interval_level=LEVEL,
    )
