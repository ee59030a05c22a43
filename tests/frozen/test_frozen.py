"""Every command prints what it did: ``python -m tests.frozen.take`` takes the stored outputs again."""

import pytest

from tests.frozen.cases import CASES
from tests.frozen.compare import EXACT, SAMPLED, difference
from tests.frozen.take import STORED, take_case
from tests.helpers.selection import few

WITHOUT_SAMPLER = ("diagnose", "inspect", "simulate")
QUICK = (
    "diagnose/dipped_then_collapsed", "diagnose/hacked", "diagnose/masked", "diagnose/short", "diagnose/at_rest",
    "diagnose/solved", "diagnose/broken_off", "diagnose/component_lost", "diagnose/engines_differ", "diagnose/verl",
    "diagnose/short_rows.csv", "diagnose/restarted.jsonl", "inspect/hacked", "inspect/slime", "inspect/TRL",
    "inspect/unknown_columns.csv",
)  # fmt: skip


@pytest.mark.parametrize("case", few(CASES, *QUICK))
def test_a_command_prints_what_it_did(case: str):
    tolerance = EXACT if case.split("/")[0] in WITHOUT_SAMPLER else SAMPLED
    stored = (STORED / f"{case}.txt").read_text(encoding="utf-8")
    assert not (found := difference(stored, take_case(case), tolerance)), f"{case}\n{found}"


def test_every_output_has_its_case():
    assert {str(p.relative_to(STORED).with_suffix("")) for p in STORED.rglob("*.txt")} == set(CASES)


def test_a_changed_number_a_lost_line_and_another_word_are_seen():
    stored = "reward 0.50 rose\nby   10 steps\nend"
    assert not difference(stored, "reward 0.5001 rose by\n10 steps\nend", EXACT)
    found = difference(stored, "reward 0.5001 rose\nby 12 steps", EXACT).splitlines()
    assert [line for line in found[3:] if line[0] in "+-"] == ["-by   10 steps", "-end", "+by 12 steps"]
    assert "-end" in difference(stored, stored.replace("end", "END"), SAMPLED)
    assert not difference("7% of 0.3", "6% of 0.31", SAMPLED)
    assert difference("7% of 0.3", "5% of 0.3", SAMPLED)
    assert difference("7% of 0.3", "6% of 0.3", EXACT)
    assert difference("7% of 0.3", "7 of 0.3", SAMPLED)
