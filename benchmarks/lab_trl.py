"""The deep laboratory beside TRL: one step number by number, and whole runs of both.

    python benchmarks/lab_trl.py [--runs FOLDER] [--plot FILE]

Needs the dependency group `trl`. The same weights stand in our network and in `transformers`' Llama. First, the same
completions go through TRL's own `GRPOTrainer` (its advantages, its `_compute_loss`, its metrics) and through ours.
Then TRL trains from the same supervised start that laboratory runs do, and its rows are counted in their bands; beside
it stands how often runs of the laboratory lie in the bands of the others. TRL's `trainer_state.json` files stay in the
folder, and are not made again where they are there.
"""

import argparse
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from bayes_grpo.simulate.settings import Numbers, Structure
from benchmarks.common import keep, say
from benchmarks.lab.loss import group_statistics
from benchmarks.lab.network import Network
from benchmarks.lab.rollout import read, write
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import make_task
from benchmarks.lab.training import DeepTrajectory, Policies, Program, step_gradient, train
from benchmarks.lab.warm_start import warm_start
from benchmarks.speed.peers import trl_llama

SIGNALS = ("reward", "reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "mean_length", "loss")
THEIRS = {"mean_length": "completions/mean_length", "clip_ratio": "clip_ratio/region_mean"}
STEPS, SEEDS, BAND_RUNS, START = 100, 20, 64, 0.3
TASK = make_task("sorting", length=3, symbols=5)


def lab_of(**settings: Any) -> Lab:
    structure = {"n_steps": STEPS, "group_size": 8, "prompts_per_step": 8, "optimizer": "adam", "schedule": "linear"}
    fixed: dict[str, Any] = {"kl": "weighted", "order": "shuffled"} | {
        k: settings.pop(k) for k in ("loss", "kl", "order") if k in settings
    }
    return Lab(Structure(**structure | settings), Network(), limit=6, **fixed)


def numbers_of(rate: Any = 1e-3, **settings: Any) -> LabNumbers:
    base = {"learning_rate": rate, "momentum": 0.9, "kl_weight": 0.04}
    base |= {k: settings.pop(k) for k in list(settings) if k in Numbers._fields}
    return LabNumbers(base=Numbers(**base), **{"max_grad_norm": 1.0} | settings)


class Case(NamedTuple):
    """A comparison of one step: our word for the mean, TRL's, whether advantages are scaled, the penalty and its β."""

    ours: Any
    theirs: str
    scaled: bool
    penalty: Any
    kl: float


CASES = [
    Case(ours, theirs, scaled, penalty, kl)
    for ours, names in trl_llama.LOSSES.items()
    for theirs in names
    for scaled in (True, False)
    for penalty, kl in (("plain", 0.0), ("plain", 0.04), ("weighted", 0.04))
]


def one_step(case: Case, start: np.ndarray, folder: Path) -> dict[str, float]:
    """Largest differences of one step, relative to the largest number of their kind."""
    advantage = "std" if case.scaled else "mean"
    lab = lab_of(loss=case.ours, kl=case.penalty, advantage=advantage)
    numbers = numbers_of(kl_weight=case.kl, temperature=0.9, entropy_weight=0.05)
    program = Program(lab, TASK.vocabulary)
    rng = np.random.default_rng(0)
    # Three policies, so that ratios are clipped on both sides and the penalty has something to count.
    sampling, reference = (start + 0.02 * rng.standard_normal(start.shape).astype(np.float32) for _ in range(2))
    chosen = np.repeat(rng.choice(len(TASK.train), lab.structure.prompts_per_step), lab.structure.group_size)
    prompts = jnp.asarray(TASK.train[chosen])
    completions = write(program.network(jnp.asarray(sampling)), prompts, lab.limit, jax.random.key(1), 0.9)
    texts = np.asarray(completions.text[:, prompts.shape[1] :])
    lists = [row[mask].tolist() for row, mask in zip(texts, np.asarray(completions.written), strict=True)]
    # Rewards of more than two values, one group without spread.
    reward = np.round(rng.uniform(size=len(lists)), 2).astype(np.float32)
    reward[: lab.structure.group_size] = 0.25
    groups = group_statistics(jnp.asarray(reward), lab.structure.group_size, case.scaled, 1e-4)
    policies = Policies(*(jnp.asarray(x) for x in (start, sampling, reference)))
    loss, metrics, gradient = step_gradient(program, policies, completions, groups.advantage, numbers)
    seen = [
        read(program.network(x), completions, numbers.temperature).log_probability for x in (policies.at, *policies[1:])
    ]

    data = trl_llama.data_set(TASK, TASK.train[chosen], TASK.train_answer[chosen])
    fixed = {"prompt_ids": prompts.tolist(), "completion_ids": lists, "logprobs": [[0.0] * len(x) for x in lists]}
    theirs = trl_llama.trainer(
        folder,
        data,
        lambda **_: reward.tolist(),
        lab,
        numbers,
        folder / "out",
        loss_type=case.theirs,
        num_iterations=2,  # so that it computes the log-probabilities of the policy that wrote
        rollout_func=lambda *_: dict(fixed),
    )
    weights = [trl_llama.llama_weights(lab, TASK.vocabulary, x) for x in policies]
    theirs.model.train()
    theirs.model.load_state_dict(weights[1])
    if theirs.ref_model is not None:
        theirs.ref_model.load_state_dict(weights[2])
    theirs.current_gradient_accumulation_steps = 1
    batch = theirs._generate_and_score_completions([dict(row) for row in data])
    theirs.model.load_state_dict(weights[0])
    found = theirs._compute_loss(theirs.model, batch)
    found.backward()
    slopes = {k: p.grad for k, p in theirs.model.named_parameters()}
    logged = {k: v[-1] for k, v in theirs._metrics["train"].items()}

    size = batch["completion_ids"].shape[1]
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        now = theirs._get_per_token_logps_and_entropies(theirs.model, ids, mask, size)[0]
    written = batch["completion_mask"].bool().numpy()
    out = {
        "log_probability": _away(np.asarray(seen[0])[:, :size][written], now.numpy()[written]),
        "old": _away(np.asarray(seen[1])[:, :size][written], batch["old_per_token_logps"].numpy()[written]),
        "advantage": _away(groups.advantage, batch["advantages"].numpy()),
        "loss": _away(loss, found.item()),
        "gradient": _away(gradient, trl_llama.side_by_side(lab, TASK.vocabulary, slopes)),
    }
    for name in ("reward", "reward_std", "frac_reward_zero_std"):
        out[name] = _away(getattr(groups, name), logged[name])
    for name in ("entropy", "clip_ratio", *(["kl"] if case.kl else [])):
        out[name] = _away(metrics[name], logged[THEIRS.get(name, name)])
    assert logged["clip_ratio/low_mean"] > 0 < logged["clip_ratio/high_mean"]
    return out


def _away(ours: Any, theirs: Any) -> float:
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30))


