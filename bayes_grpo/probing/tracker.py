"""A stiff direction that is kept from probe to probe: two gradients a probe, on whatever batch a training has used.

The direction of the earlier batches was not chosen by the new one, so what the new one says along it is fair: too small
only by what the direction still lacks. Then the new batch turns it: a step of power iteration, in which the noise of
batches averages out (Oja 1982, https://doi.org/10.1007/BF00275687).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.probing.estimate import Measured, measured
from bayes_grpo.probing.krylov import leading
from bayes_grpo.probing.operator import STEP, Product, Update, Vector, dot, mean_of, product_of, unit

FIRST = 8
"""Products of the first search, on half of the first batch."""


class Look(NamedTuple):
    """What one batch says.

    Attributes:
        stiffest: Stiffness along the direction of the earlier batches, by this one.
        turned: Cosine between the direction before and after; near 1 it has been found.
        gradients: Gradients of the whole batch that it took.
    """

    stiffest: Measured
    turned: float
    gradients: float


class Tracker:
    """Holds the direction.

    Attributes:
        direction: Of length 1, in the optimizer's metric; None before the first look.
    """

    def __init__(self, direction: Vector | None = None) -> None:
        self.direction = direction

    def look(self, updates: Sequence[Update], scale: float | Vector = 1.0, length: float = STEP) -> Look:
        """Reads the stiffness on a batch and turns the direction by it.

        Args:
            updates: Of each part of the batch, as `bayes_grpo.probing.probe` takes them; at least 2, of the first
                batch 4.
            scale: D, as it stands now.
            length: Of the shifts of the parameters.

        Raises:
            SettingError: Too few parts, or updates without length.
        """
        if len(updates) < (4 if self.direction is None else 2):
            raise SettingError(
                f"look: expected at least 4 parts of a first batch and 2 of a later, found {len(updates)}"
            )
        each = [product_of(update, scale, length) for update in updates]
        if self.direction is None:
            return self._first(updates, each, scale)
        before = self.direction
        made = [product(before) for product in each]
        found = _fair([dot(before, x) for x in made])
        # Adding K once keeps the other end of the spectrum, where the reward is convex, from taking over.
        self.direction = unit(mean_of(made) + before * abs(found.mean))
        return Look(found, dot(before, self.direction), 2.0)

    def _first(self, updates: Sequence[Update], each: Sequence[Product], scale: float | Vector) -> Look:
        """Searches on the even parts and reads on the odd ones."""
        own, others = each[::2], each[1::2]
        begin = scale**0.5 * (updates[0](0.0) - updates[2](0.0))
        found = leading(lambda way: mean_of([product(way) for product in own]), begin, steps=FIRST)
        self.direction = found.vectors[0]
        readings = [dot(self.direction, product(self.direction)) for product in others]
        share = len(own) / len(each)
        return Look(_fair(readings), 1.0, 1.0 + 2.0 * (found.products * share + 1.0 - share))


def _fair(readings: Sequence[float]) -> Measured:
    """A stiffness along a direction that these parts did not choose."""
    return measured([readings], [[False] * len(readings)])
