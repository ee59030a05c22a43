"""Pages of six kinds of runs, in a real browser where there is one."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_grpo.report import html, run_page, work
from bayes_grpo.report.result import Report, save_report
from bayes_grpo.report.run_page import report_run
from bayes_grpo.report.settings import PARTS, ReportSettings
from bayes_grpo.simulate.scenarios import simulate_scenario
from bayes_grpo.simulate.trainer_log import write_json
from tests.helpers.browser import PHONE, look
from tests.helpers.runs import make_run, steps
from tests.report.conftest import KINDS, quick, run_of

MOST_BYTES = 3_000_000


class Outline(HTMLParser):
    """Tags, attributes and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(str(value))
            if name in ("href", "src"):
                self.links.add(str(value))


def assert_one_script_of_ours(text: str) -> None:
    """One script, ours, and a policy that lets no other run."""
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    assert script == Path(html.__file__).with_name("templates").joinpath("page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;;" in text
    assert not re.search(r"fetch|XMLHttp|import|eval|innerHTML|localStorage|http(?!://www.w3.org/2000/svg)", script)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_whole_and_asks_for_nothing(pages: dict[str, Path], kind: str):
    text = pages[kind].read_text(encoding="utf-8")
    found = Outline(text)
    assert len(text.encode()) < MOST_BYTES
    assert not found.tags & {"iframe", "object", "embed", "link", "form", "base"}
    assert_one_script_of_ours(text)
    assert not [a for a in found.attributes if a.startswith("on")]
    assert len(found.ids) == len(set(found.ids))
    assert {x for x in found.links if not x.startswith("data:")} <= {f"#{x}" for x in found.ids}
    assert not re.search(r"url\((?!#)", text)
    assert 'http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;' in text
    for key in ("logged", *PARTS):
        assert f'<section id="{key}"' in text
    assert text.count('class="missing"') == (0 if kind == "healthy" else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_three_sentences_with_their_probabilities_come_first(pages: dict[str, Path], kind: str):
    text = pages[kind].read_text(encoding="utf-8")
    top = text[: text.index("<nav")]
    assert top.count('class="lead ') == 3
    assert len(re.findall(r'class="chance">P\(.+?\) (?:&gt; 0\.99|&lt; 0\.01|0\.\d\d)<', top)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_every_term_is_explained_and_every_picture_told(reports: dict[str, Report], kind: str):
    page = reports[kind].page
    for section in page.sections:
        assert set(section.used) <= set(page.glossary), section.key
        assert section.missing or section.answer
        for picture in section.pictures:
            assert len(picture.alt) > 20
            assert picture.wide.startswith("<svg ")
    for term, meaning in page.glossary.items():
        assert meaning.endswith("."), term
    assert {s.key for s in page.sections if s.pictures} >= {"logged", "fit", "check", "forecast", "diagnosis"}
    json.dumps(reports[kind].to_dict(), allow_nan=False)


def test_the_page_begins_with_how_the_run_stands(reports: dict[str, Report]):
    report = reports["hacking"]
    top = report.page.top
    assert top is not None
    assert report.to_dict()["top"]["status"] == top.status
    shown = report.html()
    assert report.sentence.startswith(f"{top.status.upper()}: {top.sentence} Do now: ")
    assert shown.index("Do now:") < shown.index('class="leads"')
    assert f"“{top.status}”: {top.meaning}" in shown


@pytest.mark.thorough
def test_what_cannot_be_told_is_followed_by_what_would_tell(reports: dict[str, Report]):
    titles = {part.title for s in reports["short"].page.sections if s.key == "fit" for part in s.parts}
    assert "What would tell" in titles
    laws = next(s for s in reports["healthy"].page.sections if s.key == "laws")
    assert ("cannot tell" in laws.answer) == ("What would tell" in {part.title for part in laws.parts})


@pytest.mark.thorough
def test_a_decision_is_shown_where_it_is_asked_for_and_asked_for_where_it_is_not(reports: dict[str, Report]):
    asked, without = (next(s for s in reports[k].page.sections if s.key == "forecast") for k in ("healthy", "short"))
    assert "What stopping at a step is worth" in [t.caption for t in asked.tables]
    assert any("--cost-per-step" in line for part in without.parts for line in part.lines)
    assert "P(going on pays)" in reports["healthy"].page.leads[1].chance


def test_one_part_that_fails_costs_no_other(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("nobody foresaw it")

    monkeypatch.setitem(vars(work)["_MAKERS"], "diagnosis", broken)
    monkeypatch.setattr(run_page, "logged", broken)
    made = report_run(run_of("short"), settings=quick(without=tuple(p for p in PARTS if p != "diagnosis")))
    missing = {s.key: s.missing for s in made.page.sections}
    assert missing["diagnosis"] == "Failed unexpectedly: ZeroDivisionError: nobody foresaw it"
    assert missing["logged"] == "Could not be drawn: ZeroDivisionError: nobody foresaw it"
    assert "<html" in made.html()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "answer"),
    [("hacking", "reward hacking"), pytest.param("degenerate", "advantage degeneracy", marks=pytest.mark.slow)],
)
def test_failures_are_named_at_the_top(pages: dict[str, Path], kind: str, answer: str):
    text = pages[kind].read_text(encoding="utf-8")
    assert f"P({answer})" in text[: text.index("<nav")]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_finds_nothing_wrong(pages: dict[str, Path], driver: Any, kind: str):
    for width, dark in ((1200, False), (PHONE, False), (PHONE, True)):
        seen = look(driver, pages[kind], width=width, dark=dark)
        assert seen.console == []
        assert seen.requests == []
        assert seen.width <= seen.window == width
        assert seen.findings == []


def test_a_picture_knows_what_it_shows(reports: dict[str, Report]):
    hero = reports["hacking"].page.hero
    assert hero is not None
    root = ElementTree.fromstring(hero.wide)
    (panel,) = json.loads(root.attrib["data-look"])
    left, top, right, bottom = panel["box"]
    wide, high = map(float, root.attrib["viewBox"].split()[2:])
    assert 0 < left < right < wide + 1
    assert 0 < top < bottom < high
    assert panel["name"] == "optimizer step"
    low, end = panel["x"]
    for _, x, y in panel["lines"]:
        assert len(x) == len(y) >= 3
        assert x == sorted(x)
        assert low - 1e-3 * end <= x[0]
        assert x[-1] <= end * 1.001


@pytest.mark.thorough
def test_the_pointer_reads_values_and_a_picture_is_enlarged(pages: dict[str, Path], driver: Any):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    look(driver, pages["healthy"], axe=False)
    hero = driver.find_element("css selector", "figure svg[data-look]")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", hero)
    ActionChains(driver).move_to_element(hero).perform()
    told = driver.find_element("css selector", ".tip").text
    assert re.match(r"optimizer step \d+", told), told
    assert re.search(r": 0\.\d", told), told
    before = hero.get_dom_attribute("viewBox")
    driver.execute_script("arguments[0].closest('figure').querySelector('.enlarge').click()", hero)
    assert driver.find_element("css selector", "dialog[open] svg[data-look]").size["width"] > 900
    ActionChains(driver).send_keys("+").perform()
    nearer = [float(x) for x in hero.get_dom_attribute("viewBox").split()]
    assert nearer[2] == pytest.approx(float(before.split()[2]) / 1.5)
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    assert not driver.find_elements("css selector", "dialog[open]")
    assert [float(x) for x in hero.get_dom_attribute("viewBox").split()] == [float(x) for x in before.split()]
    assert [x for x in driver.get_log("browser") if x["level"] in ("SEVERE", "WARNING")] == []


@pytest.mark.thorough
def test_a_print_is_short(pages: dict[str, Path], driver: Any):
    look(driver, pages["healthy"], axe=False)
    driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = false)")
    paper = driver.execute_cdp_cmd(
        "Page.printToPDF", {"preferCSSPageSize": True, "paperWidth": 8.27, "paperHeight": 11.69}
    )
    pdf = base64.b64decode(paper["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 6


@pytest.mark.thorough
def test_a_browser_would_tell(tmp_path: Path, driver: Any):
    page = tmp_path / "bad.html"
    page.write_text(
        '<html><body style="width:900px"><img src="gone.png"><p style="color:#eee">x</p>'
        "<script>console.error('said')</script></body></html>"
    )
    seen = look(driver, page, width=PHONE)
    assert seen.console
    assert any("gone.png" in url for url in seen.requests)
    assert seen.width > PHONE
    assert any(line.startswith("image-alt") for line in seen.findings)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["healthy", "plateau", "reward_hacking", "advantage_degeneracy", "unstable"])
def test_whole_pages_of_simulated_runs(tmp_path: Path, driver: Any, scenario: str):
    from bayes_grpo.logs.reading import read_log

    log, _ = simulate_scenario(scenario, 1, 3)[0].log()
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "trainer_state.json", log)
    made = report_run(read_log(tmp_path / "run"), settings=ReportSettings())
    assert [s.key for s in made.page.sections if s.missing] == []
    page = save_report(made, tmp_path / "page.html")
    assert page.stat().st_size < MOST_BYTES
    for width in (1200, PHONE):
        seen = look(driver, page, width=width)
        assert (seen.console, seen.requests, seen.findings) == ([], [], [])
        assert seen.width <= width


def test_a_long_log_stays_small(tmp_path: Path):
    n = 20_000
    rng = np.random.default_rng(0)
    run = make_run(
        steps(n), 0.5 + 0.1 * rng.standard_normal(n), signals={"kl": rng.random(n), "entropy": rng.random(n)}
    )
    page = save_report(report_run(run, settings=quick(without=PARTS)), tmp_path / "page.html")
    assert page.stat().st_size < MOST_BYTES / 2
