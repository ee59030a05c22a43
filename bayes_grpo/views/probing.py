"""A measured stiffness, and what follows from it, as documents."""

from __future__ import annotations

import math

from bayes_grpo.probing.course import StiffnessCourse
from bayes_grpo.probing.predict import ProbeLimits
from bayes_grpo.probing.result import Probe
from bayes_grpo.views.document import Document, section, sentence_case, shows, table


@shows(Probe)
def probe_document(p: Probe) -> Document:
    """The stiffest directions and the noise of the gradient."""
    named = [("stiffest", p.stiffest)]
    named += [] if p.along_reward is None else [("along the reward", p.along_reward)]
    rows = ((name, k.interval, k.crossed, k.chosen) for name, k in named)
    noise = ""
    if p.noise is not None and p.noise.trace > 0:
        shares = ", ".join(f"{x:.1%}" for x in p.noise.stiff_share)
        noise = f"Gradient: signal over noise {p.noise.signal / p.noise.trace:.3g}; noise along the stiffest {shares}."
    return Document(
        title="Probe",
        answer=p.sentence,
        table=table("Stiffness", ("stiffness", "K [90% interval]", "on other data", "on its own"), rows),
        sections=(section("Noise", noise),),
        docs="how/measure",
    )


@shows(ProbeLimits)
def limits_document(found: ProbeLimits) -> Document:
    """What a probe says of settings."""
    known = math.isfinite(found.fluctuation)
    why = f"On the plateau the mean reward fluctuates by {found.fluctuation:.2g}, along its own gradient."
    return Document(title="Limits", answer=sentence_case(found.sentence), why=why if known else "", docs="how/measure")


@shows(StiffnessCourse)
def course_document(course: StiffnessCourse) -> Document:
    """How the stiffness changes over a training."""
    return Document(title="Stiffness over the run", answer=sentence_case(course.sentence), docs="how/measure")
