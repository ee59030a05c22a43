"""Log density of rows with coefficients of their own, in blocks, and its gradient in one more pass.

Reverse mode through the recursions of `bayes_grpo.dynamics.block_elements` would store and read back every intermediate
value of every row. The gradient of a Gaussian log density needs less: with the filtered moments m, P before a row and
the smoothed disturbances of its joint normal (r of the state after it, u of its value, with the precisions N, NK, D of
de Jong 1989, https://doi.org/10.1080/01621459.1989.10478870), every entry's derivative is a product of these
(Koopman and Shephard 1992, https://doi.org/10.1093/biomet/79.4.823). So the blocks are joined forwards and backwards,
filtered from the states that this gives, and run backwards once.

Everything holds for a known constant; r and u are affine in it, and its posterior is normal.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.block_elements import (
    Coefficients,
    Elements,
    InitialState,
    advance_columns,
    advance_cov,
    elements_of_rows,
    full,
    half,
    over_columns,
    product,
    scan_rows,
    symmetric,
    upper,
    whole,
)
from bayes_grpo.dynamics.block_joints import Predictions, filter_blocks, integrate_constant
from bayes_grpo.dynamics.state_space import Matrix, Vector, dot, matvec, plus, times, transpose


def log_likelihood_of_blocks(model: Coefficients, values: Array, present: Array, start: InitialState) -> Array:
    """Log density of the rows, differentiable in reverse mode (and forwards over it) in model, values and start.

    Args:
        model: Coefficients, entries of shape (length, B) or one for all rows.
        values: Rows, shape (length, B); anything where missing.
        present: 1 where logged, 0 where missing, at the end of the log only.
        start: The state before the first row.

    Returns:
        A scalar.
    """
    leaves, treedef = jax.tree.flatten(model)
    # Plain numbers are structural and stay out of the program.
    numbers = tuple(x if isinstance(x, float | int) else None for x in leaves)
    entries = [jnp.asarray(x, float) for x in leaves if not isinstance(x, float | int)]
    return _density((treedef, numbers), entries, values, present, start)


def _coefficients(structure: Any, entries: list[Array]) -> Coefficients:
    treedef, numbers = structure
    own = iter(entries)
    return jax.tree.unflatten(treedef, [next(own) if x is None else x for x in numbers])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _density(structure: Any, entries: list[Array], values: Array, present: Array, start: InitialState) -> Array:
    elements = elements_of_rows(_coefficients(structure, entries), values, present, start.level)
    return integrate_constant(filter_blocks(elements, start)[0], start.level_var)


def _with_gradient(structure: Any, entries: list[Array], values: Array, present: Array, start: InitialState) -> Any:
    model = _coefficients(structure, entries)
    elements = elements_of_rows(model, values, present, start.level)
    found, predictions = filter_blocks(elements, start)
    share = 1.0 / (1.0 + found.J * start.level_var)
    spread = start.level_var * share  # the constant's posterior variance
    shift = spread * found.score  # and its posterior mean, from the prior's
    ends = _backwards_over_blocks(elements, predictions, shift)
    moments = _filtered(model, values, start.level + shift, shift, predictions)
    (r, n), slopes = _backwards(model, values, present, start.level + shift, spread, moments, ends)
    gradient = [slope if entry.ndim else jnp.sum(slope) for slope, entry in zip(slopes[:-1], entries, strict=True)]
    r, n = jax.tree.map(lambda x: x[..., 0], (r, n))  # before the first row
    d = len(r)
    seen = {(i, k): _product(r[i], r[k], spread) - n[i][k] for i, k in upper(d)}
    left = found.score - found.J * shift
    of_start = InitialState(
        mean=tuple(x[0] for x in r),
        slope=tuple(x[0] * shift + spread * x[1] for x in r),
        cov=_once({**seen, **{(i, i): 0.5 * seen[i, i] for i in range(d)}}, d),
        # The moving components keep their mean where the prior mean of the constant moves.
        level=left - dot(start.slope, tuple(x[0] for x in r)),
        level_var=0.5 * (left**2 - found.J * share),
    )
    return integrate_constant(found, start.level_var), (gradient, slopes[-1], jnp.zeros_like(present), of_start)


def _scaled(structure: Any, gradient: Any, tangent: Array) -> Any:
    return jax.tree.map(lambda x: tangent * x, gradient)


_density.defvjp(_with_gradient, _scaled)


def _product(a: Array, b: Array, spread: Array) -> Array:
    """Mean of a product of two quantities given by (value, slope in the constant), over the constant's posterior."""
    return a[0] * b[0] + spread * (a[1] * b[1])


def _once(entries: dict[tuple[int, int], Any], d: int) -> Matrix:
    """A matrix whose lower triangle is 0: of two mirrored entries only the upper one was used."""
    return tuple(tuple(entries[i, k] if i <= k else jnp.zeros_like(entries[k, i]) for k in range(d)) for i in range(d))


