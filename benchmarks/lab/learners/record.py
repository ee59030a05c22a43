"""How a program says where it stands, and keeps its result with what that rests on."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bayes_grpo.common.files import written_whole
from bayes_grpo.common.results import json_safe

KEPT_PACKAGES = ("bayes-grpo", "jax", "numpyro", "arviz")
RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
"""Where a checkout keeps the last result of every program; the documentation's numbers come from here."""


def processor() -> str:
    """Model of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [x.split(":", 1)[1].strip() for x in info.read_text().splitlines() if x.startswith("model name")]
        if models:
            return models[0]
    return platform.processor() or platform.machine()


def keep(name: str, result: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Keeps the result of a whole program with what it rests on: machine, versions, date and command line.

    A part of it (some logs, fewer repeats) is not to be kept: it would stand in the place of the whole.

    Args:
        name: Name of the result, as the documentation's claims call it.
        result: Numbers, by words; the documentation's claims name them by these words joined by dots.
        folder: Where to.

    Returns:
        The file.
    """
    _, _, program = Path(sys.argv[0]).as_posix().rpartition("benchmarks/")
    called = "benchmarks." + program.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
    # Folders differ from machine to machine and say nothing to others.
    words = [Path(x).name if os.sep in x else x for x in sys.argv[1:]]
    content = {
        "name": name,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": " ".join(["python", "-m", called, *words]),
        "machine": {"cpu": processor(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **{x: version(x) for x in KEPT_PACKAGES}},
        "result": json_safe(dict(result)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)
