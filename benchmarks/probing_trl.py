"""`CurvatureProbe` in TRL's own trainer: what it leaves alone, what it costs, and whether runs leave where it says.

    python benchmarks/probing_trl.py [--quick] [--runs FOLDER]

Needs the dependency group `trl`. A tiny Llama that was warmed up on a task of the deep laboratory is trained by TRL's
`GRPOTrainer` with a KL penalty. Slow runs are probed; the learning rates at which runs leave are foretold from the
probes and kept; then runs are made across them, by SGD and by Adam as TRL sets it, with completions used once and over
four steps. A run has left where the reward of its last steps is below three quarters of the slow run's that uses
every completion once. Rows of runs that are in FOLDER are not made again, so that a benchmark that was cut off goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from scipy.optimize import curve_fit
from transformers import PrinterCallback  # pyright: ignore[reportMissingImports]

from bayes_grpo.common.files import written_whole
from bayes_grpo.dynamics.reduction import critical_gain
from bayes_grpo.probing.course import pooled_probes
from bayes_grpo.probing.estimate import Probe
from bayes_grpo.probing.predict import limits_of
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.trl import CurvatureProbe
from benchmarks.common import keep, say
from benchmarks.lab.network import Network
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import make_task
from benchmarks.lab.warm_start import warm_start
from benchmarks.speed.peers import trl_llama

TASK = make_task("modular_sum", size=4)
STEPS, LAST, EVERY = 100, 40, 5
KL_WEIGHT, LEFT = 0.5, 0.75
SHARES = (0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0)
"""Learning rates over the foretold threshold."""


class Kind(NamedTuple):
    """An optimizer: its name, momentum, the slow run's learning rate, further settings of TRL, whether with LoRA."""

    name: str
    momentum: float
    slow: float
    settings: dict[str, Any]
    lora: bool = False


KINDS = (
    Kind("SGD", 0.0, 0.02, {"optim": "sgd", "max_grad_norm": 0.0}),
    Kind("Adam", 0.9, 5e-4, {}),
    Kind("Adam, LoRA", 0.9, 2e-3, {}, lora=True),
)


def lab_of(steps: int) -> Lab:
    structure = Structure(n_steps=steps, group_size=8, prompts_per_step=16, optimizer="adam", schedule="constant")
    return Lab(structure, Network(1, 32, 2, 64), limit=3)


def trained(
    start: Path, kind: Kind, rate: float, refresh: int, seed: int, *, steps: int = STEPS, probe: int = 0
) -> tuple[list[dict[str, Any]], list[Probe], Any]:
    """A run: the rows of its log, its probes, the trainer."""
    base = Numbers(learning_rate=rate, momentum=kind.momentum, kl_weight=KL_WEIGHT, refresh_interval=refresh)
    numbers = LabNumbers(base=base)
    data = trl_llama.data_set(TASK, np.tile(TASK.train, (64, 1)), np.tile(TASK.train_answer, (64, 1)))
    more: dict[str, Any] = dict(kind.settings)
    if kind.lora:
        from peft import LoraConfig  # pyright: ignore[reportMissingImports]

        more["peft_config"] = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", lora_dropout=0.0)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        reward = trl_llama.plain_reward(numbers)
        run = trl_llama.trainer(start, data, reward, lab_of(steps), numbers, Path(folder), seed=seed, **more)
        run.remove_callback(PrinterCallback)
        watcher = CurvatureProbe(every=probe).attach(run) if probe else None
        run.train()
    rows = [row for row in run.state.log_history if "reward" in row]
    return rows, [] if watcher is None else watcher.probes, run


def late(rows: list[dict[str, Any]]) -> float:
    """Mean reward of the last steps."""
    return float(np.mean([row["reward"] for row in rows[-LAST:]]))


def by_reward(rows: list[dict[str, Any]], rate: float) -> float:
    """Curvature that a reward curve shows: its rate of saturation over the learning rate; NaN where it shows none."""
    step, reward = np.arange(len(rows), dtype=float), np.array([row["reward"] for row in rows])

    def law(t: np.ndarray, first: float, end: float, tau: float) -> np.ndarray:
        return end - (end - first) * np.exp(-t / tau)

    try:
        found = curve_fit(law, step, reward, [reward[:5].mean(), reward[-20:].mean(), 25.0])[0]
    except RuntimeError:
        return float("nan")
    return 1.0 / (found[2] * rate) if found[2] > 0 else float("nan")


