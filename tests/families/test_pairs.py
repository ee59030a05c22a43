import numpy as np

from bayes_grpo.families.pairs import common_steps, could_pair, data_orders
from bayes_grpo.rows.rows_of import rows_of
from tests.siblings.made import family

MADE = {"orders": [0, 0, 0, 0, -1], "rows": 80, "share": 0.6, "seed": 4, "spread": 0.05}
NAMES = [f"run{i}" for i in range(5)]


def rows(**more):
    made = MADE | more
    return [rows_of(r) for r in family(made.pop("orders"), **made)]


def test_runs_of_one_order_are_compared_by_rows_of_the_same_step_and_told_from_the_others():
    found = data_orders(NAMES, rows())
    assert found is not None
    assert found.groups == (("run0", "run1", "run2", "run3"),)
    assert found.alone == ("run4",)
    assert found.first_step == 65.0
    ahead = {x.name: x for x in found.runs}
    true = np.stack(
        [r.reward[64:] for r in family(MADE["orders"], **{k: MADE[k] for k in MADE if k != "orders"}, sd=0.0)]
    )
    for i in range(4):
        exact = float(true[i].mean() - np.delete(true[:4], i, axis=0).mean())
        x = ahead[f"run{i}"].ahead
        assert abs(x.median - exact) < 2.0 * (x.high - x.low)
        assert ahead[f"run{i}"].narrower < 0.85
    assert [x.ahead.median for x in found.runs] == sorted((x.ahead.median for x in found.runs), reverse=True)
    assert "4 runs saw the same data at the same steps, 1 share none" in found.sentence
    assert found.runs[0].name in found.sentence


def test_orders_that_differ_are_none_and_could_have_been_one():
    tables = rows(orders=[-1] * 5)
    assert data_orders(NAMES, tables) is None
    assert could_pair(tables)
    assert len(common_steps(tables)) == 80
    assert not could_pair(rows(orders=[-1, -1], every=[7, 5]))
