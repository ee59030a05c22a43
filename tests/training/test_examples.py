"""The keys that docs/live.md lists are those that the callback writes."""

import re
from dataclasses import replace
from pathlib import Path

from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.training.callback import SENTENCE, entries_of
from tests.training.test_callback import alarm, update

PAGE = Path(__file__).resolve().parents[2] / "docs" / "live.md"
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S))


def test_every_key_of_the_table_is_one_that_we_write():
    kept = update(5, stop=9.0)
    assert kept.outlook is not None
    status = Status("fine", Finding(kind="rising", probability=0.8), Action(kind="go_on"))
    kept = replace(kept, status=status, outlook=replace(kept.outlook, take=4.0))
    written = {*entries_of(kept, (alarm(),)), SENTENCE}
    told = re.findall(r"`bayes_grpo/([\w/]+)`", SECTIONS["TRL, unsloth, ms-swift"])
    told = [name for name in told if name != "p/reward_hacking"]  # the stand-in has two answers
    assert told
    assert all(f"bayes_grpo/{name}" in written for name in told)
