"""Alarms that could not be posted: tried again, posted once, and given up in the end."""

import pytest

from bayes_grpo.watching import notify
from bayes_grpo.watching.notify import FIRST_RETRY, LONGEST_PAUSE, TRIES, RetryQueue
from tests.watching.test_watch import ALARM


@pytest.fixture
def tried(monkeypatch):
    """Calls of a webhook that does not answer before the third."""
    calls: list[object] = []

    def post(url, alarm) -> str:
        calls.append(alarm)
        return "it answered 500" if len(calls) < 3 else ""

    monkeypatch.setattr(notify, "post", post)
    return calls


def test_a_webhook_that_is_down_gets_the_alarm_later_and_once(tried):
    now = [0.0]
    queue = RetryQueue("https://host/hook", lambda: now[0])
    queue.add([ALARM])
    assert queue.send() == ["it answered 500"]
    assert queue.waiting == 1
    assert queue.send() == []  # not due yet
    now[0] = FIRST_RETRY
    assert queue.send() == ["it answered 500"]
    now[0] = 3 * FIRST_RETRY
    assert queue.send() == []
    assert (queue.waiting, tried) == (0, [ALARM] * 3)
    nowhere = RetryQueue(None)
    nowhere.add([ALARM])
    assert nowhere.waiting == 0


def test_no_webhook_is_tried_for_ever(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(notify, "post", lambda url, alarm: calls.append(alarm) or "it answered 500")
    queue = RetryQueue("https://host/hook", lambda: now[0])
    queue.add([ALARM])
    for _ in range(50):
        queue.send()
        now[0] += LONGEST_PAUSE
    assert (len(calls), queue.waiting) == (TRIES, 0)
