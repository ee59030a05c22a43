"""Documents of results: an answer of a few words first, one table, everything else on request; one place a result."""

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from bayes_grpo import diagnose, fit, forecast, summarize
from bayes_grpo.analysis.result import conditional, conditional_document
from bayes_grpo.common.document import Document, Sparkline, section, shows, table
from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.views.diagnosis import evaluation_line
from bayes_grpo.views.terminal import sparkline
from bayes_grpo.views.view import view
from tests.helpers.paths import not_none
from tests.helpers.runs import FEW, evaluated, make_run, rising_run, steps
from tests.helpers.selection import few
from tests.helpers.shown import text_of
from tests.report.conftest import run_of

KINDS = ("healthy", "plateaued", "hacking", "degenerate", "collapsed", "short")
"""Settings that other tests have, whose compiled programs are shared."""
MOST_ANSWER, MOST_BEFORE = 20, 100
"""Words of an answer, and words before the first table."""


def words_before_the_table(document: Document) -> int:
    lines = (*document.first_lines, document.title, document.about, *(p.sentence for p in document.points))
    return sum(len(line.split()) for line in lines)


@pytest.mark.parametrize("kind", few(KINDS, "hacking", "short"))
def test_the_first_screen_answers_in_few_words(kind: str):
    run = run_of(kind)
    top = diagnose(run)
    ahead = summarize_forecast(forecast(run, regimes=("exponential",), draws=200))
    for result in (run, top, ahead):
        document = view(result)
        assert len(document.answer.split()) <= MOST_ANSWER, document.answer
        assert words_before_the_table(document) <= MOST_BEFORE
        assert document.table is not None
        assert document.docs
    given = conditional_document(view(ahead), top.status)
    assert words_before_the_table(given) <= MOST_BEFORE
    own = view(ahead).do if not conditional(top.status) else top.status.action.sentence
    assert given.do == own
    assert given.first_lines[0].startswith(top.status.status.upper()) == top.status.alarming


def test_a_fit_shows_six_quantities_and_all_of_them_on_request():
    result = summarize(fit(rising_run(), "exponential", sampler=FEW))
    document = view(result)
    assert len(not_none(document.table).rows) <= 6
    assert len(document.answer.split()) <= MOST_ANSWER
    assert words_before_the_table(document) <= MOST_BEFORE
    few, everything = (text_of(result, details=d) for d in (False, True))
    assert "All quantities" not in few
    assert "All quantities" in everything
    assert len(text_of(result, short=True).splitlines()) <= 3


def test_a_failure_comes_before_the_answer():
    onset = Interval(4.0, 4.0, 4.0, 0.9)
    hacking = Finding(kind="reward_hacking", step=onset, probability=0.9, severity="the gold fell")
    found = Status("failing", hacking, Action(kind="start_over"))
    document = Document("run", "The reward rises until step 9.", do="go on.")
    given = conditional_document(document, found)
    assert given.first_lines == (
        "FAILING (90%): Reward hacking since about step 4.",
        "The gold fell. If nothing changes: the reward rises until step 9.",
        "Do now: stop, and start over with a corrected reward: by the evaluation reward, no checkpoint is worth "
        "going back to.",
    )
    next_run = replace(document, do="start the next run with group size 4.", conditional=False)
    assert conditional_document(next_run, found).do == next_run.do


def test_what_to_do_now_answers_the_question_of_the_command():
    """A run that is done is diagnosed with checkpoints to score; what a forecast says to do is its own."""
    done = Status("done", Finding(kind="at_rest", probability=0.9), Action(kind="score_checkpoints"))
    own = Document("run", "The reward stays.", do="no further gain expected.")
    assert conditional_document(own, done).do == own.do
    assert conditional_document(replace(own, do=""), done).do == done.action.sentence
    priced = replace(done, action=replace(done.action, reason="costs"))
    assert conditional_document(own, priced).do == priced.action.sentence != own.do


def test_a_sparkline_marks_events_on_a_terminal_alone():
    series = Sparkline(list(range(1, 11)), [0.1] * 5 + [0.9] * 5, {"onset": 6.0})
    line, mark = sparkline(series)
    assert line == "▁▁▁▁▁█████  0.1 → 0.9"
    assert mark == "     ^ step 6: onset"
    late = Sparkline(list(range(1, 31)), [0.1] * 30, {"a longer onset": 28.0})
    assert sparkline(late, 40)[1] == "   step 28: a longer onset ^"
    assert sparkline(Sparkline([1], [0.1])) == []
    assert sparkline(Sparkline([1, 2, 3], [0.1, np.nan, 0.1]))[0].startswith("▁▁")
    for terminal in (True, False):
        assert ("▁" in text_of(Document("a", "b.", series=series), terminal=terminal)) == terminal


def test_a_table_too_wide_for_a_terminal_becomes_blocks_and_loses_nothing():
    rows = [("learning rate", "0.166 [0.0921, 0.231]", "0.0305 [-0.0218, 0.0501]", "B is better")]
    document = Document("a", "b.", table=table("c", ("where", "first", "second", "verdict"), rows))
    for width in (80, 50):
        shown = text_of(document, width)
        assert all(cell in shown for cell in rows[0])
        assert ("  verdict: B is better" in shown) == (width == 50)
    assert [c.text for c in table("c", ("a", "b"), [("x", ""), ("y", "")]).columns] == ["a"]


def test_a_result_of_ones_own_is_shown_by_one_function():
    @dataclass(frozen=True)
    class Own:
        value: float

    with pytest.raises(TypeError, match="found Own"):
        view(Own(1.0))

    @shows(Own)
    def own_document(result: Own) -> Document:
        return Document("own", f"The value is {result.value:g}.", sections=(section("More", "[red]a[/red]"),))

    assert text_of(Own(2.0)).splitlines()[0] == "The value is 2."
    assert "[red]a[/red]" in text_of(Own(2.0))
    assert "--details" in text_of(Own(2.0), details=False)


def test_the_evaluation_line_names_its_best_where_it_is_past_it():
    """A peak that is lost by a fourteenth is no failure, but one wants that checkpoint."""
    step = steps(100)
    at = step[4::5]
    rising = 0.3 + 0.004 * step
    score = np.where(at <= 60, 0.40 + 0.005 * at, 0.70 - 0.0013 * (at - 60))
    found = diagnose(make_run(step, rising, evals=evaluated(at, score)))
    line = evaluation_line(found, finding=False)
    assert re.fullmatch(r"Evaluation: 0\.4\d*, best 0\.[67]\d* about step 6[05], now 0\.6\d*\.", line), line


@pytest.mark.parametrize(
    ("level", "more"), [(0.425, ": the evaluated policy does not move, or is not the trained one"), (0.0, "")]
)
def test_an_evaluation_that_never_moves_says_so(level, more):
    step = steps(60)
    found = diagnose(make_run(step, 0.3 + 0.004 * step, evals=evaluated(step[4::5], np.full(12, level))))
    assert evaluation_line(found, finding=False) == f"Evaluation: {level:.3g} in all 12{more}."
