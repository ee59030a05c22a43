"""The paper's predictions on a network: GRPO on a small transformer at interior fixed points of a KL penalty.

    python -m benchmarks.lab.studies.dynamics [--only a b …] [--quick]

a  stability thresholds in the refresh interval, adam  the same under Adam, b  onset of oscillation. Thresholds rest on
the curvature of the exact mean update, never on a reward curve.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from benchmarks.common import RESULTS, keep, say
from benchmarks.lab.studies.adam import section_adam
from benchmarks.lab.studies.cases import make_cases
from benchmarks.lab.studies.thresholds import section_a, section_b

SECTIONS = {"a": section_a, "adam": section_adam, "b": section_b}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the sections and keeps what they found; sections that were not asked for keep their last result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="tiny networks and short runs; keeps nothing")
    options = parser.parse_args(arguments)
    path = RESULTS / "lab_dynamics.json"
    cases = make_cases(options.quick, ("early",) if options.quick else ("early", "late"))
    found: dict[str, Any] = {}
    for name in options.only:
        say(f"section {name}")
        found[name] = SECTIONS[name](cases, options.quick)
    if not options.quick:
        before = json.loads(path.read_text(encoding="utf-8"))["result"] if path.exists() else {}
        keep("lab_dynamics", before | found)
    return found


if __name__ == "__main__":
    main()
