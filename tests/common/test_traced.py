"""Programs that were traced before: read back, made anew where anything changed or is damaged, never in the way."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common import traced
from bayes_grpo.common.cache import VARIABLE
from bayes_grpo.common.traced import lowered, stored

CALLS: list[str] = []


@stored
class Pair(NamedTuple):
    one: Any
    other: Any


@dataclass(frozen=True)
class Law:
    power: int


def make(law, factor):
    def run(pair, x):
        CALLS.append("traced")
        return Pair(factor * pair.one**law.power, jnp.sum(x * pair.other))

    return run


def unkept(factor):
    class Inner(NamedTuple):
        value: Any

    return lambda x: Inner(factor * x)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    CALLS.clear()
    return tmp_path / "traced"


def shapes(n=3):
    return Pair(jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((n,), np.float32)), jax.ShapeDtypeStruct(
        (n,), np.float32
    )


def value(program, n=3):
    return program.compile()(Pair(np.float32(2.0), np.ones(n, np.float32)), np.arange(n, dtype=np.float32))


def test_a_program_is_traced_once(cache):
    for _ in range(3):
        found = value(lowered(make, (Law(3), 5.0), shapes()))
        assert isinstance(found, Pair)
        assert float(found.one) == 40.0
        assert float(found.other) == 3.0
    assert len(CALLS) == 1
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("change", ["option", "field", "shape", "source", "version"])
def test_whatever_changes_makes_another_program(cache, monkeypatch, change):
    value(lowered(make, (Law(3), 5.0), shapes()))
    options, n = (Law(3), 5.0), 3
    if change == "option":
        options = (Law(3), 6.0)
    elif change == "field":
        options = (Law(2), 5.0)
    elif change == "shape":
        n = 4
    elif change == "source":
        monkeypatch.setattr(traced, "_package", lambda: "edited")
    else:
        monkeypatch.setattr(traced.jax, "__version__", "0.0")
    found = value(lowered(make, options, shapes(n)), n)
    assert float(found.one) == {"option": 48.0, "field": 20.0}.get(change, 40.0)
    assert len(CALLS) == 2


@pytest.mark.parametrize("content", [b"", b"no program", b"\x00" * 400])
def test_a_damaged_file_is_made_anew(cache, content):
    value(lowered(make, (Law(3), 5.0), shapes()))
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.write_bytes(content)
    assert float(value(lowered(make, (Law(3), 5.0), shapes())).one) == 40.0
    assert len(CALLS) == 2
    path.write_bytes(whole[: len(whole) // 2])
    assert float(value(lowered(make, (Law(3), 5.0), shapes())).one) == 40.0
    assert len(CALLS) == 3
    value(lowered(make, (Law(3), 5.0), shapes()))
    assert len(CALLS) == 3


def test_what_cannot_be_kept_is_traced_each_time(cache, monkeypatch):
    x = jax.ShapeDtypeStruct((), np.float32)
    assert float(lowered(unkept, (2.0,), (x,)).compile()(np.float32(3.0)).value) == 6.0
    assert not cache.exists() or not list(cache.iterdir())
    monkeypatch.setenv(VARIABLE, "")
    assert float(value(lowered(make, (Law(3), 5.0), shapes())).one) == 40.0
    assert not cache.exists() or not list(cache.iterdir())


def test_a_full_disk_costs_no_result(cache, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(traced, "written_whole", full)
    assert float(value(lowered(make, (Law(3), 5.0), shapes())).one) == 40.0