def run_of_trl(job: tuple[Mapping[str, Any], Mapping[str, Any], int, Path, np.ndarray]) -> list[dict[str, Any]]:
    """One run of TRL's trainer, in a process of its own."""
    structure, settings, seed, folder, start = job
    trl_llama.on_processor()
    return trl_llama.real_run(start, TASK, lab_of(**structure), numbers_of(**settings), seed, folder)


def runs_of_trl(jobs: list[Any]) -> list[list[dict[str, Any]]]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return list(pool.map(run_of_trl, jobs))


def columns(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Signals of a log by our names."""
    return {name: np.array([row[THEIRS.get(name, name)] for row in rows], float) for name in SIGNALS}


def inside(runs: DeepTrajectory, theirs: list[dict[str, np.ndarray]]) -> dict[str, dict[str, float]]:
    """Share of TRL's rows in the laboratory's 90% band of the row, and what a run of ours would have there."""
    out = {}
    for name in SIGNALS:
        ours = np.asarray(getattr(runs, name), float)
        peer = np.stack([run[name] for run in theirs])
        low, high = np.quantile(ours, [0.05, 0.95], axis=0)
        # Of the laboratory itself: each run against the band of the others.
        own = []
        for i in range(len(ours)):
            a, b = np.quantile(np.delete(ours, i, axis=0), [0.05, 0.95], axis=0)
            own.append(np.mean((ours[i] >= a - 1e-9) & (ours[i] <= b + 1e-9)))
        gap = peer.mean(axis=0) - ours.mean(axis=0)
        spread = np.sqrt(peer.var(axis=0, ddof=1) / len(peer) + ours.var(axis=0, ddof=1) / len(ours))
        rows = spread > 0
        out[name] = {
            "inside": float(np.mean((peer >= low - 1e-9) & (peer <= high + 1e-9))),
            "of_our_own": float(np.mean(own)),
            "mean_gap": float(gap.mean()),
            "root_mean_square_z": float(np.sqrt(np.mean((gap[rows] / spread[rows]) ** 2))),
        }
    return out


def picture(path: Path, runs: DeepTrajectory, theirs: list[dict[str, np.ndarray]]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(13, 7), sharex=True)
    for axis, name in zip(
        axes.flat, ("reward", "entropy", "kl", "grad_norm", "reward_std", "mean_length"), strict=True
    ):
        ours, step = np.asarray(getattr(runs, name)), np.arange(1, STEPS + 1)
        axis.fill_between(step, *np.quantile(ours, [0.05, 0.95], axis=0), alpha=0.3, label="laboratory, 90%")
        axis.plot(step, ours.mean(axis=0), color="C0")
        for run in theirs:
            axis.plot(step, run[name], color="C1", lw=0.4, alpha=0.6)
        axis.plot(step, np.mean([run[name] for run in theirs], axis=0), color="C3", label="TRL, mean")
        axis.set_title(name)
    axes[0, 0].legend()
    figure.savefig(path, dpi=110, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir(), "trlruns"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    trl_llama.on_processor()
    start = warm_start(lab_of(), TASK, 0).at(START)

    steps = {}
    with tempfile.TemporaryDirectory() as saved:
        folder = trl_llama.save_start(Path(saved), lab_of(), TASK.vocabulary, start)
        for case in CASES:
            name = f"{case.theirs}, {'group' if case.scaled else 'none'}, {case.penalty} {case.kl:g}"
            steps[name] = one_step(case, start, folder)
            print(f"{name:30}", *(f"{k} {v:.1e}" for k, v in steps[name].items()))
    worst = {k: max(x.get(k, 0.0) for x in steps.values()) for k in {k: 0 for x in steps.values() for k in x}}
    print(f"{'worst':30}", *(f"{k} {v:.1e}" for k, v in worst.items()))

    say("runs of TRL")
    logs = runs_of_trl([({}, {}, seed, options.runs / f"healthy-{seed}", start) for seed in range(SEEDS)])
    theirs = [columns(rows) for rows in logs]
    say("runs of the laboratory")
    runs = train(lab_of(), numbers_of(), TASK, start, np.arange(BAND_RUNS))
    bands = inside(runs, theirs)
    for name, found in bands.items():
        print(f"{name:30}", *(f"{k} {v:.3g}" for k, v in found.items()))
    if options.plot:
        picture(options.plot, runs, theirs)
    beside = {name: version(name) for name in ("trl", "transformers", "torch")}
    keep("lab_trl", {"versions": beside, "one_step": {"worst": worst, "cases": steps}, "runs": bands})


if __name__ == "__main__":
    main()
