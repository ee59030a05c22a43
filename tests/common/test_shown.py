"""What a session and a notebook show of a result."""

from dataclasses import dataclass, field

import numpy as np

import bayes_grpo as bg
from bayes_grpo.common.results import Displayed, Result
from tests.helpers.runs import make_run, rising_run


def subclasses(of):
    return {x for kind in of.__subclasses__() for x in (kind, *subclasses(kind))}


@dataclass(frozen=True)
class Numbers(Result):
    values: np.ndarray = field(default_factory=lambda: np.arange(100_000.0))
    text: str = "x" * 5000


def test_texts_are_short():
    run = rising_run(400, signals={"kl": 0.1})
    assert repr(run) == "<Run: made: 400 rows, steps 1 to 400, 0 evaluations>"
    assert len(repr(Numbers())) < 220
    assert repr(Numbers()).startswith("<Numbers: values=array([")
    hostile = make_run([1, 2], [0.1, 0.2], name="a\x1b[31m\n" + "b" * 9999)
    assert len(repr(hostile)) < 220
    assert repr(hostile).isprintable()


def test_a_diagnosis_says_its_top_line_and_shows_a_table_and_a_picture():
    run = rising_run(40)
    found = bg.diagnose(run)
    assert repr(found) == f"<Diagnosis: {found.status.sentence}>"[:200] or found.status.sentence[:80] in repr(found)
    page = found._repr_html_()
    assert "<table" in page
    assert page.count("data:image/png;base64,") == 1
    assert found.status.action.sentence in page


def test_what_a_log_holds_is_escaped():
    run = make_run([1, 2, 3], [0.1, 0.2, 0.3], name="<script>alert(1)</script>", signals={"<img src=x>": 1.0})
    page = run._repr_html_()
    assert "<script>" not in page
    assert "<img src=x>" not in page
    assert "&lt;script&gt;" in page


def test_every_result_shows_itself_by_the_one_base():
    public = {"Run", "Fit", "Forecast", "ForecastSummary", "Summary", "Diagnosis", "Comparison", "Check", "Decision"}
    public |= {"Backtest", "Sweep", "Compared", "Plan", "Batch", "Report"}
    for name in dir(bg):
        getattr(bg, name)
    kinds = {x for x in subclasses(Displayed) if x.__module__.startswith("bayes_grpo")}
    assert public <= {x.__name__ for x in kinds}
    assert all(x.__repr__ is Displayed.__repr__ for x in kinds)
