"""A log whose names, keys and values are markup, script, terminal codes, right-to-left and far too long."""

import base64
import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.report import report_run, save_report
from tests.helpers.browser import PHONE, look
from tests.helpers.command import call
from tests.helpers.runs import make_run, steps
from tests.report.conftest import Markup, quick

SCRIPT = "<script>document.title='taken'</script><img src=x onerror=alert(1)>{{ 7*7 }}{% raw %}"
TERMINAL = "\x1b[31mred\x1b]0;title\x07\x9b2J"
TURNED = "\u202egnp.exe\u2066 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"
LONG = "x" * 10_000
EVIL = (SCRIPT, TERMINAL, TURNED, LONG, "$\\frac{1}{0$ $x_", "\"'></svg></style>", "]]>&amp;&lt;")
LEFT_OUT = ("fit", "regimes", "check", "forecast", "stability")


def evil_run(name: str) -> Any:
    """A run every text of which is hostile."""
    n = 40
    rng = np.random.default_rng(1)
    run = make_run(
        steps(n), 0.3 + 0.01 * rng.standard_normal(n) + steps(n) / 80.0, name=name,
        signals={"kl": rng.random(n), "grad_norm": rng.random(n)},
        components={text: rng.random(n) for text in EVIL}, group_size=8,
    )  # fmt: skip
    settings = replace(run.settings, schedule=Setting(SCRIPT + LONG, Provenance.CONFIG, TERMINAL + SCRIPT + LONG))
    return replace(
        run, source=f"/{SCRIPT}/{TURNED}; {LONG}", notes=EVIL, keys={"reward": SCRIPT, "kl": LONG, "grad_norm": TURNED},
        settings=settings,
    )  # fmt: skip


def check_text(text: str) -> None:
    found = Markup(text)
    sources, texts = found.values("src", "srcset"), [*found.texts, *found.values("title", "aria-label", "alt")]
    assert "iframe" not in found.tags
    assert all(x.startswith("data:image/svg+xml;base64,") for x in sources)
    assert found.tags.count("script") == 1
    assert found.tags.count("style") == 1
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    said = "".join(texts)
    assert "{{ 7*7 }}" in said  # as text
    assert not [c for c in said if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"]
    assert max(map(len, texts)) < 8_000  # a table to be copied; every cell is bounded
    assert not re.search("x{1001}", text)
    for source in sources:
        assert b"<script" not in base64.b64decode(source.partition(",")[2])


@pytest.fixture(scope="module")
def evil_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = report_run(evil_run(SCRIPT + TERMINAL + TURNED + LONG), settings=quick(), without=LEFT_OUT)
    assert sum(bool(s.missing) for s in made.document.sections) == len(LEFT_OUT)
    return save_report(made, tmp_path_factory.mktemp("evil") / "page.html")


def test_hostile_text_is_text(evil_page: Path):
    check_text(evil_page.read_text(encoding="utf-8"))


def test_a_browser_keeps_its_calm(evil_page: Path, driver: Any):
    for width in (PHONE, 1200):
        seen = look(driver, evil_page, width=width)
        assert (seen.console, seen.requests, seen.findings) == ([], [], [])
        assert seen.width <= width
    assert driver.title.startswith("<script>")


def test_a_hostile_log_leaves_terminal_and_page_intact(tmp_path: Path):
    folder = tmp_path / f"<b>{TURNED[:6]}\x1b[31m<b>"
    folder.mkdir()
    rows = [
        {"step": i + 1, "reward": 0.5 + 0.001 * i, "kl": SCRIPT, f"rewards/{SCRIPT}/mean": 0.1 * i, LONG: 1.0,
         f"rewards/{TERMINAL}/mean": 0.2 * i, "loss": TERMINAL}
        for i in range(30)
    ]  # fmt: skip
    log = folder / "trainer_state.json"
    log.write_text(json.dumps({"log_history": rows, "global_step": 30, "max_steps": 60, "logging_steps": 1}))
    page = tmp_path / "page.html"
    done = call("report", log, "--out", page, "--without", ",".join(LEFT_OUT))
    assert done.code == 0, done.err
    for text in (done.out, done.err):
        assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"]
    assert page.read_text(encoding="utf-8").count("<script") == 1
