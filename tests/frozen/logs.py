"""Small logs of all kinds, made by code: written as TRL writes them, by each trainer's sample, and simulated."""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import bayes_grpo as bg
from bayes_grpo.logs.run import Run
from bayes_grpo.probing.file import save_probes
from bayes_grpo.simulate.scenarios import SCENARIOS, SimulatedRun
from tests.helpers.cases import CASES
from tests.helpers.probes import noisy_probes
from tests.helpers.rollouts import made, write_table, write_verl
from tests.helpers.runs import evaluated, make_run, rising_run, steps
from tests.helpers.trainer_samples import SAMPLES, Sample

KEYS = {
    "completion_length": "completions/mean_length",
    "completions_clipped_ratio": "completions/clipped_ratio",
    "engine_mismatch": "sampling/sampling_logp_difference/mean",
}
"""Canonical signal → the key that TRL logs it under, where it is another."""


def short() -> Run:
    """Six rows: too few to tell anything."""
    return rising_run(6, seed=1)


def hacked() -> Run:
    """The train reward goes on rising while evaluation reward falls and completions grow."""
    rng, s = np.random.default_rng(5), steps(60)
    reward = 0.9 - 0.7 * np.exp(-s / 20.0) + 0.02 * rng.standard_normal(60)
    held_out = {float(t): 0.45 + 0.15 * t / 20 if t <= 20 else 0.6 - 0.4 * (t - 20) / 40 for t in range(5, 61, 5)}
    signals = {"completion_length": 200.0 + 8.0 * s, "kl": 0.002 * s**1.5, "grad_norm": 0.5 + 0.1 * rng.random(60)}
    return make_run(s, reward, signals=signals, evals=held_out)


def masked() -> Run:
    """A third of the rows is NaN, and most groups carry no gradient."""
    rng, s = np.random.default_rng(6), steps(60)
    reward = np.clip(0.1 + 0.004 * s + 0.02 * rng.standard_normal(60), 0.0, 1.0)
    reward[rng.random(60) < 0.33] = np.nan
    return make_run(s, reward, signals={"frac_reward_zero_std": 0.8, "reward_std": 0.05})


def rising() -> Run:
    """A plain rise with entropy, gradient norm and evaluations."""
    s = steps(60)
    signals = {"entropy": 1.2 * np.exp(-s / 60.0), "grad_norm": 0.4 + 0.05 * np.sin(s), "kl": 0.001 * s}
    evals = {float(t): 0.75 - 0.5 * float(np.exp(-t / 15.0)) for t in range(10, 61, 10)}
    return make_run(s, rising_run(60, seed=2).reward, signals=signals, evals=evals)


def flat() -> Run:
    """A reward that does not rise."""
    return make_run(steps(60), 0.3 + 0.03 * np.random.default_rng(8).standard_normal(60))


def swinging() -> Run:
    """A reward that overshoots and swings about its plateau."""
    s = steps(80)
    curve = 0.7 - 0.5 * np.exp(-s / 40.0) * np.cos(s / 5.0)
    return make_run(s, curve + 0.01 * np.random.default_rng(9).standard_normal(80))


def with_signals(*, reward: float = 0.6, **signals: Any) -> Run:
    """A reward that rises from .2 by .6, or by another amount, with signals."""
    s, noise = steps(60), np.random.default_rng(11).standard_normal(60)
    return make_run(s, 0.2 + reward * (1.0 - np.exp(-s / 20.0)) + 0.02 * noise, signals=signals)


def saturated(level: float) -> Run:
    """A reward that stays near a level while most groups have no variance."""
    noise = np.random.default_rng(12).standard_normal(60)
    reward = np.clip(level + 0.01 * noise, 0.0, 1.0)
    return make_run(steps(60), reward, signals={"frac_reward_zero_std": 0.9, "reward_std": 0.03})


def broken_off() -> Run:
    """Gradient norm and reward are NaN from step 41 on."""
    late = np.where(steps(60) > 40, np.nan, 1.0)
    return make_run(steps(60), late * rising_run(60).reward, signals={"grad_norm": 0.5 * late})


def component_lost() -> Run:
    """One reward function falls while the total rises."""
    s, noise = steps(60), 0.01 * np.random.default_rng(13).standard_normal((2, 60))
    parts = {"code_reward": 0.3 + 0.01 * s + noise[0], "math_reward": 0.6 - 0.5 * (s > 40) + noise[1]}
    return make_run(s, sum(parts.values()) + 0.4 * (s > 40), components=parts)


def evaluation_stays() -> Run:
    """The evaluation reward does not follow the train reward."""
    at = steps(60)[4::5]
    level = 0.4 + 0.01 * np.random.default_rng(14).standard_normal(len(at))
    return make_run(steps(60), rising_run(60, seed=3).reward, evals=evaluated(at, level))


def with_rate(rate: float) -> Run:
    """A rise that is the faster the higher its learning rate."""
    s, noise = steps(60), np.random.default_rng(int(rate * 1e7)).standard_normal(60)
    reward = 0.8 - 0.6 * np.exp(-s * rate / 3e-5) + 0.03 * noise
    return make_run(s, reward, signals={"learning_rate": rate})


