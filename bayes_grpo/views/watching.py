"""One look at a run that goes on as a document."""

from __future__ import annotations

from bayes_grpo.common.document import TONES, Document, Section, Tabular, number, section, sentence_case, shows, table
from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.wording import label_of
from bayes_grpo.watching.result import Update

_LEAST_PROBABILITY = 0.01
"""Modes of at least this probability have a row."""


@shows(Update)
def update_document(u: Update) -> Document:
    """How the run stands, what comes, and what was found."""
    status, o = u.status, u.outlook
    outlook = () if o is None else (sentence_case(o.sentence), o.advice)
    return Document(
        title=u.name,
        about=f"step {u.step:g}, {u.rows} rows, last reward {u.reward:.4g} ({u.seconds:.1f} s)",
        answer=sentence_case(status.headline) if status else "Too early to tell.",
        why=f"Based on {status.evidence}." if status else "",
        do=status.action.sentence if status else "",
        status=status.status if status else "",
        chance=status.chance if status else None,
        tone=TONES[status.status] if status else "doubt",
        table=_numbers(u),
        sections=(
            *_alarms(u),
            section("Outlook", *outlook),
            section("Notes", *u.notes[-6:]),
        ),
        docs="how/watch",
    )


def _alarms(u: Update) -> tuple[Section, ...]:
    new = {a.finding for a in u.alarms}
    before = ", ".join(f"{label_of(name)} at step {step:g}" for name, step in u.alarmed.items() if name not in new)
    lines = [f"ALARM  {plain(a.sentence, 600)} {' '.join(x.clause for x in a.remedies)}" for a in u.alarms]
    return (section("Alarms", *lines, before and f"Reported before: {before}", tone="alarm"),)


def _numbers(u: Update) -> Tabular:
    o = u.outlook
    rows = list[tuple[object, ...]]()
    if o is not None:
        rows += [
            ("reward now", o.now),
            (f"reward at step {o.until:g}", number(o.reward_text(o.at_horizon))),
            (f"P(gain > {o.threshold:.2g})", number(percent(o.p_gain))),
        ]
        steps = (("stop", o.stop), ("best checkpoint", o.take))
        rows += [(name, number(f"step {x:g}")) for name, x in steps if x is not None]
    chances = sorted(u.probability.items(), key=lambda x: -x[1])
    rows += [(label_of(name), number(percent(p))) for name, p in chances if p >= _LEAST_PROBABILITY]
    return table("Now", ("", ""), rows)
