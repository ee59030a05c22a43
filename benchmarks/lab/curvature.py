"""Fixed point of a network's exact mean update and the curvature there, without looking at any reward curve.

The drift F(θ) is the mean of the update over all batches (`enumerated_training.drift`). A KL penalty whose reference
is chosen as `balancing_reference` does makes it zero at a policy of one's choice, to rounding. The drift's Jacobian J
there is used through products alone. Decay rates are the eigenvalues of −J (Adam: of −DJ, D = 1/(√v̂ + ε) its
preconditioner) by Arnoldi iterations. A network has hundreds of modes, and the reward of a run is carried by many:
how much by each is the spectral measure of the reward, which a short Arnoldi process from a push gives (Golub and
Meurant 2010, *Matrices, Moments and Quadrature*).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, eigs

from bayes_grpo.common.errors import SettingError
from benchmarks.lab.enumerated_training import drift, policy
from benchmarks.lab.enumeration import (
    Listing,
    all_logits,
    batch_loss,
    enumerated_reading,
    enumerated_reward,
    log_share,
    mean_batch,
    read_all,
)
from benchmarks.lab.settings import LabNumbers, arrays_of


@dataclass(frozen=True, eq=False)
class Local:
    """The drift around a point.

    Attributes:
        listing: All completions.
        numbers: Numeric settings, scalars.
        reference: Logits of the reference, as `all_logits` gives them.
        parameters: The point, shape (parameters,).
        force: The drift there, shape (parameters,); zero at a fixed point.
        reward: Exact mean reward there.
        reward_gradient: Its gradient, shape (parameters,).
    """

    listing: Listing
    numbers: LabNumbers
    reference: tuple[np.ndarray, ...]
    parameters: np.ndarray
    force: np.ndarray
    reward: float
    reward_gradient: np.ndarray

    @property
    def residual(self) -> float:
        """Largest entry of the drift."""
        return float(np.abs(self.force).max())

    def product(self, direction: ArrayLike, transposed: bool = False) -> np.ndarray:
        """−J times a direction: what of a push decays per unit learning rate and step.

        Args:
            direction: Shape (parameters,).
            transposed: The transposed Jacobian instead.

        Returns:
            Shape (parameters,).
        """
        with jax.enable_x64(True):
            given = (self.numbers, self.reference, self.parameters, np.asarray(direction, float))
            return np.asarray(_product(self.listing, transposed, *jax.tree.map(jnp.asarray, given)))


@dataclass(frozen=True)
class RewardSpectrum:
    """How the mean reward answers a small push, by decay rates.

    Attributes:
        rates: Decay rates per unit learning rate and step, complex, ascending by real part.
        shares: Share of the reward's answer that decays at each, complex; they add up to 1.
        curvature: Relative slope of the answer at lag 0, the shares' mean rate: K as the reward sees it.
    """

    rates: np.ndarray
    shares: np.ndarray
    curvature: float


def balancing_reference(listing: Listing, numbers: LabNumbers, theta: ArrayLike) -> tuple[np.ndarray, ...]:
    """The reference whose KL penalty holds a policy where it is.

    After every beginning the mean push on the logits is m π (A − Ā), with m the share of completions that come by it,
    and the estimate of the KL divergence that GRPO's loss differentiates pulls by −β m (π − π_ref). They cancel for
    π_ref = π (1 − (A − Ā)/β): less likely than now where the advantage is positive.

    Args:
        listing: All completions.
        numbers: Numeric settings, scalars; without an entropy bonus.
        theta: The policy, shape (parameters,).

    Returns:
        Logits of the reference, as `all_logits` gives them.

    Raises:
        SettingError: A penalty too weak for the advantages, or an entropy bonus.
    """
    checked = arrays_of(numbers)
    weight = float(checked.base.kl_weight)
    if float(checked.base.entropy_weight) != 0.0:
        raise SettingError("entropy_weight: expected 0 where a KL penalty is to hold the policy")
    free = checked._replace(base=checked.base._replace(kl_weight=np.asarray(0.0)))
    with jax.enable_x64(True):
        scalars = jax.tree.map(jnp.asarray, free)
        found = jax.device_get(_pushes(listing, scalars, jnp.asarray(theta, float)))
    out = []
    for probability, push, mass in zip(*found, strict=True):
        # The beginnings that nobody writes feel nothing; their reference is the policy.
        felt = np.where(mass[..., None] > 0, push / np.where(mass > 0, mass, 1.0)[..., None], 0.0)
        wanted = probability - felt / weight if weight > 0 else np.full_like(probability, -1.0)
        if not (wanted > 0).all():
            raise SettingError(f"kl_weight: {weight:g} cannot hold this policy against its advantages; expected more")
        out.append(float(checked.temperature) * np.log(wanted))
    return tuple(out)


def local(listing: Listing, numbers: LabNumbers, reference: tuple[ArrayLike, ...], theta: ArrayLike) -> Local:
    """The drift around any point, with the settings of one run."""
    checked = arrays_of(numbers)
    kept, point = tuple(np.asarray(x, float) for x in reference), np.asarray(theta, float)
    with jax.enable_x64(True):
        scalars, far, here = jax.tree.map(jnp.asarray, (checked, kept, point))
        force, value, slope = jax.device_get(_values(listing, scalars, far, here))
    return Local(listing, checked, kept, point, np.asarray(force), float(value), np.asarray(slope))


def leading_modes(
    point: Local, count: int = 6, preconditioner: ArrayLike = 1.0, transposed: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Fastest modes.

    Args:
        point: A fixed point.
        count: How many.
        preconditioner: Scale of each parameter's update, a number or shape (parameters,).
        transposed: Left eigenvectors instead of right ones; their product with the way from the fixed point is the
            amplitude of a mode.

    Returns:
        Decay rates per unit learning rate and step, complex, the largest first, and the modes, shape (count,
        parameters).
    """
    size, scale = len(point.parameters), np.asarray(preconditioner, float)

    def applied(x: np.ndarray) -> np.ndarray:
        way = x.ravel()
        return point.product(scale * way, transposed=True) if transposed else scale * point.product(way)

    begin = np.random.default_rng(0).standard_normal(size)
    make: Any = LinearOperator
    solve: Any = eigs
    rates, modes = solve(make((size, size), matvec=applied, dtype=float), k=count, which="LR", v0=begin, tol=1e-8)
    order = np.argsort(-rates.real)
    return rates[order], modes[:, order].T


