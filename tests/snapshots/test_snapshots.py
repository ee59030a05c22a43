"""Every command answers as it did: `python -m tests.snapshots.taken` takes the stored answers anew."""

import json
from pathlib import Path

import pytest

from tests.helpers.selection import few
from tests.snapshots.taken import CASES, EXACT, SAMPLED, STORED, answer, differences

SAMPLING = {"fit", "forecast", "compare", "backtest", "plan", "compare-runs", "watch", "stability"}
QUICK = (
    *(case for case in CASES if case.startswith("inspect")),
    "diagnose dipped_then_collapsed", "diagnose hacked", "diagnose masked", "diagnose short", "fit rising",
    "plan",
)  # fmt: skip


@pytest.mark.parametrize("case", few(CASES, *QUICK))
def test_a_command_answers_as_it_did(case: str, tmp_path: Path):
    stored = json.loads((STORED / f"{case.replace(' ', '_')}.json").read_text(encoding="utf-8"))
    tolerance = SAMPLED if case.split()[0] in SAMPLING else EXACT
    found = differences(stored, json.loads(json.dumps(answer(case, tmp_path))), tolerance)
    assert not found, "\n".join(found[:20])


def test_every_answer_has_its_case():
    assert {p.stem for p in STORED.glob("*.json")} == {case.replace(" ", "_") for case in CASES}


def test_a_changed_number_a_lost_key_and_another_word_are_seen():
    stored = {"a": 1.0, "b": [1, 2], "c": "flat"}
    assert not differences(stored, {"a": 1.005, "b": [1, 2], "c": "flat"}, EXACT)
    assert len(differences(stored, {"a": 1.2, "b": [1, 3], "d": 1}, EXACT)) == 4
