"""A measured stiffness, and what follows from it, as documents."""

from __future__ import annotations

from bayes_grpo.common.document import Document, sentence_case, shows, table
from bayes_grpo.probing.course import StiffnessCourse
from bayes_grpo.probing.estimate import Probe
from bayes_grpo.probing.predict import ProbeLimits


@shows(Probe)
def probe_document(p: Probe) -> Document:
    """The stiffest direction."""
    k = p.stiffest
    heads = ("stiffness", f"K [{k.interval.level:.0%} interval]", "on other data", "on its own")
    rows = (("stiffest", k.interval, k.crossed, k.chosen),)
    return Document(title="Probe", answer=p.sentence, table=table("Stiffness", heads, rows), docs="how/measure")


@shows(ProbeLimits)
def limits_document(found: ProbeLimits) -> Document:
    """The limits that a probe sets to settings, as a document."""
    return Document(title="Limits", answer=sentence_case(found.sentence), docs="how/measure")


@shows(StiffnessCourse)
def course_document(course: StiffnessCourse) -> Document:
    """How the stiffness changes over a training."""
    return Document(title="Stiffness over the run", answer=sentence_case(course.sentence), docs="how/measure")
