"""The run in three sentences: what drives the curve, what is left, what is wrong; each with its probability."""

from __future__ import annotations

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.comparison.result import Comparison
from bayes_grpo.diagnosis.status import TopLine
from bayes_grpo.fitting.summary import Summary
from bayes_grpo.report.answer import Found
from bayes_grpo.report.page import Lead, Top, said
from bayes_grpo.report.sections import ahead, curve, laws, wrong

_LABELS = ("What drives the curve", "What is left, and is it worth it", "What is wrong")
_NAMED = 3
"""Laws that are named where several are left."""


def leads(found: Found) -> tuple[Lead, ...]:
    """The three sentences at the top of a page."""
    return (_drives(found), _left(found), _wrong(found))


def top_of(top: TopLine) -> Top:
    """The box at the top of a page."""
    return Top(
        status=top.status,
        meaning=top.meaning,
        chance=f"probability {probability_text(top.probability)}",
        sentence=said(top.headline, 500),
        action=said(top.action, 500),
        more=tuple(said(x, 400) for x in top.remedies),
        rests_on=top.rests_on,
        tone=wrong.TONES[top.status],
        section=wrong.KEY,
    )


def alert(found: Found) -> str:
    """What must be read before all else; "" mostly."""
    fitted = found.fit.value
    if fitted is None or fitted.summary.convergence.passed:
        return ""
    reasons = "; ".join(fitted.summary.convergence.reasons)
    return said(f"The sampler did not converge, so do not use the numbers of the fit: {reasons}", 280)


def _drives(found: Found) -> Lead:
    label, fitted, compared = _LABELS[0], found.fit.value, found.laws.value
    law = "" if compared is None else _law(compared)
    if fitted is None:
        if compared is None:
            return Lead(label, f"Cannot be told: {found.fit.reason}", tone="doubt", section=curve.KEY)
        return Lead(label, law, tone="doubt", section=laws.KEY)
    chance, sure = _growth(fitted.summary)
    sentence = f"{said(fitted.summary.verdict, 420)} {law}".strip()
    tone = "alarm" if not fitted.summary.convergence.passed else "" if sure else "doubt"
    return Lead(label, sentence, chance, tone, curve.KEY)


def _growth(summary: Summary) -> tuple[str, bool]:
    """The probability behind the verdict, and whether the log can tell."""
    growth = summary.probabilities.get("growth")
    if growth is None:
        return "", True
    word, p = ("grows", growth) if growth >= 0.5 else ("falls", 1.0 - growth)
    return f"P({word}) {probability_text(p)}", p >= 0.95


def _law(c: Comparison) -> str:
    left = [x.regime for x in laws.standing(c)]
    if len(left) == 1:
        return f"Of {len(c.lines)} laws of the curve the rows favour {left[0]}."
    if not left:
        return "No law of the curve both fills holes and predicts best."
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"Which law of the curve holds, the rows cannot tell: {', '.join(left[:_NAMED])}{more} remain."


def _left(found: Found) -> Lead:
    label, value = _LABELS[1], found.forecast.value
    if value is None:
        return Lead(label, f"Cannot be told: {found.forecast.reason}", tone="doubt", section=ahead.KEY)
    told = ahead.left_of(value, found.top)
    return Lead(label, told, ahead.chance_of(value), ahead.tone_of(value.summary), ahead.KEY)


def _wrong(found: Found) -> Lead:
    label, value = _LABELS[2], found.diagnosis.value
    if value is None:
        return Lead(label, f"Cannot be told: {found.diagnosis.reason}", tone="doubt", section=wrong.KEY)
    return Lead(label, said(value.sentence, 500), wrong.chance_of(value), wrong.tone_of(value), wrong.KEY)
