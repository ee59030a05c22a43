"""Findings that could not be told: tried again, told once, and given up in the end."""

from bayes_grpo.watching.notify import FIRST_RETRY, LONGEST_PAUSE, TRIES, RetryQueue
from tests.watching.test_watch import ALARM


class Service:
    """Somebody who is told, and who is not there at first."""

    def __init__(self, down: int) -> None:
        self.down, self.asked, self.heard = down, 0, []

    def __call__(self, alarm) -> str:
        self.asked += 1
        if self.asked <= self.down:
            return "it answered 500"
        self.heard.append(alarm)
        return ""


def test_a_service_that_is_down_is_told_later_and_once():
    now = [0.0]
    up, down = Service(0), Service(2)
    queue = RetryQueue([up, down], lambda: now[0])
    queue.add([ALARM])
    assert queue.send() == ["it answered 500"]
    assert queue.waiting == 1
    assert queue.send() == []  # not due yet
    now[0] = FIRST_RETRY
    assert queue.send() == ["it answered 500"]
    now[0] = 2 * FIRST_RETRY
    assert queue.send() == []
    now[0] = 3 * FIRST_RETRY
    assert queue.send() == []
    assert (queue.waiting, up.heard, down.heard) == (0, [ALARM], [ALARM])


def test_nobody_is_asked_for_ever():
    now = [0.0]
    down = Service(1_000)
    queue = RetryQueue([down], lambda: now[0])
    queue.add([ALARM])
    for _ in range(50):
        queue.send()
        now[0] += LONGEST_PAUSE
    assert (down.asked, queue.waiting) == (TRIES, 0)
