"""What ``--help`` looks like: flags in groups, examples below, and nothing that a flag without a value has to say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ParameterInfo

import bayes_grpo as bg
from bayes_grpo.cli.refusals import SIGNAL_WORDS, refuse, regime_names
from bayes_grpo.cli.terminal import be_quiet

HELP_FLAGS: Mapping[str, Any] = {"help_option_names": ["-h", "--help"]}

_PANELS: Mapping[str, tuple[str, ...]] = {
    "How to read the log": (
        "format_", "column_", "run_name", "run", "one_run", "sidecar", "index",
        "at", "all_rows", "signal",
    ),
    "What the log does not state": (
        "set_", "group_size", "prompts_per_step", "momentum", "refresh", "schedule", "total_steps",
    ),
    "When to stop, and what it is worth": (
        "cost_per_step", "value_per_reward", "gpu_hours_per_step", "price_per_gpu_hour", "gpus", "gain", "probability",
        "budget", "risk",
    ),
    "Output": (
        "out", "plot", "plot_decision", "docs", "run_link", "commit", "log_to_", "json_", "quiet", "state", "fresh",
    ),
    "How much is computed": ("seed", "draws", "chains", "warmup", "jobs", "dask", "no_lfo", "history", "origins"),
}  # fmt: skip
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}
_OWN: Mapping[str, tuple[str, ...]] = {
    "plan": ("group_size", "prompts_per_step", "learning_rate", "refresh_interval"),
    "stability": ("momentum", "refresh"),
    "watch": ("state", "fresh"),
}
"""Flags that ask something of these commands, where others take them for what a log lacks."""

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "report": (
        "report outputs/run --out run.html",
        "report seed1.jsonl seed2.jsonl --index runs.csv",
    ),
    "fit": ("fit outputs/run", "fit wandb.csv --regime sigmoid --set group_size=8 --plot fit.png"),
    "inspect": ("inspect outputs/run", "inspect train.ipynb", "inspect wandb://entity/project/run --json"),
    "compare": ("compare metrics.jsonl", "compare metrics.jsonl --regimes flat,sigmoid --no-lfo"),
    "check": ("check fit.nc",),
    "simulate": ("simulate healthy --out runs -n 4",),
    "stability": (
        "stability --learning-rate 1e-5 --learning-time 200 --fit-learning-rate 5e-6",
        "stability --learning-rate 1e-5 --from-fit a.nc",
        "stability --learning-rate 1e-5 --refresh 8 --measured probe.json",
    ),
    "diagnose": ("diagnose outputs/run", "diagnose metrics.jsonl --fail-on any:0.8 --json"),
    "forecast": (
        "forecast outputs/run",
        "forecast metrics.jsonl --until 2000 --cost-per-step 2 --value-per-reward 5000",
    ),
    "backtest": ("backtest runs/*.jsonl --jobs 2",),
    "batch": ("batch runs --out batch.csv --jobs 2",),
    "watch": ("watch outputs/run", "watch metrics.jsonl --once --until-alarm", "watch metrics.jsonl --webhook URL"),
    "sweep": ("sweep runs/*.jsonl --vary learning_rate,group_size",),
    "compare-runs": ("compare-runs a.jsonl b.jsonl", "compare-runs --a a1.jsonl a2.jsonl --b b1.jsonl b2.jsonl"),
    "plan": ("plan outputs/run --learning-rate 1e-6,2e-6,4e-6 --budget 1000",),
    "rollouts": ("rollouts outputs/run/completions",),
    "mcp": ("mcp runs", "mcp runs --pages pages"),
    "demo": ("demo", "demo --scenario reward_hacking --out look"),
}
"""Command → calls that work, without the program's name."""


class Command(TyperCommand):
    """A command whose help has its flags in groups and examples at its end."""

    def __init__(self, name: str | None, **options: Any) -> None:
        calls = EXAMPLES.get(name or "", ())
        options["epilog"] = "Examples:" + "".join(f"\n\nbayes-grpo {call}" for call in calls) if calls else None
        super().__init__(name, **options)
        for param in self.params:
            _without_type(param)
            if param.param_type_name == "option" and param.name not in _OWN.get(name or "", ()):
                vars(param)["rich_help_panel"] = _PANEL_OF.get(param.name or "")

    def get_help_option(self, ctx: Any) -> Any:
        """The flag ``--help``, which takes no value."""
        return _without_type(super().get_help_option(ctx))


class CommandGroup(TyperGroup):
    """The program itself, whose flags take no values."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its flags."""
        return [_without_type(param) for param in super().get_params(ctx)]


def _without_type(param: Any) -> Any:
    if getattr(param, "is_flag", False):
        param.metavar = ""
    return param


def shown(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with a flag ``--quiet``, and with the values of its flags completed by the shell."""
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    told = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; results and errors all the same.")]
    flag = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=told)
    own = []
    for parameter in signature.parameters.values():
        annotation = hints.get(parameter.name, parameter.annotation)
        for info in getattr(annotation, "__metadata__", ()):
            if isinstance(info, ParameterInfo):
                info.autocompletion = info.autocompletion or _VALUES.get(parameter.name)
        own.append(parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(*, quiet: bool = False, **given: Any) -> None:
        be_quiet(quiet)
        refuse(given, waits=command.__name__ == "watch")
        command(**given)

    run.__annotations__ = {p.name: p.annotation for p in (*own, flag)}
    vars(run)["__signature__"] = inspect.Signature([*own, flag])
    return run


def completed_by(*known: str) -> Callable[[str], list[str]]:
    """Completion of a value by known words; of a list separated by commas, of its last part."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in known if word.startswith(last)]

    return complete


def _settings(incomplete: str) -> list[str]:
    return [f"{f.name}=" for f in fields(bg.Settings) if f.name.startswith(incomplete)]


def _regimes(incomplete: str) -> list[str]:
    return completed_by(*regime_names())(incomplete)


def _scenarios(incomplete: str) -> list[str]:
    return completed_by(*bg.scenario_names())(incomplete)


def _modes(incomplete: str) -> list[str]:
    return [f"{mode}:" for mode in (*bg.MODES, "any") if mode.startswith(incomplete)]


_VALUES: Mapping[str, Callable[[str], list[str]]] = {
    "signal": completed_by(*SIGNAL_WORDS),
    "schedule": completed_by("logged", "constant", "linear", "cosine"),
    "convention": completed_by("ema", "heavy_ball"),
    "log_to_": completed_by("wandb", "trackio", "tensorboard", "mlflow"),
    "do": completed_by("fit", "forecast", "diagnose"),
    "without": completed_by("fit", "laws", "check", "forecast", "diagnosis", "stability"),
    "vary": completed_by("learning_rate", "group_size", "prompts_per_step", "refresh_interval", "model_size"),
    "set_": _settings,
    "fail_on": _modes,
    "scenario": _scenarios,
    "regime": _regimes,
    "regimes": _regimes,
    "forecast_regimes": _regimes,
}
"""Parameter → completion of its value; names that take an import are looked up when the shell asks."""
