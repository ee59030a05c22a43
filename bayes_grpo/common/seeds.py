"""Seeds of the parts of a computation, each independent of all others and of which others there are.

A part's seed is keyed by its name, so that leaving a regime or an origin out changes no number of the rest, and hashed
(NumPy's `SeedSequence` with a spawn key), so that no two parts of neighboring seeds share a stream of random numbers.
"""

from __future__ import annotations

from zlib import crc32

from numpy.random import SeedSequence


def seed_of(seed: int, *name: str | float) -> int:
    """Seed in [0, 2³²) of a part of a computation by its name: words and numbers, as ``"paths", regime.name``."""
    key = [crc32((word if isinstance(word, str) else f"number {float(word)!r}").encode()) for word in name]
    return int(SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def spawn(seed: int, n: int) -> tuple[int, ...]:
    """Seeds of n parts that have no names, such as rounds; the first of them are the same for every n."""
    return tuple(int(part.generate_state(1)[0]) for part in SeedSequence(seed).spawn(n))
