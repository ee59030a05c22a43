"""Pages of six kinds of runs, made once for all tests of this folder's files, and a browser to open them in."""

from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_grpo.analysis.analyze import AnalysisSettings
from bayes_grpo.decision.decide import StoppingCosts
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.logs.run import Run
from bayes_grpo.report import Report, report_run, save_report
from tests.helpers.browser import browser, missing
from tests.helpers.runs import FEW, evaluated, make_run, steps
from tests.helpers.selection import few


class Markup(HTMLParser):
    """Tags, attributes with their values, and the texts of a page that a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, str(value)) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.tags and self.lasttag not in ("style", "script", "title"):
            self.texts.append(data)

    def values(self, *names: str) -> list[str]:
        """Values of the attributes of these names."""
        return [value for name, value in self.attributes if name in names]


SHORT = SamplerSettings(num_chains=2, num_warmup=100, num_samples=200)
ROWS = 40
"""Rows of a log, as many as other tests' logs have: all share the compiled programs of the regimes."""


SHARED: dict[str, Any] = {
    "regime": "exponential",
    "regimes": ("flat", "exponential"),
    "sampler": FEW,
}
"""Settings of the page that the default run makes: other tests fit and forecast by the same compiled programs."""


def quick(**more: Any) -> AnalysisSettings:
    """Settings of a page that is made fast: few draws and few paths."""
    return AnalysisSettings(**{"sampler": SHORT, "paths": 300} | more)


def run_of(kind: str) -> Run:
    """A run of one kind: healthy, plateaued, hacking, degenerate, collapsed or short."""
    n = 20 if kind == "short" else ROWS
    t, rng = steps(n), np.random.default_rng(5)
    noise = rng.standard_normal((5, n))
    u = t / n  # how far the run is
    rise = 0.2 + 0.5 * (1.0 - np.exp(-4.0 * u))
    signals: dict[str, Any] = {
        "reward_std": 0.3 + 0.02 * noise[1],
        "frac_reward_zero_std": np.clip(0.1 + 0.02 * noise[2], 0, 1),
        "entropy": 0.8 + 0.03 * noise[3],
        "kl": 0.002 * u + 0.0001 * np.abs(noise[4]),
        "grad_norm": 0.3 + 0.02 * noise[1],
        "completion_length": 200.0 + 5.0 * noise[2],
        "learning_rate": 1e-6 * (1.0 - u / 2.0),
    }
    reward, held = rise + 0.03 * noise[0], rise - 0.02
    if kind == "plateaued":
        reward, held = 0.6 + 0.03 * noise[0], np.full(n, 0.58)
    elif kind == "hacking":
        held = 0.2 + 0.15 * np.exp(-((4.0 * u - 1.0) ** 2))
        signals["kl"] = 0.12 * u
    elif kind == "degenerate":
        signals["frac_reward_zero_std"] = np.clip(0.95 + 0.01 * noise[2], 0, 1)
        signals["reward_std"] = 0.01 + 0.001 * np.abs(noise[1])
        reward, held = 0.05 + 0.01 * noise[0], np.full(n, 0.05)
    elif kind == "collapsed":
        fall = 1.0 / (1.0 + np.exp(30.0 * (u - 0.66)))
        reward, held = rise * fall + 0.02 * noise[0], rise * fall
        signals |= {"entropy": 0.02 + 0.8 * fall, "grad_norm": 0.3 + 20.0 * (1.0 - fall)}
    every = t[1::2]
    return make_run(
        t, reward, signals=signals, evals=evaluated(every, held[1::2]), name=kind, group_size=8, prompts_per_step=16,
        momentum=0.9, refresh_interval=1, total_steps=2 * n,
    )  # fmt: skip


_LONG = (pytest.param(kind, marks=pytest.mark.slow) for kind in ("plateaued", "degenerate", "collapsed"))
KINDS = (*few(("healthy", "hacking", "short"), "hacking"), *_LONG)
"""Kinds of runs; a page of each costs seconds, and the first half a minute of compiling."""


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """A headless browser; tests that need one are skipped where there is none."""
    if missing():
        pytest.skip(missing())
    with browser() as found:
        yield found


@cache
def report_of(kind: str) -> Report:
    """The page of a kind. The regimes are compared for the healthy run alone, because they take longest."""
    if kind == "healthy":
        costs = StoppingCosts(cost_per_step=1.0, value_per_reward=1000.0)
        return report_run(run_of(kind), settings=quick(costs=costs), full=True)
    return report_run(run_of(kind), settings=quick(**SHARED if kind == "hacking" else {}))


@pytest.fixture(scope="session")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of the page of a kind."""
    folder = tmp_path_factory.mktemp("pages")
    return cache(lambda kind: save_report(report_of(kind), folder / f"{kind}.html"))
