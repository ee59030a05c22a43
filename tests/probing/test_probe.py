"""A probe against dense matrices, over three kinds of vectors, with and without noise."""

import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, eigsh

from bayes_grpo.common.errors import SettingError
from bayes_grpo.probing.file import load_probes, save_probes
from bayes_grpo.probing.operator import BlockVector, adam_scale, lanczos, product_of
from bayes_grpo.probing.probe import probe
from benchmarks.calibration.probing import bandit, quadratic, told
from tests.helpers.probes import noisy_parts
from tests.helpers.shown import text_of

SIZE = 20


def matrix(seed: int = 0) -> np.ndarray:
    """A symmetric matrix with eigenvalues of both signs, the largest well apart."""
    turn, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((SIZE, SIZE)))
    values = 5.0 * 0.6 ** np.arange(SIZE)
    values[-4:] = -3.0
    return turn @ np.diag(values) @ turn.T


def test_without_noise_it_is_that_of_the_dense_matrix():
    h, here = matrix(), np.arange(SIZE, dtype=float)
    scale = np.exp(np.random.default_rng(1).standard_normal(SIZE))
    dense = np.linalg.eigvalsh(np.sqrt(scale)[:, None] * h * np.sqrt(scale))
    found = probe([lambda shift: -h @ (here + shift)], scale=scale)
    assert found.optimizer == "adam"
    assert found.stiffest.mean == pytest.approx(dense[-1], rel=1e-3)
    assert found.stiffest.interval.low == found.stiffest.interval.high
    start = np.ones(SIZE)
    applied = LinearOperator((SIZE, SIZE), matvec=lambda x: h @ x.ravel(), dtype=float)  # pyright: ignore[reportCallIssue]
    theirs = eigsh(applied, k=1, which="LA", v0=start, return_eigenvectors=False)
    assert lanczos(lambda x: h @ x, start, tolerance=1e-6).value == pytest.approx(theirs, rel=1e-6)


def test_any_kind_of_vector_gives_the_same():
    h, here = matrix(), np.linspace(-1.0, 1.0, SIZE)
    expected = np.linalg.eigvalsh(h)[-1]
    with jax.enable_x64(True):
        slope = jax.jit(lambda x: -jax.grad(lambda y: 0.5 * y @ jnp.asarray(h) @ y)(x))
        in_jax = probe([lambda shift: slope(jnp.asarray(here) + shift)], start=jnp.ones(SIZE))

    def in_pieces(shift: object) -> BlockVector:
        whole = np.concatenate([p.ravel() for p in shift.pieces]) if isinstance(shift, BlockVector) else np.zeros(SIZE)
        push = -h @ (here + whole)
        return BlockVector([push[:8].reshape(2, 4), push[8:]])

    found = probe([in_pieces])
    for one in (in_jax, found):
        assert one.stiffest.mean == pytest.approx(expected, rel=1e-3)


def test_of_sampled_halves_neither_too_large_nor_too_small():
    problem = quadratic(30)
    found = told(problem, 256, range(60))
    assert abs(found["bias"]) < 4.0 * found["bias_error"] + 0.01
    assert found["crossed_bias"] < -0.02
    assert found["naive_bias"] > 0.01
    assert 0.75 <= found["coverage"] <= 0.99


@pytest.mark.thorough
@pytest.mark.parametrize("make", [quadratic, partial(bandit, "softmax bandit", 0, (64,))], ids=["quadratic", "softmax"])
def test_coverage_and_a_network_in_adams_metric(make):
    problem = make()
    with jax.enable_x64(True):
        found, network = told(problem, 512, range(200)), bandit("two layers", 8, (64,))
        exact = probe([network.exact], scale=network.scale)
    assert 0.84 <= found["coverage"] <= 0.96
    assert abs(found["bias"]) < 3.0 * found["bias_error"] + 0.01
    assert exact.stiffest.mean == pytest.approx(network.stiffest, rel=1e-2)


def test_adams_metric_as_it_stands():
    v = np.array([0.04, 0.01])
    assert adam_scale(v, 3, 0.9, 1e-3) == pytest.approx(1.0 / (np.sqrt(v / (1.0 - 0.9**3)) + 1e-3))
    with pytest.raises(SettingError, match="at least 1 step"):
        adam_scale(v, 0)


def test_the_share_that_is_late():
    """Half of the matrix comes from the policy that writes: an update with the drawn weights lacks it."""
    h, here = matrix(), np.ones(SIZE)
    found = probe([lambda s: -h @ (here + s)], unweighted=[lambda s: -h @ (here + 0.5 * s)])
    assert found.late_share == pytest.approx(0.5, rel=1e-3)


NOISY = noisy_parts(matrix(), seed=5)


@pytest.mark.parametrize("more", [{}, {"start": np.ones(SIZE)}, {"unweighted": True}], ids=str)
def test_the_cost_is_how_often_the_updates_were_computed(more):
    calls = []
    updates = [lambda shift, u=update: (calls.append(1), u(shift))[1] for update in NOISY]
    options: dict[str, Any] = {"unweighted": updates} if "unweighted" in more else more
    found = probe(updates, **options)
    assert found.gradients == pytest.approx(len(calls) / len(updates))


def test_its_file_and_its_text(tmp_path):
    found = probe(NOISY, at=25)
    path = tmp_path / "probe.json"
    save_probes([found, found], path)
    assert load_probes(path)[1].to_dict() == found.to_dict()
    exact = probe([lambda s: -matrix() @ (np.ones(SIZE) + s)])
    save_probes([exact], path)
    assert load_probes(path)[0].stiffest == exact.stiffest
    shown = text_of(found)
    assert "at step 25" in shown
    assert json.loads(path.read_text())["probes"][0]["sentence"] == exact.sentence


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda x: x["probes"][0]["stiffest"].update(sd=-1.0), "sd >= 0"),
        (lambda x: x["probes"][0]["stiffest"].update(mean=None), "mean: expected a finite number"),
        (lambda x: x["probes"][0].update(parts=True), "parts"),
        (lambda x: x["probes"][0].update(optimizer="lion"), "optimizer"),
        (lambda x: x["probes"].clear(), "no probe"),
        (lambda x: x.update(format=2), "format 1"),
        (lambda x: x["probes"][0].pop("residual"), "no 'residual'"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, change, word):
    path = tmp_path / "probe.json"
    save_probes([probe(NOISY)], path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(SettingError, match=word) as error:
        load_probes(path)
    assert "\n" not in str(error.value)


def test_what_cannot_be_probed_is_refused(tmp_path):
    zero = [lambda shift: np.zeros(3)] * 4
    with pytest.raises(SettingError, match="4 or more parts"):
        probe(zero[:3])
    with pytest.raises(SettingError, match="updates are zero"):
        probe(zero)
    with pytest.raises(SettingError, match="one unweighted update for each"):
        probe(NOISY, unweighted=NOISY[:1])
    with pytest.raises(SettingError, match="cannot read"):
        load_probes(tmp_path / "none.json")
    with pytest.raises(SettingError, match="at least one probe"):
        save_probes([], tmp_path / "none.json")
    assert product_of(NOISY[0], 1.0)(np.ones(SIZE)).shape == (SIZE,)
