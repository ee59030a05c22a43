"""Results that are computed once, also where several threads ask for them at the same time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any


class Once[T]:
    """A function whose results are kept, the last ``size`` of them.

    `functools.lru_cache` lets two threads that miss compute the same thing twice; here the second waits for the first.

    Args:
        function: The function; its positional arguments are hashable.
        size: Number of results that are kept.

    Attributes:
        computed: How often the function was called.
    """

    def __init__(self, function: Callable[..., T], size: int) -> None:
        self._function, self._size = function, size
        self._kept: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self._lock = Lock()
        self.computed = 0

    def __call__(self, *arguments: Any) -> T:
        """The function's result for these arguments; an error is raised again and not kept."""
        with self._lock:
            found = self._kept.get(arguments)
            mine = found is None
            if found is None:
                found = self._kept[arguments] = Future()
                self.computed += 1
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(arguments)
        if mine:
            try:
                found.set_result(self._function(*arguments))
            except BaseException as error:
                with self._lock:
                    self._kept.pop(arguments, None)
                found.set_exception(error)
        return found.result()

    def cache_clear(self) -> None:
        """Lets go of all results."""
        with self._lock:
            self._kept.clear()


def once(size: int) -> Callable[[Callable[..., Any]], Once[Any]]:
    """Decorator that makes a function a `Once`.

    Args:
        size: Number of results that are kept.
    """
    return lambda function: Once(function, size)
