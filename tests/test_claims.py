"""Every number that README and the documentation report as measured stands in `benchmarks/results/`."""

import json
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.fitting.sampling.nuts import BFMI_LIMIT, RHAT_LIMIT
from tests.helpers.claims import MARKER, RESULTS, Claim, claims_in, kept, unmarked
from tests.helpers.pages import ROOT, written_pages

# Decisions record what was measured when they were made; today's numbers stand on the other pages.
PAGES = [ROOT / "README.md", *(page for page in written_pages() if page.stem != "decisions")]
TEXT = "\n\n".join(path.read_text(encoding="utf-8") for path in PAGES)

SETTLED = [
    rf"{LEVEL:.0%} (credible |equal-tailed )?(intervals?|band)",
    rf"R-hat ≤ {RHAT_LIMIT}",
    rf"E-BFMI ≥ {BFMI_LIMIT}",
    r"suggest it, with probability 0\.9",  # the prior probability of a range that nobody stated
    r"R² of 0\.91",  # the paper's own figure, the threshold of a count
    r"at least 0\.35 \((`--alarm`)?\)",  # the watch's default
    r"cut at 30, 50 and 70% of their rows",  # where the backtest forecasts from
    r"arXiv \d+\.\d+",
    r"Apache-2\.0",
    r"Python 3\.12 or newer",
]
"""Numbers that define something: levels, limits, thresholds, names."""


def value(claim: Claim) -> float:
    def step(found: Any, key: str) -> Any:
        return found[int(key)] if isinstance(found, list) else found[key]

    return float(reduce(step, claim.key.split("."), kept(claim.name)))


def test_every_claim_is_a_kept_result():
    claims = claims_in(TEXT)
    assert len(claims) > 40
    assert len(claims) == TEXT.count(MARKER), "a marker that does not follow a number"
    wrong = [f"{c.printed}: {c.name}.{c.key} is {value(c)}" for c in claims if not c.agrees(value(c))]
    assert not wrong
    assert all(c.share for c in claims if c.percent)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_every_measured_number_has_a_claim(path: Path):
    assert unmarked(path.read_text(encoding="utf-8"), SETTLED) == []


def test_settled_phrases_are_all_in_use():
    prose = re.sub(r"\s+", " ", TEXT)
    for phrase in SETTLED:
        assert re.search(phrase, prose), phrase


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_kept_results_say_where_they_come_from(path: Path):
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["name"] == path.stem
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"])
    assert content["result"]
    if "source" in content:
        # Measured before results were kept: nothing is known but what README said.
        assert re.fullmatch(r"README at [0-9a-f]{7}(, [0-9a-f]{7})*", content["source"])
        assert content["machine"] is None
    else:
        assert {"cpu", "cores"} <= set(content["machine"])
        assert {"python", "jax", "numpyro", "arviz", "bayes-grpo"} <= set(content["versions"])
        called = re.match(r"python -m ([\w.]+)", content["command"])
        assert called
        place = ROOT / called[1].replace(".", "/")
        assert (place / "__main__.py").exists() or place.with_suffix(".py").exists()


def test_claims_are_read_and_compared():
    text = (
        "2,000<!-- claim: a.runs --> 87<!-- claim: % a.c.x y -->, 92%<!-- claim: % a.l.1 -->, 56 s<!-- claim: b.t -->"
    )
    claims = claims_in(text)
    assert [(c.printed, c.share, c.percent, c.name, c.key) for c in claims] == [
        ("2,000", False, False, "a", "runs"),
        ("87", True, False, "a", "c.x y"),
        ("92", True, True, "a", "l.1"),
        ("56", False, False, "b", "t"),
    ]
    assert claims[0].agrees(2000.4)
    assert not claims[0].agrees(2001)
    assert claims[1].agrees(0.8749)
    assert not claims[1].agrees(0.8751)
    assert not claims[2].agrees(92)
    assert claims_in("0.81<!-- claim: a.b -->")[0].agrees(0.814)
    assert not claims_in("0.81<!-- claim: a.b -->")[0].agrees(0.816)


def test_prose_without_a_marker_is_found():
    text = "# 0.1\n\n| 0.2 |\n```\n0.3\n```\nlost 0.4, 5% and `0.6` of 0.7<!-- claim: a.b -->, [0, 1], R-hat ≤ 1.01\n"
    found = unmarked(text, [r"R-hat ≤ 1.01"])
    assert len(found) == 2
    assert "0.4" in found[0]
    assert "5%" in found[1]
