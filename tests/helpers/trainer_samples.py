"""A small log of every trainer, under the keys that its own code writes, for every place that it can write to."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.stores import WRITERS, Rows

STEPS = range(1, 7)
EVALUATED, HELD_OUT = 4, 0.75
"""Step and value of the one evaluation."""


def reward_at(step: int) -> float:
    """The train reward of every sample."""
    return 0.125 * step


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A trainer's log.

    Attributes:
        trainer: Its name among the trainers.
        label: Its name as its authors write it.
        step: Keys that hold the step beside the metrics, as W&B gets them.
        reward: Key of the reward.
        held_out: Key of the evaluation reward; "" where it logs none.
        signals: Canonical signal → key and value.
        stores: Stores that it can write to.
        config: Its configuration.
        settings: Settings that follow from it.
        more: Further metrics that must not be taken for those above.
        file: Name of its file and what makes it out of rows.
        console: What makes a line of its console out of a step and its metrics.
        renamed: Store → what a key is called there.
    """

    trainer: str
    label: str
    step: tuple[str, ...] = ()
    reward: str
    held_out: str = ""
    signals: Mapping[str, tuple[str, float]]
    stores: tuple[str, ...] = ()
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    more: Mapping[str, float] = field(default_factory=dict)
    file: tuple[str, Callable[[Rows], str]] | None = None
    console: Callable[[int, Mapping[str, float]], str] | None = None
    renamed: Mapping[str, Callable[[str], str]] = field(default_factory=dict)

    def places(self) -> list[str]:
        """Where it can write: "file", stores, "console"."""
        stores = [name for store in self.stores for name in ((store, "mlruns") if store == "mlflow" else (store,))]
        return [*(["file"] if self.file else []), *stores, *(["console"] if self.console else [])]

    def rows(self, place: str) -> Rows:
        """Steps and metrics as a place gets them."""
        called = self.renamed.get("mlflow" if place == "mlruns" else place, lambda key: key)
        signals = dict(self.signals.values())
        found = []
        for s in STEPS:
            row = {**dict.fromkeys(self.step, float(s)), self.reward: reward_at(s), **signals, **self.more}
            if self.held_out and s == EVALUATED:
                row[self.held_out] = HELD_OUT
            found.append((s, {called(k): v for k, v in row.items() if called(k)}))
        return found

    def write(self, place: str, folder: Path) -> Path:
        """Writes the log to a place below a folder.

        Returns:
            What to read.
        """
        rows = self.rows(place)
        if place == "file" and self.file is not None:
            path, text = folder / self.file[0], self.file[1](rows)
        elif place == "console" and self.console is not None:
            path, text = folder / "out.log", "\n".join(self.console(s, row) for s, row in rows) + "\n"
        else:
            config = flat(self.config) if place in ("mlflow", "mlruns") else self.config
            return WRITERS[place](folder, rows, config, "run")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration as MLflow gets it: parts joined by a point, lists as text of their own."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, list):
            value = dict(zip(map(str, range(len(value))), value, strict=True))
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


