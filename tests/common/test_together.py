"""Calls of one program from many threads, run as one: the numbers of each alone, no endless wait, errors as data."""

import time
from concurrent.futures import CancelledError

import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common import programs
from bayes_grpo.common.programs import call, over_draws
from bayes_grpo.common.together import Meeting, together
from bayes_grpo.common.workers import outcomes


def halves(power: int):
    return lambda x: {"value": x["value"] ** power / 2.0, "size": jnp.sum(x["value"])}


def times():
    return lambda x, factor: factor * x


def stepping(arguments: tuple[int, float]) -> list[float]:
    """As many calls as the first argument says, each with what the last one gave."""
    calls, x = arguments
    out = []
    for _ in range(calls):
        x = float(call(halves, (2,), {"value": np.array([x, 1.0])})["value"][0])
        out.append(x)
    return out


def of_two_lengths(n: int) -> float:
    if n == 3:
        raise ValueError("three is not welcome")
    return float(call(halves, (3,), {"value": np.arange(float(n % 2 + 1))})["size"])


def counted(monkeypatch) -> list[int]:
    """Sizes of the batches that are run from now on."""
    sizes: list[int] = []
    run = Meeting._run

    def counting(self, calls):
        sizes.extend([len(calls)] if calls else [])
        run(self, calls)

    monkeypatch.setattr(Meeting, "_run", counting)
    return sizes


def found(task, arguments, width):
    return {x.place: x for x in together(task, arguments, width)}


@pytest.mark.parametrize("width", [1, 3, 64])
def test_each_gets_what_it_gets_alone_however_many_calls_it_makes(width):
    arguments = [(n, 0.1 * n) for n in (5, 1, 0, 7, 2, 2)]
    ours = found(stepping, arguments, width)
    assert [ours[i].value for i in range(6)] == [stepping(x) for x in arguments]


def test_an_error_is_data_and_others_shapes_are_another_batch():
    ours = found(of_two_lengths, range(8), 8)
    assert [ours[i].value for i in (0, 1, 2, 4, 5, 6, 7)] == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    assert isinstance(ours[3].error, ValueError)


def test_draws_of_all_are_one_batch_a_chunk(monkeypatch):
    meeting, sizes = Meeting(1), counted(monkeypatch)
    with programs.calls_go_to(meeting.call):
        ours = over_draws(times, (), 4, np.arange(10.0), np.array(3.0))
    np.testing.assert_array_equal(ours, 3.0 * np.arange(10.0))
    assert sizes == [1, 1, 1]


def test_a_program_that_cannot_be_made_is_an_error_of_every_call():
    def task(x):
        return call(lambda: lambda y: jnp.zeros(3) @ jnp.ones(2) + y, (), np.array(x))

    ours = found(task, [1.0, 2.0], 2)
    assert all(isinstance(x.error, TypeError) for x in ours.values())


def test_leaving_early_ends_the_tasks_at_their_next_call():
    ended = []

    def endless(x):
        try:
            while True:
                call(halves, (2,), {"value": np.array([x, 1.0])})
        except CancelledError:
            ended.append(x)
            raise

    def task(x):
        return x if x == 0.0 else endless(x)

    stream = together(task, [0.0, 1.0, 2.0], 3)
    assert next(stream).value == 0.0
    stream.close()
    until = time.monotonic() + 10.0
    while len(ended) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert sorted(ended) == [1.0, 2.0]


def test_one_process_on_an_accelerator_does_its_tasks_so(monkeypatch):
    sizes = counted(monkeypatch)
    monkeypatch.setattr(programs, "accelerated", lambda: True)
    with outcomes(stepping, [(3, 0.1), (3, 0.2)], jobs=1) as stream:
        values = {x.place: x.value for x in stream}
    assert values == {0: stepping((3, 0.1)), 1: stepping((3, 0.2))}
    assert sizes == [2, 2, 2]