def reward_spectrum(point: Local, push: ArrayLike, preconditioner: ArrayLike = 1.0, steps: int = 80) -> RewardSpectrum:
    """Response of the mean reward to a small push off a fixed point, split by decay rates.

    Args:
        point: A fixed point.
        push: Direction of the push, shape (parameters,).
        preconditioner: As for `leading_modes`.
        steps: Of the Arnoldi process; as many rates come out.

    Returns:
        The spectrum.

    Raises:
        SettingError: The reward does not feel the push.
    """
    scale, way = np.asarray(preconditioner, float), np.asarray(push, float)
    felt = float(point.reward_gradient @ way)
    if not abs(felt) > 1e-12 * np.linalg.norm(point.reward_gradient) * np.linalg.norm(way):
        raise SettingError("reward_spectrum: the mean reward does not feel this push; expected another direction")
    basis, inside = [way / np.linalg.norm(way)], np.zeros((steps + 1, steps))
    for i in range(steps):
        new = scale * point.product(basis[i])
        held = np.array(basis)
        for _ in range(2):  # once leaves rounding in
            part = held @ new
            inside[: i + 1, i] += part
            new = new - held.T @ part
        inside[i + 1, i] = np.linalg.norm(new)
        if inside[i + 1, i] < 1e-12 * np.abs(inside).max():
            break
        basis.append(new / inside[i + 1, i])
    n = min(len(basis), steps)
    rates, modes = np.linalg.eig(inside[:n, :n])
    first = np.linalg.solve(modes, np.eye(n)[0])
    shares = (point.reward_gradient @ np.array(basis[:n]).T @ modes) * first
    shares = shares / shares.sum()
    order = np.argsort(rates.real)
    return RewardSpectrum(rates[order], shares[order], float((rates * shares).sum().real))


@partial(jax.jit, static_argnums=0)
def _values(listing: Listing, numbers: Any, reference: Any, theta: Array) -> tuple[Array, Array, Array]:
    def value(x: Array) -> Array:
        return enumerated_reward(read_all(policy(listing, x), listing, numbers.temperature), listing)

    far = enumerated_reading(reference, listing, numbers.temperature)
    return drift(listing, numbers, far, theta), *jax.value_and_grad(value)(theta)


@partial(jax.jit, static_argnums=(0, 1))
def _product(listing: Listing, transposed: bool, numbers: Any, reference: Any, theta: Array, direction: Array) -> Array:
    field = partial(drift, listing, numbers, enumerated_reading(reference, listing, numbers.temperature))
    if transposed:
        return -jax.vjp(field, theta)[1](direction)[0]
    return -jax.jvp(field, (theta,), (direction,))[1]


@partial(jax.jit, static_argnums=0)
def _pushes(listing: Listing, numbers: Any, theta: Array) -> tuple[Any, Any, Any]:
    """Probabilities of the tokens after every beginning, mean pushes on them, and the share that comes by it."""
    logits = all_logits(policy(listing, theta), listing)
    before = enumerated_reading(logits, listing, numbers.temperature)
    batch = mean_batch(before, listing)

    def loss(at: Any) -> Array:
        now = enumerated_reading(at, listing, numbers.temperature)
        return batch_loss(now, before, before, batch, listing, numbers)

    push = jax.tree.map(lambda g: -g * numbers.temperature * listing.lab.limit, jax.grad(loss)(logits))
    probability = tuple(jax.nn.softmax(x / numbers.temperature, axis=-1) for x in logits)
    each, begun, mass = jnp.exp(log_share(before)) / len(listing.prompts), np.zeros(len(listing.tokens), int), []
    for i, level in enumerate(logits):
        none = jnp.zeros(level.shape[:2], level.dtype)
        mass.append(none.at[:, begun].add(jnp.where(listing.written[:, i], each, 0.0)))
        begun = begun * listing.vocabulary + listing.tokens[:, i]
    return probability, push, tuple(mass)
