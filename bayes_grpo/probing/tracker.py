"""A stiff direction that is kept from probe to probe: two gradients a probe, on whatever batch a training has used.

The direction of the earlier batches was not chosen by the new one, so what the new one says along it is fair: too small
only by what the direction still lacks. Then the new batch turns it: a step of power iteration, in which the noise of
batches averages out (Oja 1982, https://doi.org/10.1007/BF00275687).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.probing.estimate import Measured, stiffness_of
from bayes_grpo.probing.operator import STEP, AnyVector, Product, UpdateAt, inner, lanczos, mean_of, product_of, unit

FIRST = 8
"""Products of the first search, on half of the first batch."""


class Look(NamedTuple):
    """Measurement on one batch.

    Attributes:
        stiffest: Stiffness along the direction of the earlier batches, by this one.
        late_share: Share of it that is late under a frozen policy; 1 where it was not measured.
        turned: Cosine between the direction before and after; near 1 the direction has converged.
        gradients: Cost of the look, in gradients of the whole batch.
    """

    stiffest: Measured
    late_share: float
    turned: float
    gradients: float


class ProbeTracker:
    """Holds the direction.

    Attributes:
        direction: Of length 1, in the optimizer's metric; None before the first look.
    """

    def __init__(self) -> None:
        self.direction: Any = None

    def look(
        self,
        updates: Sequence[UpdateAt],
        scale: float | AnyVector = 1.0,
        length: float = STEP,
        unweighted: Sequence[UpdateAt] = (),
    ) -> Look:
        """Reads the stiffness on a batch and turns the direction by it.

        Args:
            updates: Of each part of the batch, as `bayes_grpo.probing.probe` takes them; at least 2, of the first
                batch 4.
            scale: D, as it stands now.
            length: Of the shifts of the parameters.
            unweighted: The same updates with every completion's weight at 1.

        Raises:
            SettingError: Too few parts, or updates without length.
        """
        if len(updates) < (4 if self.direction is None else 2):
            raise SettingError(
                f"look: expected at least 4 parts of a first batch and 2 of a later, found {len(updates)}"
            )
        each = [product_of(update, scale, length) for update in updates]
        turned, spent, first = 1.0, 2.0, self.direction is None
        if first:
            spent += self._search(updates, each, scale)
            each, unweighted = each[1::2], unweighted[1::2]  # those that did not choose the direction
        way: AnyVector = self.direction
        made = [product(way) for product in each]
        found = _fair([inner(way, x) for x in made])
        if not first:
            # Adding K once keeps the other end of the spectrum, where the reward is convex, from taking over.
            self.direction = unit(mean_of(made) + way * abs(found.mean))
            turned = inner(way, self.direction)
        late = 1.0
        if unweighted and found.mean > 0.0:
            kept = _fair([inner(way, product_of(update, scale, length)(way)) for update in unweighted])
            late, spent = min(max(1.0 - kept.mean / found.mean, 0.0), 1.0), spent + 2.0
        return Look(found, late, turned, spent)

    def _search(self, updates: Sequence[UpdateAt], each: Sequence[Product], scale: float | AnyVector) -> float:
        """Searches on the even parts; the gradients that it took."""
        begin = scale**0.5 * (updates[0](0.0) - updates[2](0.0))
        found = lanczos(lambda way: mean_of([product(way) for product in each[::2]]), begin, steps=FIRST)
        self.direction = found.vectors[0]
        return float(found.products)


def _fair(readings: Sequence[float]) -> Measured:
    """A stiffness along a direction that these parts did not choose."""
    return stiffness_of([readings], [[False] * len(readings)])
