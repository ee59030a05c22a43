"""Shared by all tests: a synthetic run, a writer of trainer logs, and a compilation cache of the tests' own."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from bayes_grpo.logs.run import Run
from tests.helpers.runs import make_run, steps
from tests.helpers.selection import part, rooms_of, shard

CACHE = "BAYES_GRPO_CACHE"
# Where bytecode may not be kept, every worker and every process of a test would compile its packages anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
ROWS = 40
LONGEST = (
    "cli/test_cli.py",
    "regimes/test_distribution.py",
    "dynamics/test_likelihood.py",
    "fitting/test_fit.py",
    "forecasting/test_forecast.py",
    "report/test_pages.py",
    "watching/test_update.py",
    "regimes/test_trend.py",
    "comparison/test_compare.py",
    "families/test_sweep.py",
    "logs/test_hostile.py",
    "fitting/test_untrusted.py",
    "planning/test_plan.py",
    "batches/test_batch.py",
    "signals/test_parts.py",
    "frozen/test_frozen.py",
    "logs/test_store_damage.py",
    "common/test_executor.py",
)
"""Files that take longest, below this folder; one that uses programs comes after one that compiles them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--part K/N``: of the tests that are marked thorough, an N-th by time, and some of changed rooms."""
    parser.addoption("--part", type=part, metavar="K/N", help="of thorough tests, the K-th of N parts of equally many")
    parser.addoption(
        "--changed", default="", metavar="PATHS", help="with --part, some more of the rooms of these paths"
    )


def pytest_configure(config: pytest.Config) -> None:
    """A run without the thorough tests makes up fewer examples, and its programs compile faster.

    LLVM optimizes nothing there: a quarter less time to compile. The thorough tests and the notebooks run the programs
    as users have them.
    """
    default = "not thorough" in config.option.markexpr
    settings.register_profile("bayes_grpo", deadline=None, max_examples=25 if default else 100)
    settings.load_profile("bayes_grpo")
    if default:
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The laboratory's tests are thorough ones, and importing it takes a second of every worker."""
    asked = any("lab" in str(word) for word in config.invocation_params.args)
    default = "not thorough" in config.option.markexpr
    return True if default and not asked and collection_path == Path(__file__).with_name("lab") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take longest come first: begun last, one of them keeps one worker busy while the others wait."""
    place = {Path(__file__).parent / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))
    if chosen := config.getoption("--part"):
        here = Path(__file__).parent
        thorough = [item for item in items if item.get_closest_marker("thorough")]
        rooms = rooms_of(str(config.getoption("--changed")).split())
        kept = shard((item.path.relative_to(here).as_posix() for item in thorough), *chosen, rooms=rooms)
        left_out = [item for item, stays in zip(thorough, kept, strict=True) if not stays]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary compilation cache, one for all xdist workers, unless the caller has set one."""
    if CACHE in os.environ:
        yield Path(os.environ[CACHE])
        return
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compilation_cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(directory))
        yield directory


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Numbers of 64 bits in JAX."""
    import jax  # which the tests of half of the rooms do without

    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def curve() -> np.ndarray:
    """Rewards of 40 steps from 0.2 towards 0.8: a damped oscillator from rest, ζ = 1.5, ω₀ = 0.3, little noise."""
    slow, fast = (0.3 * (1.5 + sign * math.sqrt(1.5**2 - 1.0)) for sign in (-1, 1))
    middle = np.arange(ROWS) + 0.5
    left = (fast * np.exp(-slow * middle) - slow * np.exp(-fast * middle)) / (fast - slow)
    noise = np.random.default_rng(7).standard_normal(ROWS)
    return np.round(0.8 - 0.6 * left + 0.015 * noise, 4)


@pytest.fixture(scope="session")
def synthetic_run(curve: np.ndarray) -> Run:
    """The curve as a `Run` whose settings are stated."""
    settings = {"group_size": 8, "prompts_per_step": 16, "momentum": 0.9, "refresh_interval": 1}
    return make_run(steps(ROWS), curve, name="synthetic", **settings)


@pytest.fixture(scope="session")
def write_trl_log() -> Callable[..., Path]:
    """Writes a ``trainer_state.json``: rewards of steps 1, 2, … and evaluations as step → reward."""

    def write(path: Path, reward: Any, evals: dict[int, float] | None = None, **row: Any) -> Path:
        history: list[dict[str, Any]] = []
        for step, value in enumerate(np.asarray(reward, float).tolist(), 1):
            history.append({"loss": 0.0, "reward": value, "reward_std": 0.3, "step": step} | row)
            if evals and step in evals:
                history.append({"eval_reward": evals[step], "step": step})
        state = {"global_step": len(history), "log_history": history, "logging_steps": 1, "max_steps": len(history)}
        path.write_text(json.dumps(state), encoding="utf-8")
        return path

    return write
