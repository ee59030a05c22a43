"""The laws of a comparison fitted by NUTS, each when it is asked for first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bayes_grpo.fitting.result import Fit


class Fits(Mapping[str, Fit]):
    """Regime → fit, sampled at the first look; a comparison's scores need none of them.

    Args:
        names: The laws of the table.
        fit_of: Fits the law of a name.
    """

    def __init__(self, names: Sequence[str], fit_of: Callable[[str], Fit]) -> None:
        self._names, self._fit_of = tuple(names), fit_of
        self._made: dict[str, Fit] = {}

    def __getitem__(self, name: str) -> Fit:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._fit_of(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names  # a mapping's own way would sample the law

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
