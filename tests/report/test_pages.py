"""Pages of six kinds of runs, in a real browser where there is one."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from bayes_grpo.analysis import analyze
from bayes_grpo.analysis.analyze import PARTS
from bayes_grpo.analysis.result import Analysis, Part
from bayes_grpo.common.document import Document, Section
from bayes_grpo.comparison.compare import compare
from bayes_grpo.fitting import draws
from bayes_grpo.forecasting.level import LEVEL_NAME
from bayes_grpo.report import Report, report_run, save_report
from bayes_grpo.views import html, page
from tests.helpers.browser import PHONE, look
from tests.helpers.command import printed_by
from tests.helpers.runs import make_run, steps
from tests.report.conftest import KINDS, ROWS, SHARED, Markup, quick, report_of, run_of

MOST_BYTES = 3_000_000
MOST_WORDS, MOST_BEFORE = 1500, 100
Pages = Callable[[str], Path]


def assert_one_script_of_ours(text: str) -> None:
    """One script, ours, and a policy that lets no other run."""
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    assert script == Path(html.__file__).with_name("templates").joinpath("page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;;" in text
    assert not re.search(r"fetch|XMLHttp|import|eval|innerHTML|localStorage|http(?!://www.w3.org/2000/svg)", script)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_whole_and_asks_for_nothing(page_file: Pages, kind: str):
    text = page_file(kind).read_text(encoding="utf-8")
    found = Markup(text)
    ids = found.values("id")
    assert len(text.encode()) < MOST_BYTES
    assert not set(found.tags) & {"iframe", "object", "embed", "link", "form", "base"}
    assert_one_script_of_ours(text)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert len(ids) == len(set(ids))
    assert {x for x in found.values("href", "src", "srcset") if not x.startswith("data:")} <= {f"#{x}" for x in ids}
    assert not re.search(r"url\((?!#)", text)
    assert 'http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;' in text
    for key in ("signals", "what-happened", "forecast", "fit", "regimes", "check", "stability", "log", "settings"):
        assert f'<details id="{key}"' in text
    assert text.count('class="missing"') == 0
    assert "not known" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_card_then_chart_then_three_answers_with_percentages_come_first_and_words_are_few(page_file: Pages, kind: str):
    text = page_file(kind).read_text(encoding="utf-8")
    first = text[: text.index("<details")]
    order = [first.index(x) for x in ('class="card ', "Do now:", "<figure", 'class="points"')]
    assert order == sorted(order)
    assert (
        len(re.findall(r'class="chance">(?:&gt;99%|&lt;1%|\d+%) chance (?:of|that)', first))
        == 3 - report_of(kind).failed
    )

    whole, before = (len(" ".join(Markup(x).texts).split()) for x in (text, text[: text.index("<table")]))
    assert 200 < whole <= MOST_WORDS
    assert before <= MOST_BEFORE


def test_the_page_has_the_weights_of_the_forecast_and_the_command_that_compares():
    report = report_of("hacking")
    regimes = next(s for s in report.document.sections if s.title == "Regimes")
    shown = {row[0].text: float(row[1].text) for row in regimes.tables[0].rows}
    weights = report.results["forecast"]["weights"]
    assert shown.pop("last value") == pytest.approx(weights.pop(LEVEL_NAME), abs=0.006)
    assert shown == {name: pytest.approx(weight, abs=0.006) for name, weight in weights.items()}
    assert page.MORE_HINT in regimes.lines
    assert report.results["regimes"]["reason"] == page.NOT_COMPARED


@pytest.mark.thorough
def test_the_page_names_the_regimes_that_were_left_out_and_why():
    run = run_of("hacking")
    found = analyze.analyze(run, ("forecast",), settings=quick(**SHARED))
    ahead = found.forecast.required
    lost = Part(ahead._replace(summary=replace(ahead.summary, not_converged=("sigmoid",))))
    clause = "igmoid did not converge and is left out."
    forecast, regimes = sections_of(
        page.page_of(run, replace(found, forecast=lost, regimes=Part(reason=page.NOT_COMPARED)))
    )
    assert f"Caution: s{clause}" in forecast.lines
    assert f"S{clause}" in regimes.lines
    compared = replace(compare(run, ["flat", "exponential"], lfo=False), left_out={"bernoulli": "it needs counts."})
    assert (
        "Bernoulli is left out: it needs counts."
        in sections_of(page.page_of(run, Analysis(regimes=Part(compared))))[1].lines
    )


def sections_of(document: Document) -> tuple[Section, Section]:
    """The sections about the forecast and about the regimes."""
    by_title = {s.title: s for s in document.sections}
    return by_title["Forecast"], by_title["Regimes"]


def test_nothing_is_compared_for_a_page_that_does_not_show_it(monkeypatch: pytest.MonkeyPatch):
    """No regime is sampled for a page but those of the fit and of the forecast."""
    sampled: list[tuple[str, int]] = []
    weigh = draws.weighted_points

    def counted(target: Any, *more: Any, **options: Any) -> Any:
        sampled.append((target.regime.name, len(target.rows.y)))
        return weigh(target, *more, **options)

    monkeypatch.setattr(draws, "weighted_points", counted)
    report_run(run_of("hacking"), settings=quick(**SHARED))
    assert sorted(sampled) == [("exponential", ROWS), ("exponential", ROWS), ("flat", ROWS)]


@pytest.mark.thorough
def test_a_draft_has_status_and_forecast_and_its_figures_are_drawn_once(monkeypatch: pytest.MonkeyPatch):
    drafts: list[tuple[Report, str]] = []
    lines: list[str] = []
    overviews: list[Any] = []
    parts, overview, there = vars(analyze)["_PARTS"], page.plot_overview, Event()

    def late() -> Any:
        make = fit()

        def made(work: Any) -> Any:
            assert there.wait(120)
            return make(work)

        return made

    def drafted(report: Report) -> None:
        drafts.append((report, report.html()))
        there.set()

    def drawn(*given: Any, **more: Any) -> Any:
        overviews.append(given)
        return overview(*given, **more)

    words, fit = parts["fit"]
    monkeypatch.setitem(parts, "fit", (words, late))
    monkeypatch.setattr(page, "plot_overview", drawn)
    made = report_run(run_of("hacking"), settings=quick(**SHARED), first=lines.append, draft=drafted)
    (draft, text), whole = drafts[0], made.html()
    assert len(drafts) == 1
    assert lines == [made.document.first_lines[0]] == [draft.document.first_lines[0]]
    missing = {s.title for s in draft.document.sections if s.missing}
    assert missing == {"Fit", "Check", "Stability"}
    assert page.PENDING.reason in text
    assert page.PENDING.reason not in whole
    assert len(overviews) == 2  # for a screen and for a phone


def test_the_first_line_waits_for_no_sampler(tmp_path: Path):
    log = tmp_path / "trainer_state.json"
    rows = [{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)]
    log.write_text(json.dumps({"log_history": rows, "max_steps": 60}), encoding="utf-8")
    program = (
        "import sys; from bayes_grpo.report import report_run\n"
        "def first(line):\n"
        "    print(line, {'jax', 'matplotlib', 'pandas'} & set(sys.modules))\n"
        "    raise SystemExit\n"
        "report_run(sys.argv[1], first=first)"
    )
    found = printed_by(program, log)
    assert found.startswith("FINE")
    assert found.endswith("set()")


def test_one_part_that_fails_costs_no_other(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a part that failed")

    parts = vars(analyze)["_PARTS"]
    monkeypatch.setitem(parts, "diagnosis", ("the diagnosis", lambda: broken))
    monkeypatch.setattr(page, "plot_signal", broken)
    monkeypatch.setattr(page, "_stability", broken)
    made = report_run(run_of("hacking"), settings=quick(**SHARED), without=("check", "forecast"))
    missing = {s.title: s.missing for s in made.document.sections}
    assert missing["What happened"] == "Failed unexpectedly: ZeroDivisionError: a part that failed"
    assert missing["Stability"] == "Could not be shown: ZeroDivisionError: a part that failed"
    assert "<html" in made.html()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_finds_nothing_wrong(page_file: Pages, driver: Any, kind: str):
    for width, dark in ((1200, False), (PHONE, False), (PHONE, True)):
        seen = look(driver, page_file(kind), width=width, dark=dark)
        assert seen.console == []
        assert seen.requests == []
        assert seen.width <= seen.window == width
        assert seen.findings == []


@pytest.mark.thorough
def test_a_print_is_short(page_file: Pages, driver: Any):
    look(driver, page_file("healthy"), axe=False)
    driver.execute_script("document.querySelectorAll('details:not(#words)').forEach(d => d.open = true)")
    paper = driver.execute_cdp_cmd(
        "Page.printToPDF", {"preferCSSPageSize": True, "paperWidth": 8.27, "paperHeight": 11.69}
    )
    pdf = base64.b64decode(paper["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4


@pytest.mark.thorough
def test_a_long_log_stays_small(tmp_path: Path):
    n = 20_000
    rng = np.random.default_rng(0)
    run = make_run(
        steps(n), 0.5 + 0.1 * rng.standard_normal(n), signals={"kl": rng.random(n), "entropy": rng.random(n)}
    )
    file = save_report(report_run(run, settings=quick(), without=PARTS), tmp_path / "page.html")
    assert file.stat().st_size < MOST_BYTES / 2