def unchanged(start: Path) -> dict[str, bool]:
    """Whether probed runs are those without a probe, bit for bit: parameters and everything logged but times."""
    out = {}
    for kind in KINDS:
        for refresh in (1, 4):
            plain, _, bare = trained(start, kind, kind.slow, refresh, 0, steps=16)
            rows, probes, run = trained(start, kind, kind.slow, refresh, 0, steps=16, probe=4)
            same = all(torch.equal(p, q) for p, q in zip(bare.model.parameters(), run.model.parameters(), strict=True))
            logged = [{k: v for k, v in row.items() if "time" not in k and "curvature" not in k} for row in rows]
            wanted = [{k: v for k, v in row.items() if "time" not in k} for row in plain]
            out[f"{kind.name}, refresh {refresh}"] = bool(same and logged == wanted and len(probes) == 4)
    return out


def foretold(start: Path) -> dict[str, dict[str, Any]]:
    """What the probes of slow runs say, by optimizer and refresh interval."""
    out = {}
    for kind in KINDS:
        for refresh in (1, 4):
            rows, probes, run = trained(start, kind, kind.slow, refresh, 100, probe=EVERY)
            told = pooled_probes(probes, len(probes) // 2)
            step = float(np.median([row["step_time"] for row in rows]))
            each = [row["curvature/seconds"] for row in rows if "curvature/seconds" in row]
            row: dict[str, Any] = {
                "kind": kind.name,
                "refresh": refresh,
                "stiffest": told.stiffest.mean,
                "sd": told.stiffest.sd,
                "late_share": told.late_share,
                "felt": told.stiffest.felt,
                "slow_reward": late(rows),
                "probe_over_step": float(np.median(each)) / step,
                "parameters": sum(p.numel() for p in run.model.parameters() if p.requires_grad),
            }
            if told.stiffest.felt:
                at = limits_of(told, kind.slow, kind.momentum, refresh)
                row |= {
                    "margin_of_slow": at.margin.median,
                    "p_stable_of_slow": at.p_stable,
                    "foretold": kind.slow * at.margin.median,
                    "largest_sure": at.largest_learning_rate,
                    "p_stable": [
                        limits_of(told, s * kind.slow * at.margin.median, kind.momentum, refresh).p_stable
                        for s in SHARES
                    ],
                }
            shown = by_reward(rows, kind.slow)
            gain = critical_gain(kind.momentum, refresh, "hold", told.late_share)
            row["foretold_by_reward"] = float(gain) / ((1.0 - kind.momentum if "Adam" in kind.name else 1.0) * shown)
            out[f"{kind.name}, refresh {refresh}"] = row
            print({k: v for k, v in row.items() if k != "p_stable"}, flush=True)
    return out


def kept_rows(folder: Path, start: Path, kind: Kind, rate: float, refresh: int, seed: int) -> list[dict[str, Any]]:
    """Rows of a run, from the folder where it has been made before."""
    path = folder / f"{kind.name}-{rate:.6g}-{refresh}-{seed}.json"
    if not path.exists():
        rows, _, _ = trained(start, kind, rate, refresh, seed)
        with written_whole(path) as temporary:
            temporary.write_text(json.dumps(rows), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def crossed(start: Path, told: dict[str, dict[str, Any]], seeds: int, folder: Path) -> list[dict[str, Any]]:
    """Runs across every foretold learning rate."""
    out = []
    for kind in KINDS:
        for refresh in (1, 4):
            row, held = told[f"{kind.name}, refresh {refresh}"], told[f"{kind.name}, refresh 1"]["slow_reward"]
            if not row["felt"]:
                continue
            for seed in range(1 if kind.lora else seeds):
                for share, p in zip(SHARES, row["p_stable"], strict=True):
                    rows = kept_rows(folder, start, kind, share * row["foretold"], refresh, seed)
                    reward = late(rows)
                    left = not reward >= LEFT * held
                    out.append(
                        {
                            "kind": kind.name,
                            "refresh": refresh,
                            "seed": seed,
                            "share": share,
                            "left": left,
                            "reward": reward,
                            "p_stable": p,
                            "kl": float(np.mean([r["kl"] for r in rows[-LAST:]])),
                        }
                    )
                told_of = [o for o in out if (o["kind"], o["refresh"], o["seed"]) == (kind.name, refresh, seed)]
                print(
                    kind.name,
                    refresh,
                    seed,
                    [(o["share"], o["left"], round(o["reward"], 2)) for o in told_of],
                    flush=True,
                )
    return out


def borders(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where runs of one setting leave, over what was foretold: between the first share that left and the one before."""
    out = []
    for key in dict.fromkeys((r["kind"], r["refresh"], r["seed"]) for r in runs):
        own = [r for r in runs if (r["kind"], r["refresh"], r["seed"]) == key]
        first = next((i for i, r in enumerate(own) if r["left"]), len(own))
        low = own[first - 1]["share"] if first else own[0]["share"] / 2.0
        high = own[first]["share"] if first < len(own) else own[-1]["share"] * 2.0
        out.append({"kind": key[0], "refresh": key[1], "seed": key[2], "met_over_foretold": float(np.sqrt(low * high))})
    return out


def totals(told: dict[str, dict[str, Any]], runs: list[dict[str, Any]]) -> dict[str, Any]:
    found = borders(runs)
    out: dict[str, Any] = {"borders": found}
    for name, factor in (("SGD", 1.5), ("Adam", 2.0), ("Adam, LoRA", 2.0)):
        own = [b["met_over_foretold"] for b in found if b["kind"] == name]
        mine = [r for r in runs if r["kind"] == name]
        if not own:
            continue
        shown = [told[f"{b['kind']}, refresh {b['refresh']}"] for b in found if b["kind"] == name]
        by_curve = [b * t["foretold"] / t["foretold_by_reward"] for b, t in zip(own, shown, strict=True)]
        clear = [r for r in mine if not 1.0 / 1.5 < r["share"] < 1.5]
        out[name] = {
            "runs": len(mine),
            "right_side": float(np.mean([(r["share"] > 1.0) == r["left"] for r in clear])),
            "factor": factor,
            "within_factor": float(np.mean([1.0 / factor <= x <= factor for x in own])),
            "within_factor_by_reward": float(np.mean([1.0 / factor <= x <= factor for x in by_curve])),
            "median_over": float(np.median(own)),
            "median_over_by_reward": float(np.median(by_curve)),
            "brier": float(np.mean([(r["p_stable"] - (not r["left"])) ** 2 for r in mine])),
        }
    p, y = np.array([r["p_stable"] for r in runs]), np.array([not r["left"] for r in runs], float)
    place = np.minimum((p * 5).astype(int), 4)
    out["calibration_error"] = float(
        sum(abs(p[place == b].mean() - y[place == b].mean()) * np.mean(place == b) for b in set(place.tolist()))
    )
    out["runs"] = len(runs)
    out["overhead_at_25"] = max(t["probe_over_step"] for t in told.values()) / 25.0
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir(), "probing_trl"))
    parser.add_argument("--quick", action="store_true", help="one seed; keeps nothing")
    options = parser.parse_args()
    trl_llama.on_processor()
    theta = warm_start(lab_of(STEPS), TASK, 0).at(0.4)
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as saved:
        start = trl_llama.save_start(Path(saved), lab_of(STEPS), TASK.vocabulary, theta)
        same = unchanged(start)
        print(same, flush=True)
        told = foretold(start)
        if not options.quick:
            keep("probing_trl_foretold", {"settings": "before any run across them", "foretold": told})
        say(f"runs, after {time.process_time() - begun:.0f} s")
        options.runs.mkdir(parents=True, exist_ok=True)
        runs = crossed(start, told, 1 if options.quick else 2, options.runs)
    out = {"unchanged": same, "foretold": told, "runs": runs, "summary": totals(told, runs)}
    out["versions"] = {name: version(name) for name in ("trl", "transformers", "torch", "peft")}
    print(out["summary"])
    if not options.quick:
        keep("probing_trl", out)


if __name__ == "__main__":
    main()
