"""Documents under the status of their run: a failure comes first, and any other answer is conditional on no change.

What to do now is the document's own, because each command answers its own question; a status that says to stop, or that
knows the costs, takes precedence over a forecast.
"""

from __future__ import annotations

from dataclasses import replace

from bayes_grpo.analysis.result import UNCHANGED, conditional
from bayes_grpo.common.document import TONES, Document, sentence_case
from bayes_grpo.diagnosis.status import Status


def conditional_document(document: Document, status: Status) -> Document:
    """A document under the status of its run: a failure comes first, and the answer is conditional."""
    first = status.action.reason == "costs" or conditional(status)
    own = document.do and not (document.conditional and first)
    do = document.do if own else status.action.sentence
    if not status.alarming:
        return replace(document, do=do)
    detail = sentence_case(status.finding.detail)
    return replace(
        document,
        answer=sentence_case(status.finding.lead),
        why=" ".join(x for x in (detail, unless_changed(document, status).answer) if x),
        do=do,
        status=status.status,
        chance=status.chance,
        tone=TONES[status.status],
    )


def unless_changed(document: Document, status: Status | None) -> Document:
    """The same document, its answer under a condition where the run fails."""
    if status is None or not status.alarming or not document.conditional:
        return document
    return replace(document, answer=f"{UNCHANGED}{sentence_case(document.answer, upper=False)}")
