"""What the commands answer, reduced to what can be compared: numbers, flags and short words, not sentences.

    python -m tests.snapshots.taken [CASE ...]

takes the stored answers anew, all or those of some cases.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.helpers.command import call
from tests.frozen.logs import write

STORED = Path(__file__).parent / "stored"
LONGEST_LIST = 6
"""Longer lists of numbers are kept as length, first, last and mean."""
SAMPLED = (0.1, 0.05)
EXACT = (0.01, 0.002)
"""Relative and absolute tolerance where a sampler is at work and where none is."""
PASSING = re.compile(r"ess|r_?hat|second|source|hash|path|version|divergence|folder|log$|seed|mcse|elapsed|created")
"""Keys whose values tell of a machine or of a chain's luck."""

_EXP = "--set schedule=constant --regime exponential --seed 1"
CASES: Mapping[str, str] = {
    **{f"inspect {name}": f"inspect {{{name}}}" for name in ("hacked", "masked", "rate_ended", "truncated_throughout")},
    **{
        f"diagnose {name}": f"diagnose {{{name}}}"
        for name in (
            "dipped_then_collapsed", "ran_into_the_cap", "truncated_throughout", "at_rest", "explored", "rate_ended",
            "short", "hacked", "masked", "rising", "flat", "swinging",
        )
    },
    "fit rising": f"fit {{rising}} {_EXP}",
    "fit collapsed": "fit {dipped_then_collapsed} --all-rows",
    "forecast rising": "forecast {rising} --schedule constant --horizon 120 --regimes exponential",
    "forecast collapsed": "forecast {dipped_then_collapsed} --horizon 80",
    "compare rising": "compare {rising} --set schedule=constant --no-lfo --regimes exponential,flat",
    "backtest rising": "forecast --backtest {rising} --regimes exponential,flat",
    "watch rising": "watch {rising} --once",
    "compare-runs": "compare-runs {rising} {hacked}",
    "batch": "batch {rising} {flat} --do diagnose",
    "plan": "plan {rising}",
    "stability": "stability {rising} --set learning_rate=1e-6 --learning-rate 2e-6 --refresh 8",
}  # fmt: skip
"""Case → words of the command line; a name in braces is a log."""


def answer(case: str, folder: Path) -> Any:
    """Runs a case and reduces its JSON."""
    words = [str(write(w[1:-1], folder)) if w.startswith("{") else w for w in CASES[case].split()]
    outcome = call(*words, "--json", "--quiet")
    return {"exit_code": outcome.code, "answer": reduced(json.loads(outcome.out))}


def reduced(value: Any) -> Any:
    """A value without sentences; numbers to four digits; long lists by length, first, last and mean."""
    if isinstance(value, Mapping):
        kept = {k: reduced(v) for k, v in value.items() if not PASSING.search(k)}
        return {k: v for k, v in kept.items() if v not in (None, {}, [])}
    if isinstance(value, list):
        if len(value) > LONGEST_LIST:
            numbers = [v for v in value if isinstance(v, int | float)]
            if len(numbers) == len(value):
                return {"n": len(value), "first": reduced(value[0]), "last": reduced(value[-1]),
                        "mean": reduced(math.fsum(numbers) / len(numbers))}  # fmt: skip
            return {"n": len(value), "first": reduced(value[0]), "last": reduced(value[-1])}
        return [v for v in map(reduced, value) if v is not None]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, str):
        return value if re.fullmatch(r"[\w.+-]{1,40}", value) and not value.endswith(".nc") else None
    return value


def differences(stored: Any, found: Any, tolerance: tuple[float, float], at: str = "") -> list[str]:
    """Where two reduced answers differ by more than a tolerance."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return [d for k in sorted(stored.keys() | found.keys())
                for d in differences(stored.get(k), found.get(k), tolerance, f"{at}.{k}")]  # fmt: skip
    if isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        pairs = enumerate(zip(stored, found, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, tolerance, f"{at}[{i}]")]
    numbers = [v for v in (stored, found) if isinstance(v, int | float) and not isinstance(v, bool)]
    same = math.isclose(*numbers, rel_tol=tolerance[0], abs_tol=tolerance[1]) if len(numbers) == 2 else stored == found
    return [] if same else [f"{at}: stored {stored!r}, found {found!r}"]


def main(cases: list[str]) -> None:
    """Takes answers anew."""
    STORED.mkdir(exist_ok=True)
    for case in cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            text = json.dumps(answer(case, Path(folder)), indent=0, sort_keys=True)
        (STORED / f"{case.replace(' ', '_')}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
