"""The page of definitions cannot drift from the code: its tables, pictures and numbers."""

import json
import re
from functools import reduce
from pathlib import Path

import pytest

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, FORECAST, TRUTH, table
from bayes_grpo.events.catalogue import DEFINITIONS
from bayes_grpo.events.hazards import HAZARDS
from benchmarks.diagnosis_pictures import EXAMPLES, TABLES, border_table, with_tables
from benchmarks.lab.truth import TRUE_EVENTS
from tests.helpers.claims import MARKER, claims_in, unmarked

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
KEPT = json.loads((ROOT / "benchmarks" / "results" / "diagnosis_pictures.json").read_text(encoding="utf-8"))["result"]


def test_the_tables_are_those_of_the_code():
    assert with_tables(PAGE) == PAGE
    for name, written in TABLES.items():
        assert f"<!-- table: {name} -->\n{written()}\n<!-- end: {name} -->" in PAGE


def test_every_border_is_in_the_table():
    assert len(table()) > 60
    for border in table():
        assert f"| `{border.name}` | {border.value:g} |" in border_table()


def test_the_definitions_name_their_borders():
    """A text that states another number than the code would be caught: the numbers are those of the borders."""
    texts = {d.name: d.holds for d in DEFINITIONS if d.reader == DIAGNOSIS}
    assert {d.mode for d in DEFINITIONS if d.reader == DIAGNOSIS} == {"", *MODES}
    assert f"{BORDERS.lost:.0%}" in texts["collapsed"]
    assert f"{BORDERS.decline:.0%}" in texts["declined"]
    assert f"{BORDERS.wasted:.0%}" in texts["wasted"]
    assert f"{BORDERS.spent:.0%}" in texts["spent"]
    assert f"{BORDERS.loose:.0%}" in texts["uncoupled"]
    assert f"{BORDERS.wide:.0%}" in texts["swings"]
    assert f"{BORDERS.jump:.0%}" in texts["swings"]


def test_every_event_of_the_laboratory_and_of_a_forecast_is_in_words():
    words = {reader: {d.name for d in DEFINITIONS if d.reader == reader} for reader in (TRUTH, FORECAST)}
    assert words == {TRUTH: {"healthy", *TRUE_EVENTS}, FORECAST: set(HAZARDS)}


@pytest.mark.parametrize("event", [d.name for d in DEFINITIONS if d.reader == DIAGNOSIS])
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
