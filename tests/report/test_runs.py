"""Several runs on one page: which recipe is better, what settings do, and where to read more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from bayes_grpo.common.errors import SettingError
from bayes_grpo.report.result import Report, save_report
from bayes_grpo.report.run_page import report_run
from bayes_grpo.report.runs_page import report_runs
from bayes_grpo.report.settings import PARTS
from tests.families.made import relaxing, swept
from tests.helpers.browser import PHONE, look
from tests.report.conftest import quick, run_of

DOCS = "https://docs.example/bayes"
ROOT = Path(__file__).parents[2]
FAST = quick(without=("forecast", "diagnosis"), docs=DOCS)


@pytest.fixture(scope="module")
def beside() -> Report:
    """Two recipes of two seeds each, which differ in the learning rate."""
    runs = swept(4)
    return report_runs([runs[0], runs[3]], against=runs[1:3], vary=["learning_rate"], settings=FAST)


def section(made: Report, title: str) -> Any:
    return next(s for s in made.document.sections if s.title == title)


@pytest.mark.thorough
def test_recipes_are_compared_and_effects_of_settings_shown(beside: Report):
    better, effects = section(beside, "Which recipe is better"), section(beside, "What settings do")
    known = beside.to_dict()
    assert known["better"]["counts"] == {"a": 2, "b": 2}
    assert beside.document.answer == better.lead
    assert known["better"]["sentence"].startswith(better.lead.split(". ")[0].rstrip("."))
    assert {e["setting"] for e in known["effects"]["exponents"]} == {"learning_rate"}
    assert len(effects.tables[0].rows) == len(known["effects"]["exponents"])
    assert len(section(beside, "Each run").tables[0].rows) == 4
    json.dumps(known, allow_nan=False)


def test_what_cannot_be_compared_is_a_line(tmp_path: Path):
    ask = quick(without=PARTS)
    runs = [relaxing("a", group_size=8), relaxing("b", group_size=8, seed=1)]
    made = report_runs(runs, vary=["group_size"], settings=ask)
    assert "expected" in section(made, "What settings do").missing
    assert section(made, "Which recipe is better").lead  # two runs alone are A and B
    assert made.document.points[0].sentence.startswith("Unknown")
    three = report_runs([*runs, relaxing("c", seed=2)], settings=ask)
    assert "Which recipe is better" not in {s.title for s in three.document.sections}
    with pytest.raises(SettingError, match="two runs or more"):
        report_runs(runs[:1], settings=ask)


@pytest.mark.thorough
def test_a_browser_finds_nothing_wrong(beside: Report, driver: Any, tmp_path: Path):
    page = save_report(beside, tmp_path / "runs.html")
    for width, dark in ((1200, False), (PHONE, True)):
        seen = look(driver, page, width=width, dark=dark)
        assert (seen.console, seen.requests, seen.findings) == ([], [], [])
        assert seen.width <= width


def test_a_page_leads_to_the_documentation():
    made = report_run(run_of("short"), settings=quick(without=PARTS, docs=DOCS + "/"))
    assert re.findall(rf'href="{DOCS}/([^"]*)\.html"', made.html()) == ["how/report"]
    assert (ROOT / "docs" / "how" / "report.md").is_file()


def test_run_and_commit_are_named_at_the_top():
    made = report_run(
        run_of("short"), settings=quick(without=PARTS, run_link="https://tracker.example/r/1?a=b&c", commit="abc1234")
    )
    top = made.html().partition("<main>")[0]
    assert '<a href="https://tracker.example/r/1?a=b&amp;c" rel="noreferrer">This run</a>' in top
    assert "Commit abc1234" in top
    linked = quick(commit="https://code.example/commit/abc1234/").links
    assert [(x.text, x.address) for x in linked] == [("Commit abc1234", "https://code.example/commit/abc1234/")]
    for flag, given in (("--run-link", {"run_link": "javascript:x"}), ("--commit", {"commit": "data:text/html,x"})):
        with pytest.raises(SettingError, match=f"{flag}: expected an address"):
            quick(**given)


def test_signals_of_several_runs_lie_over_each_other():
    runs = [run_of(kind) for kind in ("healthy", "plateaued", "short")]
    made = section(report_runs(runs, settings=quick(without=PARTS)), "Signals")
    figure = Figure()
    made.plots[0].draw(figure=figure)
    assert {line.get_label() for line in figure.axes[0].get_lines()} == {"healthy", "plateaued", "short"}


@pytest.mark.parametrize("address", ["javascript:alert(1)", "docs", 'https://x" onclick="y', "data:text/html,x"])
def test_no_other_kind_of_address(address: str):
    with pytest.raises(SettingError, match="--docs: expected an address"):
        quick(docs=address)
