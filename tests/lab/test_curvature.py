"""The exact mean update, its fixed point and the curvature there."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.reduction import critical_gain
from bayes_grpo.simulate.settings import Numbers, Structure
from benchmarks.lab.curvature import balancing_reference, leading_modes, local, reward_spectrum
from benchmarks.lab.enumerated_training import Places, drift, follow, policy
from benchmarks.lab.enumeration import (
    Batch,
    all_logits,
    batch_loss,
    enumerated_reading,
    enumerated_reward,
    list_completions,
    log_share,
    read_all,
)
from benchmarks.lab.loss import group_statistics
from benchmarks.lab.network import Network
from benchmarks.lab.probed import drawn_updates
from benchmarks.lab.rollout import Completions
from benchmarks.lab.settings import Lab, LabNumbers, arrays_of
from benchmarks.lab.tasks import make_task
from benchmarks.lab.training import (
    Policies,
    Program,
    network_from,
    step_gradient,
)

NUMBERS = LabNumbers(base=Numbers(kl_weight=1.5, lag_exposure=1.0, clip_low=np.inf, clip_high=np.inf))


@pytest.fixture(scope="module")
def task():
    return make_task("modular_sum", size=2, held_out=0.25)


@pytest.fixture(scope="module")
def listing(task):
    structure = Structure(advantage="mean", update="infinite_group", group_size=4, prompts_per_step=8)
    return list_completions(Lab(structure, Network(1, 4, 1, 4), "constant", limit=2), task, NUMBERS)


@pytest.fixture(scope="module")
def theta(listing):
    size = network_from(listing.lab, listing.vocabulary)[0]
    return 0.7 * np.random.default_rng(3).standard_normal(size)


@pytest.fixture(scope="module")
def point(listing, theta):
    return local(listing, NUMBERS, balancing_reference(listing, NUMBERS, theta), theta)


def scalars(numbers: LabNumbers = NUMBERS) -> LabNumbers:
    return jax.tree.map(jnp.asarray, arrays_of(numbers))


def own_drift(listing, numbers, reference, theta) -> np.ndarray:
    """Drift with a network as the reference."""

    @jax.jit
    def found(reference, theta):
        return drift(listing, numbers, read_all(policy(listing, reference), listing), theta)

    return np.asarray(found(jnp.asarray(reference), jnp.asarray(theta)))


@pytest.mark.usefixtures("double_precision")
def test_a_table_has_the_gradient_of_the_completions_that_fill_it(listing, task, theta):
    rng = np.random.default_rng(0)
    old = jnp.asarray(theta + 0.2 * rng.standard_normal(theta.shape))
    far = jnp.asarray(theta + 0.2 * rng.standard_normal(theta.shape))
    numbers = scalars(NUMBERS._replace(base=NUMBERS.base._replace(clip_low=0.05, clip_high=0.1, entropy_weight=0.3)))
    n, c = listing.reward.shape
    prompt = np.repeat(rng.integers(0, n, 6), 4)
    which = np.where(rng.random(24) < 0.4, listing.reward.argmax(axis=1)[prompt], rng.integers(0, c, 24))
    reward = jnp.asarray(listing.reward[prompt, which])
    advantage = group_statistics(reward, 4, False, 0.0).advantage
    assert np.any(advantage != 0)
    completions = Completions(
        jnp.asarray(np.hstack([task.train[prompt], listing.tokens[which]])), jnp.asarray(listing.written[which])
    )
    three = Policies(jnp.asarray(theta), old, far)
    program = Program(listing.lab, task.vocabulary)
    wanted = jax.jit(lambda three: step_gradient(program, three, completions, advantage, numbers)[2])(three)
    zero = jnp.zeros((n, c))
    parts = (jnp.maximum(advantage, 0.0), jnp.minimum(advantage, 0.0), jnp.ones(24))
    batch = Batch(*(zero.at[prompt, which].add(x / 24) for x in parts))

    @jax.jit
    def gradient(theta, old, far):
        before, reference = (read_all(policy(listing, x), listing) for x in (old, far))

        def loss(x):
            return batch_loss(read_all(policy(listing, x), listing), before, reference, batch, listing, numbers)

        return jax.grad(loss)(theta)

    assert np.allclose(gradient(*three), wanted, atol=1e-12)


@pytest.mark.usefixtures("double_precision")
def test_without_a_penalty_the_drift_is_the_slope_of_the_mean_reward(listing, theta):
    free = scalars(NUMBERS._replace(base=NUMBERS.base._replace(kl_weight=0.0)))
    force = own_drift(listing, free, theta, theta)
    step = 1e-5 * np.random.default_rng(1).standard_normal((4, len(theta)))

    def reward(x):
        return enumerated_reward(read_all(policy(listing, x), listing), listing)

    many = jax.jit(jax.vmap(reward))
    rise = many(jnp.asarray(theta + step)) - many(jnp.asarray(theta - step))
    assert np.allclose(force @ step.T, np.asarray(rise) / 2.0 / listing.lab.limit, rtol=1e-6, atol=1e-12)


def test_a_balancing_reference_holds_the_policy(point, listing, theta):
    assert point.residual < 1e-14
    assert 0.0 < point.reward < 1.0
    with jax.enable_x64(True):

        @jax.jit
        def success(logits):
            far = enumerated_reading(logits, listing)
            return jnp.exp(log_share(far)).sum(axis=1), enumerated_reward(far, listing)

        whole, reward = success(tuple(map(jnp.asarray, point.reference)))
        assert np.allclose(whole, 1.0)
        assert float(reward) < point.reward
        own = jax.jit(lambda x: all_logits(policy(listing, x), listing))(jnp.asarray(theta))
    assert local(listing, NUMBERS, jax.device_get(own), theta).residual > 1e-3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kl_weight": 0.01}, "cannot hold"),
        ({"kl_weight": 0.0}, "cannot hold"),
        ({"entropy_weight": 0.1}, "expected 0"),
    ],
)
def test_a_penalty_that_cannot_hold_is_refused(listing, theta, change, words):
    with pytest.raises(SettingError, match=words):
        balancing_reference(listing, NUMBERS._replace(base=NUMBERS.base._replace(**change)), theta)


def test_modes_are_those_of_the_dense_jacobian(point):
    size = len(point.parameters)
    dense = np.array([point.product(x) for x in np.eye(size)]).T
    moved = 1e-6 * np.random.default_rng(5).standard_normal(size)
    ends = [local(point.listing, NUMBERS, point.reference, point.parameters + s * moved) for s in (1.0, -1.0)]
    assert np.allclose(dense @ moved, (ends[1].force - ends[0].force) / 2.0, rtol=1e-5, atol=1e-14)
    wanted = np.linalg.eigvals(dense)
    wanted = wanted[np.argsort(-np.real(wanted))][:3]
    for transposed in (False, True):
        rates, modes = leading_modes(point, 3, transposed=transposed)
        assert np.allclose(np.real(rates), np.real(wanted), rtol=1e-6)
        matrix = dense.T if transposed else dense
        assert np.allclose(matrix @ modes[0], rates[0] * modes[0], atol=1e-6 * abs(rates[0]))
    scale = np.linspace(0.5, 2.0, size)
    best = np.linalg.eigvals(scale[:, None] * dense).real.max()
    assert leading_modes(point, 1, scale)[0][0].real == pytest.approx(best, rel=1e-6)


@pytest.fixture(scope="module")
def longer(listing):
    """The listing for 240 steps by the kind of refresh: a program belongs to a listing, and all its runs share it."""
    structures = (replace(listing.lab.structure, n_steps=240, refresh=kind) for kind in ("hold", "delay"))
    return {x.refresh: replace(listing, lab=replace(listing.lab, structure=x)) for x in structures}


def two_runs(listing, point, start, probe, **base):
    """Two runs from one start, looked at every 20 steps."""
    numbers = NUMBERS._replace(base=NUMBERS.base._replace(**base))
    places = Places(point.reference, point.parameters, probe[None])
    return follow(listing, numbers, start, [0, 0], places, every=20, double=True)


def test_the_spectrum_of_the_reward_is_its_answer_to_a_push(point, longer):
    way = point.reward_gradient
    found = reward_spectrum(point, way)
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.curvature == pytest.approx(way @ point.product(way) / (way @ way), rel=1e-6)
    size = 1e-5
    rate = 0.05 / np.real(found.rates).max()
    start = point.parameters + size * way / np.linalg.norm(way)
    path = two_runs(longer["hold"], point, start, way, learning_rate=rate)
    answer = (path.latent[0] - point.reward) / (size * np.linalg.norm(way))
    powers = (1.0 - rate * found.rates[:, None]) ** np.arange(20, 241, 20)
    assert np.allclose(answer, (found.shares @ powers).real, atol=2e-4)
    assert path.along[0, -1, 0] == pytest.approx(way @ (path.final_parameters[0] - point.parameters))


@pytest.mark.parametrize("refresh", ["hold", "delay"])
def test_runs_leave_the_fixed_point_above_the_threshold_of_the_stiffest_mode(point, longer, refresh):
    rates, modes = leading_modes(point, 1)
    gain = critical_gain(0.5, 4, refresh) * np.array([0.9, 1.1])
    settings = {"learning_rate": gain / rates[0].real, "momentum": 0.5, "refresh_interval": 4}
    start = point.parameters + 1e-7 * modes[0].real
    path = two_runs(longer[refresh], point, start, point.reward_gradient, **settings)
    assert path.away[0, -1] < 0.1 * path.away[0, 0]
    assert path.away[1].max() > 10.0 * path.away[1, 0]


def test_what_cannot_be_listed_is_refused(task):
    lab = Lab(Structure(advantage="mean"), Network(1, 4, 1, 4), "constant", limit=2)
    for wrong, words in (
        (replace(lab, loss="token"), "sum over tokens"),
        (replace(lab, limit=12), "expected at most"),
        (replace(lab, structure=Structure(update="expected")), "infinite groups"),
    ):
        with pytest.raises(SettingError, match=words):
            list_completions(wrong, task, NUMBERS)


@pytest.mark.usefixtures("double_precision")
def test_drawn_batches_say_what_all_completions_say(listing, point):
    """The mean over many parts: the update of groups of four, and its answer to a shift."""
    both = [
        replace(listing, lab=replace(listing.lab, structure=replace(listing.lab.structure, update=kind)))
        for kind in ("sampled", "expected")
    ]
    exact = local(both[1], point.numbers, point.reference, point.parameters)
    parts = drawn_updates(both[0], point, 0, 80)
    way = np.sign(exact.reward_gradient)
    for shift in (np.zeros(len(way)), 0.05 * way):
        drawn = np.array([update(shift) for update in parts])
        error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
        wanted = local(both[1], point.numbers, point.reference, point.parameters + shift).force
        assert np.abs((drawn.mean(axis=0) - wanted) / np.maximum(error, 1e-9)).max() < 5.0
