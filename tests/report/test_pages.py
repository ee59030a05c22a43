"""Pages of six kinds of runs, in a real browser where there is one."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_grpo.report.result import save_report
from bayes_grpo.report.run_page import report_run
from bayes_grpo.report.settings import PARTS, ReportSettings
from bayes_grpo.simulate.scenarios import simulate_scenario
from bayes_grpo.simulate.trainer_log import write_json
from tests.helpers.browser import PHONE, look
from tests.report.conftest import KINDS

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


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_whole_and_asks_for_nothing(pages: dict[str, Path], kind: str):
    text = pages[kind].read_text(encoding="utf-8")
    found = Outline(text)
    assert len(text.encode()) < MOST_BYTES
    assert not found.tags & {"script", "iframe", "object", "embed", "link", "form", "base"}
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


def test_failures_are_named_at_the_top(pages: dict[str, Path]):
    expected = {"hacking": "reward hacking", "degenerate": "advantage degeneracy"}
    for kind, answer in expected.items():
        text = pages[kind].read_text(encoding="utf-8")
        assert f"P({answer})" in text[: text.index("<nav")], kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_finds_nothing_wrong(pages: dict[str, Path], driver: Any, kind: str):
    for width, dark in ((1200, False), (PHONE, False), (PHONE, True)):
        seen = look(driver, pages[kind], width=width, dark=dark)
        assert seen.console == []
        assert seen.requests == []
        assert seen.width <= seen.window == width
        assert seen.findings == []


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
    from tests.helpers.runs import make_run, steps
    from tests.report.conftest import quick

    n = 20_000
    rng = np.random.default_rng(0)
    run = make_run(
        steps(n), 0.5 + 0.1 * rng.standard_normal(n), signals={"kl": rng.random(n), "entropy": rng.random(n)}
    )
    page = save_report(report_run(run, settings=quick(without=PARTS)), tmp_path / "page.html")
    assert page.stat().st_size < MOST_BYTES / 2
