"""Programs are compiled once, and a kept text serves the next process only where it is the same program."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common import programs
from bayes_grpo.fitting.sampling.target import target_of, values_of
from bayes_grpo.regimes import REGIMES
from bayes_grpo.regimes.built_in.flat import Flat
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import rising_run


def asked(one: Any, options: tuple[Any, ...], folder: Path | None) -> Any:
    """What a program over draws returns for fixed arguments, by way of the kept text."""
    target = target_of(REGIMES["flat"], rows_of(rising_run(20)))
    z = np.random.default_rng(0).standard_normal((7, len(target.regime.sampled)))
    leaves, treedef = jax.tree.flatten((z, *target.arguments))
    leaves = [np.asarray(x) for x in leaves]
    with jax.enable_x64(True):
        shapes = tuple((x.shape, x.dtype) for x in leaves)
        found = programs._lowered(programs._in_batches, (one, options, 4), treedef, shapes, folder=folder).compile()(
            *leaves
        )
        return jax.tree.map(np.asarray, found)


def files(folder: Path) -> list[Path]:
    """What is kept."""
    return sorted(folder.iterdir())


@pytest.fixture
def never_traced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes tracing fail from the call on."""

    def fails(*_: Any) -> Any:
        raise AssertionError("traced again")

    return lambda: monkeypatch.setattr(programs, "_traced", fails)


def test_kept_program_gives_the_same_numbers_and_is_not_traced_again(tmp_path: Path, never_traced: Any):
    plain = asked(values_of, (REGIMES["flat"],), None)
    first = asked(values_of, (REGIMES["flat"],), tmp_path)
    assert len(files(tmp_path)) == 1
    never_traced()
    second = asked(values_of, (REGIMES["flat"],), tmp_path)
    assert set(plain) == set(first) == set(second)
    for name, values in plain.items():
        np.testing.assert_array_equal(first[name], values)
        np.testing.assert_array_equal(second[name], values)


def test_damaged_text_is_traced_anew_and_replaced(tmp_path: Path, never_traced: Any):
    whole = asked(values_of, (REGIMES["flat"],), tmp_path)
    (file,) = files(tmp_path)
    held = file.read_bytes()
    file.write_bytes(held[:200] + bytes([held[200] ^ 1]) + held[201:])
    again = asked(values_of, (REGIMES["flat"],), tmp_path)
    never_traced()
    for name, values in asked(values_of, (REGIMES["flat"],), tmp_path).items():
        np.testing.assert_array_equal(values, whole[name])
        np.testing.assert_array_equal(values, again[name])
    assert files(tmp_path) == [file]


@pytest.mark.parametrize("changed", ["source", "setting"])
def test_another_source_or_setting_of_jax_is_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
):
    asked(values_of, (REGIMES["flat"],), tmp_path)
    if changed == "source":
        monkeypatch.setattr(programs, "_versions", lambda: ("another",))
        asked(values_of, (REGIMES["flat"],), tmp_path)
    else:
        with jax.default_matmul_precision("float32"):
            asked(values_of, (REGIMES["flat"],), tmp_path)
    assert len(files(tmp_path)) == 2


def test_laws_of_others_and_functions_made_at_run_time_are_never_kept(tmp_path: Path):
    class Mine(Flat):
        """A law of another package, whose source may change unseen."""

    def made_here(*given: Any) -> Any:
        return values_of(*given)

    asked(values_of, (Mine(),), tmp_path)
    asked(made_here, (REGIMES["flat"],), tmp_path)
    asked(lambda *given: values_of(*given), (REGIMES["flat"],), tmp_path)
    assert files(tmp_path) == []


def test_options_of_a_law_are_part_of_its_name():
    @dataclass(frozen=True)
    class Option:
        lag: int

    Option.__module__, Option.__qualname__ = "bayes_grpo.somewhere", "Option"
    names = [programs._name((values_of, Option(lag), True)) for lag in (1, 2)]
    assert None not in names
    assert names[0] != names[1]
    assert programs._name((Option(np.zeros(3)),)) is None  # pyright: ignore[reportArgumentType]


def counting(traces: list[int]) -> Any:
    def make(scale: float) -> Any:
        traces.append(1)
        return lambda x: scale * x

    return make


def test_threads_that_ask_for_one_program_compile_it_once():
    traces: list[int] = []
    make, before = counting(traces), programs._cached_program.cache_info().misses
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda x: programs.call(make, (2.0,), np.full(3, x)), range(8)))
    assert [x.tolist() for x in found] == [[2.0 * x] * 3 for x in range(8)]
    assert (len(traces), programs._cached_program.cache_info().misses) == (1, before + 1)
    programs.call(make, (2.0,), np.ones(4))
    assert len(traces) == 2


def test_an_error_while_a_program_is_made_is_raised_and_not_kept():
    def make(fails: Hashable) -> Any:
        fails.times -= 1
        if fails.times >= 0:
            raise ValueError("not yet")
        return lambda x: x + 1.0

    fails = Hashable(1)
    with pytest.raises(ValueError, match="not yet"):
        programs.call(make, (fails,), np.ones(2))
    assert programs.call(make, (fails,), np.ones(2)).tolist() == [2.0, 2.0]


class Hashable:
    """An option that fails as often as it says."""

    def __init__(self, times: int) -> None:
        self.times = times


def test_the_oldest_program_is_let_go_and_a_users_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs, "_cached_program", lru_cache(2)(programs._Program))
    theirs: Any = jax.jit(lambda x: jnp.sin(x) * 2.0)
    theirs(np.float32(1.0))
    traces: list[int] = []
    make = counting(traces)
    for scale in (1.0, 2.0, 1.0, 3.0, 1.0, 2.0):  # 3 puts 2 out
        programs.call(make, (scale,), np.ones(2))
    assert len(traces) == 4
    programs.forget_programs()
    programs.call(make, (2.0,), np.ones(2))
    assert len(traces) == 5
    assert theirs._cache_size() == 1


def test_the_cache_of_jax_is_borrowed_and_given_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "ours"))
    with programs.compilation_cache() as folder, programs.compilation_cache() as again:
        assert folder == again == tmp_path / "ours"
        assert jax.config.jax_compilation_cache_dir == str(folder)
    assert not jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(programs.VARIABLE, "")
    with programs.compilation_cache() as folder:
        assert folder is None