def _backwards_over_blocks(elements: Elements, predictions: Predictions, shift: Array) -> tuple[Vector, Matrix]:
    """R as d arrays (2, B), value and slope in the constant, and N (B,) of the state at the end of every block."""
    d = len(elements.b)

    def step(carry: Any, block: tuple[Elements, Predictions]) -> tuple[Any, Any]:
        r, r_c, n = carry
        own, predicted = block
        score = tuple(s + c * shift for s, c in zip(predicted.score, predicted.score_c, strict=True))
        back, update = transpose(own.A), transpose(predicted.update)
        before = matvec(update, tuple(x + y for x, y in zip(matvec(back, r), score, strict=True)))
        before_c = tuple(x + y for x, y in zip(matvec(back, r_c), predicted.score_c, strict=True))
        moved = product(own.A, predicted.update)
        carried, seen = product(transpose(moved), product(n, moved)), product(own.J, predicted.update)
        n = symmetric({(i, k): carried[i][k] + seen[i][k] for i, k in upper(d)}, d)
        return full((before, matvec(update, before_c), n), shift), carry

    zero = jnp.zeros(())
    start = ((zero,) * d, (zero,) * d, tuple((zero,) * d for _ in range(d)))
    r, r_c, n = lax.scan(step, start, (elements, predictions), reverse=True)[1]
    return tuple(jnp.stack(pair) for pair in zip(r, r_c, strict=True)), n


def _filtered(
    model: Coefficients, values: Array, level: Array, shift: Array, predictions: Predictions
) -> tuple[Vector, Vector]:
    """Filtered moments before every row: d arrays (length, 2, B), mean and its slope in the constant; covariances."""
    d, zero = len(predictions.mean), jnp.zeros(values.shape[1])
    columns = tuple(jnp.stack([m + shift * s, s]) for m, s in zip(predictions.mean, predictions.mean_c, strict=True))

    def step(own: Coefficients, carry: Any, value: Array) -> tuple[Any, Any]:
        columns, cov = carry
        after, (_, _, gain, _) = advance_cov(own, whole(cov, d))
        moved = advance_columns(own, columns, gain, value, level)[0]
        return (moved, full(half(after), zero)), (columns, cov)

    return scan_rows(model, step, (columns, half(predictions.cov)), values)[1]


def _backwards(
    model: Coefficients,
    values: Array,
    present: Array,
    level: Array,
    spread: Array,
    moments: Any,
    ends: tuple[Vector, Matrix],
) -> tuple[Any, list[Array]]:
    """Runs backwards over the rows of all blocks.

    Returns:
        r and N before the first row of every block, and the derivatives of the model's entries and of the values, each
        of shape (length, B).
    """
    d, zero, pair = len(model.observation), jnp.zeros(values.shape[1]), jnp.zeros((2, values.shape[1]))
    wanted = [not isinstance(x, float | int) for x in jax.tree.leaves(model)]

    def step(own: Coefficients, carry: Any, value: Array, here: Array, before: Any) -> tuple[Any, Any]:
        r, n = carry[0], whole(carry[1], d)
        mean, cov = before
        _, (seen, weight, gain, moved) = advance_cov(own, whole(cov, d))
        residual = advance_columns(own, mean, gain, value, level)[1]
        u = over_columns(here * weight) * residual - dot(tuple(over_columns(k) for k in gain), r)
        n_gain = matvec(n, gain)
        # What several outputs need is computed once: XLA would do so for each of them.
        seen, weight, gain, u, n_gain = lax.optimization_barrier((seen, weight, gain, u, n_gain))
        precision = plus(here * weight, dot(gain, n_gain))
        state = symmetric({(i, k): _product(r[i], r[k], spread) - n[i][k] for i, k in upper(d)}, d)
        mixed = tuple(_product(r[i], u, spread) + n_gain[i] for i in range(d))
        row = _product(u, u, spread) - precision
        precision, state, mixed, row, moved = lax.optimization_barrier((precision, state, mixed, row, moved))
        slopes = Coefficients(
            transition=tuple(
                tuple(
                    _product(r[i], mean[k], spread) + dot(state[i], column) + mixed[i] * seen[k]
                    for k, column in enumerate(zip(*moved, strict=True))
                )
                for i in range(d)
            ),
            from_constant=tuple(x[0] * level + spread * x[1] for x in r),
            noise_cov=_once({(i, k): state[i][k] * (0.5 if i == k else 1.0) for i, k in upper(d)}, d),
            observation=tuple(
                _product(u, mean[k], spread) + dot(mixed, column) + row * seen[k]
                for k, column in enumerate(zip(*moved, strict=True))
            ),
            constant_seen=u[0] * level + spread * u[1],
            cross_cov=mixed,
            variance=0.5 * row,
            offset=u[0],
        )
        out = [slope for slope, needed in zip(jax.tree.leaves(slopes), wanted, strict=True) if needed]
        r, n = _before(own, r, n, u, n_gain, precision)
        return (full(r, pair), full(half(n), zero)), full([*out, -u[0]], zero)

    (r, n), slopes = scan_rows(model, step, (ends[0], half(ends[1])), values, present, moments, reverse=True)
    return (r, whole(n, d)), slopes


def _before(
    own: Coefficients, r: Vector, n: Matrix, u: Array, n_gain: Vector, precision: Array
) -> tuple[Vector, Matrix]:
    """R and N before a row from those after it."""
    d = len(r)
    back = transpose(own.transition)
    columns = matvec(tuple(tuple(over_columns(x) for x in row) for row in back), r)
    columns = tuple(plus(x, times(over_columns(h), u)) for x, h in zip(columns, own.observation, strict=True))
    carried = product(n, own.transition)
    crossed = matvec(back, n_gain)
    h = own.observation

    def entry(i: int, k: int) -> Any:
        both = plus(times(h[i], crossed[k]), times(crossed[i], h[k]))
        column = tuple(row[k] for row in carried)
        return plus(dot(back[i], column), plus(times(times(h[i], h[k]), precision), -both))

    return columns, symmetric({(i, k): entry(i, k) for i, k in upper(d)}, d)
