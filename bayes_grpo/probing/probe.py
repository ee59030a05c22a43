"""`probe`: the largest stiffness of an update from one batch, and a direction that is kept from probe to probe.

The direction of the earlier batches was not chosen by the new one, so what the new one says along it is fair: too small
only by what the direction still lacks. Then the new batch turns it: a step of power iteration, in which the noise of
batches averages out (Oja 1982, https://doi.org/10.1007/BF00275687).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.probing.estimate import Measured, OptimizerKind, Probe, stiffness_of
from bayes_grpo.probing.operator import (
    STEP,
    AnyVector,
    Product,
    UpdateAt,
    inner,
    lanczos,
    mean_of,
    product_of,
    unit,
)


def probe(
    updates: Sequence[UpdateAt],
    *,
    scale: float | AnyVector = 1.0,
    optimizer: OptimizerKind | None = None,
    unweighted: Sequence[UpdateAt] | None = None,
    start: AnyVector | None = None,
    at: float = math.nan,
) -> Probe:
    """Measures the stiffness of an update.

    A batch is cut into parts of equal size, whole groups each. Directions are found on the even parts and on the odd
    ones, and read on all; see `bayes_grpo.probing.estimate`.

    Args:
        updates: Of each part the mean direction of the update at shifted parameters: minus the gradient of the loss of
            its completions, each weighed by how much likelier the shifted policy writes it (the ratio of a completion's
            probabilities, 1 without a shift). At least 4, or a single one that is exact. See `UpdateAt`.
        scale: D, what the optimizer multiplies updates by: 1, or `adam_scale`.
        optimizer: In whose metric that is; by default "sgd" where the scale is the number 1, else "adam".
        unweighted: The same updates with every completion's weight at 1: what a trainer's loss itself gives. They
            determine which share of the stiffness is late under a frozen policy.
        start: Where the search starts, in the optimizer's metric, such as an earlier probe's direction; by default
            the difference of two parts' updates.
        at: Optimizer step of the training.

    Returns:
        What was measured.

    Raises:
        SettingError: Pieces that are too few, lists of different lengths, or vectors without length.
    """
    parts = len(updates)
    if not (parts == 1 or parts >= 4):
        raise SettingError(f"probe: expected 4 or more parts of a batch, or one exact update, found {parts}")
    if unweighted is not None and len(unweighted) != parts:
        raise SettingError(
            f"probe: expected one unweighted update for each of the {parts} parts, found {len(unweighted)}"
        )
    each = [product_of(u, scale) for u in updates]
    halves = [tuple(range(i, parts, 2)) for i in range(2)] if parts > 1 else [(0,)]
    found = []
    for members in halves:
        begin = _beginning([updates[i] for i in members[:2]], scale) if start is None else start
        found.append(lanczos(_mean_product([each[i] for i in members]), begin))
    directions = [half.vector for half in found]
    stiffest = _read(each, halves, directions)
    late = 1.0
    if unweighted is not None:
        late = _late_share(stiffest, _read([product_of(u, scale) for u in unweighted], halves, directions))
    begun = 0.0 if start is not None else sum(len(members[:2]) for members in halves) / parts
    searches = sum(half.products * len(members) for half, members in zip(found, halves, strict=True)) / parts
    readings = len(found) * (1 + (unweighted is not None))
    kind: OptimizerKind = optimizer or ("sgd" if isinstance(scale, int | float) and scale == 1 else "adam")
    return Probe(
        optimizer=kind,
        stiffest=stiffest,
        late_share=late,
        parts=parts,
        gradients=begun + 2.0 * (searches + readings),
        residual=max(half.residual for half in found),
        step=float(at),
    )


def _mean_product(products: Sequence[Product]) -> Product:
    """The mean matrix of some parts."""
    return lambda direction: mean_of([product(direction) for product in products])


def _late_share(stiffness: Measured, unweighted: Measured) -> float:
    """Share of a stiffness that is not there where every completion's weight is 1."""
    return min(max(1.0 - unweighted.mean / stiffness.mean, 0.0), 1.0) if stiffness.mean > 0.0 else 1.0


def _beginning(updates: Sequence[UpdateAt], scale: Any) -> AnyVector:
    """Difference of the updates of two parts, which has something of every direction that matters; of one, itself."""
    first, *second = (update(0.0) for update in updates)
    direction = first - second[0] if second else first
    if inner(direction, direction) == 0.0:
        direction = first
    if inner(direction, direction) == 0.0:
        raise SettingError("probe: the updates are zero, so there is no direction to start from; give start=")
    return scale**0.5 * direction


def _read(each: Sequence[Product], halves: Sequence[Sequence[int]], directions: Sequence[AnyVector]) -> Measured:
    """The stiffness along the directions of the halves."""
    readings = [[inner(direction, product(direction)) for product in each] for direction in directions]
    if len(each) == 1:
        value = readings[0][0]
        return Measured(value, 0.0, math.inf, value, value)
    return stiffness_of(readings, [[i in half for i in range(len(each))] for half in halves])


FIRST = 8
"""Products of the first search, on half of the first batch."""


class BatchMeasurement(NamedTuple):
    """Stiffness along the direction of the earlier batches, by this one, and its share that is late, 1 if not measured.

    ``turned`` is the cosine between the direction before and after, near 1 once it has converged; ``gradients`` the
    cost, in gradients of the whole batch.
    """

    stiffest: Measured
    late_share: float
    turned: float
    gradients: float


class ProbeTracker:
    """Keeps the direction, of length 1 in the optimizer's metric; None before the first batch."""

    def __init__(self) -> None:
        self.direction: Any = None

    def measure(
        self,
        updates: Sequence[UpdateAt],
        scale: float | AnyVector = 1.0,
        length: float = STEP,
        unweighted: Sequence[UpdateAt] = (),
    ) -> BatchMeasurement:
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
        first = self.direction is None
        if len(updates) < (4 if first else 2):
            raise SettingError(
                f"measure: expected at least 4 parts of a first batch and 2 of a later, found {len(updates)}"
            )
        each = [product_of(update, scale, length) for update in updates]
        turned = 1.0
        spent = 2.0
        if first:
            begin = scale**0.5 * (updates[0](0.0) - updates[2](0.0))
            found = lanczos(_mean_product(each[::2]), begin, FIRST)
            self.direction = found.vector
            spent += found.products
            each, unweighted = each[1::2], unweighted[1::2]  # those that did not choose the direction
        direction: AnyVector = self.direction
        made = [product(direction) for product in each]
        stiffest = stiffness_of([[inner(direction, x) for x in made]])
        if not first:
            # Adding K once keeps the other end of the spectrum, where the reward is convex, from taking over.
            self.direction = unit(mean_of(made) + direction * abs(stiffest.mean))
            turned = inner(direction, self.direction)
        late = 1.0
        if unweighted and stiffest.mean > 0.0:
            readings = [inner(direction, product_of(update, scale, length)(direction)) for update in unweighted]
            late = _late_share(stiffest, stiffness_of([readings]))
            spent += 2.0
        return BatchMeasurement(stiffest, late, turned, spent)
