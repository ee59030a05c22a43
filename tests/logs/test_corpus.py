"""What once hung, grew or lost rows: small samples of every defect that an attack on the readers has found."""

import time
from pathlib import Path

import pytest

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs import read_log

CORPUS = sorted((Path(__file__).parents[1] / "corpus").iterdir())
ROWS = {
    "a_bar_a_row.log": 80,
    "a_dict_that_never_ends.log": 4,
    "a_key_a_row.jsonl": 80,
    "a_title_that_never_ends.log": 3,  # the title takes the rest of its line, and no longer the rest of the file
    "blanks_behind_a_row.log": 2,
    "many_dicts_on_a_line.log": 3,
    "names_that_split_in_many_ways.csv": 2,
    "short_rows.csv": 1,
}


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_what_was_mended_stays_mended(path):
    before = time.process_time()
    if path.name in ROWS:
        assert len(read_log(path).step) == ROWS[path.name]
    else:
        with pytest.raises(BayesGrpoError, match=r"^[^\n]*expected[^\n]*$"):
            read_log(path)
    assert time.process_time() - before < 2.0