_RAMP = np.linspace(0.0, 1.0, 60)
LOGS: Mapping[str, Callable[[], Run]] = {
    **CASES,
    **{make.__name__: make for make in (short, hacked, masked, rising, flat, swinging)},
    **{make.__name__: make for make in (broken_off, component_lost, evaluation_stays)},
    "entropy_gone": partial(with_signals, reward=0.05, entropy=np.exp(-6.0 * _RAMP)),
    "gradient_lost": partial(with_signals, reward_std=0.3, grad_norm=0.0, learning_rate=1e-6),
    "engines_differ": partial(with_signals, engine_mismatch=0.01 * np.exp(4.0 * _RAMP)),
    "gradient_bursts": partial(with_signals, grad_norm=np.where(_RAMP > 0.8, 40.0, 0.4), kl=0.01 * np.exp(5.0 * _RAMP)),
    "solved": partial(saturated, 0.99),
    "hopeless": partial(saturated, 0.01),
}
"""Name → builder."""
TEXTS: Mapping[str, str] = {
    "evaluation_only.csv": "step,eval_reward\n" + "".join(f"{s},{0.3 + 0.004 * s:.3f}\n" for s in range(0, 100, 5)),
    "unknown_columns.csv": "iteration,goodness\n" + "".join(f"{s},{0.01 * s:.2f}\n" for s in range(40)),
    "empty.jsonl": "",
    "restarted.jsonl": "".join(
        json.dumps({"step": s, "reward": round(0.3 + 0.01 * s, 3)}) + "\n" for s in (*range(30), *range(20))
    ),
}
"""Name → content of further files."""
CORPUS = Path(__file__).parents[1] / "corpus"


def write_state(run: Run, folder: Path) -> Path:
    """Writes a run as a ``trainer_state.json`` and returns its path."""
    rows: list[dict[str, Any]] = []
    for i, step in enumerate(run.step):
        row = {"step": int(step), "reward": run.reward[i], "loss": 0.0}
        row |= {KEYS.get(key, key): values[i] for key, values in run.signals.items()}
        row |= {f"rewards/{key}/mean": values[i] for key, values in run.components.items()}
        rows.append({k: float(v) if k != "step" else v for k, v in row.items()})
        rows += [{"step": int(t), "eval_reward": float(v)} for t, v in zip(run.eval_step, run.eval_reward, strict=True)
                 if t == step]  # fmt: skip
    path = folder / "trainer_state.json"
    state = {"global_step": len(run.step), "max_steps": len(run.step), "logging_steps": 1, "log_history": rows}
    path.write_text(json.dumps(state), encoding="utf-8")
    return path


def write_text(name: str, content: str | bytes, folder: Path) -> Path:
    """Writes a file and returns its path."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@cache
def simulated(scenario: str) -> list[SimulatedRun]:
    """The first two runs of a scenario."""
    return bg.simulate_scenario(scenario, 2, seed=0)


def write_simulated(scenario: str, index: int, folder: Path) -> Path:
    """Writes a simulated run with its settings and returns its directory."""
    return bg.write_runs([simulated(scenario)[index]], folder / "runs")[0]


def write_probe(folder: Path) -> Path:
    """Writes probes of a known stiffness and returns their path."""
    path = folder / "probe.json"
    save_probes(noisy_probes(6), path)
    return path


def write_sample(sample: Sample, index: int, folder: Path) -> Path:
    """Writes a trainer's sample to one of its places: another place with every trainer."""
    places = sample.places()
    return sample.write(places[index % len(places)], folder)


WRITERS: Mapping[str, Callable[[Path], Path]] = {
    **{name: lambda folder, make=make: write_state(make(), folder) for name, make in LOGS.items()},
    **{s.trainer.replace(" ", "_"): partial(write_sample, s, i) for i, s in enumerate(SAMPLES)},
    **{name: partial(write_text, name, text) for name, text in TEXTS.items()},
    **{p.name: partial(write_text, p.name, p.read_bytes()) for p in sorted(CORPUS.iterdir())},
    **{f"{s}_0": partial(write_simulated, s, 0) for s in SCENARIOS},
}
"""Name of a log → what writes it into a folder and returns the path to read."""
ALIKE = {*LOGS, *(name for name in WRITERS if name.endswith("_0"))}
"""Logs that are written in TRL's format, by the tests or by the simulator."""
OTHERS: Mapping[str, Callable[[Path], Path]] = {
    "completions": lambda folder: write_table(folder, made(steps=12, prompts=6)),
    "other_completions": lambda folder: write_table(folder, made(steps=12, prompts=6, seed=1)),
    "verl_completions": lambda folder: write_verl(folder, made()),
    "probe": write_probe,
    **{f"{s}_1": partial(write_simulated, s, 1) for s in ("healthy", "plateau")},
    **{f"rate_{r:g}": lambda folder, r=r: write_state(with_rate(r), folder) for r in (1e-6, 2e-6, 4e-6)},
}
"""The same of files that few commands take."""


def write(name: str, folder: Path) -> Path:
    """Writes a log or another file into a folder of its own below ``folder``; returns its path."""
    own = folder / name
    own.mkdir(parents=True)
    return {**WRITERS, **OTHERS}[name](own)
