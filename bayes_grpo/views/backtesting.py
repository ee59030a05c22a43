"""A backtest as a document."""

from __future__ import annotations

from bayes_grpo.backtesting import Backtest, ScoreLine
from bayes_grpo.common.document import Document, Tabular, number, section, sentence_case, shows, table
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.text import counted


@shows(Backtest)
def backtest_document(b: Backtest) -> Document:
    """Scores of the forecast and of the last value."""
    answer, why = (f"{sentence_case(clause)}." for clause in b.clauses)
    return Document(
        title="Backtest",
        answer=answer,
        why=why,
        do=_next_step(b),
        table=_scores(b) if b.table else None,
        sections=(section("Left out", *b.refused),),
        unchecked=f"Left out: {counted(len(b.refused), 'forecast')} (--details says why)" if b.refused else "",
        docs="how/forecast",
    )


def _next_step(b: Backtest) -> str:
    """Advice from the scores for a forecast of this log from now on."""
    parts = []
    if b.verdict == "worse":
        parts.append("expect the present level, and not the trend of the forecast")
    if b.too_narrow:
        parts.append("treat the intervals of its forecast as too narrow")
    return f"{' and '.join(parts)}." if parts else ""


def _scores(b: Backtest) -> Tabular:
    def line(x: ScoreLine) -> tuple[object, ...]:
        at = (number(f"{score:.3f} ({share:.2f})") for score, share in x.by_origin.values())
        return x.name, number(f"{x.crps:.3f}"), number(f"{x.log_score:.2f}"), number(f"{x.coverage:.2f}"), *at

    origins = (f"CRPS (coverage) at {o:.0%}" for o in b.table[0].by_origin)
    heads = ("forecaster", "CRPS", "log score", f"{LEVEL:.0%} coverage", *origins)
    note = "In units of the curve's standard deviation. Small CRPS and large log scores are better."
    return table("Scores", heads, map(line, b.table), note)
