"""Orders of data: found in pairs and groups, and their effects against a dense normal."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayes_grpo.references.curve import cuts_of, smooth_curve
from bayes_grpo.references.order import (
    SHARE_GRID,
    atoms_of,
    best_group,
    blocks_of,
    incidence_of,
    order_among,
    order_of,
    orders_of,
    overlap,
    share_likelihood,
    threshold,
)
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.selection import few
from tests.references.made import runs_of_orders


def curves_of(runs):
    tables = [rows_of(run) for run in runs]
    cuts = cuts_of(tables)
    curves = [c for t in tables if (c := smooth_curve(t, cuts)) is not None]
    assert len(curves) == len(runs)
    return curves


def dense(curves, share):
    """Mean 0 covariance of all standardised rows, and that of the effects with the rows."""
    windows = [np.stack([c.table.step, c.table.window]) for c in curves]
    atoms = atoms_of(windows)
    on = np.concatenate([incidence_of(w, atoms) for w in windows])
    size = [len(c.table.y) for c in curves]
    cov = np.zeros((sum(size), sum(size)))
    for c, start in zip(curves, np.cumsum([0, *size]), strict=False):
        (s,) = c.stretches
        cov[start : start + len(c.table.y), start : start + len(c.table.y)] = (s.root * s.value) @ s.root.T
    cov += (1.0 - share) * np.eye(len(cov)) + share * on @ on.T
    y = np.concatenate([(c.table.y - c.table.centre) / c.sd for c in curves])
    return y, cov, np.sqrt(share) * on.T, atoms


def test_windows_share_the_effects_of_the_steps_that_both_average():
    rows, blocks = np.array([[4.0, 5.0, 6.0], [1.0, 1.0, 1.0]]), np.array([[5.0, 10.0], [5.0, 5.0]])
    assert_allclose(overlap(rows, blocks), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) / np.sqrt(5.0))
    instants = np.array([[4.0, 5.0], [0.0, 0.0]])
    assert_allclose(overlap(instants, instants), np.eye(2), atol=1e-6)
    start, end = atoms_of([rows, blocks])
    assert_allclose(np.stack([start, end]), [[0.0, 3.0, 4.0, 5.0, 6.0], [3.0, 4.0, 5.0, 6.0, 10.0]])
    assert_allclose(incidence_of(blocks, (start, end)) @ incidence_of(rows, (start, end)).T, overlap(blocks, rows))


def test_likelihood_and_effects_are_those_of_a_dense_normal():
    curves = curves_of(runs_of_orders([0, 0, 0], rows=30, every=[1, 1, 3]))
    shares = np.array([0.0, 0.3, 0.8])
    found = [dense(curves, s) for s in (0.0, *shares)]
    count = sum(len(c.table.y) - 1 for c in curves)
    # Over one factor of all noises: y' C^-1 y to the power of minus half the rows.
    score = np.array(
        [-0.5 * (count * np.log(y @ np.linalg.solve(c, y)) + np.linalg.slogdet(c)[1]) for y, c, *_ in found]
    )
    assert_allclose(share_likelihood(blocks_of(curves), shares), score[1:] - score[0], rtol=1e-6, atol=1e-6)
    order = order_among(curves, (0, 1, 2))
    assert order.probability[0] == 0.0
    assert SHARE_GRID[0] < order.share.low < order.share.median < order.share.high
    y, cov, across, atoms = dense(curves, order.share.median)
    gain = across @ np.linalg.inv(cov)
    at = order.at(np.stack([atoms[1], atoms[1] - atoms[0]]))
    assert_allclose(at.mean, gain @ y, atol=1e-6)
    assert_allclose(at.var, 1.0 - np.sum(gain * across, axis=1), atol=1e-6)
    unseen = order.at(np.array([[1000.0], [1.0]]))
    assert (unseen.mean[0], unseen.var[0]) == (0.0, 1.0)


@pytest.mark.thorough
def test_an_order_is_found_across_logging_intervals_and_beyond_a_stretch():
    runs = runs_of_orders([0, 0, 0], rows=260, share=0.5, every=[1, 5, 1], seed=1)
    (order,) = orders_of(curves_of(runs))
    assert order.members == (0, 1, 2)
    assert 0.35 < order.share.median < 0.65


@pytest.mark.parametrize(("runs", "rows"), few([(2, 80), (6, 10), (6, 80), (20, 40)], (6, 10)))
def test_the_threshold_is_exceeded_by_chance_in_one_of_twenty(runs, rows):
    rng, off, hits = np.random.default_rng(runs), np.ones((runs, runs)) - np.eye(runs), 0
    for _ in range(200):
        x = rng.standard_normal((runs, rows))
        hits += best_group(x @ x.T / np.sqrt(rows) * off, off)[1] > threshold(runs, rows)
    assert 0.01 <= hits / 200 <= 0.1


@pytest.mark.thorough
def test_a_run_belongs_to_the_order_that_its_rows_show():
    curves = curves_of(runs_of_orders([0, 0, 0, 0, 1, 1, 1], rows=80, share=0.6, seed=5))
    orders = orders_of(curves[1:])
    (mine,) = (order for order in orders if 0 in order.members)
    assert order_of(curves[0], orders, 0) is mine
    (stranger,) = curves_of(runs_of_orders([-1], rows=80, seed=9))
    assert order_of(stranger, orders, 0) is None
