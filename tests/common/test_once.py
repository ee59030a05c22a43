"""Results that are computed once, also by several threads at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bayes_grpo.common.once import Once, once


def test_threads_that_ask_together_get_one_result():
    gate, calls = threading.Barrier(8), []

    @once(4)
    def slow(x: int) -> object:
        calls.append(x)
        threading.Event().wait(0.05)
        return object()

    def ask(_: int) -> object:
        gate.wait()
        return slow(1)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert calls == [1]
    assert len({id(x) for x in found}) == 1


def test_the_oldest_results_go_and_used_ones_stay():
    calls = []
    keep: Once[int] = Once(lambda x: calls.append(x) or x, 2)
    for x in (1, 2, 1, 3, 1, 2):
        assert keep(x) == x
    assert calls == [1, 2, 3, 2]
    keep.cache_clear()
    assert keep(1) == 1
    assert calls == [1, 2, 3, 2, 1]


def test_an_error_is_raised_and_forgotten():
    tries = iter([ValueError("first"), None])

    @once(4)
    def sometimes(x: int) -> int:
        error = next(tries)
        if error is not None:
            raise error
        return x

    with pytest.raises(ValueError, match="first"):
        sometimes(5)
    assert sometimes(5) == 5
