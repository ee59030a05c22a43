"""The page of definitions cannot drift from the code: its tables, pictures and numbers."""

import json
import re
from functools import reduce
from pathlib import Path

import pytest

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.diagnosis import events, swings
from bayes_grpo.diagnosis.classes import MODES
from benchmarks.diagnosis_pictures import EXAMPLES, TABLES, border_table, with_tables
from tests.helpers.claims import MARKER, claims_in, unmarked

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
KEPT = json.loads((ROOT / "benchmarks" / "results" / "diagnosis_pictures.json").read_text(encoding="utf-8"))["result"]


def test_the_tables_are_those_of_the_code():
    assert with_tables(PAGE) == PAGE
    for name, table in TABLES.items():
        assert f"<!-- table: {name} -->\n{table()}\n<!-- end: {name} -->" in PAGE


def test_every_border_is_in_the_table():
    named = [name for name in vars(events) if name.isupper() and not name.startswith("_")]
    # Imported names are the business of their own modules.
    own = [name for name in named if name not in ("DEFINITIONS", "DRAWS")]
    assert len(own) > 15
    for name in own:
        assert f"`{name}`" in border_table()


def test_the_definitions_name_their_borders(monkeypatch):
    """A text that states another number than the code would be caught: the numbers are those of the constants."""
    texts = {d.name: d.holds for d in events.DEFINITIONS}
    assert {d.mode for d in events.DEFINITIONS} == {"", *MODES}
    assert f"{events.LOST:.0%}" in texts["collapsed"]
    assert f"{events.DECLINE:.0%}" in texts["declined"]
    assert f"{events.WASTE:.0%}" in texts["wasted"]
    assert f"{events.LEFT:.0%}" in texts["spent"]
    assert f"{events.LOOSE:.0%}" in texts["uncoupled"]
    assert f"{events.WIDE:.0%}" in texts["swings"]
    assert f"{swings.JUMP:.0%}" in texts["swings"]


@pytest.mark.parametrize("event", [d.name for d in events.DEFINITIONS])
def test_every_event_has_a_picture_of_both_sides(event):
    assert f"](diagnosis/{event}.png)" in PAGE
    assert 5_000 < (ROOT / "docs" / "diagnosis" / f"{event}.png").stat().st_size < 60_000
    holds, other = (KEPT[event][side] for side in ("holds", "not"))
    assert (holds["run"], other["run"]) == EXAMPLES[event]
    assert holds["probability"] > 0.5 > other["probability"]
    assert "/" in holds["repository"]


def test_every_number_of_the_page_is_kept():
    claims = claims_in(PAGE)
    assert len(claims) == PAGE.count(MARKER) == 2 * len(EXAMPLES)
    for claim in claims:
        assert claim.name == "diagnosis_pictures"
        assert claim.agrees(float(reduce(lambda found, key: found[key], claim.key.split("."), KEPT)))
    assert unmarked(re.sub(r"<!-- table.*?<!-- end[^>]*>", "", PAGE, flags=re.DOTALL), [rf"{LEVEL:.0%} band"]) == []