@dataclass(frozen=True, kw_only=True)
class SlimeSample(Sample):
    """slime: two updates a rollout, rollouts, updates and evaluations each on steps and rows of their own."""

    def rows(self, place: str) -> Rows:
        """Rows of rollouts and updates; a store that keeps steps apart from keys gets no key of the step."""
        found: list[tuple[int, Mapping[str, float]]] = []
        signals = dict(self.signals.values())
        for r in range(len(STEPS) // 2):
            rollout = {k: v for k, v in signals.items() if k.startswith("rollout/")}
            train = {k: v for k, v in signals.items() if k.startswith("train/")}
            found.append((r, {"rollout/step": r, self.reward: reward_at(2 * r), **rollout}))
            found += [(u, {"train/step": u, **train}) for u in (2 * r, 2 * r + 1)]
        found.append((EVALUATED // 2, {"eval/step": EVALUATED // 2, self.held_out: HELD_OUT}))
        if place in ("tensorboard", "mlflow", "mlruns"):
            found = [(s, {k: v for k, v in row.items() if not k.endswith("/step")}) for s, row in found]
        return found


def jsonl(of: Callable[[int, Mapping[str, float]], Mapping[str, Any]]) -> Callable[[Rows], str]:
    """One record a line."""
    return lambda rows: "".join(json.dumps(of(s, row)) + "\n" for s, row in rows)


def beside(step: str) -> Callable[[int, Mapping[str, float]], Mapping[str, Any]]:
    """Metrics with the step beside them."""
    return lambda s, row: {step: s, **row}


def bare(key: str) -> str:
    """TRL's key without what W&B gets before it; nothing for the step that only W&B gets."""
    if key == "train/global_step":
        return ""
    return key.removeprefix("train/") if key.startswith("train/") else key.replace("eval/", "eval_", 1)


def without_step(key: str) -> str:
    """Nothing for the step: TensorBoard gets it beside the key."""
    return "" if key == "train/global_step" else key


VALUES = {
    "reward_std": 0.25, "frac_reward_zero_std": 0.5, "entropy": 0.4, "kl": 0.01, "clip_ratio": 0.02, "grad_norm": 0.3,
    "completion_length": 200.0, "learning_rate": 1e-6, "loss": 0.01, "completions_clipped_ratio": 0.1,
    "engine_mismatch": 0.02, "step_time": 30.0, "accuracy": 0.5, "update_kl": 0.003, "staleness": 0.0, "dropped": 2.0,
    "filtered_groups": 3.0,
}  # fmt: skip
"""Signal → what every sample logs of it."""


def trl_state(rows: Rows) -> str:
    """``trainer_state.json``."""
    history = [{**row, "step": s} for s, row in rows]
    return json.dumps({"log_history": history, "max_steps": 300, "logging_steps": 1, "global_step": len(rows)})


def slime_line(_: int, row: Mapping[str, float]) -> str:
    """A line for each kind of row."""
    words = {"rollout/step": "rollout", "train/step": "step", "eval/step": "eval"}
    key = next(key for key in words if key in row)
    return f"{words[key]} {row[key]}: { ({k: v for k, v in row.items() if not k.endswith('/step')}) }"


def swift_row(s: int, row: Mapping[str, float]) -> dict[str, Any]:
    """ms-swift's own key of the step beside the metrics."""
    return {**row, "global_step/max_steps": f"{s}/300"}


def forge_block(s: int, row: Mapping[str, float]) -> str:
    """A line for each metric below a heading with the step."""
    return "\n".join([f"=== [global_reduce] - METRICS STEP {s} ===", *(f"  {k}: {v}" for k, v in row.items())])


FILES: Mapping[str, tuple[str, Callable[[Rows], str]]] = {
    "TRL": ("trainer_state.json", trl_state),
    "ms-swift": ("logging.jsonl", jsonl(swift_row)),
    "TRL AsyncGRPO": ("trainer_state.json", trl_state),
    "verl": ("run.jsonl", jsonl(lambda s, row: {"step": s, "data": row})),
    "EasyR1": ("experiment_log.jsonl", jsonl(beside("step"))),
    "prime-rl": ("metrics.jsonl", jsonl(beside("step"))),
    "Tinker cookbook": ("metrics.jsonl", jsonl(beside("step"))),
    "ART": ("history.jsonl", jsonl(beside("step"))),
    "Baseten Loops": ("steps.jsonl", jsonl(beside("step"))),
}
CONSOLES: Mapping[str, Callable[[int, Mapping[str, float]], str]] = {
    "TRL": lambda s, row: f" {s}%|# | {s}/300 [00:01<00:02, 1.0s/it]\n{ ({k: f'{v:.4g}' for k, v in row.items()}) }",
    "ms-swift": lambda s, row: str(swift_row(s, row)),
    "verl": lambda s, row: f"step:{s} - " + " - ".join(f"{k}:np.float64({v})" for k, v in row.items()),
    "ROLL": lambda s, row: f"[INFO] metrics_tag: {json.dumps({'step': s, 'metrics': row})}",
    "slime": slime_line,
    "torchforge": forge_block,
    "MiniMind": lambda s, row: f"Epoch:[1/1]({s}/300), " + ", ".join(f"{k}: {v:.8f}" for k, v in row.items()),
}
BARE = {"tensorboard": without_step, "mlflow": bare, "file": bare, "console": bare}
RENAMED: Mapping[str, Mapping[str, Callable[[str], str]]] = {
    **dict.fromkeys(("TRL", "ms-swift", "TRL AsyncGRPO"), BARE),
    "OpenRLHF": {"tensorboard": lambda key: "" if key.endswith("/global_step") else key},
}


def sample_of(written: Mapping[str, Any]) -> Sample:
    """A sample of what ``trainers.toml`` has of a trainer."""
    trainer = written["trainer"]
    keys = {name: x if isinstance(x, list) else [x, VALUES[name]] for name, x in written["signals"].items()}
    own: dict[str, Any] = {"label": trainer, "config": {}, "settings": {}, **written}
    own["signals"] = {name: (key, float(value)) for name, (key, value) in keys.items()}
    own |= {name: tuple(own.get(name, ())) for name in ("step", "stores")}
    forms = {"file": FILES.get(trainer), "console": CONSOLES.get(trainer), "renamed": RENAMED.get(trainer, {})}
    return (SlimeSample if trainer == "slime" else Sample)(**own, **forms)


TABLE = Path(__file__).with_name("trainers.toml")
SAMPLES: Sequence[Sample] = tuple(map(sample_of, tomllib.loads(TABLE.read_text(encoding="utf-8"))["trainer"]))
"""The trainers, those with most users first."""
