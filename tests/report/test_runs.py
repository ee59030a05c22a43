"""Several runs on one page: which recipe is better, what settings do, and where to read more."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.report.manual import MANUAL
from bayes_grpo.report.result import Report, save_report
from bayes_grpo.report.run_page import report_run
from bayes_grpo.report.runs_page import report_runs
from bayes_grpo.report.settings import PARTS
from tests.families.made import relaxing, swept
from tests.helpers.browser import PHONE, look
from tests.report.conftest import quick, run_of
from tests.siblings.made import family

DOCS = "https://docs.example/bayes"
ROOT = Path(__file__).parents[2]
FAST = quick(without=("forecast", "diagnosis"), docs=DOCS)


@pytest.fixture(scope="module")
def beside() -> Report:
    """Two recipes of two seeds each, which differ in the learning rate."""
    runs = swept(4)
    return report_runs([runs[0], runs[3]], against=runs[1:3], vary=["learning_rate"], settings=FAST)


def section(made: Report, key: str) -> Any:
    return next(s for s in made.page.sections if s.key == key)


@pytest.mark.thorough
def test_recipes_are_compared_and_settings_told(beside: Report):
    assert [s.key for s in beside.page.sections][:4] == ["curves", "data-order", "better", "effects"]
    better, effects = section(beside, "better"), section(beside, "effects")
    known = beside.to_dict()
    assert better.answer == known["better"]["sentence"]
    assert known["better"]["counts"] == {"a": 2, "b": 2}
    assert better.parts[0].lines[:2] == ("A: run0, run3", "B: run1, run2")
    assert {e["setting"] for e in known["effects"]["exponents"]} == {"learning_rate"}
    assert len(effects.tables[0].rows) == len(known["effects"]["exponents"])
    assert len(effects.tables[1].rows) == 4
    for s in (better, effects):
        assert len(s.pictures) == 2
        assert set(s.used) <= set(beside.page.glossary)
    assert re.match(r"P\(B better\) ", beside.page.leads[0].chance)
    json.dumps(known, allow_nan=False)


def test_what_cannot_be_compared_is_a_line(tmp_path: Path):
    ask = quick(without=PARTS)
    runs = [relaxing("a", group_size=8), relaxing("b", group_size=8, seed=1)]
    made = report_runs(runs, vary=["group_size"], settings=ask)
    assert "expected" in section(made, "effects").missing
    assert section(made, "better").answer  # two runs alone are A and B
    assert made.page.leads[1].sentence.startswith("Cannot be told.")
    assert "better" not in {s.key for s in report_runs([*runs, relaxing("c", seed=2)], settings=ask).page.sections}
    with pytest.raises(SettingError, match="two runs or more"):
        report_runs(runs[:1], settings=ask)


@pytest.mark.thorough
def test_a_browser_finds_nothing_wrong(beside: Report, driver: Any, tmp_path: Path):
    page = save_report(beside, tmp_path / "runs.html")
    for width, dark in ((1200, False), (PHONE, True)):
        seen = look(driver, page, width=width, dark=dark)
        assert (seen.console, seen.requests, seen.findings) == ([], [], [])
        assert seen.width <= width


@pytest.mark.thorough
def test_every_section_leads_to_a_page_of_the_documentation(beside: Report):
    alone = report_run(run_of("short"), settings=quick(without=PARTS, docs=DOCS + "/"))
    for made in (beside, alone):
        keys = {s.key for s in made.page.sections}
        assert keys <= set(MANUAL)
        found = set(re.findall(rf'href="{DOCS}/([^"]*)\.html"', made.html()))
        assert found == {MANUAL[key] for key in (*keys, "words")}
    for page in MANUAL.values():
        assert (ROOT / "docs" / f"{page}.md").is_file()


@pytest.mark.parametrize("address", ["javascript:alert(1)", "docs", 'https://x" onclick="y', "data:text/html,x"])
def test_no_other_kind_of_address(address: str):
    with pytest.raises(SettingError, match="--docs: expected an address"):
        quick(docs=address)


def test_what_was_data_and_what_was_learning(tmp_path: Path):
    runs = [replace(r, name=f"run{i}") for i, r in enumerate(family([0, 0, 0], rows=40, share=0.8, seed=2))]
    found = section(report_runs(runs, settings=quick(without=PARTS, docs=DOCS)), "data-order")
    assert found.answer.startswith("The order of data is shared: 3 of 3 runs")
    assert [row[0].text for row in found.tables[0].rows] == ["run0", "run1", "run2"]
    assert len(found.pictures) == 1
    apart = section(report_runs(runs[:1] * 2, settings=quick(without=PARTS, docs=DOCS)), "data-order")
    assert "expected at least 2 runs" in apart.missing
